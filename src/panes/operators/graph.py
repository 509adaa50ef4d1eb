"""Which streams carry punctuations, and whether every port that needs them gets them.

In: nodes (uses of operators, and sources) with what each input port reads. Out: nothing, or a QueryError that names
the path on which punctuations are missing. A stream is punctuated if it comes from a generating port, or from a
preserving port whose input reads exactly one stream, and that one is punctuated (SPEC G-20 to G-22).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from panes.errors import QueryError
from panes.operators.models import InputPort, Model, OutputPort, Use


@dataclass(frozen=True, eq=False)
class Wired:
    """An operator in the graph. `inputs`: the streams that each input port reads."""

    name: str
    use: Use
    inputs: Mapping[str, Sequence[Wire]] = field(default_factory=dict)

    def out(self, port: str | None = None) -> Wire:
        """The stream of an output port; of the first one unless named."""
        return Wire(self, self.use.model.outputs[0].name if port is None else port)


@dataclass(frozen=True, eq=False)
class Wire:
    """A stream: who gives it, on which port."""

    node: Wired
    port: str

    @property
    def output(self) -> OutputPort:
        return self.node.use.model.output(self.port)

    def __str__(self) -> str:
        many = len(self.node.use.model.outputs) > 1
        return f"{self.node.name}.{self.port}" if many else self.node.name


def source(name: str) -> Wired:
    """Where rows come from: a port without punctuations."""
    return Wired(name, Use(Model(name, (), (OutputPort("out"),))))


def is_punctuated(wire: Wire) -> bool:
    """Whether the stream carries punctuations.

    >>> is_punctuated(source("file").out())
    False
    """
    return missing(wire) is None


def missing(wire: Wire) -> tuple[str, tuple[str, ...]] | None:
    """Why the stream carries no punctuations, and the path up to there, its end first; None if it does."""
    output = wire.output
    if output.mode == "generating":
        return None
    if output.mode == "free" or output.preserves is None:
        return f"{wire} gives none", (str(wire),)
    streams = wire.node.inputs.get(output.preserves, ())
    if len(streams) != 1:
        why = f"{wire} passes on those of its input {output.preserves!r}, which reads {len(streams)} streams, not one"
        return why, (str(wire),)
    behind = missing(streams[0])
    return None if behind is None else (behind[0], (*behind[1], str(wire)))


def check_graph(nodes: Sequence[Wired]) -> None:
    """Refuse a graph in which a port that needs punctuations does not get them, naming the path."""
    for node in nodes:
        for port in node.use.model.inputs:
            if node.use.expects_punctuation(port):
                _check_port(node, port)


def check_node(node: Wired) -> None:
    """`check_graph` of the node and all that it reads."""
    check_graph(list(_behind(node, set())))


def _check_port(node: Wired, port: InputPort) -> None:
    clause = node.use.windows.get(port.name)
    reason = f"its window is {clause}" if port.mode == "window bound" else "it expects them"
    where = f"{node.name}, input {port.name!r}: {reason}, so it must read one punctuated stream"
    streams = node.inputs.get(port.name, ())
    if len(streams) != 1:
        names = ", ".join(map(str, streams)) or "none"
        raise QueryError(f"{where}, but it reads {len(streams)}: {names}")
    gap = missing(streams[0])
    if gap is not None:
        path = " -> ".join((*gap[1], f"{node.name}.{port.name}"))
        raise QueryError(f"{where}, but there are no punctuations on the path {path}: {gap[0]}")


def _behind(node: Wired, seen: set[int]) -> Iterator[Wired]:
    if id(node) in seen:
        return
    seen.add(id(node))
    for streams in node.inputs.values():
        for wire in streams:
            yield from _behind(wire.node, seen)
    yield node
