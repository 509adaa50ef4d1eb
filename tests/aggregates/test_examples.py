"""Worked examples of the specification, and the corners of SQL semantics that a random test seldom meets."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from panes import aggregates as pn
from panes.aggregates.base import Aggregate, Cells
from panes.aggregates.quantiles import ranks_of, share
from panes.aggregates.runs import Runs
from panes.errors import DataError, QueryError
from panes.testing.aggregates import evaluate, inputs_of

MOST = 2**63 - 1


def test_w02_average_is_a_pair_of_sum_and_count() -> None:
    bound = pn.avg("x").bind([pa.float64()])
    rows = inputs_of([pa.array([1.0, 2.0, 3.0, 4.0, 5.0])])
    cells = bound.lift(rows, np.arange(6))
    total = bound.empty(1)
    for i in range(5):
        total = bound.merge(total, cells.take(np.array([i])))
    assert [f.tolist() for f in total.fields] == [[15.0], [5]]
    assert bound.lower(total).to_pylist() == [3.0]


def test_s34_average_lifts_to_value_and_one() -> None:
    bound = pn.avg("x").bind([pa.float64()])
    cells = bound.lift(inputs_of([pa.array([7.0])]), np.array([0, 1]))
    assert [f.tolist() for f in cells.fields] == [[7.0], [1]]


def test_s32_an_integer_sum_gives_rows_back() -> None:
    bound = pn.sum("v").bind([pa.int64()])
    cells = bound.lift(inputs_of([pa.array([1, 2, 3, 9, 3])]), np.array([0, 3, 4, 5]))
    slice_1, late, moved = (cells.take(np.array([i])) for i in range(3))
    assert bound.lower(bound.invert(bound.merge(slice_1, late), moved)).to_pylist() == [12]


def test_s35_sorted_runs_with_repetitions() -> None:
    bound = pn.median("x").bind([pa.int64()])
    rows = inputs_of([pa.array([2, 1, 3, 2, 5, 2])])
    cells = bound.lift(rows, np.array([0, 4, 6]))
    whole = Runs.of(bound.fold(cells, np.array([0, 2])))
    assert whole.values.tolist() == [1, 2, 3, 5]
    assert whole.counts().tolist() == [1, 3, 1, 1]
    assert bound.lower_ranges(cells, None, np.array([0, 2])).to_pylist() == [2]


def test_m4_is_min_max_first_and_last() -> None:
    assert evaluate(pn.m4("v"), [5, 9, 2, 7]) == {"min": 2, "max": 9, "first": 5, "last": 7}


NAN = math.nan
EXAMPLES: list[tuple[Aggregate, list[list[object]], object]] = [
    (pn.min("x"), [[NAN, 1.0]], 1.0),
    (pn.max("x"), [[NAN, math.inf]], NAN),
    (pn.min("x"), [[NAN, None]], NAN),
    (pn.min_count("x"), [[NAN, NAN]], 2),
    (pn.max_count("x"), [[NAN, 1.0, NAN]], 2),
    (pn.max_count("x"), [[0.0, -0.0]], 2),
    (pn.min("x"), [[None, None]], None),
    (pn.sum("x"), [[NAN, 1.0]], NAN),
    (pn.sum("x"), [[math.inf, -math.inf]], NAN),
    (pn.avg("x"), [[math.inf, 1.0]], math.inf),
    (pn.median("x"), [[NAN, 1.0, NAN]], NAN),
    (pn.count_distinct("x"), [[0.0, -0.0, NAN, NAN, 1.0]], 3),
    (pn.approx_count_distinct("x"), [[0.0, -0.0, NAN, -NAN, 1.0]], 3),
    (pn.mode("x"), [[NAN, NAN, 1.0]], NAN),
    (pn.stddev("x"), [[4.0]], None),
    (pn.stddev("x", population=True), [[4.0]], 0.0),
    (pn.variance("x"), [[1e15, 1e15 + 2]], 2.0),
    (pn.variance("x"), [[1.0, math.inf]], NAN),
    (pn.geometric_mean("x"), [[1.0, -1.0]], NAN),
    (pn.geometric_mean("x"), [[0.0, 4.0]], 0.0),
    (pn.quantile("x", 0), [[3, 1, 2]], 1.0),
    (pn.median("x"), [[1, 2]], 1.5),
    (pn.quantile("x", 0.5, method="lower"), [[1, 2]], 1),
    (pn.quantile("x", 0.5, method="higher"), [[1, 2]], 2),
    (pn.quantile("x", 0.4, method="disc"), [["a", "b", "c"]], "b"),
    (pn.median("x"), [[-math.inf, 2.0]], NAN),
    (pn.median("x"), [[2.0, math.inf]], math.inf),
    (pn.corr("y", "x"), [[math.inf, 2.0], [1.0, 1.0]], None),
    (pn.median("x"), [[Decimal("1.10"), Decimal("1.20")]], 1.15),
    (pn.quantile("x", 1), [[3, 1, 2]], 3.0),
    (pn.count(), [], 0),
    (pn.collect_list("x"), [[None, None]], []),
    (pn.string_agg("x", separator=","), [["", None, "a"]], ",a"),
    (pn.string_agg("x"), [["b", None, "a"]], "ba"),
    (pn.arg_min("v", "k"), [["a", "b"], [1, 1]], "a"),
    (pn.arg_max("v", "k"), [["a", "b", "c"], [1, 2, 2]], "b"),
    (pn.arg_max("v", "k"), [[None, "b"], [2, 1]], None),
    (pn.arg_max("v", "k"), [["a", "b"], [None, 1]], "b"),
    (pn.arg_min("v", "k"), [["a", "b"], [NAN, 5.0]], "b"),
    (pn.range("x"), [[NAN, 1.0]], NAN),
    # 64-bit integers never pass through a float
    (pn.max("x"), [[MOST, MOST - 1]], MOST),
    (pn.quantile("x", 0.5, method="lower"), [[MOST, MOST - 1, MOST - 2]], MOST - 1),
    (pn.mode("x"), [[MOST, MOST - 1, MOST - 1]], MOST - 1),
    (pn.count_distinct("x"), [[MOST, MOST - 1, MOST - 1]], 2),
    (pn.last("x"), [[0, MOST - 1]], MOST - 1),
    (pn.sum("x"), [[MOST, 1, -1]], MOST),
    (pn.sum("x"), [[-MOST, -1, MOST, MOST]], MOST - 1),
    (pn.avg("x"), [[MOST, MOST, MOST - 2]], float(MOST)),
    (pn.sum("x"), [[Decimal("0.10"), Decimal("0.20")]], Decimal("0.30")),
    (pn.avg("x"), [[Decimal("0.10"), Decimal("0.20"), Decimal("0.20")]], Decimal("0.166667")),
]


@pytest.mark.parametrize(("aggregate", "columns", "wanted"), EXAMPLES, ids=lambda v: str(v)[:40])
def test_odd_values_give_what_is_written_down(
    aggregate: Aggregate, columns: list[list[object]], wanted: object
) -> None:
    found = evaluate(aggregate, *columns)
    if isinstance(wanted, float) and math.isnan(wanted):
        assert isinstance(found, float)
        assert math.isnan(found)
    else:
        assert found == wanted
        assert type(found) is type(wanted)


def test_integer_sum_beyond_int64_is_refused_by_name_and_only_as_a_result() -> None:
    bound = pn.sum("bytes").bind([pa.int64()])
    cells = bound.lift(inputs_of([pa.array([MOST, 1, -5])]), np.arange(4))
    pair = bound.fold(cells, np.array([0, 2, 3]))
    with pytest.raises(DataError, match=r"`bytes`.*cast\(bytes as decimal"):
        bound.lower(pair)
    assert bound.lower(bound.fold(pair, np.array([0, 2]))).to_pylist() == [MOST - 4]


def test_unsigned_sums_use_the_same_rule() -> None:
    assert evaluate(pn.sum("x"), pa.array([2**63 - 2, 1], pa.uint64())) == MOST
    with pytest.raises(DataError):
        evaluate(pn.sum("x"), pa.array([2**64 - 1], pa.uint64()))


def test_range_beyond_int64_is_refused() -> None:
    with pytest.raises(DataError, match="`x`"):
        evaluate(pn.range("x"), [MOST, -MOST])


def test_decimal_sum_beyond_38_digits_is_refused() -> None:
    with pytest.raises(DataError, match="decimal128"):
        evaluate(pn.sum("x"), pa.array([Decimal(10**38 - 1)] * 2, pa.decimal128(38, 0)))


REFUSED = [
    (pn.sum("flag"), [pa.bool_()], r"sum\(flag\).*cast\(flag as int\)"),
    (pn.sum("name"), [pa.string()], r"sum\(name\).*cast"),
    (pn.avg("t"), [pa.timestamp("us")], r"avg\(t\).*cast"),
    (pn.max("xs"), [pa.list_(pa.int64())], r"max\(xs\)"),
    (pn.mode("xs"), [pa.struct([("a", pa.int64())])], r"mode\(xs\)"),
    (pn.string_agg("n"), [pa.int64()], r"string_agg\(n\).*cast\(n as string\)"),
    (pn.range("s"), [pa.string()], r"range\(s\)"),
    (pn.sum("nothing"), [pa.null()], r"sum\(nothing\)"),
    (pn.arg_min("v", "k"), [pa.int64()], "2 arguments"),
    (pn.stddev("s"), [pa.string()], r"stddev\(s\)"),
    (pn.median("s"), [pa.string()], r"median\(s\).*quantile\(s, 0.5, method='disc'\)"),
]


@pytest.mark.parametrize(("aggregate", "types", "message"), REFUSED, ids=lambda v: str(v)[:30])
def test_types_that_make_no_sense_are_refused_when_bound(
    aggregate: Aggregate, types: list[pa.DataType], message: str
) -> None:
    with pytest.raises(QueryError, match=message):
        aggregate.bind(types)


@pytest.mark.parametrize("p", [-0.1, 1.5, math.nan, "0.5", True])
def test_quantile_outside_0_to_1_is_refused(p: object) -> None:
    with pytest.raises(QueryError, match="between 0 and 1"):
        pn.quantile("x", p)  # type: ignore[arg-type]


def test_other_bad_arguments_are_refused_at_once() -> None:
    with pytest.raises(QueryError, match=r"method = 'median' is not known; there are 'linear', 'lower'"):
        pn.quantile("x", 0.5, method="median")
    with pytest.raises(QueryError, match="at least one"):
        pn.quantiles("x", [])
    with pytest.raises(QueryError, match="relative_error"):
        pn.approx_count_distinct("x", relative_error=0)
    with pytest.raises(QueryError, match="expression"):
        pn.sum(3)  # type: ignore[arg-type]
    with pytest.raises(QueryError, match="expression"):
        pn.sum(" ")


def test_ranks_are_exact_for_the_number_that_was_written() -> None:
    n = np.array([0, 1, 100, 10**15])
    assert ranks_of("disc", share("q", 0.07), n).tolist() == [0, 1, 7, 7 * 10**13]
    assert ranks_of("disc", share("q", 0.1 + 0.2), n).tolist() == [0, 1, 31, 300000000000001]


def test_specs_are_values() -> None:
    assert pn.quantile("x", 0.9) == pn.quantile("x", 0.9)
    assert pn.quantile("x", 0.9) != pn.quantile("x", 0.8)
    assert len({pn.sum("x"), pn.sum("x"), pn.avg("x")}) == 2
    assert repr(pn.count()) == "count(*)"
    assert repr(pn.quantile("a - b", 0.9)) == "quantile(a - b, p=0.9)"
    assert repr(pn.stddev("x")) == "stddev(x)"


def test_only_exact_sums_declare_an_inverse() -> None:
    for type, exact in [
        (pa.int64(), True),
        (pa.int8(), True),
        (pa.decimal128(9, 2), True),
        (pa.float64(), False),
    ]:
        for aggregate in (pn.sum("x"), pn.avg("x")):
            assert aggregate.bind([type]).laws.invertible is exact


def test_float_sums_refuse_to_invert() -> None:
    bound = pn.sum("x").bind([pa.float64()])
    with pytest.raises(TypeError, match="not invertible"):
        bound.invert(bound.empty(1), bound.empty(1))


def test_cells_of_several_lifts_can_be_joined() -> None:
    bound = pn.median("x").bind([pa.int64()])
    parts = [bound.lift(inputs_of([pa.array(v)]), np.array([0, len(v)])) for v in ([3, 1], [2])]
    both = Cells.concat([bound.empty(1), *parts])
    assert bound.lower(both).to_pylist() == [None, 2.0, 2.0]
