"""A graph of operators step by step: the same rows however they are cut, with snapshots anywhere."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from panes.api.stream import Query
from panes.runners.local.reading import ReadOptions, batches
from panes.runners.spark.event_time import EventTime
from panes.runners.spark.graph_query import FrameRows, GraphQuery
from panes.runners.spark.group_operator import reach, take
from panes.runners.spark.operator_frames import split_keys
from tests.spark.operator_cases import CASES, WINDOWS, table

LEFT, RIGHT = table(60, 1), table(50, 2)
STREAMS = {**{name: case[0] for name, case in CASES.items()}, **{f"windows {name}": w for name, w in WINDOWS.items()}}


def graph(given: Any) -> tuple[GraphQuery, list[pa.Table]]:
    windows = given._plan if isinstance(given, Query) else None
    query, sources = GraphQuery.of(given._node if windows is None else given._node.source, windows, "seq")
    for leaf in query.leaves:
        leaf.used.update({"seq"} & set(leaf.schema.names))
    tables = [LEFT if "of 60" in str(source) or source.rows == 60 else RIGHT for source in sources]
    return replace(query, times=tuple(EventTime.of(leaf.stream) for leaf in query.leaves)), tables


def run(query: GraphQuery, tables: list[pa.Table], seed: int, *, finish: bool) -> list[pa.Table]:
    """In random micro-batches, in which rows are in any order; all rows within a watermark of 4 are in time."""
    rng = random.Random(seed)
    op, given = query.operator(), []
    end = max(table["t"][-1].as_py() for table in (LEFT, RIGHT))
    at = -1
    while at < end:
        upto = at + rng.choice((1, 3, 8, 30))
        parts = []
        for number, rows in enumerate(tables):
            leaf = query.leaves[number]
            chosen = [i for i, t in enumerate(rows["t"].to_pylist()) if at < t <= upto]
            rng.shuffle(chosen)
            half = len(chosen) // 2
            parts += [
                (number, rows.take(pa.array(some, pa.int64())).select(leaf.columns))
                for some in (chosen[:half], chosen[half:])
            ]
        given += take(op, FrameRows(parts))
        at = upto
        given += reach(op, query.times[0].millis(min(at, end) - rng.choice((0, 2, 4))))
        if rng.random() < 0.3:
            op = query.operator([op.snapshot()])
    assert not op.take_late().num_rows
    return [*given, op.finish().table] if finish else [*given, *reach(op, query.times[0].millis(end + 10))]


@pytest.mark.parametrize("name", STREAMS)
def test_any_cut_gives_what_the_embedded_runner_gives(name: str) -> None:
    made = STREAMS[name](LEFT, RIGHT)
    windows = isinstance(made, Query)
    expected = made.to_arrow() if windows else pa.concat_tables(batches(made._node, ReadOptions()))
    query, tables = graph(made)
    assert expected.num_rows > 3
    for seed in range(6):
        found = pa.concat_tables(run(query, tables, seed, finish=True)).select(expected.column_names)
        found, wanted = found.cast(expected.schema).to_pylist(), expected.to_pylist()
        # results of windows that are due at once come in any order
        assert sorted(map(str, found)) == sorted(map(str, wanted)) if windows else found == wanted


@pytest.mark.parametrize("streaming", [False, True], ids=["static", "streaming"])
@pytest.mark.parametrize("name", CASES)
def test_spread_rows_give_the_same(name: str, streaming: bool) -> None:
    """Where rows may be spread over groups, groups that know nothing of each other give all there is."""
    made = CASES[name][0](LEFT, RIGHT)
    query, tables = graph(made)
    keys = split_keys(made._node, streaming=streaming)
    assert bool(keys[0]) == CASES[name][2 if streaming else 1]
    if not keys[0]:
        return
    whole = run(query, tables, 1, finish=not streaming)
    found = []
    for group in range(3):
        chosen = []
        for rows, columns in zip(tables, keys):
            values = zip(*(rows.column(c).to_pylist() for c in columns))
            chosen.append(rows.filter(pa.array([sum(map(ord, str(v))) % 3 == group for v in values])))
        found += run(query, chosen, 2, finish=not streaming)
    given, wanted = (sorted(map(str, pa.concat_tables(tables).to_pylist())) for tables in (found, whole))
    assert given == wanted
