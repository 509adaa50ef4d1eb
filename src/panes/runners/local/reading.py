"""A logical graph, read in this process: drives a running graph over the data at its edge.

A run of the outer stream runs those inside. Rows that a query inside does not use are not lost: they come out as
rejects of the outer run, each with its reason and the row as text. Data that is all there, or in files, is read where a
node of the graph can't go on without it; live data is read side by side, in threads, and taken as it comes. Where a run
goes by a clock, beats stand between the items (`listening.py`).
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import pyarrow as pa

from panes.clock import HEARING
from panes.connectors.source import Source
from panes.errors import QueryError
from panes.operators.arrivals import PortOutput
from panes.plan.graph import FitNode, Node, PushedNode, ReadNode
from panes.plan.query import StreamPlan
from panes.runners.local.listening import Ear, ear_for
from panes.runtime.graph import start
from panes.runtime.nodes import ENDED, Gave, Inlet, RunningNode, rows_alone
from panes.runtime.quiet import Beat
from panes.runtime.rejects import Rejects

#: Batches of live data that may wait.
_WAITING = 16


@dataclass(frozen=True)
class ReadOptions:
    """How a run reads: where what can't be read goes, and by which clock; `promptly`: someone waits for each row."""

    rejects: Rejects = field(default_factory=Rejects)
    promptly: bool = False
    ear: Ear | None = None

    @classmethod
    def of(
        cls, node: Node, stream: StreamPlan, rejects: Rejects, *, promptly: bool, always: bool = False
    ) -> ReadOptions:
        """For a stream over a graph; `always`: it goes by a clock whatever the streams say of themselves, if they may
        keep it waiting. Rows are then handed out as they come in any case: gathered ones would all have come at once.
        """
        ear = ear_for((stream.silence, *node.silences), always=always) if node.waits else None
        return cls(rejects, promptly or ear is not None, ear)


def check_unread(node: Node) -> None:
    """Refuse a graph with data that can be read only once, and was read before; or that has none."""
    for leaf in node.leaves:
        if isinstance(leaf, PushedNode):
            raise QueryError(
                "this stream has no data of its own, so there is nothing to run: give pn.stream(data, ...), or push "
                "rows to stream.operator()"
            )
        cast(Source, leaf.data).check_unread()


def arrivals(node: Node, reading: ReadOptions) -> Iterator[Any]:
    """What `batches` gives, or single rows as dicts as they come, if they are to be handed out promptly."""
    if not reading.promptly:
        return batches(node, reading)
    if isinstance(node, ReadNode):
        source = cast(Source, node.data)
        source.begin()
        return _heard(node, reading, source.arrivals(reading.rejects))
    if isinstance(node, FitNode) and isinstance(node.source, ReadNode):
        return (item if isinstance(item, Beat) else _fitted(node, item) for item in arrivals(node.source, reading))
    return batches(node, reading)


def batches(node: Node, reading: ReadOptions) -> Iterator[pa.Table | Beat]:
    """Tables of the node's columns, in order of arrival; beats between them, if the run goes by a clock."""
    if isinstance(node, ReadNode):
        return _read(node, reading)
    return (item if isinstance(item, Beat) else item.table for item in punctuated(node, reading))


def punctuated(node: Node, reading: ReadOptions) -> Iterator[PortOutput | Beat]:
    """The same with the places of punctuations, if there are any."""
    check_unread(node)
    leaves = list(dict.fromkeys(node.leaves))
    inlets: dict[Node, Inlet] = {leaf: Inlet(leaf.schema) for leaf in leaves}
    root = start(node, inlets, reading.ear)
    readers = [(inlet, cast(ReadNode, leaf)) for leaf, inlet in inlets.items()]
    if node.live and reading.ear is None and len(readers) > 1:
        return _as_they_come(root, readers, reading)
    return _as_needed(root, readers, reading)


def _read(node: ReadNode, reading: ReadOptions) -> Iterator[pa.Table | Beat]:
    source = cast(Source, node.data)
    return _heard(node, reading, source.batches(reading.rejects, promptly=reading.promptly))


def _heard(node: ReadNode, reading: ReadOptions, items: Iterator[Any]) -> Iterator[Any]:
    """Items, with beats if someone listens and they may be a while coming."""
    return items if reading.ear is None or not node.waits else reading.ear.listen(items)


def _fitted(node: FitNode, given: pa.Table | dict[str, Any]) -> pa.Table | dict[str, Any]:
    if isinstance(given, dict):
        return {name: given.get(there) for name, there in node.columns.items()}
    return node.fitted(given)


def _as_needed(
    root: RunningNode, readers: Sequence[tuple[Inlet, ReadNode]], reading: ReadOptions
) -> Iterator[PortOutput | Beat]:
    """Steps of a graph, each with what the hungry inlets can have."""
    items = {inlet: _read(leaf, reading) for inlet, leaf in readers}
    left = {inlet: leaf.rows or ENDED for inlet, leaf in readers}
    while True:
        for inlet in dict.fromkeys(root.hungry()):
            left[inlet] -= _fill(inlet, items[inlet], left[inlet])
        gave = _step(root, [inlet for inlet, _ in readers], reading.rejects)
        yield from gave.items
        if gave.reached.ended:
            return


def _fill(inlet: Inlet, items: Iterator[pa.Table | Beat], left: int) -> int:
    """The next rows, with the beat before them; or the beat alone, if there are none now. How many rows there are.

    Of the `left` rows that data is known to have, the last come with the end: it need not be asked for in another step.
    """
    found: list[PortOutput | Beat] = []
    came = 0
    for item in items:
        if isinstance(item, Beat):
            found.append(item)
            if item.waits:
                break
        elif item.num_rows:
            found.append(rows_alone(item))
            came += item.num_rows
            if came != left:
                break
    else:
        inlet.tick = ENDED
    inlet.items = found
    return came


def _as_they_come(
    root: RunningNode, readers: Sequence[tuple[Inlet, ReadNode]], reading: ReadOptions
) -> Iterator[PortOutput | Beat]:
    """Steps of a graph, each with what has come last."""
    inlets = [inlet for inlet, _ in readers]
    for number, table in side_by_side([partial(_read, leaf, reading) for _, leaf in readers]):
        if table is None:
            inlets[number].tick = ENDED
        else:
            inlets[number].put(table)
        gave = _step(root, inlets, reading.rejects)
        yield from gave.items
        if gave.reached.ended:
            return


def _step(root: RunningNode, inlets: Sequence[Inlet], rejects: Rejects) -> Gave:
    gave = root.step(rejects)
    for inlet in inlets:
        inlet.clear()
    return gave


def side_by_side(readers: Sequence[Callable[[], Iterator[Any]]]) -> Iterator[tuple[int, Any]]:
    """What all readers give, in the order in which it comes, each reader in a thread of its own; None: it has ended."""
    came: queue.Queue[tuple[int, Any]] = queue.Queue(_WAITING)
    stop = threading.Event()

    def give(item: tuple[int, Any]) -> bool:
        while not stop.is_set():
            try:
                came.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def run(number: int, read: Callable[[], Iterator[Any]]) -> None:
        try:
            for table in read():
                if not give((number, table)):
                    return
            give((number, None))
        except BaseException as error:  # raised where the items are read
            give((number, error))

    for number, reader in enumerate(readers):
        threading.Thread(target=run, args=(number, reader), daemon=True).start()
    reading = len(readers)
    try:
        while reading:
            try:
                number, item = came.get(timeout=HEARING)
            except queue.Empty:
                continue
            if isinstance(item, BaseException):
                raise item
            reading -= item is None
            yield number, item
    finally:
        stop.set()
