"""Queries of the generator with EMIT EARLY: some run, and results that differ in the end are noticed."""

from __future__ import annotations

import pyarrow as pa
import pytest

from panes.cql.parse import Located
from panes.cql.session import Session
from tests.cql_fuzz import emitting, run

SEEDS = range(500_000, 500_240)


def test_some_queries_are_given_early_and_end_as_without(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[pa.Table | None] = []

    def noted(session: Session, located: Located) -> pa.Table | None:
        found.append(emitting.finals(session, located))
        return found[-1]

    monkeypatch.setattr(run, "finals", noted)
    assert [run.check_seed(seed) for seed in SEEDS] == [None] * len(SEEDS)
    assert sum(table is not None and table.num_rows > 0 for table in found) >= 2


def test_a_final_result_that_is_missing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_the_last(session: Session, located: Located) -> pa.Table | None:
        table = emitting.finals(session, located)
        return table if table is None else table.slice(0, max(table.num_rows - 1, 0))

    monkeypatch.setattr(run, "finals", without_the_last)
    wrong = [said for said in map(run.check_seed, SEEDS) if said is not None]
    assert len(wrong) >= 2
    assert all("with EMIT EARLY" in said for said in wrong)
