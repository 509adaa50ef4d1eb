"""Aggregates written by users: by rows, vectorised, by functions; and the law checker."""

from __future__ import annotations

import dataclasses
import datetime as dt
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st

import panes
from panes import aggregates as pn
from panes.aggregates.base import Array
from panes.aggregates.columns import cells_from_arrow, cells_to_arrow, column_from_arrow
from panes.aggregates.segments import segment_reduce
from panes.errors import DataError, QueryError, SnapshotMismatch
from panes.state.pickles import trusting
from panes.testing import check_laws, evaluate
from panes.testing.aggregates import inputs_of


class Spread(pn.UserAggregate):
    """Max minus min, as Python objects."""

    commutative = True

    def lift(self, x: float) -> Any:
        return x, x

    def combine(self, a: Any, b: Any) -> Any:
        return min(a[0], b[0]), max(a[1], b[1])

    def lower(self, a: Any) -> float:
        return a[1] - a[0]


class Vectorised(Spread):
    """The same with vectorised lift and fold of objects."""

    def lift_segments(self, columns: tuple[Array, ...], offsets: Array) -> Any:
        (x,) = columns
        low = segment_reduce(np.minimum, x, offsets, 0.0)
        high = segment_reduce(np.maximum, x, offsets, 0.0)
        return list(zip(low.tolist(), high.tolist(), strict=True))

    def fold_segments(self, partials: Any, offsets: Array) -> Any:
        low = segment_reduce(np.minimum, np.array([p[0] for p in partials]), offsets, 0.0)
        high = segment_reduce(np.maximum, np.array([p[1] for p in partials]), offsets, 0.0)
        return list(zip(low.tolist(), high.tolist(), strict=True))


class Columnar(pn.UserAggregate):
    """The same with numeric partials."""

    commutative = True
    state = {"low": "double", "high": "double"}  # noqa: RUF012

    def lift_segments(self, columns: tuple[Array, ...], offsets: Array) -> Any:
        return self.fold_segments((columns[0], columns[0]), offsets)

    def fold_segments(self, partials: Any, offsets: Array) -> Any:
        low, high = partials
        return segment_reduce(np.minimum, low, offsets, np.inf), segment_reduce(np.maximum, high, offsets, -np.inf)

    def lower_segments(self, partials: tuple[Array, ...]) -> Any:
        low, high = partials
        return np.where(low <= high, high - np.where(low <= high, low, 0), 0), low <= high


@pytest.mark.parametrize("kind", [Spread, Vectorised, Columnar])
def test_three_forms_agree(kind: type[pn.UserAggregate]) -> None:
    bound = kind("x").bind([pa.float64()])
    rows = inputs_of([pa.array([3.0, None, 1.0, None, 7.0, 9.0])])
    cells = bound.lift(rows, np.array([0, 3, 4, 6, 6]))
    assert bound.lower(cells).to_pylist() == [2.0, None, 2.0, None]
    assert bound.lower(bound.fold(cells, np.array([0, 2, 4]))).to_pylist() == [2.0, 2.0]
    assert bound.lower(bound.merge(cells, bound.empty(4))).to_pylist() == [2.0, None, 2.0, None]
    groups = np.array([1, 0, 0, 1, 1, 0])
    assert bound.lower(bound.lift_groups(rows, groups, 3)).to_pylist() == [8.0, 4.0, None]
    with trusting(True):
        again = cells_from_arrow(bound, cells_to_arrow(bound, cells))
    assert bound.lower(again).to_pylist() == [2.0, None, 2.0, None]
    assert bound.dense is (kind is Columnar)
    check_laws(kind("x"), st.floats(-100, 100) | st.none(), types=[pa.float64()], max_examples=50)


def test_partials_that_are_objects_are_flagged() -> None:
    assert [f.python for f in Spread("x").bind([pa.float64()]).fields] == [True, False]
    assert not any(f.python for f in Columnar("x").bind([pa.float64()]).fields)


def test_partials_may_be_lists_and_results_too() -> None:
    gather = pn.aggregate(
        "x",
        lift=lambda x: [x],
        combine=lambda a, b: a + b,
        lower=sorted,
        returns="array<bigint>",
        holistic=True,
    )
    assert evaluate(gather, [3, 1, 2]) == [1, 2, 3]
    check_laws(gather, st.integers(0, 9), types=[pa.int64()], max_examples=50)


def test_an_identity_gives_a_result_over_no_rows() -> None:
    def total(**options: Any) -> pn.UserAggregate:
        return pn.aggregate(
            "x",
            lift=int,
            combine=lambda a, b: a + b,
            lower=int,
            returns="bigint",
            commutative=True,
            **options,
        )

    assert evaluate(total(), [None], types=[pa.int64()]) is None
    assert evaluate(total(identity=int), [None], types=[pa.int64()]) == 0
    check_laws(total(identity=int, invert=lambda a, b: a - b), st.integers(-99, 99), types=[pa.int64()])


def test_nulls_can_be_seen_and_values_are_python_values() -> None:
    seen: list[Any] = []
    look = pn.aggregate("t", lift=seen.append, combine=lambda a, b: a, lower=lambda a: 1.0, skip_nulls=False)
    evaluate(look, [dt.datetime(2024, 1, 1), None])
    assert seen == [dt.datetime(2024, 1, 1), None]


class Seen(pn.UserAggregate):
    """What vectorised code is given of its argument."""

    skip_nulls = False
    returns = "string"

    def lift_segments(self, columns: tuple[Array, ...], offsets: Array) -> Any:
        (x,) = columns
        return [f"{x.dtype.kind}{x[a:b].tolist()}" for a, b in pairwise(offsets)]

    def fold_segments(self, partials: Any, offsets: Array) -> Any:
        return ["".join(partials[a:b]) for a, b in pairwise(offsets)]

    def lower(self, a: str) -> str:
        return a


@pytest.mark.parametrize(
    ("values", "says"),
    [([1, 2], "i[1, 2]"), ([1, None, 3], "O[1, None, 3]"), ([None, 2], "O[None, 2]"), ([None], "O[None]")],
)
def test_vectorised_code_sees_each_null_and_numbers_where_there_is_none(values: list[Any], says: str) -> None:
    assert evaluate(Seen("x"), values, types=[pa.int64()]) == says
    column = column_from_arrow(pa.chunked_array([values], pa.int64()))
    column = dataclasses.replace(column, valid=np.array([v is not None for v in values]))
    rows = inputs_of([], len(values))
    bound = Seen("x").bind([pa.int64()])
    rows = dataclasses.replace(rows, columns=(column,))
    assert bound.lower(bound.lift(rows, np.array([0, len(values)]))).to_pylist() == [says]


def test_functions_combine_the_earlier_partial_with_the_later() -> None:
    """Joined from slices, whichever way, words stay in the order of their rows."""
    joined = pn.aggregate("w", lift=str, combine=lambda a, b: a + b, lower=str, returns="string")
    assert evaluate(joined, ["a", "b", "c"]) == "abc"
    bound = joined.bind([pa.string()])
    one, two, three = (
        bound.lift(inputs_of([pa.array(list(text))], len(text)), np.array([0, len(text)])) for text in ("ab", "cd", "e")
    )
    assert bound.lower(bound.merge(bound.merge(one, two), three)).to_pylist() == ["abcde"]
    assert bound.lower(bound.merge(one, bound.merge(two, three))).to_pylist() == ["abcde"]
    rows = [{"t": t, "w": "abcdefgh"[t]} for t in range(8)]
    windows = panes.stream(rows, time="t").window(panes.sliding(4, every=2)).agg(text=joined)
    assert [row["text"] for row in windows.rows()] == ["ab", "abcd", "cdef", "efgh", "gh"]


def test_no_arguments_at_all() -> None:
    rows = pn.aggregate(lift=lambda: 1, combine=lambda a, b: a + b, lower=int, returns="bigint")
    bound = rows.bind([])
    assert bound.lower(bound.lift(inputs_of([], 5), np.array([0, 2, 5]))).to_pylist() == [2, 3]


class NotAssociative(Spread):
    associative = False


class NoInverse(Spread):
    invertible = True


class Nothing(pn.UserAggregate):
    pass


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (NotAssociative, "not associative"),
        (NoInverse, "NoInverse must define invert"),
        (Nothing, "must define lower, lift, combine"),
    ],
)
def test_misuse_is_refused_when_bound(kind: type[pn.UserAggregate], message: str) -> None:
    with pytest.raises(QueryError, match=message):
        kind("x").bind([pa.float64()])


def test_bad_results_and_types_are_named() -> None:
    words = pn.aggregate("x", lift=str, combine=lambda a, b: a + b, lower=str, name="words")
    with pytest.raises(DataError, match=r"words\(x\): a result is not of type double"):
        evaluate(words, [1, 2])
    with pytest.raises(QueryError, match="'nonsense' is not known"):
        pn.aggregate("x", lift=str, combine=max, lower=str, returns="nonsense").bind([pa.int64()])
    with pytest.raises(QueryError, match="lower = 3 is not a function"):
        pn.aggregate("x", lift=str, combine=max, lower=3)  # type: ignore[arg-type]


def test_user_aggregates_are_values() -> None:
    assert Spread("x") == Spread("x") != Spread("y")
    assert len({Spread("x"), Spread("x"), Vectorised("x")}) == 2
    assert repr(Spread("x + 1")) == "Spread(x + 1)"


def test_partials_of_another_aggregate_are_refused() -> None:
    bound = pn.sum("x").bind([pa.float64()])
    arrays = cells_to_arrow(bound, bound.empty(1))
    with pytest.raises(SnapshotMismatch, match="product"):
        cells_from_arrow(pn.product("x").bind([pa.float64()]), arrays)
    with pytest.raises(SnapshotMismatch, match="int64"):
        cells_from_arrow(pn.sum("x").bind([pa.int32()]), arrays)


WRONG = [
    ("not associative", {"combine": lambda a, b: a - b}),
    ("not commutative", {"combine": lambda a, b: a, "commutative": True}),
    ("not invertible", {"combine": max, "invert": lambda a, b: a - b, "commutative": True}),
]


@pytest.mark.parametrize(("claim", "options"), WRONG, ids=[w[0] for w in WRONG])
def test_wrong_declarations_are_refuted(claim: str, options: dict[str, Any]) -> None:
    wrong = pn.aggregate("x", lift=float, lower=float, **options)
    with pytest.raises(AssertionError, match=rf"aggregate\(x\) is {claim}.*rows \["):
        check_laws(wrong, [1.0, 2.0, 5.0])
    with pytest.raises(AssertionError, match=claim):
        check_laws(wrong, st.floats(-9, 9), types=[pa.float64()])


def test_a_vectorised_form_that_disagrees_with_itself_is_refuted() -> None:
    class Wrong(Vectorised):
        def fold_segments(self, partials: Any, offsets: Array) -> Any:
            return [partials[a] if b > a else None for a, b in pairwise(offsets.tolist())]

    with pytest.raises(AssertionError, match="Wrong"):
        check_laws(Wrong("x"), [1.0, 2.0, 5.0])
