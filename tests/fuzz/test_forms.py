"""A short run of the fuzz of forms in the suite: programs of fixed seeds, and what the table must have."""

from __future__ import annotations

import time

import pytest

from panes.slicing.rows import key_borders
from panes.windows.normal_form import FORMS
from tests.fuzz.forms import FAMILIES, check_seed, generate, smaller
from tests.fuzz.seeds import SEEDS

SECONDS = 3.0


def test_every_line_of_the_table_is_fuzzed() -> None:
    assert {form.name for form in FORMS} == set(FAMILIES)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_window_gives_the_same_as_written_and_in_normal_form(seed: int) -> None:
    stop, done, reason = time.perf_counter() + SECONDS, 0, None
    while reason is None and (time.perf_counter() < stop or done < 20):
        reason = check_seed(seed + done)
        done += 1
    print(f"{done} programs from seed {seed}")
    if reason is not None:
        failing = seed + done - 1
        pytest.fail(f"seed {failing}: {reason}\n{smaller(generate(failing), SECONDS)}", pytrace=False)


def test_a_normal_form_that_is_not_equal_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = key_borders._least_position
    monkeypatch.setattr(key_borders, "_least_position", lambda number, window, keys: right(number, window, keys) + 1)
    assert any(check_seed(seed) is not None for seed in range(60))
