"""Running graphs, driven by hand: dumped in the middle and loaded elsewhere, and fed with what they give."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

import panes as pn
from panes.errors import SnapshotDamaged
from panes.operators.clauses import tumbling
from panes.plan.graph import Node
from panes.policies.library.specs import time as for_time
from panes.runtime.graph import start
from panes.runtime.nodes import ENDED, Inlet, Item, every_node, rows_alone, under
from panes.runtime.quiet import Beat
from panes.runtime.rejects import Rejects
from panes.state.snapshot import pack, unpack
from panes.testing import FakeClock

SECOND = 1_000_000
SCHEMA = {"ts": "bigint", "v": "bigint"}
ROWS = pa.schema({"ts": pa.int64(), "v": pa.int64()})


class Alarmed:
    """The clock of a run, and all moments at which something is due."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.moments: list[int] = []

    @property
    def now(self) -> int:
        return self.clock.now()

    def wake_at(self, moment: int) -> None:
        self.moments.append(moment)


class Running:
    """A graph with its inlets."""

    def __init__(self, node: Node, clock: FakeClock) -> None:
        self.alarm = Alarmed(clock)
        self.inlets = [Inlet(leaf.schema) for leaf in node.leaves]
        self.root = start(node, dict(zip(node.leaves, self.inlets)), self.alarm)

    def step(self, given: Sequence[Sequence[Item]]) -> tuple[Any, ...]:
        """What the graph gives of these items of each inlet, what it can't go on without, and what it waits for."""
        for inlet, items in zip(self.inlets, given):
            inlet.items = items
        gave = self.root.step(Rejects())
        items = [tuple(each) if isinstance(each, Beat) else each.table.to_pylist() for each in gave.items]
        hungry = [self.inlets.index(inlet) for inlet in self.root.hungry()]
        moments, self.alarm.moments = self.alarm.moments, []
        return items, gave.reached, hungry, moments

    def dump(self) -> bytes:
        facts, tables = {}, {}
        for number, node in enumerate(every_node(self.root)):
            facts[str(number)], kept = node.dump()
            tables |= {f"{number}.{name}": table for name, table in kept.items()}
        return pack(facts, tables)

    def load(self, blob: bytes) -> None:
        facts, tables = unpack(blob)
        for number, node in enumerate(every_node(self.root)):
            node.load(facts[str(number)], under(f"{number}.", tables))


def empty(**options: Any) -> pn.Stream:
    """A stream whose rows the test puts into the inlet."""
    nothing: Iterator[Any] = iter(())
    return pn.stream(nothing, schema=SCHEMA, **{"time": "ts", **options})


def selected(stream: pn.Stream) -> Node:
    """The graph of a stream, with its `where` and `select`."""
    return stream._selected("test", stream._plan.columns)


def windows_over_results(clock: FakeClock) -> pn.Stream:
    inside = (
        empty(watermark="1 s", idle="2 s", timeout="40 s", clock=clock).window(pn.tumbling("5 s")).agg(n="count(*)")
    )
    return inside.stream(time="window_end").window(pn.tumbling("10 s")).agg(n="sum(n)").stream(time="window_end")


def merged(clock: FakeClock) -> pn.Stream:
    return pn.merge(empty(idle="3 s", clock=clock), empty(timeout="15 s", clock=clock)).where("v % 5 <> 0")


def operated(clock: FakeClock) -> pn.Stream:
    left, right = empty(idle="2 s", timeout="20 s", clock=clock), empty(idle="4 s", clock=clock)
    return pn.merge(left, right).aggregate(n="count(*)", window=tumbling(for_time("3 s")))


def arriving(clock: FakeClock) -> pn.Stream:
    stamped = pn.stream(iter(()), schema=SCHEMA, time=pn.arrival(clock=clock))
    return stamped.window(pn.tumbling("5 s")).agg(n="count(*)", s="sum(v)").stream(time="window_end")


def story(seed: int, inlets: int) -> list[tuple[int, list[list[Item]]]]:
    """For each step the seconds that pass before it, and what comes at each inlet: beats, and rows after some."""
    rng, now = random.Random(seed), 0
    told = []
    for _ in range(40):
        passed = rng.choice((0, 1, 1, 2, 7))
        now += passed * SECOND
        step: list[list[Item]] = []
        for _ in range(inlets):
            came = rng.random() < 0.3
            # since when nothing has come is for readers to remember: rows that were read ahead were asked for before
            step.append([Beat(now, 0, not came)])
            if came:
                times = [now // 1000 + rng.randrange(-900, 900) for _ in range(3)]
                step[-1].append(rows_alone(pa.table({"ts": times, "v": range(3)}, schema=ROWS)))
        told.append((passed, step))
    return told


@pytest.mark.parametrize("stream", [windows_over_results, merged, operated, arriving])
@pytest.mark.parametrize("seed", range(3))
def test_a_run_that_is_dumped_and_loaded_goes_on_the_same_by_the_clock(stream: Any, seed: int) -> None:
    clock = FakeClock()
    node = selected(stream(clock))
    told = story(seed, len(node.leaves))
    whole = Running(node, clock)
    given, dumps = [], []
    for passed, step in told:
        clock.advance(passed * SECOND)
        dumps.append(whole.dump())
        given.append(whole.step(step))
    assert any(isinstance(item, list) for items, *_ in given for item in items), "nothing came out"
    for cut in range(0, len(told), 3):
        clock = FakeClock(sum(passed for passed, _ in told[:cut]) * SECOND)
        again = Running(node, clock)
        again.load(dumps[cut])
        for number, (passed, step) in enumerate(told[cut:], start=cut):
            clock.advance(passed * SECOND)
            if number == cut:
                assert again.dump() == dumps[cut]
            assert again.step(step) == given[number]


def test_what_a_clock_can_not_have_said_is_refused() -> None:
    clock = FakeClock()
    node = selected(merged(clock))
    running = Running(node, clock)
    running.step([[Beat(5, 0, True)], [Beat(5, 0, True)]])
    facts, tables = unpack(running.dump())
    (number,) = [name for name, of_node in facts.items() if "line0" in of_node.get("clock", {})]
    for name, wrong in (("came_to", "soon"), ("silent", 1), ("beat", [1, 2]), ("_quiet", {"since": 0})):
        altered = {**facts, number: {**facts[number], "clock": {**facts[number]["clock"]}}}
        altered[number]["clock"]["line0"] = {**facts[number]["clock"]["line0"], name: wrong}
        with pytest.raises(SnapshotDamaged):
            Running(node, clock).load(pack(altered, tables))


def test_what_a_graph_gives_can_be_fed_back_through_an_inlet() -> None:
    """Every number is halved, or tripled and one added, until it is 1: ten ticks later each time."""
    halved = "case when v % 2 = 0 then cast(v / 2 as bigint) else 3 * v + 1 end"
    step = pn.merge(empty(), empty()).select(later="ts + 10", v2=halved)
    inlets = [Inlet(ROWS, "ts"), Inlet(ROWS, "ts")]
    node = selected(step)
    root = start(node, dict(zip(node.leaves, inlets)))
    inlets[0].put(pa.table({"ts": [0, 7, 12], "v": [6, 1, 7]}, schema=ROWS), ENDED)
    seen: list[tuple[int, int]] = []
    loop: pa.Table = ROWS.empty_table()
    tick = 10
    while tick < 1000:
        inlets[1].put(loop, tick)  # what comes out of rows from here on is ten ticks later, at least
        out = root.step(Rejects())
        for inlet in inlets:
            inlet.clear()
        tables = [item.table for item in out.items if not isinstance(item, Beat)]
        loop = pa.concat_tables(
            [ROWS.empty_table(), *(table.rename_columns(ROWS.names).cast(ROWS) for table in tables)]
        )
        seen += [(row["ts"], row["v"]) for row in loop.to_pylist()]
        loop = loop.filter(pa.array([v != 1 for v in loop["v"].to_pylist()], pa.bool_()))
        tick += 10
    expected = []
    for ts, v in ((0, 6), (7, 1), (12, 7)):
        while True:
            ts, v = ts + 10, v // 2 if v % 2 == 0 else 3 * v + 1
            expected.append((ts, v))
            if v == 1:
                break
    assert seen == sorted(expected)
    inlets[1].put(ROWS.empty_table(), ENDED)
    assert root.step(Rejects()).reached.ended
