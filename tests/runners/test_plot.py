"""Pictures: what is drawn of plain results, and that files come out whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest

import panes as pn
from panes.errors import QueryError
from panes.runners.local import plot_data, plot_figure
from panes.runners.local.plot import check_plot, plot
from panes.runners.local.plot_data import picture
from panes.runners.local.trace import DELAY, Trace


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


def traced(times: list[int], bound: int | None = 5, batches: int = 1, **columns: list[Any]) -> Trace:
    trace = Trace(bound, list(columns))
    for part in np.array_split(np.arange(len(times)), batches):
        trace.see(pa.table({"ts": times, **columns}).take(part), "ts")
        trace.reached(trace.newest - 7)  # type: ignore[operator]
    return trace


TUMBLING = [("t", i, i + 10, float(i), 0) for i in range(0, 100, 10)]


def drawn(windows: dict[str, Any], table: pa.Table, trace: Trace | None = None, late: int = 0, **options: Any) -> Any:
    return picture(plan(windows, **options), table, trace, late)


def test_panels_hold_the_last_revision_of_each_window() -> None:
    table = results([*TUMBLING, ("t", 50, 60, 7.0, 1), ("t", 50, 60, 8.0, 2)])
    (panel,) = drawn({"t": pn.tumbling(10)}, table).panels
    assert panel.windows == 10
    assert panel.values.tolist() == [0, 10, 20, 30, 40, 8, 60, 70, 80, 90]
    assert panel.corrected.tolist() == [i == 5 for i in range(10)]


def test_withdrawn_sessions_are_not_drawn() -> None:
    rows = [("s", 1, 4, 1.0, 0), ("s", 5, 8, 2.0, 0), ("s", 1, 4, None, 1), ("s", 5, 8, None, 1), ("s", 1, 8, 9.0, 0)]
    table = results(rows).append_column("void", pa.array([False, False, True, True, False]))
    shown = drawn({"s": pn.session(3)}, table)
    (panel,) = shown.panels
    assert list(zip(panel.start.tolist(), panel.end.tolist(), panel.values.tolist())) == [(1, 8, 9.0)]
    assert panel.windows == 1
    assert "2 windows withdrawn" in shown.facts
    assert not any("correction" in fact for fact in shown.facts)


def test_withdrawn_sessions_of_a_run_are_not_drawn() -> None:
    rows = [{"ts": t, "v": 1.0} for t in (1, 5, 20, 3, 40)]
    stream = pn.stream(rows, time="ts", watermark=2, lateness=100)
    query = stream.window(s=pn.session(3)).agg(n="count(*)")
    # 1, 3 and 5 are one session now
    assert said(query.plot()) == ["s [1, 8)\nn 3", "s [20, 23)\nn 1", "s [40, 43)\nn 1"]


def test_row_windows_are_drawn_over_row_numbers() -> None:
    rows = [{"ts": t, "v": float(t)} for t in range(10)]
    query = pn.stream(rows, time="ts").window(r=pn.tumbling(pn.rows(3)), t=pn.tumbling(5)).agg(x="avg(v)")
    run = query._start(None, trace=True)
    shown = picture(query._plan, run.table(), run.trace, 0)
    on_time, on_rows = shown.panels
    assert (on_time.label, on_time.on, on_rows.label, on_rows.on) == ("t", "time", "r", "row")
    assert on_rows.start.tolist() == [0, 3, 6]
    assert on_rows.end.tolist() == [3, 6, 9]
    assert on_rows.values.tolist() == [1, 4, 7]
    assert on_rows.rows.values.tolist() == [float(t) for t in range(10)]
    assert shown.ranges["row"] == (0, 9)


def test_windows_on_a_column_are_drawn_over_it() -> None:
    rows = [{"ts": t, "km": 2 * t, "v": float(t)} for t in range(10)]
    query = pn.stream(rows, time="ts").window(w=pn.tumbling(5, on="km")).agg(x="sum(v)")
    run = query._start(None, trace=True)
    (panel,) = [p for p in picture(query._plan, run.table(), run.trace, 0).panels if p.windows]
    assert panel.on == "km"
    assert panel.end.tolist()[:3] == [5, 10, 15]


def test_rows_in_order_leave_no_panel_of_delays() -> None:
    table = results(TUMBLING)
    shown = drawn({"t": pn.tumbling(10)}, table, traced(list(range(100))))
    assert shown.delays is None
    assert len(plot_figure.figure(shown).axes) == 1
    late = drawn({"t": pn.tumbling(10)}, table, traced([*range(100), 50]))
    assert late.delays is not None
    assert late.delays.late.at.tolist() == [50]
    assert len(plot_figure.figure(late).axes) == 2


def test_the_axis_begins_with_the_first_row_and_ends_with_the_last() -> None:
    day = 86_400
    rows = [("d", 0, day, 1.0, 0), ("d", day, 2 * day, 2.0, 0)]
    shown = drawn({"d": pn.tumbling(day)}, results(rows), traced([day // 2, day + 5, day + day // 2]))
    assert shown.ranges["time"] == (day // 2, day + day // 2)
    (panel,) = shown.panels
    assert panel.start.tolist() == [day // 2, day]
    assert panel.end.tolist() == [day, day + day // 2]
    (axes,) = plot_figure.figure(shown).axes
    assert axes.get_xlim() == (day // 2, day + day // 2)


@pytest.mark.parametrize("window", [pn.tumbling("1 min"), pn.session("1 min"), pn.sliding("1 min", every="20 s")])
@pytest.mark.parametrize("rows", [1, 3])
def test_rows_of_one_time_lie_inside_of_the_panel(window: Any, rows: int) -> None:
    minute, at = 60_000_000, 1_700_000_007_000_000
    data = pa.table({"ts": pa.array([at] * rows, pa.timestamp("us")), "v": [2.0] * rows})
    query = pn.stream(data, time="ts").window(w=window).agg(x="avg(v)")
    run = query._start(None, trace=True)
    shown = picture(query._plan, run.table(), run.trace, 0)
    low, high = shown.ranges["time"]
    assert low == at - minute // 2
    assert at + minute // 2 <= high <= at + minute
    (panel,) = shown.panels
    assert panel.rows.at.tolist() == [at] * rows
    assert (panel.end > low).all()
    if panel.spans:
        assert (panel.end - panel.start >= minute // 2).all()
    (axes,) = plot_figure.figure(shown).axes
    assert axes.get_xlim()[1] - axes.get_xlim()[0] == pytest.approx((high - low) / 86_400e6)


@pytest.mark.filterwarnings("error")
def test_results_that_are_all_zero_have_a_height() -> None:
    shown = drawn({"t": pn.tumbling(10)}, results([("t", 0, 10, 0.0, 0)]), traced([3]))
    assert shown.panels[0].y == (0, 1)
    assert plot_figure.figure(shown).axes[0].get_ylim() == (0, 1)


def test_the_axis_reaches_the_end_of_a_session_that_begins_with_the_last_row() -> None:
    rows = [("s", 0, 25, 1.0, 0), ("s", 100, 110, 2.0, 0)]
    shown = drawn({"s": pn.session(10)}, results(rows), traced([0, 15, 100]))
    assert shown.ranges["time"] == (0, 110)
    assert list(zip(shown.panels[0].start.tolist(), shown.panels[0].end.tolist())) == [(0, 25), (100, 110)]


def test_a_long_window_that_begins_with_the_last_row_takes_half_of_the_axis_at_most() -> None:
    rows = [("d", 0, 1000, 1.0, 0), ("d", 1000, 2000, 2.0, 0)]
    shown = drawn({"d": pn.tumbling(1000)}, results(rows), traced([900, 950, 1000]))
    assert shown.ranges["time"] == (900, 1100)
    assert shown.panels[0].end.tolist() == [1000, 1100]


def test_without_rows_the_axis_begins_a_step_before_the_first_result() -> None:
    rows = [("s", i, i + 1000, 1.0, 0) for i in range(0, 500, 10)]
    shown = drawn({"s": pn.sliding(1000, every=10)}, results(rows))
    assert shown.ranges["time"] == (990, 1490)


def test_a_line_ends_with_the_last_whole_window() -> None:
    """Windows that end after the last row are given at the end of the stream, all at once."""
    rows = [("s", i, i + 100, float(i), 0) for i in range(0, 1000, 50)]
    shown = drawn({"s": pn.sliding(100, every=50)}, results(rows), traced(list(range(1000))))
    (panel,) = shown.panels
    assert not panel.spans
    assert panel.end.max() <= 999
    assert len(set(panel.end.tolist())) == len(panel.end)


def test_lines_break_where_windows_are_missing() -> None:
    ends = [*range(100, 1000, 50), *range(3000, 4000, 50)]
    rows = [("s", e - 100, e, 1.0, 0) for e in ends]
    shown = drawn({"s": pn.sliding(100, every=50)}, results(rows))
    at, heights = shown.panels[0].line
    assert len(at) == len(ends) + 1
    assert at[np.isnan(heights)].tolist() == [3000]
    assert len(said(plot_figure.figure(shown))) == len(ends)


def test_few_rows_of_the_same_scale_lie_behind_results() -> None:
    times, values = list(range(100)), [float(i % 10) for i in range(100)]
    rows = [("t", i, i + 10, 4.5, 0) for i in range(0, 100, 10)]
    means = drawn({"t": pn.tumbling(10)}, results(rows), traced(times, v=values), total="avg(v)")
    assert means.panels[0].rows.values.tolist() == values
    rows = [("t", i, i + 10, 45.0, 0) for i in range(0, 100, 10)]
    sums = drawn({"t": pn.tumbling(10)}, results(rows), traced(times, v=values))
    assert [panel.label for panel in sums.panels] == ["v", "t"]  # sums hide what they are made of: rows have a panel
    assert sums.panels[0].rows.values.tolist() == values
    assert not len(sums.panels[1].rows.at)


def test_many_rows_are_not_drawn() -> None:
    n = plot_data.MAX_ROWS + 1
    rows = [("t", i, i + 10, 1.0, 0) for i in range(0, n, 10)]
    shown = drawn({"t": pn.tumbling(10)}, results(rows), traced(list(range(n)), v=[1.0] * n), total="avg(v)")
    assert not len(shown.panels[0].rows.at)


def test_rows_that_the_stream_leaves_out_are_not_drawn() -> None:
    rows = [{"ts": t, "v": float(t)} for t in range(10)]
    stream = pn.stream(rows, time="ts").where("v < 5")
    query = stream.window(t=pn.tumbling(5)).agg(x="avg(v)")
    assert "rows" not in {text.get_text() for text in query.plot().legends[0].get_texts()}


def test_late_rows_are_marked_in_every_panel_at_their_time() -> None:
    rows = [*TUMBLING, ("s", 0, 100, 3.0, 0)]
    times, values = [*range(100), 20], [3.0] * 100 + [7.0]
    windows = {"t": pn.tumbling(10), "s": pn.tumbling(100)}
    shown = drawn(windows, results(rows), traced(times, v=values), total="avg(v)")
    by_label = {panel.label: panel for panel in shown.panels}
    assert by_label["s"].late.at.tolist() == [20]
    assert by_label["s"].late.values.tolist() == [7.0]  # where the value is on the scale
    assert by_label["t"].late.at.tolist() == [20]
    assert by_label["t"].late.values.tolist() == [by_label["t"].y[0]]  # at the bottom where it is not
    assert "101 rows, 1 of them late" in shown.facts
    sums = drawn({"s": pn.tumbling(100)}, results([("s", 0, 100, 300.0, 0)]), traced(times, v=values))
    assert [(p.label, p.late.values.tolist()) for p in sums.panels] == [("v", [7.0]), ("s", [sums.panels[1].y[0]])]


def test_rows_and_late_rows_are_those_of_the_key_that_is_drawn() -> None:
    rows = [("t", 0, 10, 1.0, 0), ("t", 0, 10, 2.0, 0), ("t", 10, 20, 2.0, 0)]
    trace = traced([1, 2, 19, 11, 3, 4], k=["a", "b", "b", "b", "a", "b"], v=[1.0, 2.0, 2.0, 2.0, 9.0, 2.5])
    shown = drawn({"t": pn.tumbling(10)}, results(rows, k=["a", "b", "b"]), trace, key="k", total="avg(v)")
    (panel,) = shown.panels
    assert panel.rows.values.tolist() == [2.0, 2.0, 2.0, 2.5]
    assert panel.late.at.tolist() == [11, 4]
    assert shown.facts[0] == "k b, one of 2 keys"


def test_one_key_is_drawn_and_named() -> None:
    rows = [("t", 0, 10, 1.0, 0), ("t", 0, 10, 2.0, 0), ("t", 10, 20, 3.0, 0)]
    shown = drawn({"t": pn.tumbling(10)}, results(rows, k=["a", None, None]), key="k")
    assert shown.panels[0].values.tolist() == [2.0, 3.0]
    assert "k None, one of 2 keys" in shown.facts


def test_each_output_of_one_window_has_a_panel() -> None:
    table = results(TUMBLING).append_column("n", pa.array(range(10)))
    shown = drawn({"t": pn.tumbling(10)}, table, total="sum(v)", n="count(*)")
    assert [panel.output for panel in shown.panels] == ["total", "n"]
    assert shown.title == "total = sum(v), n = count(*) over tumbling(10)"


def test_twenty_windows_stand_in_two_columns_and_share_their_axes() -> None:
    windows = {f"w{i}": pn.tumbling(10 + i) for i in range(20)}
    rows = [(f"w{i}", 0, 10 + i, 1.0, 0) for i in range(20)]
    shown = drawn(windows, results(rows), traced(list(range(30))))
    axes = plot_figure.figure(shown).axes
    assert len({round(a.get_position().x0, 6) for a in axes}) == 2
    assert {a.get_xlim() for a in axes} == {(0, 29)}
    lowest = min(a.get_position().y0 for a in axes)
    labelled = [a.get_position().y0 for a in axes if a.xaxis.get_tick_params()["labelbottom"]]
    assert labelled == [lowest, lowest]


def test_every_kind_of_axis_has_its_numbers() -> None:
    rows = [*TUMBLING, ("r", None, None, 3.0, 0)]
    table = results(rows).append_column("window_from", pa.array([None] * 10 + [0]))
    table = table.append_column("window_to", pa.array([None] * 10 + [3]))
    shown = drawn({"t": pn.tumbling(10), "r": pn.tumbling(pn.rows(3))}, table, traced([*range(100), 50]))
    figure = plot_figure.figure(shown)
    figure.canvas.draw()
    panel, delays, row_windows = figure.axes
    assert [a.xaxis.get_tick_params()["labelbottom"] for a in (panel, delays, row_windows)] == [False, True, True]
    assert row_windows.get_xlabel() == "number of the row"
    assert row_windows.get_xlim() == (0, 3)


def test_a_picture_says_how_many_windows_it_leaves_out() -> None:
    windows = {f"w{i}": pn.tumbling(10 + i) for i in range(40)}
    rows = [(f"w{i}", 0, 10 + i, 1.0, 0) for i in range(40)]
    shown = drawn(windows, results(rows))
    assert len(shown.panels) == plot_data.MAX_PANELS
    assert "24 of 40 windows drawn" in shown.facts


def test_long_titles_are_wrapped_and_fit() -> None:
    outputs = {f"total_of_a_long_name_{i}": "sum(v)" for i in range(6)}
    table = results(TUMBLING).drop_columns("total")
    for name in outputs:
        table = table.append_column(name, pa.array([1.0] * 10))
    shown = drawn({"t": pn.tumbling(10)}, table, **outputs)
    figure = plot_figure.figure(shown)
    figure.canvas.draw()
    width, height = figure.canvas.get_width_height()
    lines = [text for text in figure.texts if text.get_fontweight() == "bold"]
    assert len(lines) > 1
    for text in lines:
        box = text.get_window_extent()
        assert box.x0 >= 0
        assert box.x1 <= width
        assert box.y1 <= height
    legend = figure.legends[0].get_window_extent()
    assert legend.y1 < min(text.get_window_extent().y0 for text in lines)


def test_no_text_of_an_axis_hides_the_name_of_a_panel() -> None:
    """The factor of large numbers stood there."""
    rows = [("t", i, i + 10, 1e6 + i, 0) for i in range(0, 100, 10)]
    figure = plot_figure.figure(drawn({"t": pn.tumbling(10)}, results(rows)))
    figure.canvas.draw()
    (axes,) = figure.axes
    assert axes.yaxis.get_offset_text().get_text() == ""
    assert any("M" in label.get_text() for label in axes.get_yticklabels())


def test_windows_that_are_open_are_drawn_up_to_the_newest_row() -> None:
    rows = [("t", 0, 10, 1.0, 0), ("t", 10, None, 2.0, 0)]
    shown = drawn({"t": pn.tumbling(10)}, results(rows), traced([0, 25]))
    assert shown.panels[0].start.tolist() == [0, 10]
    assert shown.panels[0].end.tolist() == [10, 25]


def test_a_run_without_windows_is_not_drawn() -> None:
    with pytest.raises(QueryError, match="nothing to draw"):
        drawn({"t": pn.tumbling(10)}, results(TUMBLING).slice(0, 0))


def test_a_run_without_results_says_so() -> None:
    query = pn.stream([], schema={"ts": "bigint", "v": "double"}, time="ts").window(t=pn.tumbling(5)).agg(x="avg(v)")
    with pytest.raises(QueryError, match="nothing to draw"):
        query.plot()


def said(figure: Any) -> list[str]:
    """What each window of the first panel says when the pointer is on it."""
    return next(spots.said for spots in figure.spots if spots.said and "[" in spots.said[0])


def words(figure: Any) -> str:
    return " ".join(text.get_text() for text in figure.texts)


def heights(figure: Any) -> set[float]:
    return {float(text.split()[-1]) for text in said(figure)}


def test_results_that_where_leaves_out_are_not_drawn() -> None:
    rows = [{"ts": t, "v": float(t)} for t in range(100)]
    query = pn.stream(rows, time="ts").window(t=pn.tumbling(10)).agg(x="avg(v)")
    assert {4.5, 54.5, 94.5} <= heights(query.plot())
    some = query.where("x > 50").order_by("x")
    assert heights(some.plot()) == {54.5, 64.5, 74.5, 84.5, 94.5}
    assert "only where x > 50" in words(some.plot())


def test_a_correction_that_where_leaves_out_takes_its_window_out_of_the_picture() -> None:
    rows = [{"ts": t, "v": v} for t, v in ((1, 9.0), (11, 9.0), (25, 9.0), (2, -9.0), (40, 9.0))]
    stream = pn.stream(rows, time="ts", watermark=2, lateness=100)
    query = stream.window(t=pn.tumbling(10)).agg(x="sum(v)").where("x > 5")
    assert [text.split("\n")[0] for text in said(query.plot())] == ["t [10, 20)", "t [20, 30)", "t [40, 50)"]


def test_what_select_makes_of_results_is_not_drawn_and_the_picture_says_so(tmp_path: Path) -> None:
    rows = [{"ts": t, "v": float(t)} for t in range(100)]
    query = pn.stream(rows, time="ts").window(t=pn.tumbling(10)).agg(x="avg(v)").where("x > 50").select(y="x / 2")
    figure = query.plot()
    assert heights(figure) == {54.5, 64.5, 74.5, 84.5, 94.5}
    assert "drawn as before select x / 2 as y" in words(figure)
    query.plot(tmp_path / "x.png")


def test_marks_of_a_page_say_what_they_are_where_they_are(tmp_path: Path) -> None:
    rows = [{"ts": t, "v": float(t)} for t in range(100)]
    query = pn.stream(rows, time="ts").window(**{"a<b": pn.tumbling(50)}).agg(x="avg(v)")
    query.plot(tmp_path / "x.html")
    page = (tmp_path / "x.html").read_text(encoding="utf-8")
    root = ElementTree.fromstring(page[page.index("<svg") : page.rindex("</html>")])
    space = "{http://www.w3.org/2000/svg}"
    spots = {title.text: rect for rect in root.iter(f"{space}rect") for title in rect.iter(f"{space}title")}
    assert len(spots) == 102  # two windows, a hundred rows
    first, second = spots["a<b [0, 50)\nx 24.5"], spots["a<b [50, 99)\nx 74.5"]
    assert float(first.get("x", 0)) + float(first.get("width", 0)) == pytest.approx(float(second.get("x", 0)), abs=0.2)
    foot = float(first.get("y", 0)) + float(first.get("height", 0))
    assert foot == pytest.approx(float(second.get("y", 0)) + float(second.get("height", 0)), abs=0.2)
    assert float(second.get("height", 0)) == pytest.approx(3 * float(first.get("height", 0)), rel=0.05)
    row = spots["99\n99"]
    assert float(row.get("x", 0)) + plot_figure.NEAR == pytest.approx(
        float(second.get("x", 0)) + float(second.get("width", 0)), abs=0.2
    )


@pytest.mark.parametrize("name", ["p.png", "p.html"])
def test_a_run_whose_rows_are_all_left_out_says_so(tmp_path: Path, name: str) -> None:
    rows = [{"ts": t, "v": float(t)} for t in range(10)]
    query = pn.stream(rows, time="ts").where("v > 100").window(t=pn.tumbling(5)).agg(x="avg(v)")
    with pytest.raises(QueryError, match="nothing to draw"):
        query.plot(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_outputs_that_are_no_numbers() -> None:
    rows = [("s", i, i + 100, 0.0, 0) for i in range(0, 200, 50)]
    table = results(rows).drop_columns("total").append_column("word", pa.array(["x"] * 4))
    shown = drawn({"s": pn.sliding(100, every=50)}, table, word="first(k)")
    (panel,) = shown.panels
    assert not panel.measured
    assert panel.values.tolist() == [0, -1, 0, -1]  # so that none hides another
    assert any("no output is a number" in fact for fact in shown.facts)


def test_peaks_are_kept_when_lines_are_thinned() -> None:
    values = np.zeros(20_000)
    values[12_345] = 9
    rows = [("s", i, i + 100, float(v), 0) for i, v in enumerate(values)]
    (panel,) = drawn({"s": pn.sliding(100, every=1)}, results(rows)).panels
    assert len(panel.values) <= plot_data.MAX_POINTS + 2
    assert panel.values.max() == 9
    assert panel.windows == 20_000


@pytest.mark.parametrize("batches", [1, 2, 5])
def test_traces_do_not_depend_on_batches(batches: int) -> None:
    rng = np.random.default_rng(7)
    times = (np.arange(20_000) - rng.integers(0, 9, 20_000)).tolist()
    one, many = traced(times), traced(times, batches=batches)
    late = sum(max(times[:i]) - 5 > times[i] for i in range(1, 500))
    assert traced(times[:500], batches=batches).late_rows == late > 0
    assert one.late_rows == many.late_rows
    assert one.out_of_order == many.out_of_order > 0
    assert one.sample() == many.sample()
    assert len(one.sample()) <= 4000  # type: ignore[arg-type]
    assert not one.complete
    assert one.late()[DELAY].to_numpy().min() > 5  # type: ignore[index]


def test_rows_without_a_time_are_not_traced() -> None:
    trace = Trace(5, ["v"])
    trace.see(pa.table({"ts": pa.array([1, None, 3]), "v": [1.0, 2.0, 3.0]}), "ts")
    assert trace.sample()["v"].to_pylist() == [1.0, 3.0]  # type: ignore[index]


def test_the_watermark_is_drawn_as_far_as_it_lags() -> None:
    assert traced([1, 20]).lag()[1].tolist() == [5, 5]
    assert traced([1, 20, 30], None, batches=3).lag()[1].tolist() == [7, 7, 7]


@pytest.mark.parametrize("kind", [None, pa.timestamp("ms"), pa.timestamp("s", "UTC")], ids=str)
@pytest.mark.parametrize("traces", [True, False])
def test_pictures_are_written_as_png_and_html(tmp_path: Path, kind: pa.DataType | None, traces: bool) -> None:
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
            assert b"<script" not in content
    figure = plot(built, results(rows, kind), trace, 1, None)
    assert {"results", "corrected results"} <= {text.get_text() for text in figure.legends[0].get_texts()}


def test_plot_refuses_other_files_and_missing_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(QueryError, match=r"\.png or \.html"):
        check_plot(tmp_path / "x.pdf")
    monkeypatch.setattr("panes.runners.local.plot.find_spec", lambda name: None)
    with pytest.raises(QueryError, match=r"needs matplotlib: pip install 'panes\[plot\]'"):
        check_plot("x.png")
    with pytest.raises(QueryError, match="needs matplotlib"):
        check_plot(None)


def test_results_without_rows_begin_where_short_windows_do_and_not_with_a_long_one() -> None:
    rows = [("minute", 10 * i, 10 * i + 10, 1.0, 0) for i in range(100, 200)]
    shown = drawn(
        {"minute": pn.tumbling(10), "day": pn.tumbling(1500)}, results([*rows, ("day", 0, 1500, 9.0, 0)]), None
    )
    assert shown.ranges[plot_data.ON_TIME] == (1000, 2000)
