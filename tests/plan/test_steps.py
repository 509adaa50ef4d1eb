"""Steps on tables of results, by themselves: what they make of columns, nulls, corrections and withdrawals."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest

from panes.errors import ExpressionError, QueryError
from panes.plan.steps import Having, OrderStep, SelectStep, Shape, Step, apply_steps, passing

SCHEMA = pa.schema(
    [("k", pa.string()), ("window_end", pa.int64()), ("x", pa.float64()), ("n", pa.int64()), ("revision", pa.int32())]
)
SHAPE = Shape(SCHEMA, ("k", "window_end", "revision"))
VOIDABLE = Shape(SCHEMA.append(pa.field("void", pa.bool_())), ("k", "window_end", "revision", "void"))


def table(rows: list[tuple[Any, ...]], shape: Shape = SHAPE) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(shape.names)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, shape.schema, strict=True)], schema=shape.schema)


def values(given: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in given.to_pylist()]


def test_select_gives_columns_in_order_and_knows_which_name_the_window() -> None:
    step = SelectStep.of(SHAPE, ["n", "k"], {"mean": "x / n", "tag": "upper(k)", "one": "1"})
    given = step.apply(table([("a", 10, 6.0, 3, 0), ("b", 10, None, 0, 0)]))
    assert values(given) == [(3, "a", 2.0, "A", 1), (0, "b", None, "B", 1)]
    assert given.schema.names == step.schema_out.names == ["n", "k", "mean", "tag", "one"]
    assert given.schema.types == step.schema_out.types
    assert step.after.naming == ("k", "tag")


def test_a_withdrawn_result_has_no_values_after_select() -> None:
    step = SelectStep.of(VOIDABLE, ["void"], {"tag": "upper(k)", "x2": "coalesce(x, 0) * 2"})
    given = step.apply(table([("a", 10, 6.0, 3, 1, False), ("a", 10, None, None, 2, True)], VOIDABLE))
    assert values(given) == [(False, "A", 12.0), (True, "A", None)]


def test_having_keeps_what_is_true() -> None:
    step = Having.of(SHAPE, "x > 2 AND k <> 'c'")
    given = step.apply(table([("a", 10, 3.0, 1, 0), ("b", 10, 1.0, 1, 0), ("c", 10, 9.0, 1, 0), ("d", 10, None, 1, 0)]))
    assert [row[0] for row in values(given)] == ["a"]


def test_a_correction_that_fails_is_a_withdrawal() -> None:
    step = Having.of(VOIDABLE, "x > 2")
    given = step.apply(
        table(
            [
                ("a", 10, 1.0, 1, 0, False),  # fails, and was never given
                ("b", 10, 5.0, 1, 0, False),
                ("b", 10, 1.0, 2, 1, False),  # failed since
                ("b", 10, 7.0, 3, 2, False),
                ("b", 10, None, None, 3, True),  # withdrawn by the windows
            ],
            VOIDABLE,
        )
    )
    assert values(given) == [
        ("b", 10, None, None, 1, True),
        ("b", 10, None, None, 3, True),
        ("b", 10, 5.0, 1, 0, False),
        ("b", 10, 7.0, 3, 2, False),
    ]


def test_withdrawals_are_known_under_another_name() -> None:
    renamed = SelectStep.of(VOIDABLE, ["k", "x"], {"gone": "void", "number": "revision", "void": "n > 1"})
    step = Having.of(renamed.after, "x > 2")
    more = SelectStep.of(step.after, ["k", "gone"], {"y": "coalesce(x, 0)"})
    assert renamed.after.called("void") == "gone"
    assert renamed.after.called("window_end") is None
    given = table([("a", 10, 5.0, 1, 0, False), ("b", 10, 1.0, 2, 1, False)], VOIDABLE)
    assert values(apply_steps([renamed, step, more], given)) == [("b", True, None), ("a", False, 5.0)]


def test_a_column_that_is_computed_is_not_the_key_whatever_its_name() -> None:
    assert SelectStep.of(SHAPE, ["n"], {"k": "upper(k)"}).after.called("k") is None
    assert SelectStep.of(SHAPE, ["k"], {"other": "k"}).after.called("k") == "k"


def test_withdrawals_come_first_in_every_order() -> None:
    rows = [("a", 10, 1.0, 1, 0, False), ("b", 20, None, None, 1, True), ("c", 10, 0.0, 1, 0, False)]
    given = OrderStep.of(VOIDABLE, ["x"]).apply(table(rows, VOIDABLE))
    assert [row[0] for row in values(given)] == ["b", "c", "a"]


ORDERS = [
    (["x"], ["nan2", "null", "one", "two", "nan"]),
    (["x DESC"], ["nan2", "nan", "two", "one", "null"]),
    (["x asc nulls last"], ["nan2", "one", "two", "nan", "null"]),
    (["x DESC NULLS FIRST"], ["nan2", "null", "nan", "two", "one"]),
    (["n", "k DESC"], ["nan2", "two", "one", "null", "nan"]),
    (["n * -1", "k"], ["nan2", "nan", "null", "one", "two"]),
]


@pytest.mark.parametrize(("keys", "expected"), ORDERS, ids=[str(k) for k, _ in ORDERS])
def test_order_is_among_results_of_one_time(keys: list[str], expected: list[str]) -> None:
    rows = [
        ("two", 20, 2.0, 1, 0),
        ("nan", 20, float("nan"), 2, 0),
        ("one", 20, 1.0, 1, 0),
        ("null", 20, None, 1, 0),
        ("nan2", 10, float("nan"), 9, 0),
    ]
    given = OrderStep.of(SHAPE, keys).apply(table(rows))
    assert [row[0] for row in values(given)] == expected


def test_ties_keep_their_order_and_corrections_theirs() -> None:
    rows = [("b", 10, 1.0, 1, 0), ("a", 10, 1.0, 1, 0), ("c", 10, 0.0, 1, 1), ("d", None, 0.0, 1, 0)]
    given = OrderStep.of(SHAPE, ["x"]).apply(table(rows))
    assert [row[0] for row in values(given)] == ["b", "a", "c", "d"]


def test_passing_carries_a_column_through_every_step() -> None:
    first = Having.of(SHAPE, "x > 0")
    second = SelectStep.of(first.after, ["k"], {"y": "x + 1"})
    third = SelectStep.of(second.after, ["y"], {})
    steps = passing((first, second, third), SHAPE, "window_end")
    assert steps[-1].schema_out.names == ["y", "window_end"]
    given = apply_steps(steps, table([("a", 10, 1.0, 1, 0), ("b", 20, -1.0, 1, 0)]))
    assert values(given) == [(2.0, 10)]


@pytest.mark.parametrize(
    "step",
    [SelectStep.of(SHAPE, ["k"], {"y": "x + 1"}), Having.of(SHAPE, "x > 1"), OrderStep.of(SHAPE, ["x + 1 DESC"])],
    ids=["select", "having", "order"],
)
def test_pickled_steps_do_the_same(step: Step) -> None:
    rows = table([("a", 10, 1.0, 1, 0), ("b", 10, 2.0, 1, 0)])
    again = pickle.loads(pickle.dumps(step))
    assert again.apply(rows).equals(step.apply(rows))
    assert str(again) == str(step)
    # and no rows, or rows with columns that came later, are rows
    assert step.apply(rows.slice(0, 0)).schema == step.schema_out
    more = rows.append_column("window_from", pa.array([1, 2]))
    assert step.apply(more).select(step.schema_out.names).equals(step.apply(rows))


REFUSED: list[tuple[Any, type[Exception], str]] = [
    (lambda: SelectStep.of(SHAPE, [], {}), QueryError, "select.. needs at least one column"),
    (lambda: SelectStep.of(SHAPE, ["kk"], {}), QueryError, "select: there is no column 'kk'; did you mean 'k'"),
    (lambda: SelectStep.of(SHAPE, ["k"], {"k": "x"}), QueryError, "select: the column 'k' is given twice"),
    (lambda: SelectStep.of(SHAPE, ["k", "k"], {}), QueryError, "select: the column 'k' is given twice"),
    (lambda: SelectStep.of(SHAPE, [], {"y": "xx + 1"}), ExpressionError, "select: y='xx . 1': there is no column 'xx'"),
    (lambda: SelectStep.of(SHAPE, [], {"y": "sum(x)"}), ExpressionError, "sum is an aggregate"),
    (lambda: Having.of(SHAPE, "x + 1"), QueryError, "where.'x . 1'. must be a condition"),
    (lambda: Having.of(SHAPE, "y > 1"), ExpressionError, "where.'y > 1'.: there is no column 'y'"),
    (lambda: OrderStep.of(SHAPE, []), QueryError, "order_by.. needs at least one column"),
    (lambda: OrderStep.of(SHAPE, ["x sideways"]), ExpressionError, "'x sideways' can't be read"),
    (lambda: OrderStep.of(SHAPE, ["y"]), ExpressionError, "order_by.'y'.: there is no column 'y'"),
    (lambda: OrderStep.of(SHAPE, ["1"]), QueryError, "order_by.'1'. is the same for every result"),
    (lambda: OrderStep.of(SHAPE, [3]), ExpressionError, "must be SQL text; got 3"),
    (lambda: OrderStep.of(SelectStep.of(SHAPE, ["x"], {}).after, ["x"]), QueryError, "call order_by before select"),
    (
        lambda: OrderStep.of(SelectStep.of(SHAPE, ["x"], {"window_end": "revision"}).after, ["x"]),
        QueryError,
        "call order_by before select",
    ),
]


@pytest.mark.parametrize(("make", "error", "message"), REFUSED, ids=[m for *_, m in REFUSED])
def test_steps_that_cannot_be(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
