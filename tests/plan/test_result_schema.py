"""The columns of results are known before any operator is made, and are those that it gives."""

from __future__ import annotations

import pytest

from panes.slicing.operator import SliceOperator
from tests.fuzz.engine import build_query
from tests.fuzz.programs import generate


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_the_schema_of_results_is_known_before_a_run(first: int) -> None:
    for seed in range(first, first + 50):
        plan = build_query(generate(seed))._plan
        assert plan.given.schema == SliceOperator(plan.operator_spec()).finish().table.schema, seed
