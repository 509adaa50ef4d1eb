"""Codes of integers are the same whatever the layout of the table and wherever it changes."""

from __future__ import annotations

import numpy as np
import pytest

from panes.slicing.key_index import LARGE, IntIndex

KINDS = {
    "close": lambda rng, n: rng.integers(-500, 500, n),
    "close, then far": lambda rng, n: np.where(
        np.arange(n) < n // 2, rng.integers(0, 900, n), rng.integers(0, 2**30, n)
    ),
    "close, then wide": lambda rng, n: np.where(
        np.arange(n) < n // 2, rng.integers(0, 9, n), rng.integers(0, 2**60, n)
    ),
    "growing": lambda rng, n: np.arange(n) + rng.integers(0, 50, n),
    "at the ends": lambda rng, n: rng.choice(np.array([-(2**63), -(2**63) + 1, 0, 1, 2**63 - 2, 2**63 - 1]), n),
    "near the top": lambda rng, n: 2**63 - 1 - rng.integers(0, 900, n),
    "32 bits": lambda rng, n: rng.choice(np.array([-(2**31), 2**31 - 1, 2**31, -(2**31) - 1, -1]), n),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [LARGE, 3 * LARGE, 10 * LARGE])
def test_codes_are_those_of_a_dict(kind: str, batch: int) -> None:
    values = KINDS[kind](np.random.default_rng(batch), 30 * LARGE).astype(np.int64)
    index, known = IntIndex(), {}
    for at in range(0, len(values), batch):
        part = values[at : at + batch]
        expected = [known.setdefault(v, len(known)) for v in part.tolist()]
        assert index.codes(part).tolist() == expected
    assert index.names(np.arange(len(index))).tolist() == list(known)


def test_small_and_large_batches_share_codes() -> None:
    rng, index, known = np.random.default_rng(1), IntIndex(), {}
    for size in (3, LARGE, 100, 5 * LARGE, 7):
        part = rng.integers(0, 5000, size)
        expected = [known.setdefault(v, len(known)) for v in part.tolist()]
        assert index.codes(part).tolist() == expected
