"""Operators on Spark: over static frames they give what they give embedded; over streams they say why not."""

from __future__ import annotations

import random
from typing import Any, ClassVar

import pyarrow as pa
import pytest

import panes as pn
from panes.errors import QueryError
from panes.operators import InputPort, Model, Operator, OutputPort, count, delta, punct, sliding, time, tumbling
from panes.runners.spark.operator_frames import split_keys


def table(n: int, seed: int) -> pa.Table:
    rng = random.Random(seed)
    at, rows = 0, []
    for i in range(n):
        at += rng.choice((0, 1, 1, 3))
        rows.append({"t": at, "k": rng.choice("abc"), "v": rng.randint(0, 9), "seq": i})
    return pa.Table.from_pylist(rows)


LEFT, RIGHT = table(60, 1), table(50, 2)


class Changes(Operator):
    """Rows whose value is not that of the row before."""

    model = Model("Changes", inputs=(InputPort("in"),), outputs=(OutputPort("out"),))
    schema: ClassVar = {"v": "bigint", "was": "bigint"}

    def __init__(self) -> None:
        self.last: int | None = None

    def on_row(self, port: str, row: Any) -> None:
        last, self.last = self.last, row["v"]
        if last is not None and last != row["v"]:
            self.emit(v=row["v"], was=last)


def keyed(data: Any) -> Any:
    return pn.stream(data, time="t", key="k")


#: by name: the stream, and whether its rows are spread by key
CASES: dict[str, tuple[Any, bool]] = {
    "aggregate by rows": (
        lambda a, b: keyed(a).aggregate(window=sliding(count(5), every=count(2)), total="sum(v)", n="count(*)"),
        True,
    ),
    "aggregate by time": (
        lambda a, b: keyed(a).aggregate(
            window=sliding(time("10 ms"), every=time("4 ms")), partial=True, total="sum(v)"
        ),
        False,
    ),
    "match by key": (lambda a, b: keyed(a).match(keyed(b), window=sliding(count(3)), on="l.v = r.v"), True),
    "match, outer": (
        lambda a, b: pn.stream(a, time="t").match(
            pn.stream(b, time="t"),
            window=sliding(time("6 ms")),
            using="k",
            how="full",
            entries={"k": "k", "x": "l.v", "y": "r.v"},
        ),
        False,
    ),
    "dedupe": (lambda a, b: keyed(a).dedupe("v", window=sliding(delta("t", 12))), True),
    "sort": (lambda a, b: keyed(a).sort("v DESC", window=tumbling(count(4))).select("k", "v", "result_time"), False),
    "chain with punctuations": (
        lambda a, b: (
            pn.merge(pn.stream(a, time="t").select("t", "v"), pn.stream(b, time="t").select("t", "v"))
            .punctuate("v = 0")
            .where("v <> 3")
            .sort("v", window=tumbling(punct()))
            .aggregate(window=tumbling(count(3)), vs="collect_list(v)")
        ),
        False,
    ),
    "of a user": (lambda a, b: pn.stream(a, time="t").apply(Changes()), False),
}


@pytest.mark.parametrize("name", CASES)
def test_static_frames_give_the_same(spark: Any, name: str) -> None:
    make, spread = CASES[name]
    expected = make(LEFT, RIGHT).to_arrow()
    # in another order: ties of a time are put in order by the sequence
    order = list(range(LEFT.num_rows))
    random.Random(3).shuffle(order)
    frames = spark.createDataFrame(LEFT.take(order)).repartition(2), spark.createDataFrame(RIGHT)
    stream = make(*frames)
    assert bool(split_keys(stream._source)[0]) == spread
    found = stream.to_spark(sequence="seq").toArrow()
    assert expected.num_rows > 3
    assert sorted(map(str, found.cast(expected.schema).to_pylist())) == sorted(map(str, expected.to_pylist()))


def test_windows_over_an_operator(spark: Any) -> None:
    def query(data: Any) -> Any:
        return keyed(data).dedupe("v", window=sliding(count(2))).window(pn.tumbling(10)).agg(n="count(*)")

    expected, found = query(LEFT).to_arrow(), query(spark.createDataFrame(LEFT)).to_spark().toArrow()
    assert sorted(map(str, found.cast(expected.schema).to_pylist())) == sorted(map(str, expected.to_pylist()))


def test_streaming_frames_are_refused(spark: Any) -> None:
    stream = keyed(pn.testing.micro_batches(spark, [LEFT]))
    with pytest.raises(QueryError, match=r"Dedupe is an operator .* static frames only, .* stream\.operator\(\)"):
        stream.dedupe("v", window=sliding(count(2))).to_spark()


def test_a_sequence_must_be_a_column(spark: Any) -> None:
    stream = keyed(spark.createDataFrame(LEFT))
    with pytest.raises(QueryError, match="sequence='no': none of the streams that Dedupe reads has such a column"):
        stream.dedupe("v", window=sliding(count(2))).to_spark(sequence="no")
    with pytest.raises(QueryError, match="sequence= is for streams that operators give"):
        stream.to_spark(sequence="seq")
