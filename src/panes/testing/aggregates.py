"""Aggregates in tests: evaluated on plain Python lists, and their laws tried to be refuted, with Hypothesis.

Panes groups, reorders and takes out partials as the declared laws allow. A wrong declaration gives wrong
results silently, so a user-defined aggregate deserves one call of `check_laws` in its tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Aggregate, BoundAggregate, Cells, Inputs
from panes.aggregates.columns import column_from_arrow

if TYPE_CHECKING:
    from hypothesis.strategies import DataObject, SearchStrategy


def evaluate(
    aggregate: Aggregate, *columns: Sequence[Any] | pa.Array, types: Sequence[pa.DataType] | None = None
) -> Any:
    """The result of an aggregate over rows given as one list per argument, in event order.

    >>> import panes as pn
    >>> evaluate(pn.arg_max("name", "size"), ["a", "b"], [1, 2])
    'b'
    """
    arrays = arrow_columns(columns, types)
    bound = aggregate.bind([a.type for a in arrays])
    rows = inputs_of(arrays)
    return bound.lower(bound.lift(rows, np.array([0, rows.rows])))[0].as_py()


def arrow_columns(columns: Sequence[Sequence[Any] | pa.Array], types: Sequence[pa.DataType] | None) -> list[pa.Array]:
    """Arrow arrays of the given types, or of those that the values suggest (float64 if there are none)."""
    out = []
    for i, column in enumerate(columns):
        array = column if isinstance(column, pa.Array) else pa.array(column, types[i] if types else None)
        out.append(array.cast(pa.float64()) if pa.types.is_null(array.type) else array)
    return out


def inputs_of(arrays: Sequence[pa.Array], rows: int | None = None) -> Inputs:
    """Rows at times 0, 1, 2, ... with these argument columns; `rows` says how many where there are none."""
    n = len(arrays[0]) if arrays else (rows or 0)
    order = np.arange(n)
    return Inputs(tuple(column_from_arrow(a) for a in arrays), order, order, n)


def check_laws(
    aggregate: Aggregate,
    values: SearchStrategy[Any] | Iterable[Any],
    *,
    types: Sequence[pa.DataType] | None = None,
    max_examples: int = 200,
    tolerance: float = 1e-9,
) -> None:
    """Raise AssertionError with a counterexample if a declared law of `aggregate` does not hold.

    `values` is a Hypothesis strategy for the argument of one row (a tuple if there are several arguments), or
    examples of them. `types` are the Arrow types of the arguments, if the values don't tell. Results are
    compared as users see them, floats within `tolerance`.

    >>> import panes as pn
    >>> difference = pn.aggregate("x", lift=float, combine=lambda a, b: a - b, lower=float)
    >>> try:
    ...     check_laws(difference, [1.0, 2.0, 3.0])
    ... except AssertionError as error:
    ...     print(str(error).split(":")[0])
    aggregate(x) is not associative
    """
    try:
        from hypothesis import HealthCheck, given, settings
        from hypothesis import strategies as st
    except ImportError as error:
        raise ImportError("check_laws needs Hypothesis; install it with: pip install 'panes[testing]'") from error

    one_row = values if isinstance(values, st.SearchStrategy) else st.sampled_from(list(values))

    # Derandomized: a law that is refuted once is refuted in every run.
    @settings(
        max_examples=max_examples,
        deadline=None,
        database=None,
        derandomize=True,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(one_row, max_size=8), st.data())
    def no_counterexample(rows: list[Any], data: DataObject) -> None:
        _Trial(aggregate, rows, types, tolerance, data.draw).run()

    no_counterexample()


class _Trial:
    """All declared laws on one list of rows; `draw` makes the choices."""

    def __init__(
        self,
        aggregate: Aggregate,
        rows: list[Any],
        types: Sequence[pa.DataType] | None,
        tolerance: float,
        draw: Callable[..., Any],
    ) -> None:
        arity = len(aggregate.inputs)
        columns = [[r[i] for r in rows] for i in range(arity)] if arity > 1 else [rows] * arity
        arrays = arrow_columns(columns, types)
        self.aggregate = aggregate
        self.rows = rows
        self.bound: BoundAggregate = aggregate.bind([a.type for a in arrays])
        self.inputs: Inputs = inputs_of(arrays, len(rows))
        self.tolerance = tolerance
        self.draw = draw

    def run(self) -> None:
        laws = self.bound.laws
        n = self.inputs.rows
        singles = self.bound.lift(self.inputs, np.arange(n + 1))
        self._identity(singles)
        if laws.associative:
            self._associativity(singles)
        if laws.commutative:
            self._commutativity(singles)
        if laws.invertible:
            self._invertibility(singles)
        if laws.idempotent:
            self._idempotence(singles)

    def _identity(self, cells: Cells) -> None:
        none = self.bound.empty(len(cells))
        plain = self._result(cells)
        self._same("has no identity on the left", plain, self._result(self.bound.merge(none, cells)))
        self._same("has no identity on the right", plain, self._result(self.bound.merge(cells, none)))

    def _associativity(self, cells: Cells) -> None:
        n = len(cells)
        left_to_right = self._fold(cells)
        at_once = self.bound.lift(self.inputs, np.array([0, n]))
        self._same("lifts rows together to something else than one by one", left_to_right, self._result(at_once))
        bracketed, text = self._bracket(cells, 0, n)
        self._same(f"is not associative: grouped as {text}", left_to_right, self._result(bracketed))

    def _commutativity(self, cells: Cells) -> None:
        from hypothesis import strategies as st

        order = self.draw(st.permutations(range(len(cells))))
        shuffled = cells.take(np.array(order, np.int64))
        self._same(f"is not commutative: in the order {order}", self._fold(cells), self._fold(shuffled))

    def _idempotence(self, cells: Cells) -> None:
        n = len(cells)
        again = cells.take(np.repeat(np.arange(n), 2))
        self._same("is not idempotent: with every row twice", self._fold(cells), self._fold(again))

    def _invertibility(self, cells: Cells) -> None:
        from hypothesis import strategies as st

        n = len(cells)
        cut = self.draw(st.integers(0, n))
        bounds = np.array([0, cut, n])
        head, tail = (self.bound.fold(cells, bounds).take(np.array([i])) for i in (0, 1))
        again = self.bound.invert(self.bound.merge(head, tail), tail)
        self._same(f"is not invertible: taking out rows {cut}..{n - 1}", self._result(head), self._result(again))
        if self.bound.laws.commutative:
            again = self.bound.invert(self.bound.merge(head, tail), head)
            self._same(f"is not invertible: taking out rows 0..{cut - 1}", self._result(tail), self._result(again))

    def _bracket(self, cells: Cells, start: int, stop: int) -> tuple[Cells, str]:
        """Combine rows start..stop pairwise in a drawn grouping; also that grouping as text."""
        from hypothesis import strategies as st

        if stop - start == 0:
            return self.bound.empty(1), "()"
        if stop - start == 1:
            return cells.take(np.array([start])), str(start)
        cut = self.draw(st.integers(start + 1, stop - 1))
        left, left_text = self._bracket(cells, start, cut)
        right, right_text = self._bracket(cells, cut, stop)
        return self.bound.merge(left, right), f"({left_text} {right_text})"

    def _fold(self, cells: Cells) -> list[Any]:
        return self._result(self.bound.fold(cells, np.array([0, len(cells)])))

    def _result(self, cells: Cells) -> list[Any]:
        return self.bound.lower(cells).to_pylist()

    def _same(self, claim: str, expected: Any, found: Any) -> None:
        if not _close(expected, found, self.tolerance):
            raise AssertionError(
                f"{self.aggregate!r} {claim}: rows {self.rows!r} give {found!r} instead of {expected!r}"
            )


def _close(a: Any, b: Any, tolerance: float) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(_close(x, y, tolerance) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_close(a[k], b[k], tolerance) for k in a)
    return bool(a == b)
