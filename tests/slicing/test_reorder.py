"""The reorder buffer: rows leave in order of (time, arrival), whatever runs they waited in."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from panes.aggregates.base import Column
from panes.slicing.lane import RowBatch
from panes.slicing.rows import reorder
from panes.slicing.rows.reorder import ReorderBuffer


def rows_of(times: np.ndarray, first_seq: int, *, numbered: bool = True) -> RowBatch:
    seq = np.arange(first_seq, first_seq + len(times))
    column = Column(seq * 10, None, pa.int64())
    in_order = bool((times[1:] >= times[:-1]).all())
    return RowBatch(None, times, seq if numbered else seq[:0], {"v": column}, in_order)


def disordered(rng: np.random.Generator, n: int, share: float, begin: int) -> np.ndarray:
    """Times that go up by about one in three rows, some of them put back: there are many ties."""
    times = begin + np.arange(n) // 3
    return np.where(rng.random(n) < share, times - rng.integers(0, 40, n), times)


@pytest.mark.parametrize("share", [0.0, 0.2, 0.9])
@pytest.mark.parametrize("size", [1, 7, 3000])
@pytest.mark.parametrize("numbered", [True, False])
def test_rows_leave_by_time_and_arrival(share: float, size: int, numbered: bool) -> None:
    rng = np.random.default_rng(size)
    buffer = ReorderBuffer()
    times = disordered(rng, 12 * size, share, 1000)
    left = []
    for at in range(0, len(times), size):
        buffer.add(rows_of(times[at : at + size], at, numbered=numbered))
        if at % (3 * size) == 0:
            released = buffer.release(int(times[at]) - 45)
            left += [] if released is None else [released]
    left.append(buffer.release(10**9))
    assert len(buffer) == 0
    order = np.argsort(times, kind="stable")
    assert np.concatenate([r.times for r in left]).tolist() == times[order].tolist()
    assert np.concatenate([r.columns["v"].values for r in left]).tolist() == (order * 10).tolist()
    assert np.concatenate([r.seq for r in left]).tolist() == (order.tolist() if numbered else [])
    assert all(r.in_order for r in left)


def test_rows_that_came_in_order_are_not_sorted_again() -> None:
    rng = np.random.default_rng(0)
    buffer = ReorderBuffer()
    times = disordered(rng, 5000, 0.2, 0)
    buffer.add(rows_of(times, 0))
    on_time, late = buffer.runs
    assert (np.diff(on_time.seq) > 0).all()
    assert len(on_time) + len(late) == 5000
    assert (np.diff(on_time.times) >= 0).all()
    assert (np.diff(late.times) >= 0).all()


def test_many_small_runs_become_few() -> None:
    rng = np.random.default_rng(1)
    buffer = ReorderBuffer()
    times = rng.integers(0, 50, 4000)
    for at in range(0, 4000, 4):
        buffer.add(rows_of(times[at : at + 4], at))
        assert len(buffer.runs) <= reorder._RUNS + 12  # each of those beyond is longer than all after it
    assert len(buffer) == 4000
    released = buffer.release(50)
    assert released is not None
    assert released.seq.tolist() == np.argsort(times, kind="stable").tolist()
