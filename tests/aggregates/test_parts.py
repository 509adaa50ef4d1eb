"""The pieces under the aggregates: segments, columns, the distinct sketch, names, and what gets imported."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from panes import aggregates as pn
from panes.aggregates.base import Inputs
from panes.aggregates.columns import arrow_from_values, column_from_arrow
from panes.aggregates.pairs import FUNCTIONS as PAIRS
from panes.aggregates.registry import by_name, entries, names
from panes.aggregates.segments import compress, segment_count, segment_reduce, sort_by_group
from panes.errors import DataError, ExpressionError
from panes.testing.aggregates import evaluate


def test_segment_reduce_gives_the_identity_for_empty_segments() -> None:
    values = np.array([1, 2, 3])
    assert segment_reduce(np.add, values, np.array([0, 0, 2, 2, 3, 3]), 0).tolist() == [0, 3, 0, 3, 0]
    assert segment_reduce(np.add, values, np.array([1, 2]), 0).tolist() == [2]
    assert segment_reduce(np.add, values[:0], np.array([0, 0]), 7).tolist() == [7]
    assert segment_reduce(np.add, values, np.array([0]), 0).tolist() == []


def test_compress_counts_from_the_first_segment_on() -> None:
    flags = np.array([True, True, False, True, True])
    index, offsets = compress(flags, np.array([1, 3, 4]))
    assert index.tolist() == [1, 3]
    assert offsets.tolist() == [0, 1, 2]


@pytest.mark.parametrize("segments", [3, 100])
def test_flags_are_counted_per_segment(segments: int) -> None:
    flags = np.random.default_rng(0).random(500) < 0.5
    offsets = np.linspace(0, 500, segments + 1).astype(np.int64)
    parts = [flags[a:b].sum() for a, b in zip(offsets[:-1], offsets[1:], strict=True)]  # noqa: RUF007
    assert segment_count(flags, offsets).tolist() == parts


@pytest.mark.parametrize("rows", [0, 10, 5000])
def test_sort_by_group_is_stable(rows: int) -> None:
    groups = np.random.default_rng(rows).integers(0, 5, rows)
    order, offsets = sort_by_group(groups, 7)
    assert order.tolist() == np.argsort(groups, kind="stable").tolist()
    assert offsets.tolist() == np.searchsorted(np.sort(groups), np.arange(8)).tolist()


ROUND_TRIPS = [
    pa.array([1, None, 3], pa.int8()),
    pa.array([1.5, None], pa.float32()),
    pa.array([1.5, None], pa.float16()),
    pa.array([True, None, False]),
    pa.array([dt.date(1969, 1, 1), None], pa.date32()),
    pa.array([dt.date(1969, 1, 1), None], pa.date64()),
    pa.array([dt.time(1, 2, 3), None], pa.time32("s")),
    pa.array([1, None], pa.timestamp("ns")),
    pa.array([1, None], pa.timestamp("ms", "Europe/Riga")),
    pa.array([5, None], pa.duration("us")),
    pa.array(["a", None, ""], pa.string()),
    pa.array(["a", None], pa.large_string()),
    pa.array([b"a", None], pa.binary()),
    pa.array([Decimal("1.20"), None], pa.decimal128(9, 2)),
    pa.array([[1, 2], None, []], pa.list_(pa.int64())),
    pa.array([{"a": 1}, None], pa.struct([("a", pa.int64())])),
    pa.array([2**64 - 1, None], pa.uint64()),
    pa.array([], pa.int64()),
    pa.array([], pa.string()),
]


@pytest.mark.parametrize("array", ROUND_TRIPS, ids=lambda a: f"{a.type}-{len(a)}")
def test_columns_come_back_as_they_were(array: pa.Array) -> None:
    column = column_from_arrow(array)
    assert arrow_from_values(column.values, column.valid, column.type).equals(array)
    part = array.slice(1)
    column = column_from_arrow(part)
    assert arrow_from_values(column.values, column.valid, column.type).equals(part)
    chunked = pa.chunked_array([array, array])
    assert len(column_from_arrow(chunked)) == 2 * len(array)


def test_numbers_without_nulls_are_not_copied() -> None:
    array = pa.array(np.arange(10.0))
    assert column_from_arrow(array).values.ctypes.data == array.buffers()[1].address
    assert column_from_arrow(array.slice(2)).values.ctypes.data == array.buffers()[1].address + 16


def test_dictionaries_are_decoded() -> None:
    column = column_from_arrow(pa.array(["a", "b", "a"]).dictionary_encode())
    assert column.type == pa.string()
    assert column.values.tolist() == ["a", "b", "a"]


def test_values_that_do_not_fit_are_refused() -> None:
    with pytest.raises(DataError, match="does not fit"):
        arrow_from_values(np.array([Decimal("123.45")], object), None, pa.decimal128(4, 2))


@pytest.mark.parametrize("distinct", [1, 100, 5_000, 200_000])
@pytest.mark.parametrize("error", [0.01, 0.05])
def test_sketch_is_within_its_error(distinct: int, error: float) -> None:
    values = pa.array(np.arange(distinct) * 7919)
    found = evaluate(pn.approx_count_distinct("x", relative_error=error), values)
    assert abs(found - distinct) <= 4 * error * distinct


def test_sketches_of_parts_are_the_sketch_of_the_whole() -> None:
    bound = pn.approx_count_distinct("x").bind([pa.string()])
    words = column_from_arrow(pa.array([f"w{i % 700}" for i in range(3000)]))
    order = np.arange(3000)
    rows = Inputs((words,), order, order, 3000)
    whole = bound.lift(rows, np.array([0, 3000]))
    parts = bound.lift(rows, np.linspace(0, 3000, 50).astype(np.int64))
    folded = bound.fold(parts, np.array([0, len(parts)]))
    assert folded.fields[0].values.tolist() == whole.fields[0].values.tolist()
    assert bound.lower(bound.merge(whole, parts.take(np.array([3])))).to_pylist() == bound.lower(whole).to_pylist()
    assert bound.lower(bound.empty(2)).to_pylist() == [0, 0]


def test_hashes_are_the_same_in_every_process() -> None:
    """Sketches travel between workers, so these numbers may never change."""
    from panes.aggregates.sketch import hash_values

    assert hash_values(np.array([0, 1, -1])).tolist() == [
        16294208416658607535,
        10451216379200822465,
        16490336266968443936,
    ]
    assert hash_values(np.array(["pane", b"pane"], object)).tolist() == [hash_values(np.array(["pane"], object))[0]] * 2


def test_every_name_makes_an_aggregate() -> None:
    extra = {
        "quantile": (0.5,),
        "percentile": (0.5,),
        "percentile_cont": (0.5,),
        "percentile_disc": (0.5,),
        "quantiles": ([0.5],),
    }
    extra |= {"percentile_approx": (0.5,), "approx_percentile": ([0.1, 0.9],)}
    extra |= dict.fromkeys(["min_by", "max_by", "arg_min", "arg_max", "argmin", "argmax"], ("y",))
    extra |= {"histogram_numeric": (5,), **dict.fromkeys(PAIRS, ("y",))}
    for name in names():
        aggregate = by_name(name.upper())("x", *extra.get(name, ()))
        assert aggregate.inputs[0] == "x"
    assert repr(by_name("approx_percentile")("x", [0.1, 0.9])) == "quantiles(x, ps=(0.1, 0.9), method='disc')"
    assert by_name("listagg")("x", ";") == pn.string_agg("x", separator=";")
    assert by_name("approx_count_distinct")("x", 0.05).relative_error == 0.05  # type: ignore[attr-defined]


def test_no_name_stands_for_two_aggregates() -> None:
    said = [name for entry in entries() for name in entry.names]
    assert len(said) == len(set(said))


def test_an_unknown_name_is_answered_with_a_near_one() -> None:
    with pytest.raises(ExpressionError, match="'medain'; did you mean median"):
        by_name("medain")


def test_small_inputs_do_not_load_numba() -> None:
    script = """
import sys
import numpy as np, pyarrow as pa
from panes import aggregates as pn
from panes.testing.aggregates import inputs_of
for a in (pn.sum("x"), pn.min("x"), pn.count("x"), pn.median("x"), pn.first("x"), pn.stddev("x")):
    b = a.bind([pa.float64()])
    rows = inputs_of([pa.array(np.arange(2000.0))])
    cells = b.lift_groups(rows, np.arange(2000) % 7, 7)
    b.lower_ranges(cells, None, np.array([0, 3, 7]))
    b.merge(cells, cells)
print("numba" in sys.modules, "hypothesis" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint8])
@pytest.mark.parametrize("ufunc", [np.maximum, np.minimum, np.fmin])
def test_many_short_segments_are_reduced_as_by_numpy(ufunc: np.ufunc, dtype: type) -> None:
    rng = np.random.default_rng(1)
    values = rng.integers(0, 100, 20_000).astype(dtype)
    if values.dtype.kind == "f":
        values[rng.random(len(values)) < 0.2] = np.nan
        values[40:60] = np.nan
    offsets = np.concatenate(([0], np.unique(rng.integers(1, 20_000, 4_000)), [20_000]))
    found = segment_reduce(ufunc, values, offsets, 0)
    assert found.dtype == values.dtype
    np.testing.assert_array_equal(found, [ufunc.reduce(values[a:b]) for a, b in pairwise(offsets.tolist())])
