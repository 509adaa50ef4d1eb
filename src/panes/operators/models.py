"""What operators are, as data: ports, the windows each may have, punctuation modes, parameters, further rules.

A `Model` describes an operator; a `Use` is one place in a query where it is used, with its windows and parameters.
`check_use` compares the two when the query is built, and every complaint names operator, port and rule.

`check_graph` looks at the graph of uses and sources, as `Wired` nodes: which streams carry punctuations, and whether
every port that needs them gets them. A stream is punctuated if it comes from a generating port, or from a preserving
port whose input reads exactly one stream, and that one is punctuated (SPEC G-20 to G-22).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from panes.errors import QueryError
from panes.operators.clauses import SLIDING, TUMBLING, Clause

#: Form of a window: kind, eviction and, for sliding windows, trigger.
Form = tuple[str, ...]
POLICIES = ("count", "delta", "time")
TUMBLING_FORMS: tuple[Form, ...] = tuple((TUMBLING, evict) for evict in (*POLICIES, "punct"))
SLIDING_FORMS: tuple[Form, ...] = tuple((SLIDING, evict, every) for evict in POLICIES for every in POLICIES)
#: Sliding windows of operators that look at every row, written without `every`.
ROW_BY_ROW_FORMS: tuple[Form, ...] = tuple((SLIDING, evict) for evict in POLICIES)

InputMode = Literal["oblivious", "expecting", "window bound"]
OutputMode = Literal["free", "generating", "preserving"]


@dataclass(frozen=True)
class InputPort:
    """Where rows come in. `forms`: the windows it may have; none: it has no window.

    `mode`: whether it needs punctuations: never, always, or if its window is punctuated.
    """

    name: str
    forms: tuple[Form, ...] = ()
    mode: InputMode = "oblivious"
    #: the policy that must trigger a sliding window, if the operator fixes it
    fixed_every: str | None = None


@dataclass(frozen=True)
class OutputPort:
    """Where rows go out. `mode`: without punctuations, with its own, or with those of the input `preserves`."""

    name: str
    mode: OutputMode = "free"
    preserves: str | None = None


@dataclass(frozen=True)
class Parameter:
    """A named argument; `choices` None: anything goes here, and rules look closer."""

    name: str
    required: bool = False
    choices: tuple[Any, ...] | None = None


@dataclass(frozen=True)
class Use:
    """An operator in a query: the window of each port, parameters, and whether the stream of each port has a key."""

    model: Model
    windows: Mapping[str, Clause] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    keys: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)  # types of the key columns, by port

    def expects_punctuation(self, port: InputPort) -> bool:
        clause = self.windows.get(port.name)
        bound = port.mode == "window bound" and clause is not None and clause.punctuated
        return port.mode == "expecting" or bound


#: What is wrong with a use beyond what a model says, or None.
Rule = Callable[[Use], str | None]


@dataclass(frozen=True)
class Model:
    """An operator, declared."""

    name: str
    inputs: tuple[InputPort, ...]
    outputs: tuple[OutputPort, ...]
    parameters: tuple[Parameter, ...] = ()
    rules: tuple[Rule, ...] = ()

    def __post_init__(self) -> None:
        for what, ports in (("inputs", self.inputs), ("outputs", self.outputs)):
            names = [port.name for port in ports]
            if len(set(names)) < len(names):
                raise QueryError(f"model {self.name}: two {what} have the same name: {', '.join(names)}")
        known = [port.name for port in self.inputs]
        for port in self.outputs:
            if (port.mode == "preserving") != (port.preserves is not None):
                raise QueryError(
                    f"model {self.name}, output {port.name!r}: preserves= says whose punctuations go on, so it "
                    "goes with mode 'preserving', and only with it"
                )
            if port.preserves is not None and port.preserves not in known:
                raise QueryError(
                    f"model {self.name}, output {port.name!r}: preserves={port.preserves!r} is none of its inputs "
                    f"({', '.join(known)})"
                )

    def input(self, name: str) -> InputPort:
        return next(port for port in self.inputs if port.name == name)

    def output(self, name: str) -> OutputPort:
        return next(port for port in self.outputs if port.name == name)


def check_use(use: Use) -> None:
    """Refuse what the model does not allow: QueryError names operator, port and rule."""
    model = use.model
    known = {port.name for port in model.inputs}
    for name in use.windows:
        if name not in known:
            raise QueryError(f"{model.name}: there is no input {name!r} to put a window on; there are {sorted(known)}")
    for port in model.inputs:
        _check_window(model, port, use.windows.get(port.name), bool(use.keys.get(port.name)))
    _check_parameters(model, use.parameters)
    for rule in model.rules:
        wrong = rule(use)
        if wrong is not None:
            raise QueryError(f"{model.name}: {wrong}")


def _check_window(model: Model, port: InputPort, clause: Clause | None, keyed: bool) -> None:
    where = f"{model.name}, input {port.name!r}"
    if clause is None:
        if port.forms:
            raise QueryError(f"{where}: it needs a window, for instance {_example(port)}")
        return
    if not isinstance(clause, Clause):
        raise QueryError(
            f"{where}: its window must be one of pn.operators, for instance {_example(port)}; got {clause!r}"
        )
    if not port.forms:
        raise QueryError(f"{where}: it takes rows one by one and has no window; got {clause}")
    every = port.fixed_every
    if every is not None and clause.every is not None and repr(clause.every) != every:
        raise QueryError(f"{where}: each row is looked at when it comes, so every= can only be {every}; got {clause}")
    form = clause.form[:2] if every is not None else clause.form
    if form not in port.forms:
        if clause.kind == SLIDING and clause.every is None and (*form, "count") in port.forms:
            raise QueryError(
                f"{where}: a sliding window is processed every so often: add every=, as in {_example(port)}"
            )
        kinds = dict.fromkeys(f[0] for f in port.forms)
        if clause.kind not in kinds:
            raise QueryError(f"{where}: only {' or '.join(kinds)} windows can be there; got {clause}")
        allowed = ", ".join(dict.fromkeys(f[1] for f in port.forms if f[0] == clause.kind))
        raise QueryError(f"{where}: {clause.kind} windows there are by {allowed}; got {clause}")
    if clause.partition_evict is not None and not keyed:
        raise QueryError(
            f"{where}: {clause.partition_evict!r} bounds the windows of keys, and the stream has no key, so it is not "
            "partitioned; give it one with pn.stream(key=...) or key_by(...), or leave partition_evict out"
        )


def _check_parameters(model: Model, given: Mapping[str, Any]) -> None:
    declared = {p.name: p for p in model.parameters}
    for name, value in given.items():
        if name not in declared:
            raise QueryError(f"{model.name}: there is no parameter {name!r}; there are {', '.join(declared) or 'none'}")
        choices = declared[name].choices
        if choices is not None and value not in choices:
            shown = ", ".join(repr(c) for c in choices)
            raise QueryError(f"{model.name}: {name}={value!r} must be one of {shown}")
    for parameter in model.parameters:
        if parameter.required and given.get(parameter.name) in (None, (), {}):
            raise QueryError(f"{model.name}: {parameter.name}= is required")


def _example(port: InputPort) -> str:
    form = port.forms[0]
    policy = {"count": "count(100)", "delta": "delta('ts', 10)", "time": "time('10 s')", "punct": "punct()"}
    shown = policy[form[1]] + (f", every={policy[form[2]]}" if len(form) > 2 else "")
    return f"{form[0]}({shown})"


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
