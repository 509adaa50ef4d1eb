"""Every aggregate on every type it takes: lift, fold, merge, groups, ranges against the reference."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from panes.aggregates.base import BoundAggregate, Cells, Ragged
from panes.aggregates.columns import arrow_field, cells_from_arrow, cells_to_arrow
from tests.aggregates.cases import AGGREGATES, MATRIX, Sample
from tests.aggregates.reference import alike, expected


def bound_of(name: str, sample: Sample) -> BoundAggregate:
    return AGGREGATES[name].bind(sample.types(name))


@cache
def cached_sample(type_name: str, seed: int, rows: int | None, shuffled: bool) -> Sample:
    return Sample(type_name, seed, rows=rows, shuffled=shuffled)


def sample_for(name: str, type_name: str, seed: int, rows: int | None = None) -> Sample:
    return cached_sample(type_name, seed, rows, AGGREGATES[name].laws.commutative)


def check(bound: BoundAggregate, cells: Cells, wanted: list[object]) -> None:
    found = bound.lower(cells)
    assert found.type == bound.out_type
    found.validate(full=True)
    assert alike(found.to_pylist(), wanted), (found.to_pylist(), wanted)


def dtypes(cells: Cells) -> list[object]:
    return [f.values.dtype if isinstance(f, Ragged) else f.dtype for f in cells.fields]


CHECKS: list[Callable[[str, Sample], None]] = []


def checked(function: Callable[[str, Sample], None]) -> Callable[[str, Sample], None]:
    CHECKS.append(function)
    return function


@checked
def lift(name: str, sample: Sample) -> None:
    bound = bound_of(name, sample)
    cells = bound.lift(sample.inputs(name), sample.offsets)
    assert len(cells) == len(sample.offsets) - 1
    assert dtypes(cells) == dtypes(bound.empty(2))
    check(bound, cells, [expected(name, rows) for rows in sample.segment_rows(name)])


@checked
def any_bracketing(name: str, sample: Sample) -> None:
    bound = bound_of(name, sample)
    cells = bound.lift(sample.inputs(name), sample.offsets)
    n = len(cells)
    whole = [expected(name, sample.rows(name, range(len(sample.values))))]
    check(bound, bound.fold(cells, np.array([0, n])), whole)
    r = random.Random(n)
    cut = sorted(r.randint(0, n) for _ in range(2))
    parts = bound.fold(cells, np.array([0, *cut, n]))
    assert dtypes(parts) == dtypes(cells)
    check(bound, bound.fold(parts, np.array([0, 3])), whole)
    # A fold that starts past the first cell
    check(
        bound,
        bound.fold(bound.fold(parts, np.array([1, 3])), np.array([0, 1])),
        [expected(name, sample.rows(name, range(sample.offsets[cut[0]], len(sample.values))))],
    )
    merged = bound.merge(parts.take(np.array([1])), parts.take(np.array([2])))
    assert dtypes(merged) == dtypes(cells)
    check(bound, bound.merge(parts.take(np.array([0])), merged), whole)


@checked
def merge_is_a_fold_of_two(name: str, sample: Sample) -> None:
    bound = bound_of(name, sample)
    cells = bound.lift(sample.inputs(name), sample.offsets)
    half = len(cells) // 2
    a, b = cells.take(np.arange(half)), cells.take(np.arange(half, 2 * half))
    folded = BoundAggregate.merge(bound, a, b)
    assert alike(bound.lower(bound.merge(a, b)).to_pylist(), bound.lower(folded).to_pylist())


@checked
def groups(name: str, sample: Sample) -> None:
    bound = bound_of(name, sample)
    n = 7
    ids = np.random.default_rng(0).integers(0, n - 1, len(sample.values))
    cells = bound.lift_groups(sample.inputs(name), ids, n)
    assert dtypes(cells) == dtypes(bound.empty(2))
    check(bound, cells, [expected(name, sample.rows(name, np.flatnonzero(ids == g))) for g in range(n)])


@checked
def ranges_of_cells(name: str, sample: Sample) -> None:
    bound = bound_of(name, sample)
    cells = bound.lift(sample.inputs(name), sample.offsets)
    n = len(cells)
    bounds = sample.offsets.tolist()
    r = random.Random(n)
    windows = [sorted((r.randint(0, n), r.randint(0, n))) for _ in range(4)]
    index = np.concatenate([np.arange(a, b) for a, b in windows])
    offsets = np.concatenate(([0], np.cumsum([b - a for a, b in windows])))
    found = bound.lower_ranges(cells, index, offsets).to_pylist()
    wanted = [expected(name, sample.rows(name, range(bounds[a], bounds[b]))) for a, b in windows]
    assert alike(found, wanted), (found, wanted)
    every = bound.lower_ranges(cells, None, np.array([0, n])).to_pylist()
    assert alike(every, [expected(name, sample.rows(name, range(len(sample.values))))])


@checked
def arrow_round_trip(name: str, sample: Sample) -> None:
    bound = bound_of(name, sample)
    cells = bound.lift(sample.inputs(name), sample.offsets)
    arrays = cells_to_arrow(bound, cells)
    assert {n: a.type for n, a in arrays.items()} == {f.name: arrow_field(f).type for f in bound.fields}
    again = cells_from_arrow(bound, arrays)
    assert dtypes(again) == dtypes(cells)
    assert alike(bound.lower(again).to_pylist(), bound.lower(cells).to_pylist())
    n = len(cells)
    folds = [bound.lower(bound.fold(c, np.array([0, n]))).to_pylist() for c in (cells, again)]
    assert alike(*folds)


@checked
def no_rows(name: str, sample: Sample) -> None:
    bound = bound_of(name, sample)
    check(bound, bound.empty(3), [expected(name, [])] * 3)
    assert len(bound.empty(0)) == 0
    check(bound, bound.empty(0), [])


@checked
def inverse(name: str, sample: Sample) -> None:
    bound = bound_of(name, sample)
    if not bound.laws.invertible:
        return
    cells = bound.lift(sample.inputs(name), sample.offsets)
    half = len(cells) // 2
    a, b = cells.take(np.arange(half)), cells.take(np.arange(half, 2 * half))
    again = bound.invert(bound.merge(a, b), b)
    assert dtypes(again) == dtypes(cells)
    assert bound.lower(again) == bound.lower(a)


@pytest.mark.parametrize(("name", "type_name"), MATRIX)
def test_every_way_to_combine_partials_agrees_with_the_reference(name: str, type_name: str) -> None:
    for seed in range(4):
        for function in CHECKS:
            function(name, sample_for(name, type_name, seed))


COMPILED = ("int64", "wide int64", "float64 with NaN")


@pytest.mark.parametrize(("name", "type_name"), [c for c in MATRIX if c[1] in COMPILED])
def test_compiled_loops_agree_with_the_reference(name: str, type_name: str) -> None:
    """Beyond the size from which compiled loops take over."""
    for function in (lift, any_bracketing, groups, ranges_of_cells):
        function(name, sample_for(name, type_name, 1, rows=5000))
