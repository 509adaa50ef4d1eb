"""Pictures: what is drawn of plain results, and that files come out whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import panes as pn
from panes.errors import QueryError
from panes.runners.local import plot_data
from panes.runners.local.plot import check_plot, plot
from panes.runners.local.plot_data import picture
from panes.runners.local.trace import Trace


def plan(windows: dict[str, Any], key: str | None = None, ts: str = "bigint", **outputs: str) -> Any:
    schema = {"ts": ts, "k": "string", "v": "double"}
    stream = pn.stream(None, schema=schema, time="ts", key=key, watermark=5 if ts == "bigint" else "5 s")
    return stream.window(**windows).agg(**(outputs or {"total": "sum(v)"}))._plan


def results(rows: list[tuple[Any, ...]], kind: pa.DataType | None = None, **more: list[Any]) -> pa.Table:
    """(label, start, end, total, revision)"""
    label, start, end, total, revision = zip(*rows, strict=True)
    times = {"window_start": start, "window_end": end}
    columns = {name: pa.array(values, pa.int64()) for name, values in times.items()}
    if kind is not None:
        columns = {name: values.cast(kind) for name, values in columns.items()}
    return pa.table({**more, "window": list(label), **columns, "total": list(total), "revision": list(revision)})


def traced(times: list[int], bound: int | None = 5, batches: int = 1) -> Trace:
    trace = Trace(bound)
    for part in np.array_split(np.array(times), batches):
        trace.see(part)
        trace.reached(trace.newest - 7)  # type: ignore[operator]
    return trace


TUMBLING = [("t", i, i + 10, float(i), 0) for i in range(0, 100, 10)]


def test_lanes_hold_the_last_revision_of_each_window() -> None:
    table = results([*TUMBLING, ("t", 50, 60, 7.0, 1), ("t", 50, 60, 8.0, 2)])
    (lane,) = picture(plan({"t": pn.tumbling(10)}), table, None, 0).lanes
    assert lane.windows == 10
    assert lane.values.tolist() == [0, 10, 20, 30, 40, 8, 60, 70, 80, 90]
    assert lane.corrected.sum() == 1


def test_void_windows_are_left_out() -> None:
    table = results(TUMBLING).append_column("void", pa.array([i == 3 for i in range(10)]))
    (lane,) = picture(plan({"t": pn.tumbling(10)}), table, None, 0).lanes
    assert 30 not in lane.start.tolist()


def test_overlapping_windows_are_stacked_and_limited() -> None:
    rows = [("s", i, i + 100, 1.0, 0) for i in range(0, 1000, 5)]
    drawn = picture(plan({"s": pn.sliding(100, every=5)}), results(rows), None, 0)
    (lane,) = drawn.lanes
    for level in range(lane.levels):
        same = np.flatnonzero(lane.level == level)
        assert (lane.end[same][:-1] <= lane.start[same][1:]).all()
    assert lane.level.max() < plot_data.MAX_LEVELS
    assert "drawn" in lane.note
    assert any("lie in the extract" in note for note in drawn.notes)


def test_the_extract_is_short_enough_to_tell_windows_apart_and_near_late_rows() -> None:
    times = [*range(9000), 20, *range(9000, 10_000)]
    trace = traced(times)
    rows = [("t", i, i + 10, 1.0, 0) for i in range(0, 10_000, 10)]
    drawn = picture(plan({"t": pn.tumbling(10)}), results(rows), trace, 1)
    low, high = drawn.extract
    assert high - low == 10 * plot_data.WINDOWS_IN_EXTRACT
    assert low <= 20 <= high
    assert drawn.slices.tolist() == list(range(0, high + 1, 10))


def test_too_many_labels() -> None:
    windows = {f"w{i}": pn.tumbling(10 + i) for i in range(40)}
    rows = [(f"w{i}", 0, 10 + i, 1.0, 0) for i in range(40)]
    drawn = picture(plan(windows), results(rows), None, 0)
    assert len(drawn.lanes) == plot_data.MAX_LANES
    assert any("of 40 windows drawn" in note for note in drawn.notes)


def test_one_key_is_drawn_and_named() -> None:
    rows = [("t", 0, 10, 1.0, 0), ("t", 0, 10, 2.0, 0), ("t", 10, 20, 3.0, 0)]
    drawn = picture(plan({"t": pn.tumbling(10)}, key="k"), results(rows, k=["a", None, None]), None, 0)
    assert drawn.lanes[0].values.tolist() == [2.0, 3.0]
    assert "k None (of 2 keys)" in drawn.title


def test_windows_without_end_or_without_time() -> None:
    rows = [("t", 0, 10, 1.0, 0), ("t", 10, None, 2.0, 0), ("r", None, None, 3.0, 0)]
    trace = traced([0, 25])
    drawn = picture(plan({"t": pn.tumbling(10), "r": pn.tumbling(pn.rows(2))}), results(rows), trace, 0)
    assert drawn.lanes[0].end.tolist() == [10, 25]
    assert drawn.lanes[1].note == "not on time"


def test_nothing_to_draw() -> None:
    with pytest.raises(QueryError, match="nothing to draw"):
        picture(plan({"t": pn.tumbling(10)}), results(TUMBLING).slice(0, 0), None, 0)


def test_outputs_that_are_no_numbers() -> None:
    table = results(TUMBLING).drop_columns("total").append_column("word", pa.array(["x"] * 10))
    drawn = picture(plan({"t": pn.tumbling(10)}, word="first(k)"), table, None, 0)
    assert drawn.output == ""
    assert any("no output is a number" in note for note in drawn.notes)


@pytest.mark.parametrize("batches", [1, 2, 5])
def test_traces_do_not_depend_on_batches(batches: int) -> None:
    rng = np.random.default_rng(7)
    times = (np.arange(20_000) - rng.integers(0, 9, 20_000)).tolist()
    one, many = traced(times), traced(times, batches=batches)
    late = sum(max(times[:i]) - 5 > times[i] for i in range(1, 500))
    assert traced(times[:500], batches=batches).late_rows == late > 0
    assert one.late_rows == many.late_rows
    assert one.sample()[0].tolist() == many.sample()[0].tolist()
    assert len(one.sample()[0]) <= 4000
    assert one.late()[1].min() > 5


def test_the_watermark_line() -> None:
    assert traced([1, 20]).lag()[1].tolist() == [5, 5]
    assert traced([1, 20, 30], None, batches=3).lag()[1].tolist() == [7, 7, 7]


@pytest.mark.parametrize("kind", [None, pa.timestamp("ms"), pa.timestamp("s", "UTC")], ids=str)
@pytest.mark.parametrize("traces", [True, False])
def test_files(tmp_path: Path, kind: pa.DataType | None, traces: bool) -> None:
    windows = {
        "t": pn.tumbling(10 if kind is None else "10 s"),
        "s": pn.session(3 if kind is None else "3 s"),
    }
    rows = [*TUMBLING, ("s", 3, 77, None, 0), ("s", 80, None, 2.0, 1)]
    factor = 1 if kind is None or kind.unit == "s" else 1000
    rows = [(a, b * factor, None if c is None else c * factor, d, e) for a, b, c, d, e in rows]
    built = plan(windows, ts="bigint" if kind is None else f"timestamp[{kind.unit}]")
    trace = traced([0, 50 * factor, 10 * factor, 99 * factor], bound=5 * factor) if traces else None
    for name, start in (("x.png", b"\x89PNG"), ("x.html", b"<!doctype html>")):
        path = tmp_path / name
        assert plot(built, results(rows, kind), trace, 1, path) is None
        content = path.read_bytes()
        assert content[:20].lower().startswith(start.lower())
        if name == "x.html":
            assert b'<script src="http' not in content
    figure = plot(built, results(rows, kind), trace, 1, None)
    assert len(figure.data) >= 4


def test_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(QueryError, match=r"\.png or \.html"):
        check_plot(tmp_path / "x.pdf")
    monkeypatch.setattr("panes.runners.local.plot.find_spec", lambda name: None)
    with pytest.raises(QueryError, match=r"needs matplotlib: pip install 'panes\[plot\]'"):
        check_plot("x.png")
    with pytest.raises(QueryError, match="needs plotly"):
        check_plot(None)
