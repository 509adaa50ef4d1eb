"""Single cases of the partial lane: worked examples, stores, jumps in time, values that are no numbers."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pyarrow as pa
import pytest

from panes import aggregates
from panes.aggregates.base import Column
from panes.slicing.lane import Agg, RowBatch, RunningWindow
from panes.slicing.partials import row_fold
from panes.slicing.partials.dense_store import DenseStore
from panes.slicing.partials.partial_lane import PartialLane
from panes.slicing.partials.slice_partials import SlicePartials
from panes.slicing.shares import Shares
from panes.windows.anchored import Cumulating, LandmarkWindows
from panes.windows.base import TIME, Bound
from panes.windows.periodic import Periodic
from panes.windows.session import SessionScan
from tests.slicing.lane_programs import LaneRunner, Program


def tumbling(size: int) -> Bound:
    return Periodic(TIME, size=size, slide=size)


def sliding(size: int, slide: int) -> Bound:
    return Periodic(TIME, size=size, slide=slide)


def lane_of(*windows: Bound, keyed: bool = False, store: str = "auto", agg: str = "sum") -> PartialLane:
    queries = [RunningWindow(f"w{i}", i, w) for i, w in enumerate(windows)]
    bound = getattr(aggregates, agg)("v").bind([pa.float64()])
    return PartialLane(queries, [Agg("a", ("v",), bound)], lateness=None, keyed=keyed, store=store)


def rows_of(times: object, values: object = None, slots: object = None) -> RowBatch:
    times = np.asarray(times, np.int64)
    values = np.ones(len(times)) if values is None else np.asarray(values, np.float64)
    in_order = bool(np.all(times[1:] >= times[:-1]))
    key = None if slots is None else np.asarray(slots, np.int64)
    return RowBatch(key, times, np.arange(len(times)), {"v": Column(values, None, pa.float64())}, in_order)


def runner_of(
    windows: dict[str, tuple[object, ...]], *, lateness: int | None = None, keyed: bool = False
) -> LaneRunner:
    return LaneRunner(Program(windows, [("sum", "v")], keyed, lateness))


def test_a_late_row_that_joins_two_sessions() -> None:
    """SPEC S-30: gap 10; 1, 5, 20, 25; the session given as [1, 15) is void once 12 has come."""
    runner = runner_of({"s": ("session", 10)}, lateness=100)
    runner.rows([(0, 1, 1, 0), (0, 5, 5, 0), (0, 20, 20, 0), (0, 25, 25, 0)])
    assert runner.advance(16) == [(None, "s", 1, 15, 0, False, (6,))]
    assert runner.rows([(0, 12, 12, 0)]) == [(None, "s", 1, 15, 1, True, (None,))]
    assert runner.advance(35) == []
    assert runner.advance(36) == [(None, "s", 1, 35, 0, False, (63,))]


def test_a_session_ends_one_tick_after_its_gap() -> None:
    runner = runner_of({"s": ("session", 10)})
    runner.rows([(0, 1, 1, 0)])
    assert runner.advance(11) == []
    runner.rows([(0, 11, 2, 0)])  # exactly gap after the last one: still joins
    assert runner.advance(21) == []
    assert runner.advance(22) == [(None, "s", 1, 21, 0, False, (3,))]


def test_late_rows_count_revisions_on() -> None:
    runner = runner_of({"t": ("tumbling", 10)}, lateness=20)
    runner.rows([(0, 1, 1, 0)])
    assert runner.advance(25) == [(None, "t", 0, 10, 0, False, (1,))]
    assert runner.rows([(0, 5, 2, 0)]) == [(None, "t", 0, 10, 1, False, (3,))]
    assert runner.rows([(0, 5, 4, 0)]) == [(None, "t", 0, 10, 2, False, (7,))]
    assert runner.rows([(0, 12, 1, 0)]) == [(None, "t", 10, 20, 0, False, (1,))]
    assert runner.rows([(0, 21, 1, 0)]) == []  # its window has not ended
    assert runner.rows([(0, 4, 1, 0)]) == [(None, "t", 0, 10, 3, False, (8,))]  # 10 + 20 is ahead of 25
    assert runner.advance(30) == [(None, "t", 20, 30, 0, False, (1,))]
    assert runner.rows([(0, 4, 1, 0)]) == []  # too late


def test_a_landmark_is_given_on_news_only() -> None:
    runner = runner_of({"l": ("landmark", 0, 10)}, lateness=100)
    runner.rows([(0, 1, 1, 0), (0, 25, 2, 0)])
    assert runner.advance(60) == [(None, "l", 0, 10, 0, False, (1,)), (None, "l", 0, 30, 0, False, (3,))]
    late = runner.rows([(0, 15, 4, 0)])
    assert sorted(late) == [(None, "l", 0, 20, 0, False, (5,)), (None, "l", 0, 30, 1, False, (7,))]


@pytest.mark.parametrize("keys", [1, 20, 100, 5000])
def test_lazy_and_eager_stores_give_the_same(keys: int) -> None:
    rng = np.random.default_rng(keys)
    given = []
    for store in ("lazy", "eager"):
        lane = lane_of(sliding(60, 1), tumbling(7), keyed=True, store=store)
        rng = np.random.default_rng(keys)
        found = []
        for i in range(40):
            times = 5 * i + rng.integers(0, 9, 300)
            lane.add(rows_of(times, rng.integers(0, 100, 300), rng.integers(0, keys, 300)))
            out = lane.advance(5 * i - 5).written()
            found += list(zip(out.query.tolist(), out.start.tolist(), out.slots.tolist(), out.values[0].to_pylist()))
        given.append(found)
        assert lane.metrics()["store"] == f"dense, {store}"
    assert given[0] == given[1]
    assert len(given[0]) > 200


def test_the_compiled_pass_over_very_many_keys_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    given = []
    for wide in (1, 10**9):
        monkeypatch.setattr(row_fold, "_WIDE", wide)
        rng = np.random.default_rng(0)
        lane = lane_of(sliding(12, 1), sliding(12, 1), tumbling(3), tumbling(4), sliding(5, 2), keyed=True)
        found = []
        for i in range(20):
            slots = rng.integers(0, 3000, 2500)
            lane.add(rows_of(np.sort(rng.integers(i, i + 3, 2500)), rng.integers(0, 99, 2500), slots))
            out = lane.advance(i).written()
            found += list(zip(out.query.tolist(), out.start.tolist(), out.slots.tolist(), out.values[0].to_pylist()))
        given.append(found)
    assert given[0] == given[1]
    assert len(given[0]) > 50_000


def test_auto_grows_a_tree_for_long_windows() -> None:
    lane = lane_of(sliding(100, 1), keyed=True)
    for i in range(150):
        lane.add(rows_of(np.full(500, i), slots=np.arange(500)))
        lane.advance(i)
    metrics = lane.metrics()
    assert metrics["store"] == "dense, eager"
    short = lane_of(sliding(4, 1), keyed=True)
    for i in range(20):
        short.add(rows_of(np.full(500, i), slots=np.arange(500)))
        short.advance(i)
    assert short.metrics()["store"] == "dense, lazy"


def test_mostly_empty_cells_move_to_the_sparse_store(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    dense, sparse = lane_of(sliding(50, 5), keyed=True), lane_of(sliding(50, 5), keyed=True)
    sparse.slices._checked = 1000
    dense.slices._checked = 10**12
    for i in range(30):
        batch = rows_of(5 * i + rng.integers(0, 5, 20), rng.integers(0, 9, 20), 100 * i + rng.integers(0, 20, 20))
        a, b = [], []
        for lane, found in ((dense, a), (sparse, b)):
            lane.add(batch)
            out = lane.advance(5 * i).written()
            found += list(zip(out.start.tolist(), out.slots.tolist(), out.values[0].to_pylist()))
        assert a == b
    assert isinstance(dense.slices.store, DenseStore)
    assert sparse.metrics()["store"] == "sparse, lazy"
    assert sparse.metrics()["bytes"] < dense.metrics()["bytes"] / 4
    assert sparse.metrics()["cells"] == dense.metrics()["cells"]


SECOND = 1_000_000
JUMPS = {
    "an hour apart": (np.arange(5000) * 3600 * SECOND, [sliding(60 * SECOND, SECOND), tumbling(SECOND)]),
    "short and long": (np.arange(20_000) * 3600 * SECOND, [tumbling(SECOND), tumbling(365 * 86400 * SECOND)]),
    "1970 and 2200": (np.array([0, 0, 7_258_118_400 * SECOND]), [tumbling(SECOND), sliding(9 * SECOND, SECOND)]),
    "before 1970": (
        np.array([-(10**18), -5, 10**18]),
        [tumbling(SECOND), Cumulating(TIME, step=SECOND, size=60 * SECOND)],
    ),
    "other kinds": (
        np.arange(300) * 3600 * SECOND,
        [Cumulating(TIME, step=SECOND, size=60 * SECOND), LandmarkWindows(TIME, start=10 * SECOND, every=SECOND)],
    ),
    "the ends of time": (np.array([-(2**62), 0, 2**62]), [tumbling(SECOND), SessionScan(TIME, gap=SECOND)]),
}  # fmt: skip


@pytest.mark.parametrize("case", JUMPS)
@pytest.mark.parametrize("shuffled", [False, True])
def test_jumps_in_time_cost_nothing(case: str, shuffled: bool) -> None:
    times, windows = JUMPS[case]
    if shuffled:
        times = np.random.default_rng(0).permutation(times)
    lane = lane_of(*windows)
    lane.add(rows_of(times))
    found = [
        lane.advance(int(times.max())).written(),
        lane.finish().written(),
    ]  # listing every edge on the way would not end
    total: dict[int, float] = {}
    for out in found:
        for query, value in zip(out.query.tolist(), out.values[0].to_pylist()):
            total[query] = total.get(query, 0) + value
    for i, window in enumerate(windows):
        if isinstance(window, Periodic):
            assert total[i] == len(times) * (window.size // window.slide)
        elif not isinstance(window, LandmarkWindows):
            assert total[i] >= len(times)


@pytest.mark.parametrize("store", ["lazy", "eager"])
def test_nan_and_infinities_stay_in_their_windows(store: str) -> None:
    lane = lane_of(sliding(4, 1), store=store)
    values = [1.0, np.nan, 2.0, np.inf, -np.inf, 3.0, 4.0, 5.0, *[1.0] * 30]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lane.add(rows_of(np.arange(len(values)), values))
        out = lane.advance(len(values)).written()
    for start, end, got in zip(out.start.tolist(), out.end.tolist(), out.values[0].to_pylist()):
        want = float(sum(values[max(start, 0) : end]))
        assert got == want or (got != got and want != want), (start, got, want)


def test_slices_are_joined_and_forgotten() -> None:
    """State is bounded by what windows can need, not by how long the stream runs."""
    lane = lane_of(LandmarkWindows(TIME, start=0, every=100), sliding(20, 5))
    most = 0
    for i in range(300):
        lane.add(rows_of(np.arange(i * 100, (i + 1) * 100)))
        out = lane.advance((i + 1) * 100).written()
        assert out.values[0].to_pylist()[out.query.tolist().index(0)] == (i + 1) * 100
        most = max(most, lane.metrics()["slices"])
    assert most < 140


def test_memory_does_not_depend_on_the_number_of_rows() -> None:
    sizes = []
    for per_tick in (1, 100):
        lane = lane_of(sliding(60, 1), tumbling(7))
        for i in range(200):
            lane.add(rows_of(np.full(per_tick, i)))
            lane.advance(i)
        sizes.append(lane.metrics()["bytes"])
    assert sizes[0] == sizes[1]


def test_many_queries_over_the_same_slices_are_answered_once() -> None:
    lane = lane_of(*[tumbling(10) for _ in range(200)])
    lane.add(rows_of(np.arange(100)))
    out = lane.advance(100)
    assert len(out) == 2000
    assert set(out.values[0].to_pylist()) == {10.0}
    assert lane.metrics()["combines"] < 100


def test_results_are_ordered_by_end() -> None:
    lane = lane_of(sliding(30, 10), tumbling(20), keyed=True)
    lane.add(rows_of(np.arange(100), slots=np.arange(100) % 3))
    out = lane.advance(100).written()
    order = list(zip(out.end.tolist(), out.query.tolist(), out.start.tolist(), out.slots.tolist()))
    assert order == sorted(order)


def test_empty_batches_and_windows_that_hold_nothing() -> None:
    lane = lane_of(tumbling(10), SessionScan(TIME, gap=3))
    lane.add(rows_of([]))
    assert len(lane.advance(100)) == 0
    assert len(lane.advance(50)) == 0  # a watermark never goes back
    assert len(lane.finish()) == 0
    assert lane.metrics()["slices"] == 0


def test_describe_says_where_slices_are_cut() -> None:
    lane = lane_of(sliding(10, 4))
    lane.add(rows_of([0, 1, 2, 5, 9]))
    assert lane.describe()["slice_starts"] == [0, 2, 4, 8]  # SPEC S-36: starts and ends
    assert lane.describe()["next_edge"] == 10


def test_a_side_without_windows_keeps_nothing() -> None:
    side = SlicePartials([], Shares([], []), keyed=False, store="auto", emit_empty=False)
    assert not side
    lane = lane_of(SessionScan(TIME, gap=3))
    lane.add(rows_of(np.arange(1000)))
    assert lane.metrics()["slices"] == 0
    assert lane.metrics()["store"] == "sessions only"


def test_small_batches_do_not_import_numba() -> None:
    code = (
        "import sys; from tests.slicing.test_partial_lane_cases import *\n"
        "lane = lane_of(sliding(60, 1), SessionScan(TIME, gap=3), keyed=True)\n"
        "for i in range(20):\n"
        "    lane.add(rows_of(100 * i + np.arange(1500) % 90, slots=np.arange(1500) % 70))\n"
        "    lane.advance(100 * i)\n"
        "print('numba' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "False"
