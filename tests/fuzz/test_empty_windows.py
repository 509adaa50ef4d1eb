"""What `emit_empty` gives where rows are seen one by one, on programs so small that each says one thing."""

from __future__ import annotations

import pytest

from tests.fuzz.programs import Program
from tests.fuzz.run import failure
from tests.fuzz.specs import Spec


def program(window: Spec, *times: int) -> Program:
    """A query that sees rows one by one, because of its aggregate."""
    rows = [{"id": i, "ts": time} for i, time in enumerate(times)]
    steps = [("push", rows), ("finish",)]
    return Program(0, None, (), None, None, {"w": window}, (("collect_list", "id"),), {}, steps, emit_empty=True)


@pytest.mark.parametrize("window", [("landmark", 0, 5), ("alternating", 4, 6), ("cumulate", 2, 6)])
def test_only_periodic_windows_are_given_without_rows(window: Spec) -> None:
    assert failure(program(window, 9, 38)) is None


def test_windows_are_given_from_the_first_that_holds_a_row() -> None:
    assert failure(program(("sliding", 2, 3, 0), 2, 7)) is None


def test_windows_are_given_up_to_the_last_that_holds_a_row() -> None:
    assert failure(program(("sliding", 2, 3, 0), 0, 6, 11)) is None


def test_a_row_on_the_ledger_does_not_prolong_the_stream() -> None:
    rows = [{"id": 0, "ts": 3, "m": 1.0}, {"id": 1, "ts": 30, "m": None}]
    windows = {"w": ("tumbling", 5, 0), "c": ("column", "m", 2, 2)}
    steps = [("push", rows), ("finish",)]
    aggregates = (("count_rows",),)
    assert failure(Program(0, None, (), "manual", None, windows, aggregates, {"m": "double"}, steps, True)) is None


def test_a_late_row_may_begin_the_windows_of_its_key_earlier() -> None:
    rows = [{"id": 0, "ts": 20}, {"id": 1, "ts": 41}, {"id": 2, "ts": 31}, {"id": 3, "ts": 3}]
    steps = [("push", rows), ("snapshot",), ("push", [{"id": 4, "ts": 8}]), ("finish",)]
    windows = {"w": ("sliding", 2, 5, 0)}
    assert failure(Program(0, None, (), None, 100, windows, (("collect_list", "id"),), {}, steps, True)) is None
