"""A loop has one source: what is compiled, bodies of parts in place of their calls included, does what Python does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import panes as pn
from panes.policies import loop
from panes.policies.built_in import BuiltInPolicies
from panes.policies.loop import one_source
from panes.units import TimeDomain


def _largest(values: Any, n: int, least: float) -> float:
    """Its `best` and `i` are not those of whoever calls."""
    best = least
    for i in range(n):
        best = max(best, values[i])
    return best


def _clear(values: Any, i: int) -> None:
    i = i % len(values)
    values[i] = 0.0


@one_source(inlined=(_largest, _clear))
def emptied(values: Any, rounds: int) -> float:
    total, best = 0.0, 0.0
    for i in range(rounds):
        best = _largest(values, len(values) - 1, -1.0)
        total += best * (i + 1)
        _clear(values, i)
        if _largest(values, 1, 5.0) > 5.0:  # not by itself on a line, so it is called
            total += 100.0
    return total


@pytest.mark.parametrize("rounds", [0, 1, 3, 9])
def test_both_forms_give_the_same(rounds: int) -> None:
    found = []
    for form in (emptied.plain, emptied.compiled):
        values = np.array([7.0, 3.0, 9.0, 50.0])
        found.append((form(values, rounds), values.tolist()))
    assert found[0] == found[1]


def test_arguments_that_the_part_assigns_stay_as_they_are() -> None:
    values = np.ones(2)
    assert emptied.compiled(values, 5) == emptied.plain(np.ones(2), 5)
    assert values.tolist() == [0.0, 0.0]


def test_few_rows_are_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    assert emptied.worth(loop.FEW) == emptied.plain
    assert emptied.worth(loop.FEW + 1) is emptied.compiled
    assert emptied.worth(3, few=2) is emptied.compiled
    monkeypatch.setattr(loop, "FEW", 0)
    assert emptied.worth(1) is emptied.compiled


def test_what_is_compiled_already_is_used_from_fewer_rows_on() -> None:
    @one_source()
    def unused(values: Any) -> None:
        values[0] = 1.0

    domain = TimeDomain("us", integer=True)
    running = BuiltInPolicies(pn.policy(trigger=pn.policies.delta(1, on="v")).bind(domain), reduces=True)
    assert emptied.compiled(np.ones(1), 0) == 0
    running.worked = running.few // 50
    assert running._form(emptied) == emptied.plain
    running.worked += 1
    assert running._form(emptied) is emptied.compiled
    assert running._form(unused) == unused.plain
    running.worked = running.few + 1
    assert running._form(unused) is unused.compiled


def test_plain_loops_work_on_numbers_of_python_and_write_to_the_arrays() -> None:
    seen = []

    @one_source()
    def filled(counts: Any, marks: Any) -> None:
        seen.extend((counts[0, 1], marks[0]))
        counts[0, 1] += 2
        marks[0] = True

    counts, marks = np.full((1, 2), 5), np.zeros(1, bool)
    filled.plain(counts, marks)
    assert [type(each) for each in seen] == [int, bool]
    assert (counts.tolist(), marks.tolist()) == ([[5, 7]], [True])


def test_what_is_no_number_is_no_warning() -> None:
    @one_source()
    def difference(values: Any) -> float:
        return values[0] - values[1]

    with np.errstate(all="raise"):
        assert np.isnan(difference.plain(np.array([np.inf, np.inf])))
