"""Columnar windows do what the containers do, event for event, however rows are cut into batches."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from panes.clock import FakeClock
from panes.errors import DataError, QueryError
from panes.policies.library import count, delta, partition_age, partition_count, time
from panes.policies.library.columnar import WATCHABLE, ColumnarWindow, Firings
from tests.library.oracle import Config, Event, Row
from tests.library.programs import COMBINATIONS, Recorder, container, feed, partition_policy, policy
from tests.library.test_against_oracle import PARTITIONS, random_config, random_rows

#: Per configuration; each is cut into batches and snapshots of its own.
PROGRAMS = 12
SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.string()), ("v", pa.int64())])


def columnar(config: Config, schema: pa.Schema = SCHEMA) -> ColumnarWindow:
    options: dict[str, Any] = {"select": config.select, "time": "t", "key": ["k"] if config.partitioned else []}
    if config.partition_evict is not None:
        options["partition_evict"] = partition_policy(*config.partition_evict)
    trigger = None if config.trigger is None else policy(*config.trigger)
    return ColumnarWindow(
        schema, evict=policy(*config.evict), trigger=trigger, watch=WATCHABLE, discard=config.discard, **options
    )


def events_of(fired: Firings, config: Config) -> list[Event]:
    names = ["flush" if config.trigger is None else "trigger", "full", "partition_evict"]
    values = fired.columns["v"].values.tolist()
    keys = fired.keys[0].to_pylist() if fired.keys else [None] * len(fired)
    return [
        (names[kind], at, key, tuple(values[start:stop]))
        for kind, at, key, start, stop in zip(fired.kind, fired.at, keys, fired.start, fired.stop)
    ]


def run_columnar(
    config: Config, rows: list[Row], until: int, cuts: random.Random
) -> tuple[ColumnarWindow, list[Event]]:
    """In batches of any size, with snapshots in between."""
    window = columnar(config)
    found: list[Event] = []
    waiting: list[Row] = []

    def push() -> None:
        table = pa.table(dict(zip("tkv", ([r[i] for r in waiting] for i in range(3)))), schema=SCHEMA)
        found.extend(events_of(window.push(table), config))
        waiting.clear()

    for row in rows:
        if cuts.random() < 0.1:
            push()
            again = columnar(config)
            again.restore(window.snapshot())
            window = again
        if row[2] is None:
            push()
            window.advance(row[0])
            found.extend(events_of(window.punctuate(), config))
            continue
        waiting.append(row)
        if cuts.random() < 0.3:
            push()
        if cuts.random() < 0.1:
            push()
            found.extend(events_of(window.advance(row[0]), config))
    push()
    found.extend(events_of(window.advance(until), config))
    return window, found


@pytest.mark.parametrize("partition", PARTITIONS, ids=str)
@pytest.mark.parametrize(("evict", "trigger"), COMBINATIONS)
def test_columnar_does_what_the_container_does(
    evict: str, trigger: str | None, partition: tuple[str, str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(f"{evict} {trigger} {partition} columnar")
    for i in range(PROGRAMS):
        # Small figures, so that every limit inside is met too.
        monkeypatch.setattr("panes.policies.library.columnar._ROOM", rng.choice((1, 3, 1 << 16)))
        monkeypatch.setattr("panes.policies.library.arrays.SPARE", rng.choice((0, 4, 1 << 16)))
        monkeypatch.setattr("panes.policies.loop.FEW", (0, 5, 1 << 16)[i % 3])  # compiled, on the way, plain
        config = random_config(rng, evict, trigger, partition)
        start = rng.choice((0, -20))  # times may be negative
        rows = [(at + start, key, value) for at, key, value in random_rows(rng, config)]
        until = (rows[-1][0] if rows else start) + 10
        clock = FakeClock(start)
        window = container(config, clock)
        recorder = Recorder(window, clock)
        feed(window, clock, rows, until)
        batched, events = run_columnar(config, rows, until, rng)
        assert events == recorder.events, (i, config, rows)
        left = batched.held()
        held = {key: values for _, _, key, values in events_of(left, config)}
        assert held == {key: tuple(row["v"] for row in rows) for key, rows in window.subwindows()}
        assert batched.metrics["tuples"] == window.metrics["tuples"]
        assert batched.metrics["partitions"] == window.metrics["partitions"]


@pytest.mark.parametrize(("evict", "trigger"), [c for c in COMBINATIONS if c[0] != "punct"])
def test_many_keys_and_large_batches(evict: str, trigger: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("panes.policies.library.arrays.SPARE", 100)
    monkeypatch.setattr("panes.policies.loop.FEW", 1000)
    rng = random.Random(f"{evict} {trigger} large")
    for limit in (None, ("count", 60), ("tuples", 150), ("age", 300)):
        select = rng.choice(("lru", "lfu", "oldest"))
        config = Config(
            (evict, 30), None if trigger is None else (trigger, 60 if trigger == "time" else 7), True, limit, select
        )
        rows: list[Row] = [(i, f"k{int(rng.paretovariate(0.3)) % 3000}", i) for i in range(3000)]
        clock = FakeClock()
        window = container(config, clock)
        recorder = Recorder(window, clock)
        feed(window, clock, rows, 3100)
        batched = columnar(config)
        found: list[Event] = []
        for at in range(0, len(rows), 700):
            table = pa.table(dict(zip("tkv", zip(*rows[at : at + 700]))), schema=SCHEMA)
            found += events_of(batched.push(table), config)
        found += events_of(batched.advance(3100), config)
        assert found == recorder.events
        assert batched.metrics["tuples"] == window.metrics["tuples"]


def batch(**columns: Any) -> pa.Table:
    return pa.table(columns, schema=pa.schema([f for f in SCHEMA if f.name in columns]))


def test_bad_batches_are_refused_whole() -> None:
    """An attribute that falls, in a batch of which much could have been used."""
    for options in ({"evict": delta("v", 1)}, {"evict": count(2), "trigger": delta("v", 1)}):
        window = ColumnarWindow(SCHEMA, key=["k"], **options)
        window.push(batch(t=[0], k=["a"], v=[5]))
        before = window.snapshot()
        rows = {"t": [1, 2, 3], "k": ["b", "a", "a"], "v": [1, 9, 8]}
        with pytest.raises(DataError, match=r"delta\('v', 1\): the attribute falls in row 2 of the batch.*'v': 8"):
            window.push(batch(**rows))
        assert window.snapshot() == before
        with pytest.raises(DataError, match="not a number in row 1 of the batch"):
            window.push(batch(t=[1, 2], k=["a", "a"], v=[9, None]))
        assert window.snapshot() == before


def test_an_attribute_may_fall_where_its_subwindow_was_evicted() -> None:
    window = ColumnarWindow(SCHEMA, evict=delta("v", 9), key=["k"], partition_evict=partition_count(1))
    assert len(window.push(batch(t=[0, 1, 2], k=["a", "b", "a"], v=[5, 5, 1]))) == 0
    assert window.held().columns["v"].values.tolist() == [1]


def test_null_times_are_named() -> None:
    window = ColumnarWindow(SCHEMA, evict=time(5), time="t")
    with pytest.raises(DataError, match="time column 't' is null in row 1"):
        window.push(batch(t=[0, None], k=["a", "a"], v=[1, 2]))


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no time column": ({"evict": time(1)}, "time is missing"),
    "no time column for ages": (
        {"evict": count(1), "key": ["k"], "partition_evict": partition_age(1)},
        "time is missing",
    ),
    "unknown column": ({"evict": count(1), "keep": ["x"]}, "there is no column 'x'; the columns are t, k, v"),
    "unknown attribute": ({"evict": delta("x", 1)}, "there is no column 'x'"),
    "attribute without difference": ({"evict": delta("k", 1)}, "column 'k' is of type string, which has no difference"),
    "functions": ({"evict": delta(lambda row: 1, 1)}, "a columnar window takes deltas of columns"),
    "users' selection": ({"evict": count(1), "select": "user"}, "built-in selections only"),
    "what the containers refuse": ({"evict": count(0)}, r"evict=count\(0\)"),
    "unknown event": ({"evict": count(1), "watch": ["x"]}, "watch='x' is unknown"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_options_of_a_columnar_window_are_refused(name: str) -> None:
    options, said = REFUSED[name]
    with pytest.raises(QueryError, match=said):
        ColumnarWindow(SCHEMA, **options)


def test_columns_of_any_type_are_kept_with_their_nulls() -> None:
    schema = pa.schema(
        [("s", pa.string()), ("f", pa.float32()), ("d", pa.decimal128(9, 2)), ("ts", pa.timestamp("ms", "UTC"))]
    )
    table = pa.table(
        {"s": ["a", None, "c"], "f": [None, 1.5, 2.5], "d": [None, 1, 2], "ts": [0, 1, None]}, schema=schema
    )
    window = ColumnarWindow(schema, evict=count(3))
    window.push(table.slice(0, 1))
    again = ColumnarWindow(schema, evict=count(3))
    again.restore(window.snapshot())
    fired = again.push(table.slice(1))
    assert fired.table() == table
    assert (fired.start.tolist(), fired.stop.tolist(), fired.row.tolist()) == ([0], [3], [1])


def test_memory_follows_the_tuples_in_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("panes.policies.library.arrays.SPARE", 64)
    window = ColumnarWindow(
        SCHEMA, evict=time(50), trigger=time(10**6), time="t", key=["k"], partition_evict=partition_age(100)
    )
    sizes = []
    for start in range(0, 20_000, 200):
        rows = range(start, start + 200)
        window.push(batch(t=list(rows), k=[f"key {i}" for i in rows], v=list(rows)))
        sizes.append(window.metrics["bytes"])
    assert max(sizes[10:]) == max(sizes[90:])
    assert window.metrics["partitions"] == 101
    assert window._keys is not None
    assert len(window._keys) < 1000
