"""A graph of operators step by step: the same rows however they are cut, with snapshots anywhere."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from panes.query import Query
from panes.runners.local.rejects import Rejects
from panes.runners.spark.event_time import EventTime
from panes.runners.spark.graph_query import GraphQuery, Rows
from panes.runners.spark.group_operator import reach, take
from tests.spark.operator_cases import CASES, WINDOWS, table

LEFT, RIGHT = table(60, 1), table(50, 2)
STREAMS = {**{name: case[0] for name, case in CASES.items()}, **{f"windows {name}": w for name, w in WINDOWS.items()}}


def graph(given: Any) -> tuple[GraphQuery, list[pa.Table]]:
    windows = given._plan if isinstance(given, Query) else None
    query, sources = GraphQuery.of(given._source, windows, "seq")
    for leaf in query.leaves:
        leaf.used |= {"seq"} & set(leaf.schema.names)
    tables = [LEFT if "of 60" in str(source) or source.rows == 60 else RIGHT for source in sources]
    return replace(query, times=tuple(EventTime.of(leaf.stream) for leaf in query.leaves)), tables


def run(query: GraphQuery, tables: list[pa.Table], seed: int, *, finish: bool) -> list[pa.Table]:
    """In random micro-batches, in which rows are in any order; all rows within a watermark of 4 are in time."""
    rng = random.Random(seed)
    op, given = query.operator(), []
    end = max(t["t"][-1].as_py() for t in tables)
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
        given += take(op, Rows(parts))
        at = upto
        given += reach(op, query.times[0].millis(min(at, end) - rng.choice((0, 2, 4))))
        if rng.random() < 0.3:
            op = query.operator([op.snapshot()])
    assert not op.take_late().num_rows
    return [*given, op.finish().table] if finish else given


@pytest.mark.parametrize("name", STREAMS)
def test_any_cut_gives_what_the_embedded_runner_gives(name: str) -> None:
    made = STREAMS[name](LEFT, RIGHT)
    windows = isinstance(made, Query)
    expected = made.to_arrow() if windows else pa.concat_tables(made._source.batches(Rejects()))
    query, tables = graph(made)
    assert expected.num_rows > 3
    for seed in range(6):
        found = pa.concat_tables(run(query, tables, seed, finish=True)).select(expected.column_names)
        found, wanted = found.cast(expected.schema).to_pylist(), expected.to_pylist()
        # results of windows that are due at once come in any order
        assert sorted(map(str, found)) == sorted(map(str, wanted)) if windows else found == wanted
