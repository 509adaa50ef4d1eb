"""`emit_empty`: windows without rows, from a key's first window on."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from panes.errors import DataError
from tests.oracle.windows import Row, due_windows
from tests.slicing.lane_programs import LaneRunner, Program


def all_windows(spec: tuple[Any, ...], lo: int, hi: int) -> list[tuple[int, int]]:
    """Windows of a periodic spec that end in (lo, hi]."""
    size, slide, offset = spec[1:]
    k = (lo - offset - size) // slide + 1
    found = []
    while k * slide + offset + size <= hi:
        found.append((k * slide + offset, k * slide + offset + size))
        k += 1
    return found


class Naive:
    """From scratch after every step: what is given, and with which revision."""

    def __init__(self, windows: dict[str, tuple[Any, ...]]) -> None:
        self.windows = windows
        self.rows: list[tuple[int, int, float]] = []  # key, time, and up to where windows were closed for good
        self.known: dict[tuple[Any, ...], tuple[int, int]] = {}

    def give(self, watermark: float) -> Counter[Any]:
        out: Counter[Any] = Counter()
        keys = {k for k, _, _ in self.rows}
        for label, spec in self.windows.items():
            finished = watermark == float("inf")
            held = {k: self.held(spec, k, watermark) for k in keys}
            last = max((end for h in held.values() for _, end in h), default=None)
            if last is None:
                continue
            for key, mine in held.items():
                if not mine:
                    continue
                first = min(end for _, end in mine)
                upto = max(last, self.watermark) if finished else watermark
                for window in all_windows(spec, first - 1, int(upto)):
                    count = mine.get(window, 0)
                    before = self.known.get((label, key, window))
                    if before is None or before[1] != count:
                        revision = 0 if before is None else before[0] + 1
                        self.known[label, key, window] = (revision, count)
                        out[(key, label, *window, revision, False, (count,))] += 1
        self.watermark = watermark
        return out

    watermark: float = -(10.0**15)

    def held(self, spec: tuple[Any, ...], key: int, watermark: float) -> dict[tuple[int, int], int]:
        rows = [Row(i, t, {}, after) for i, (k, t, after) in enumerate(self.rows) if k == key]
        return {b[:2]: len(r) for b, r in due_windows(spec, rows, watermark).items()}


@pytest.mark.parametrize("block", range(3))
def test_windows_without_rows_are_given_too(block: int) -> None:
    for seed in range(100 * block, 100 * block + 20):
        rng = random.Random(seed)
        windows: dict[str, tuple[Any, ...]] = {}
        for i in range(rng.randint(1, 2)):
            windows[f"w{i}"] = ("sliding", rng.randint(1, 9), rng.randint(1, 9), rng.randint(-3, 3))
        lateness = rng.choice([None, None, 15])
        runner = LaneRunner(Program(windows, [("count_rows",)], True, lateness), emit_empty=True)
        naive = Naive(windows)
        now = rng.randint(-20, 20)
        for step in range(8):
            now += rng.choice([1, 4, 30])
            rows = [(rng.randrange(3), now - rng.randint(0, 8), 1, 0) for _ in range(rng.randint(0, 5))]
            got, want = Counter(), Counter()
            for row in rows:
                got += Counter(runner.rows([row]))
                naive.rows.append((*row[:2], runner.watermark - (lateness or 0)))
                if row[1] < runner.watermark:
                    want += naive.give(runner.watermark)
            watermark = now - rng.randint(0, 10)
            got += Counter(runner.advance(watermark))
            if watermark >= naive.watermark:
                want += naive.give(watermark)
            assert got == want, (seed, step, got - want, want - got)
            if rng.random() < 0.2:
                runner.move(2)
        assert Counter(runner.finish()) == naive.give(float("inf")), seed


def test_a_watermark_far_ahead_is_refused() -> None:
    runner = LaneRunner(Program({"t": ("tumbling", 1)}, [("count_rows",)], True, None), emit_empty=True)
    runner.rows([(0, 5, 1, 0)])
    with pytest.raises(DataError, match="emit_empty=True would give"):
        runner.advance(10**12)
