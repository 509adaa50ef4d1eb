"""Bad configurations are refused by name when the query is built; what only data can tell stops with the row."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

import panes as pn
from panes.errors import DataError, OperatorClosed, PanesError, QueryError, SnapshotMismatch
from panes.operators import (
    SLIDING_FORMS,
    InputPort,
    Model,
    Operator,
    OutputPort,
    count,
    delta,
    partition_age,
    partition_count,
    punct,
    sliding,
    time,
    tumbling,
    tuple_count,
)


def rows(**options: Any) -> Any:
    return pn.stream([{"ts": 1, "id": 1, "v": 2, "s": "x"}], time="ts", time_unit="s", **options)


S = rows()
K = rows(key="id")
EMPTY = pn.stream(None, schema={"ts": "bigint", "id": "bigint"}, time="ts", time_unit="s")
TEN = sliding(count(10))


class Nothing(Operator):
    model = Model("Nothing", (InputPort("in", SLIDING_FORMS),), (OutputPort("out"),))
    schema: ClassVar = {"x": "double"}


class NoSchema(Operator):
    model = Model("NoSchema", (InputPort("in"),), (OutputPort("out"),))


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    # policies and windows
    "negative count": (lambda: count(-1), "count(n=-1): must be at least 0"),
    "count of a fraction": (lambda: count(1.5), "must be a whole number"),
    "negative time": (lambda: time("-1 s"), "must be positive"),
    "negative delta": (lambda: delta("ts", -1), "must be a number, zero or more"),
    "partitions of nothing": (lambda: partition_count(0), "must be at least 1"),
    "tumbling count(0)": (lambda: tumbling(count(0)), "a window of no rows is never full"),
    "every count(0)": (lambda: sliding(count(1), every=count(0)), "every 0 rows"),
    "sliding punct": (lambda: sliding(punct()), "use tumbling(punct())"),
    "every punct": (lambda: sliding(count(1), every=punct()), "sliding window has no end"),
    "no policy": (lambda: tumbling(3), "must be a policy such as count(100)"),
    "a window of pn": (lambda: S.sort("v", window=pn.tumbling(3)), "must be one of pn.operators"),
    "select": (lambda: tumbling(count(1), select="mru"), "must be one of lru, lfu, oldest, user"),
    "select by nobody": (lambda: tumbling(count(1), select="user"), "only an operator of your own can register"),
    "partition policy": (lambda: tumbling(count(1), partition_evict=count(1)), "must be partition_count(n)"),
    "delta by function": (lambda: sliding(delta(len, 1)), "the attribute must be a column"),
    # partitioned without a key
    "partitioned without key": (
        lambda: S.aggregate(window=tumbling(count(2), partition_evict=partition_count(3)), n="count(*)"),
        "Aggregate, input 'in': partition_count(3) bounds the windows of keys, and the stream has no key",
    ),
    "join partitioned without key": (
        lambda: S.match(S, window=sliding(count(2), partition_evict=tuple_count(3)), using="id"),
        "Join, input 'left': tuple_count(3)",
    ),
    "one side partitioned": (lambda: K.match(S, window=TEN, using="v"), "left has a key and right has none"),
    "keys of two types": (
        lambda: K.match(rows(key="s"), window=TEN),
        "keys must have the same types on both sides; they are int64 and string",
    ),
    # what the model does not allow
    "punct without punctuation": (
        lambda: S.aggregate(window=tumbling(punct()), n="count(*)"),
        "there are no punctuations on the path",
    ),
    "join trigger": (
        lambda: S.match(S, window=sliding(count(3), every=count(2)), using="id"),
        "Join, input 'left': each row is looked at when it comes, so every= can only be count(1)",
    ),
    "join trigger by time": (
        lambda: S.match(S, window=(TEN, sliding(count(3), every=time("1 s"))), using="id"),
        "Join, input 'right': each row",
    ),
    "join tumbling": (lambda: S.match(S, window=tumbling(count(3)), using="id"), "only sliding windows can be there"),
    "join of nothing": (lambda: S.match(S, window=sliding(count(0)), using="id"), "both windows are count(0)"),
    "sort trigger": (lambda: S.sort("v", window=sliding(count(3), every=count(2))), "can only be count(1)"),
    "dedupe trigger": (lambda: S.dedupe("v", window=sliding(count(3), every=delta("v", 2))), "can only be count(1)"),
    "aggregate without every": (lambda: S.aggregate(window=TEN, n="count(*)"), "add every="),
    "aggregate without outputs": (lambda: S.aggregate(window=tumbling(count(1))), "Aggregate: outputs= is required"),
    "sort by nothing": (lambda: S.sort(window=TEN), "Sort: by= is required"),
    "sort by a constant": (lambda: S.sort("1", window=TEN), "is the same for every row"),
    "no window": (lambda: S.sort("v", window=None), "Sort, input 'in': it needs a window"),
    "partial": (
        lambda: S.aggregate(window=tumbling(count(1)), partial="yes", n="count(*)"),
        "partial='yes' must be one of",
    ),
    "ties of two windows": (
        lambda: S.match(S, window=TEN, using="id", ties="include"),
        "ties='include' says whether rows see those of the same time that they look up",
    ),
    "ties": (lambda: S.match(S, window=TEN, using="id", ties="both"), "ties='both' must be one of"),
    "a bare number on timestamps": (
        lambda: pn.stream(None, schema={"ts": "timestamp"}, time="ts").dedupe(window=sliding(time(3))),
        "Dedupe: time(size)=3 has no unit: time is a timestamp",
    ),
    "how": (lambda: S.match(S, window=TEN, using="id", how="outer"), "how='outer' must be one of"),
    # names, types and units
    "column of a delta": (
        lambda: S.sort("v", window=sliding(delta("tss", 3))),
        "there is no column 'tss'; did you mean 'ts'",
    ),
    "delta of text": (
        lambda: S.sort("v", window=sliding(delta("s", 3))),
        "needs a column of numbers or times; s is string",
    ),
    "ticks": (lambda: S.sort("v", window=sliding(time("1.5 s"))), "not a whole number of ticks"),
    "age in ticks": (
        lambda: K.sort("v", window=sliding(count(1), partition_evict=partition_age("1 ms"))),
        "not a whole number of ticks",
    ),
    "sort column": (lambda: S.sort("w", window=TEN), "there is no column 'w'"),
    "dedupe column": (lambda: S.dedupe("w", window=TEN), "there is no column 'w'"),
    "group": (lambda: S.aggregate(window=tumbling(count(1)), group_by="w", n="count(*)"), "group_by='w'"),
    "twice": (lambda: S.aggregate(window=tumbling(count(1)), group_by="v", v="count(*)"), "named 'v'"),
    "result_time": (lambda: S.aggregate(window=tumbling(count(1)), result_time="count(*)"), "choose another name"),
    "match column": (lambda: S.match(S, window=TEN, on="l.w = r.v"), "l has no column 'w'"),
    "match ambiguous": (lambda: S.match(S, window=TEN, on="v = 2"), "'v' is ambiguous"),
    "match no condition": (lambda: S.match(S, window=TEN, on="l.v + r.v"), "must be a condition"),
    "using": (lambda: S.match(S, window=TEN, using="w"), "l has no column 'w'"),
    "no stream": (lambda: S.match([1], window=TEN, using="id"), "argument 1 must be a stream"),
    "three windows": (lambda: S.match(S, window=(TEN, TEN, TEN), using="id"), "one window for both streams, or two"),
    "names": (lambda: S.match(S, window=TEN, using="id", names=("a", "A")), "must be two names"),
    "times of two kinds": (
        lambda: S.match(pn.stream([{"ts": 1, "id": 1}], time="ts", time_unit="ms"), window=TEN, using="id"),
        "times must be of one kind",
    ),
    "half the data": (
        lambda: S.match(EMPTY, window=TEN, using="id"),
        "one stream has data and the other does not",
    ),
    "when": (lambda: S.punctuate("v + 1"), "must be a condition"),
    # operators of users
    "no operator": (lambda: S.apply(object()), "must be a pn.operators.Operator"),
    "no model": (lambda: S.apply(Operator()), "needs model = pn.operators.Model"),
    "no schema": (lambda: S.apply(NoSchema()), "it needs schema ="),
    "streams of an operator": (lambda: S.apply(Nothing(), S, window=TEN), "it reads 1 streams (in), not 2"),
    "window of an operator": (lambda: S.apply(Nothing()), "Nothing, input 'in': it needs a window"),
    "input of an operator": (lambda: S.apply(Nothing(), window={"on": TEN}), "there is no input 'on'"),
    "form of an operator": (lambda: S.apply(Nothing(), window=tumbling(count(3))), "only sliding windows can be there"),
    "not an operator's stream": (lambda: S.operator(), "is not the result of an operator"),
    "mechanism": (lambda: S.sort("v", window=TEN).operator(mechanism="fast"), "must be one of auto, columns, windows"),
    "columns": (lambda: S.sort("v", window=TEN).operator(mechanism="columns"), "runs row by row only"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_when_built(name: str) -> None:
    build, message = REFUSED[name]
    with pytest.raises(QueryError, match=re.escape(message)):
        build()


def pushed(make: Callable[[Any], Any], *lines: dict[str, Any], **options: Any) -> Any:
    stream = pn.stream(None, schema={"ts": "bigint", "v": "bigint"}, time="ts", time_unit="s")
    operator = make(stream).operator(**options)
    return [row for line in lines for row in operator.push([line]).rows()]


@pytest.mark.parametrize("mechanism", ["columns", "windows"])
def test_an_attribute_that_falls_stops_with_the_policy(mechanism: str) -> None:
    lines = [{"ts": 1, "v": 5}, {"ts": 2, "v": 3}]
    with pytest.raises(DataError, match=r"delta\('?.*v'?, 3\).*never decreases"):
        pushed(lambda s: s.aggregate(window=tumbling(delta("v", 3)), n="count(*)"), *lines, mechanism=mechanism)
    with pytest.raises(DataError, match=r"delta\('?v'?, 3\).*never decreases"):
        pushed(lambda s: s.match(s, window=sliding(delta("v", 3)), using="v"), *lines, mechanism=mechanism)


@pytest.mark.parametrize("mechanism", ["columns", "windows"])
def test_an_attribute_that_is_missing_stops(mechanism: str) -> None:
    with pytest.raises(DataError, match="no difference"):
        pushed(
            lambda s: s.match(s, window=sliding(delta("v", 3)), using="v"), {"ts": 1, "v": None}, mechanism=mechanism
        )


def test_a_predicate_that_returns_nonsense_stops_with_both_rows() -> None:
    stream = pn.stream([{"ts": 1, "v": 5}], time="ts")
    with pytest.raises(DataError, match=r"must return True, False or None; it returned 5 for \{'ts': 1, 'v': 5\}"):
        stream.match(stream, window=TEN, on=lambda left, right: 5).to_arrow()


def test_rows_without_a_time_are_rejected_by_name() -> None:
    sorted_ = pn.stream([{"ts": 1, "v": 5}, {"ts": None, "v": 6}], time="ts").sort("v", window=TEN)
    assert [row["v"] for row in sorted_.rows()] == [5]
    sorted_.to_arrow()
    assert "null time in an operator: {'ts': None, 'v': 6}" in sorted_.late["reason"].to_pylist()
    operator = sorted_.operator()
    operator.push([{"ts": None, "v": 7}])
    assert operator.late.to_pylist() == [{"ts": None, "v": 7, "reason": "null time"}]
    assert operator.metrics["rows_late"] == 1


def test_a_finished_operator_takes_no_rows() -> None:
    operator = S.sort("v", window=TEN).operator()
    operator.finish()
    with pytest.raises(OperatorClosed, match="push"):
        operator.push([{"ts": 1, "id": 1, "v": 2, "s": "x"}])


def test_snapshots_of_other_operators_are_refused_by_name() -> None:
    blob = S.sort("v", window=TEN).operator().snapshot()
    with pytest.raises(SnapshotMismatch, match="operator was 'Sort', is 'Dedupe'"):
        S.dedupe("v", window=TEN).operator(restore=blob)
    with pytest.raises(SnapshotMismatch, match="windows was"):
        S.sort("v", window=sliding(count(11))).operator(restore=blob)
    with pytest.raises(PanesError, match="not a Panes snapshot"):
        S.sort("v", window=TEN).operator(restore=b"nonsense")


def test_ports_are_known_by_name_and_number() -> None:
    operator = S.match(S, window=TEN, using="id").operator()
    line = {"ts": 1, "id": 1, "v": 2, "s": "x"}
    assert not operator.push([line], "left")
    assert len(operator.push([line], 1)) == 1
    with pytest.raises(QueryError, match="port='middle': Join has left, right"):
        operator.push([line], "middle")
    swapped: Any = [line] * 500
    for given in (swapped, line):
        with pytest.raises(QueryError, match=r"port must be a name or number.*: Join has left, right$") as caught:
            operator.push("left", given)
        assert f"got {type(given).__name__}" in str(caught.value)
        assert len(str(caught.value)) < 150
    with pytest.raises(QueryError, match=r"port='x+\.\.\.: Join has left, right$"):
        operator.push([line], "x" * 1000)


def test_windows_of_operators_show_as_they_are_written() -> None:
    assert repr(sliding(time(3))) == str(sliding(time(3))) == "sliding(time(3))"
    assert repr([sliding(count(3), every=count(1))]) == "[sliding(count(3), every=count(1))]"
