"""SPEC G-13 on the example: count and delta windows process the same, for every size and slide."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "window_library.py"


@pytest.mark.parametrize("m", range(1, 7))
@pytest.mark.parametrize("n", range(1, 7))
def test_count_and_delta_process_the_same_windows(n: int, m: int) -> None:
    from examples.window_library import by_count, by_delta

    counted = by_count(n, m, 40)
    assert len(counted) >= 5
    assert by_delta(n, m, 41) == [(on + 1, window) for on, window in counted]


def test_the_example_prints_both() -> None:
    done = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, check=True, timeout=60)
    assert "(1, 2, 3) on 3 by count, (1, 2, 3) on 4 by delta" in done.stdout
