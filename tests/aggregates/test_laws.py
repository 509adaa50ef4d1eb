"""The declared laws of every built-in aggregate, tried on random rows by what users try their own with."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from panes.aggregates.distinct import Distinct
from panes.errors import QueryError
from panes.testing import check_laws
from tests.aggregates.cases import AGGREGATES

_NUMBERS = st.sampled_from([None, 1.0, 2.0, -0.5, 0.1, 1e6, -0.0, math.nan, math.inf, -math.inf])
VALUES = {
    "float": (_NUMBERS, pa.float64()),
    "integer": (st.none() | st.integers(-9, 9), pa.int64()),
    "text": (st.none() | st.sampled_from(["", "a", "b"]), pa.string()),
    "boolean": (st.none() | st.booleans(), pa.bool_()),
}


@pytest.mark.parametrize("name", AGGREGATES)
def test_declared_laws_are_not_refuted(name: str) -> None:
    aggregate, tried = AGGREGATES[name], 0
    for values, type in VALUES.values():
        types = [type, pa.float64()][: len(aggregate.inputs)]
        try:
            bound = aggregate.bind(types)
        except QueryError:
            continue
        assert (bound.laws.commutative, bound.laws.holistic) == (aggregate.laws.commutative, aggregate.laws.holistic)
        for law in ("invertible", "idempotent", "by_arrival"):  # what holds for all types holds for each
            assert getattr(bound.laws, law) or not getattr(aggregate.laws, law), law
        rows = values if len(types) == 1 else st.tuples(values, _NUMBERS)
        check_laws(aggregate, rows, types=types, max_examples=25, tolerance=1e-6)
        tried += 1
    assert tried


def test_a_law_that_is_declared_wrongly_is_refuted() -> None:
    from dataclasses import replace

    from panes.aggregates.base import Laws
    from panes.aggregates.totals import Sum

    class Once(Sum):
        def bind(self, types):  # type: ignore[no-untyped-def]
            bound = super().bind(types)
            bound.laws = replace(bound.laws, idempotent=True)
            return bound

    assert not Laws().idempotent
    with pytest.raises(AssertionError, match="is not idempotent: with every row twice"):
        check_laws(Once(("x",)), [1, 2])


def test_distinct_leaves_what_repetitions_do_not_change() -> None:
    from panes.aggregates import functions as pn
    from panes.aggregates.distinct import distinct

    assert distinct(pn.max("x")) == pn.max("x")
    assert isinstance(distinct(pn.avg("x")), Distinct)
