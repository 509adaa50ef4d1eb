"""State that moves between runners: whoever goes on gives what the other would have given."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import panes as pn
from panes.errors import QueryError, SnapshotMismatch
from panes.runners.spark.event_time import EventTime
from panes.runners.spark.group_operator import GroupQuery, run, used_columns
from panes.runners.spark.interchange import _aligned
from panes.runners.spark.packing import Packer, Packing, group_labels, hash_groups, unpacked
from panes.windows.base import ALWAYS

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.float64()), ("w", pa.string())])
GROUPS = 5
WINDOWS: list[dict[str, Any]] = [
    {"t": pn.tumbling("20 ms"), "s": pn.sliding("50 ms", every="7 ms")},
    {"c": pn.tumbling(pn.rows(5)), "x": pn.session("3 ms")},
    {"d": pn.tumbling(5, on="v"), "t": pn.tumbling("20 ms")},
    {"x": pn.session("3 ms")},
]
AGGREGATES = [{"n": "count(*)", "m": "median(v)"}, {"l": "last(v)", "f": "first(v)"}, {"s": "sum(v)"}]


def query(windows: dict[str, Any], aggregates: dict[str, str], lateness: str | None, data: Any = None) -> Any:
    known = {"schema": SCHEMA} if data is None else {}
    watermark = "manual" if data is None else "10 ms"
    stream = pn.stream(data, time="ts", key="k", watermark=watermark, lateness=lateness, **known)
    return stream.window(**windows).agg(**aggregates)


def batch(rng: np.random.Generator, number: int) -> pa.Table:
    """Rows around 30 ms * number; `v` grows within it, as a measure does."""
    n = int(rng.integers(1, 60))
    times = 1_000_000 + 1000 * (number * 30 + rng.integers(-20, 60, n))
    values = number * 1000 + np.cumsum(rng.integers(0, 4, n)) * 1.0
    return pa.table([pa.array(times, SCHEMA[0].type), rng.integers(0, 12, n), values, ["z"] * n], schema=SCHEMA)


def watermark(number: int) -> int:
    return 1_000_000 + 1000 * (number * 30 - 15)


def rows(tables: Sequence[pa.Table]) -> list[str]:
    found = [str(sorted(r.items())) for t in tables for r in t.to_pylist()]
    return sorted(found)


def by_group(packing: Packing, table: pa.Table) -> dict[int, list[bytes]]:
    packed = packing.pack(table.to_batches(), 0)
    found: dict[int, list[bytes]] = {}
    for label, data in zip(packed["panes_group"].to_pylist(), packed["panes_rows"].to_pylist()):
        found.setdefault(group_labels(GROUPS).index(label), []).append(data)
    return found


#: Rows of a batch are up to 44 ms ahead of the watermark of the next.
EARLY = EventTime(1, 1000, 0, bound=44)


@pytest.mark.parametrize("early", [None, EARLY], ids=["", "early"])
@pytest.mark.parametrize("seed", range(24))
def test_groups_become_one_operator_and_one_becomes_groups(seed: int, early: EventTime | None) -> None:
    """Embedded, then one operator per key group (each called only when it has to be), then embedded again."""
    rng = np.random.default_rng(seed)
    asked = query(WINDOWS[seed % 4], AGGREGATES[seed % 3], None if seed % 2 else "30 ms")
    everywhere = asked._plan.stream.schema.names
    columns = tuple(everywhere) if seed % 5 else used_columns(asked._plan)
    workers = GroupQuery(asked._plan, columns, at_once=True, early=early)
    packing = Packing(Packer(asked._plan.stream, workers.columns, GROUPS))
    plain, first = asked.operator(), asked.operator()
    parts = int(rng.integers(0, 3)) if seed % 5 else 0  # batches before it becomes groups
    back = parts + int(rng.integers(1, 5))  # and before it becomes one again
    found: list[pa.Table] = []
    expected: list[pa.Table] = []
    groups: dict[int, Any] = {}
    for number in range(back + 3):
        table, reached = batch(rng, number), watermark(number)
        expected += run(plain, workers.passed(reached, table), table).results
        if number == parts and seed % 5:
            blobs = [first.snapshot(key_groups=hash_groups(g, GROUPS)) for g in range(GROUPS)]
            groups = {g: workers.operator([blob]) for g, blob in enumerate(blobs)}
        if number == back:
            first = asked.operator(restore=_aligned(groups, GROUPS, SCHEMA))
        if parts <= number < back:
            came = by_group(packing, table)
            for g in range(GROUPS):
                if g in came or (g in groups and groups[g].next_due() <= reached):
                    op = groups.setdefault(g, workers.operator())
                    mine = unpacked(came.get(g, []))
                    found += run(op, workers.passed(reached, mine), mine).results
        else:
            found += run(first, workers.passed(reached, table), table).results
    found.append(first.finish().table)
    expected.append(plain.finish().table)
    assert rows(found) == rows(expected)


def test_what_groups_have_not_given_yet_goes_along() -> None:
    """Two groups whose own rows let event time pass to different points."""
    asked = query({"t": pn.tumbling("10 ms")}, AGGREGATES[2], None)
    workers = GroupQuery(asked._plan, tuple(SCHEMA.names), at_once=True, early=replace(EARLY, bound=0))
    packing = Packing(Packer(asked._plan.stream, workers.columns, GROUPS))
    plain, groups = asked.operator(), {}
    expected: list[pa.Table] = []
    given: list[pa.Table] = []
    for key, latest in ((0, 15_000), (1, 35_000)):
        times = pa.array([1_000_000 + 5_000, 1_000_000 + latest], SCHEMA[0].type)
        table = pa.table([times, [key, key], [1.0, 2.0], ["z", "z"]], schema=SCHEMA)
        expected.append(plain.push(table).table)
        ((group, packed),) = by_group(packing, table).items()
        groups[group] = workers.operator()
        given += run(groups[group], workers.passed(ALWAYS, table), unpacked(packed)).results
    expected.append(plain.finish().table)
    assert [table.num_rows for table in given] == [1, 1]
    whole = asked.operator(restore=_aligned(groups, GROUPS, SCHEMA))
    for op in (asked.operator(restore=whole.snapshot()), whole):
        due = op.push({"ts": None, "k": 0, "v": 0.0, "w": "z"}).table  # a row that nobody uses
        assert due["k"].to_pylist() == [0]
        assert rows([*given, due, op.finish().table]) == rows(expected)


@pytest.fixture
def files(tmp_path: Path) -> Callable[[int, pa.Table], str]:
    folder = tmp_path / "events"
    folder.mkdir()

    def put(number: int, table: pa.Table) -> str:
        path = folder / f"{number}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1e9 + number, 1e9 + number))
        return str(folder)

    return put


def stream_of(spark: Any, folder: str) -> Any:
    reader = spark.readStream.schema("ts timestamp, k bigint, v double, w string").option("maxFilesPerTrigger", 1)
    return reader.parquet(folder)


def tidy(rng: np.random.Generator, number: int) -> pa.Table:
    """Rows that are never later than the bound: then micro-batches decide nothing, and all runs give the same."""
    times = np.sort(rng.integers(number * 100, number * 100 + 100, 60)) + rng.integers(0, 9, 60)
    times = pa.array(1_000_000 + 1000 * times, SCHEMA[0].type)
    return pa.table([times, rng.integers(0, 12, 60), rng.integers(0, 9, 60) * 1.0, ["z"] * 60], schema=SCHEMA)


def test_spark_goes_on_from_a_snapshot_and_back(spark: Any, run_stream: Any, files: Any, tmp_path: Path) -> None:
    windows = {**WINDOWS[0], **WINDOWS[1]}
    rng = np.random.default_rng(1)
    tables = [tidy(rng, number) for number in range(5)]
    asked = query(windows, AGGREGATES[0], None, tables[0])
    plain, first = asked.operator(), asked.operator()
    expected = [*(plain.push(t).table for t in tables), plain.finish().table]
    found = [first.push(tables[0]).table]
    for number in (1, 2, 3):
        folder = files(number, tables[number])
    frame = query(windows, AGGREGATES[0], None, stream_of(spark, folder)).to_spark(
        restore=first.snapshot(), strategy="key_groups"
    )
    found.append(run_stream(frame).cast(found[0].schema))
    blobs = pn.spark_snapshot(spark, tmp_path / "checkpoint" / "offsets", asked)
    last = asked.operator(restore=blobs)
    found += [last.push(tables[4]).table, last.finish().table]
    assert all(t.num_rows for t in found)
    assert rows(found) == rows(expected)
    with pytest.raises(SnapshotMismatch, match=r"windows was .*rows.*, is .*"):
        pn.spark_snapshot(spark, tmp_path / "checkpoint" / "offsets", query(WINDOWS[3], AGGREGATES[0], None))
    with pytest.raises(QueryError, match=r"restore.*static"):
        query(windows, AGGREGATES[0], None, spark.read.parquet(folder)).to_spark(restore=blobs, strategy="key_groups")


def test_a_restart_and_a_second_query_at_once(spark: Any, run_stream: Any, files: Any) -> None:
    """Operators kept in workers belong to one query and one state of it."""
    rng = np.random.default_rng(2)
    tables = [tidy(rng, number) for number in range(3)]
    plain = [query(WINDOWS[1], a, None, tables[0]).operator() for a in AGGREGATES[:2]]
    given: list[list[pa.Table]] = [[], []]
    for number, table in enumerate(tables):
        folder = files(number, table)
        for i, (op, aggregates) in enumerate(zip(plain, AGGREGATES)):
            on_spark = query(WINDOWS[1], aggregates, None, stream_of(spark, folder)).to_spark(strategy="key_groups")
            found = run_stream(on_spark, f"checkpoint{i}")
            given[i].append(op.push(table).table)
            assert rows([found.cast(given[i][0].schema)]) == rows(given[i])
