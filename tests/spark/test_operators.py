"""Operators on Spark: over static frames and streams they give what they give embedded."""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import functions as F

import panes as pn
from panes.api.stream import Query
from panes.errors import QueryError
from panes.operators import count, sliding
from panes.runners.local.reading import ReadOptions, batches
from panes.runners.spark.frames import rows_of
from panes.runners.spark.operator_frames import operator_frame
from tests.spark.operator_cases import CASES, SCHEMA, WINDOWS, keyed, table

LEFT, RIGHT = table(60, 1), table(50, 2)
#: A row far after all others: the watermark of streams is behind them then, at 996.
LAST = pa.Table.from_pylist([{"t": 1000, "k": "a", "v": 5, "seq": 100}], SCHEMA)
SEEN = 996
TOO_LATE = pa.Table.from_pylist([{"t": 3, "k": "b", "v": 8, "seq": 101}], SCHEMA)


def shuffled(rows: pa.Table, seed: int) -> pa.Table:
    order = list(range(rows.num_rows))
    random.Random(seed).shuffle(order)
    return rows.take(pa.array(order, pa.int64()))


def bag(found: pa.Table) -> list[str]:
    return sorted(str(row) for row in found.to_pylist())


#: What runs on static frames of Spark here; the others run without it in test_graph_operator.py.
STATIC = ("aggregate by rows", "aggregate by time", "match by key", "match, full", "match apart, left", "sort",
          "chain with punctuations", "of a user")  # fmt: skip


@pytest.mark.parametrize("name", STATIC)
def test_static_frames_give_the_same(spark: Any, name: str) -> None:
    make = CASES[name][0]
    expected = make(LEFT, RIGHT).to_arrow()
    # in another order: ties of a time are put in order by the sequence
    frames = spark.createDataFrame(shuffled(LEFT, 3)).repartition(2), spark.createDataFrame(RIGHT)
    found = make(*frames).to_spark(sequence="seq").toArrow()
    assert expected.num_rows > 3
    assert bag(found.cast(expected.schema)) == bag(expected)


def test_windows_over_an_operator(spark: Any) -> None:
    def query(data: Any) -> Any:
        return keyed(data).dedupe("v", window=sliding(count(2))).window(pn.tumbling(10)).agg(n="count(*)")

    expected, found = query(LEFT).to_arrow(), query(spark.createDataFrame(LEFT)).to_spark().toArrow()
    assert bag(found.cast(expected.schema)) == bag(expected)


def embedded(given: Any) -> pa.Table:
    """What a stream has given, or windows over it, when time has come to `SEEN`."""
    if not isinstance(given, Query):
        rows = pa.concat_tables(batches(given._node, ReadOptions()))
        return rows.filter(pc.less(rows[given._plan.time], SEEN))
    op = given.operator()
    results = []
    for rows in batches(given._node.source, ReadOptions()):
        results.append(op.push(rows.filter(pc.less(rows[given._plan.stream.time], SEEN))).table)
    return pa.concat_tables([*results, op.advance(SEEN).table])


#: What runs on streams of Spark here; all others do so without it in test_graph_operator.py.
ON_STREAMS = ("match by key and time", "of rows", "of a join with results of windows")


def test_streams_give_the_same(spark: Any, run_stream: Callable[..., pa.Table]) -> None:
    """Several in one query, over two runs from one checkpoint, in micro-batches that cut times and shuffle rows."""
    cases = {name: case[0] for name, case in CASES.items()} | WINDOWS
    batches = [pn.testing.MicroBatches(spark, schema=SCHEMA) for _ in range(2)]
    frames = {}
    for name in ON_STREAMS:
        given = cases[name](*(each.frame for each in batches))
        windows = given._plan if isinstance(given, Query) else None
        rows_in = rows_of(given._node if windows is None else given._node.source)
        frames[name] = operator_frame(rows_in, "seq", windows=windows, key_groups=2, inside=True)
    late = keyed(batches[0].frame).dedupe("v", window=sliding(count(2))).where("v > 1").select("v", "k")
    frames["late"] = late.to_spark(sequence="seq", late=True, key_groups=2)
    rows = [f.select(F.lit(name).alias("name"), F.to_json(F.struct("*")).alias("row")) for name, f in frames.items()]
    everything = functools.reduce(lambda a, b: a.union(b), rows)
    for number, (start, end) in enumerate([(0, 18), (18, 60), (60, 61)]):
        for each, of in zip(batches, (LEFT, RIGHT)):
            each.add(shuffled(of.slice(start, end - start) if end < 61 else pa.concat_tables([LAST, TOO_LATE]), number))
        if number in (1, 2):
            found = run_stream(everything)
    given = {name: [json.loads(row) for n, row in zip(*(found[c].to_pylist() for c in ("name", "row"))) if n == name]
             for name in frames}  # fmt: skip
    data = [pa.concat_tables([of, LAST]) for of in (LEFT, RIGHT)]
    for name in ON_STREAMS:
        wanted = [{k: v for k, v in row.items() if v is not None} for row in embedded(cases[name](*data)).to_pylist()]
        assert len(wanted) > 3
        assert sorted(map(str, given[name])) == sorted(map(str, wanted)), name
    (too_late,) = [row for row in given["late"] if "late_reason" in row]
    assert too_late == {"late_reason": "too late", "late_row": TOO_LATE.to_pylist()[0]}
    kept = keyed(LEFT).dedupe("v", window=sliding(count(2))).where("v > 1").select("v", "k").to_arrow()
    assert bag(pa.Table.from_pylist([r for r in given["late"] if r != too_late], kept.schema)) == bag(kept)


def test_what_spark_cannot_is_refused(spark: Any) -> None:
    streaming, static = pn.testing.micro_batches(spark, schema=SCHEMA), spark.createDataFrame(LEFT)
    with pytest.raises(QueryError, match="some of the streams that are matched or merged are streaming and some"):
        CASES["match, full"][0](streaming, static).to_spark()
    windows = CASES["dedupe"][0](streaming, None).window(pn.tumbling(10)).agg(n="count(*)")
    with pytest.raises(
        QueryError, match="strategy='native': windows over what operators give of a stream, or over results"
    ):
        windows.to_spark(strategy="native")
    with pytest.raises(
        QueryError, match=r"restore=: windows over what operators give of a stream, or over .* can't begin"
    ):
        windows.to_spark(restore=b"")
    with pytest.raises(QueryError, match="late= is for streams that operators give"):
        keyed(streaming).to_spark(late=True)


def test_a_sequence_must_be_a_column(spark: Any) -> None:
    stream = keyed(spark.createDataFrame(LEFT))
    with pytest.raises(QueryError, match="sequence='no': none of the streams that Dedupe reads has such a column"):
        stream.dedupe("v", window=sliding(count(2))).to_spark(sequence="no")
    with pytest.raises(QueryError, match="sequence= is for streams that operators give"):
        stream.to_spark(sequence="seq")
