"""How streams, queries, operators and results look in a terminal and in a notebook, and to other libraries."""

from __future__ import annotations

import copy
import io
import pickle
import sys
from datetime import datetime, timedelta
from types import ModuleType, SimpleNamespace
from typing import Any

import duckdb
import pandas
import polars
import pyarrow as pa
import pytest

import panes as pn
from panes.errors import ExpressionError, NoSuchMethod, QueryError
from panes.plan.hints import spark_text
from panes.runners.local.progress import ProgressBar
from panes.slicing.results import Result
from tests.runners.test_progress import Clock

ROWS = [{"ts": t, "k": "<b>" if t % 2 else "a\nb", "v": t / 4} for t in range(8)]


def stream(**options: Any) -> Any:
    return pn.stream(ROWS, time="ts", key="k", **options)


def query() -> Any:
    return stream().window(w=pn.tumbling(4)).agg(total="sum(v)")


def rate() -> Any:
    return stream().window(w=pn.tumbling(4)).agg(rate="sum(v) / count(*)")


def relation() -> Any:
    return stream().window(w=pn.tumbling(4)).relation({"n": "count(*)"}, group_by=[], order_by=[])


def joined(**options: Any) -> Any:
    sides = [pn.stream(ROWS, time="ts") for _ in range(2)]
    return pn.join(*sides, window={"w": pn.tumbling(4)}, entries={"a": "l.v", "b": "r.v"}, **options)


def result() -> Result:
    op = query().operator()
    op.push(ROWS)
    return op.finish()


def live() -> Any:
    window = pn.policies.LiveWindow(
        pn.policy(trigger=pn.policies.count(2)), group_reduce=sum, clock=pn.policies.FakeClock()
    )
    window.close()
    return window


def test_a_result_prints_as_a_table() -> None:
    assert str(result()) == (
        "k     window  window_start  window_end  total  revision\n"
        "a\\nb  w                  4           8    2.5         0\n"
        "<b>   w                  4           8      3         0\n"
        "2 rows"
    )
    assert repr(result()) == str(result())


def test_times_print_without_a_fraction_that_is_none() -> None:
    times = [datetime(2026, 1, 1) + timedelta(seconds=s) for s in range(2)]
    assert "2026-01-01 00:00:01\n" in f"{Result(pa.table({'t': times}))}\n"
    exact = pa.table({"t": pa.array([1, None], pa.timestamp("ns", "UTC"))})
    assert "1970-01-01 00:00:00.000000001Z\nnull\n2 rows" in str(Result(exact))


def test_long_and_wide_results_are_cut() -> None:
    lines = str(Result(pa.table({"n": range(1234)}))).splitlines()
    assert lines[0].strip() == "n"
    assert [line.strip() for line in lines[10:13]] == ["9", "...", "1229"]
    assert lines[-1] == "1,234 rows"
    wide = str(Result(pa.table({f"column {i}": ["x" * 100] for i in range(5)}))).splitlines()
    assert max(map(len, wide[:-1])) <= 120
    assert wide[-1] == "1 row, and 3 more columns: column 2, column 3, column 4"
    assert str(Result(pa.table({"n": pa.array([], pa.int64())}))) == "n\n0 rows"


def test_notebooks_show_what_is_data_as_text() -> None:
    shown = [result()._repr_html_(), query()._repr_html_(), stream()._repr_html_()]
    hostile = pn.stream(pa.table({"ts": [1], "<script>": [2]}), time="ts")
    shown += [hostile._repr_html_(), hostile.window(**{"<script>": pn.tumbling(3)}).agg(n="count(*)")._repr_html_()]
    shown += [hostile.window(**{"<script>": pn.tumbling(3)})._repr_html_()]
    shown += [query().where("k <> '<script>'")._repr_html_()]
    for html in shown:
        assert "<table>" in html
        assert "<b>" not in html
        assert "<script>" not in html
    assert "&lt;b&gt;" in shown[0]
    assert "2 rows" in shown[0]


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        (lambda: stream(), "time ts, key k; columns ts, k, v"),
        (lambda: stream().window(w=pn.tumbling(4)), "<Windows w over <Stream"),
        (lambda: query(), "<Query of total over w>"),
        (lambda: query().operator(), "<Operator of total over w: 0 rows in>"),
        (lambda: rate(), "<Query of rate over w>"),
        (lambda: rate().operator(), "<Operator of rate over w: 0 rows in>"),
        (lambda: relation(), "<Query of n over w; relation of each window: count(*) as n>"),
        (lambda: relation().operator(), "<Operator of n over w: 0 rows in>"),
        (
            lambda: joined(on="l.v = r.v"),
            "<Query of a, b over w; relation of each window: inner join on l.v = r.v; l.v as a, r.v as b>",
        ),
        (lambda: joined(using="v", how="left"), "over w; relation of each window: left join using v; l.v as a"),
        (lambda: joined(how="cross"), "over w; relation of each window: all pairs; l.v as a"),
        (lambda: joined(on="l.v = r.v").operator(), "<Operator of a, b over w: 0 rows in>"),
        (live, "<LiveWindow policy(trigger=count(2)): closed>"),
        (lambda: pn.replay(ROWS, time="ts"), "replay"),
        (lambda: stream().punctuate("v > 1").operator(), "<Operator Punctuate over in: 0 rows in>"),
    ],
)
def test_nothing_shows_what_it_is_made_of(shown: Any, words: str) -> None:
    text = repr(shown())
    assert words in text
    assert " object at 0x" not in text
    assert "_plan" not in text
    assert "panes_" not in text
    assert "__" not in text


def test_other_libraries_read_a_result_as_it_is() -> None:
    given = result()
    assert pa.table(given).equals(given.to_arrow())
    assert pa.schema(given) == given.schema
    assert pa.RecordBatchReader.from_stream(given).read_all().num_rows == given.num_rows == len(given) == 2
    assert polars.DataFrame(given).equals(given.to_polars())
    assert given.to_polars()["total"].to_list() == [2.5, 3.0]
    assert isinstance(given.to_pandas(), pandas.DataFrame)
    assert given.column_names == given.to_arrow().column_names
    assert duckdb.sql("SELECT sum(total) FROM given").fetchall() == [(5.5,)]
    assert [row["total"] for row in given.rows()] == [row["total"] for row in given] == [2.5, 3.0]


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("polars", "pandas"):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(QueryError, match=rf"to_{name}\(\) needs {name}: pip install 'panes\[{name}\]'"):
            getattr(result(), f"to_{name}")()


HABITS = {
    "filter": (stream, r'where\("price > 10"\)'),
    "groupBy": (stream, r'key_by\("symbol"\)'),
    "withWatermark": (stream, 'watermark="10 s"'),
    "agg": (stream, r'window\(pn.tumbling\("1 min"\)\).agg'),
    "toPandas": (query, r"to_pandas\(\)"),
    "having": (query, r'where\("total > 100"\)'),
    "to_pandas": (lambda: stream().window(pn.tumbling(4)), r'agg\(total="sum\(price\)"\) first'),
    "wher": (stream, "did you mean 'where'"),
    "nonsense": (query, "a query has no 'nonsense'"),
}


@pytest.mark.parametrize("name", HABITS)
def test_a_method_from_elsewhere_says_what_to_write(name: str) -> None:
    made, words = HABITS[name]
    with pytest.raises(NoSuchMethod, match=words) as caught:
        getattr(made(), name)
    assert isinstance(caught.value, AttributeError)
    assert not hasattr(made(), name)
    assert getattr(made(), name, "absent") == "absent"


def test_what_hints_say_is_there() -> None:
    from panes.plan.hints import QUERY_HABITS, STREAM_HABITS, WINDOWED_HABITS

    windowed = stream().window(pn.tumbling(4))
    for made, habits in ((stream(), STREAM_HABITS), (windowed, WINDOWED_HABITS), (query(), QUERY_HABITS)):
        for name, hint in habits.items():
            assert not hasattr(made, name), f"{name} is there"
            first = hint.split("(")[0].removeprefix("pn.").split(".")[0]
            assert any(hasattr(known, first) for known in (made, stream(), query(), pn)), hint


def test_streams_and_queries_can_be_copied() -> None:
    for made in (stream(), query(), stream().window(pn.tumbling(4))):
        assert repr(copy.copy(made)) == repr(made)
        assert repr(copy.deepcopy(made)) == repr(made)
    assert not hasattr(stream(), "__array__")
    assert not hasattr(stream(), "_ipython_display_")


class Column:
    """Looks like an expression of PySpark, which needs a session to be made."""

    __module__ = "pyspark.sql.classic.column"

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return f"Column<'{self._text}'>"

    def __eq__(self, other: object) -> Any:
        return Column(f"=({self._text}, {other})")

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise ValueError("Cannot convert column into bool")


def test_a_column_of_spark_is_refused_with_its_text() -> None:
    windowed = stream().window(pn.tumbling(4))
    given: Any = Column("sum(v)")
    with pytest.raises(QueryError, match=r"is a Column of Spark; write it as SQL text: agg\(total='sum\(v\)'\)"):
        windowed.agg(given)
    with pytest.raises(QueryError, match=r"agg\(mine='sum\(v\)'\)"):
        windowed.agg(mine=given)
    named: Any = Column("sum(v) AS most")
    with pytest.raises(QueryError, match=r"agg\(most='sum\(v\)'\)"):
        windowed.agg(named)
    condition: Any = Column("(v > 3)")
    with pytest.raises(ExpressionError, match=r"SQL text, here perhaps '\(v > 3\)'; got a Column of Spark"):
        stream().where(condition)
    pairs: Any = {"v": "sum"}
    with pytest.raises(QueryError, match=r'not as a dict: agg\(v="sum\(v\)"\)'):
        windowed.agg(pairs)


def test_a_column_of_spark_in_the_place_of_a_name_or_window_is_refused() -> None:
    given: Any = Column("v")
    with pytest.raises(QueryError, match=r"select: .* is a Column of Spark; write it as SQL text: select\('v'\)"):
        stream().select(given)
    with pytest.raises(QueryError, match=r"select: .* is a Column of Spark; write it as SQL text: select\('v'\)"):
        query().select(given)
    with pytest.raises(QueryError, match=r"order_by: .* is a Column of Spark; write it as SQL text"):
        query().order_by(given)
    with pytest.raises(QueryError, match=r"key_by: .* is a Column of Spark; give the name of a column"):
        stream().key_by(given)
    window: Any = Column("window(ts, 10 seconds)")
    for call in (lambda: stream().window(window), lambda: stream().window(w=window)):
        with pytest.raises(QueryError, match=r"window: .* is a Column of Spark; give a window, for instance"):
            call()


@pytest.mark.parametrize("text", ["/(sum(v), count(*))", "sum(*(v, 2)) AS x", "and(a, b)"])
def test_operators_that_spark_prints_as_functions_are_not_advised(text: str) -> None:
    given: Any = Column(text)
    with pytest.raises(QueryError, match=r"is a Column of Spark; write it as SQL text$"):
        stream().window(pn.tumbling(4)).agg(x=given)
    with pytest.raises(ExpressionError, match=r"^an expression must be SQL text; got a Column of Spark$"):
        stream().where(given)
    assert spark_text(Column("count(*)")) == "count(*)"


class Handle:
    """Where a notebook shows something."""

    def __init__(self, first: Any) -> None:
        self.shown = [first]

    def update(self, next_: Any) -> None:
        self.shown.append(next_)


def notebook(monkeypatch: pytest.MonkeyPatch, *, kernel: bool = True) -> list[Handle]:
    """This process as a notebook; what it shows."""
    handles: list[Handle] = []

    def display(shown: Any, *, display_id: bool) -> Handle:
        assert display_id
        handles.append(Handle(shown))
        return handles[-1]

    ipython = ModuleType("IPython")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object()) if kernel else SimpleNamespace()  # type: ignore[attr-defined]
    ipython.display = SimpleNamespace(display=display)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    return handles


def long_run(wanted: bool | None = None) -> None:
    clock = Clock()
    bar = ProgressBar(1000, wanted, clock=clock)
    for rows in range(100, 1001, 100):
        clock.now += 0.5
        bar.update(rows, lambda: "watermark <7>")
    bar.close(1000, lambda: "watermark <9>")


def test_progress_is_one_line_under_the_cell_of_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    handles = notebook(monkeypatch)
    long_run()
    (handle,) = handles
    assert len(handle.shown) > 3
    assert "1,000 rows, 200 rows/s  watermark <9>" in repr(handle.shown[-1])
    assert '<progress value="1000" max="1000"></progress>' in handle.shown[-1]._repr_html_()
    assert "watermark &lt;9&gt;" in handle.shown[-1]._repr_html_()


def test_no_progress_in_ipython_without_a_notebook_or_if_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert notebook(monkeypatch, kernel=False) == []
    long_run()
    handles = notebook(monkeypatch)
    long_run(False)
    assert handles == []


def test_results_can_be_pickled() -> None:
    assert str(pickle.loads(pickle.dumps(result()))) == str(result())
