"""Building queries: what is refused, by which name, before any row is read."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import panes as pn
from panes.errors import ExpressionError, QueryError

SCHEMA = {"ts": "timestamp", "k": "string", "v": "double", "n": "int", "tags": pa.list_(pa.string())}
COUNT = {"n_rows": "count(*)"}


def stream(**options: Any) -> Any:
    return pn.stream(None, **{"schema": SCHEMA, "time": "ts", **options})


STREAMS: list[tuple[dict[str, Any], str]] = [
    ({"schema": None}, "needs schema="),
    ({"schema": {}}, "schema must be"),
    ({"schema": "ts bigint"}, "schema must be"),
    ({"schema": {"ts": "moment"}}, "type of column 'ts', 'moment', is not known"),
    ({"schema": {"ts": 3}}, "type of column 'ts'"),
    ({"schema": {"ts": "decimal(99, 2)"}}, "'ts'"),
    ({"time": "TSS"}, "time='TSS': there is no such column; did you mean 'ts'"),
    ({"time": "when"}, "time='when': there is no such column; there are: ts, k, v"),
    ({"time": 3}, "time must be the name"),
    ({"time": "v"}, "time='v' must be a timestamp or an integer"),
    ({"time": "tags"}, "time='tags' must be"),
    ({"key": "key"}, "key='key': there is no such column"),
    ({"key": ["k", "kk"]}, "key='kk'.*did you mean 'k'"),
    ({"key": ["k", "k"]}, "key='k' is given twice"),
    ({"key": "ts"}, "key='ts' is the time column"),
    ({"key": "tags"}, "key='tags' must be a column of single values"),
    ({"schema": {"ts": "bigint", "window": "string"}, "key": "window"}, "key='window'"),
    ({"watermark": "soon"}, "watermark='soon'"),
    ({"watermark": "5"}, "watermark='5' has no unit"),
    ({"watermark": 5}, "watermark=5 has no unit"),
    ({"watermark": True}, "watermark must be a duration"),
    ({"watermark": [1]}, "watermark must be a duration"),
    ({"watermark": "-1 s"}, "watermark='-1 s' must not be negative"),
    ({"watermark": "1 month"}, "watermark"),
    ({"watermark": "1 ns"}, "watermark='1 ns'"),
    ({"lateness": "x"}, "lateness='x'"),
    ({"lateness": timedelta(seconds=-1)}, "lateness"),
    ({"lateness": "manual"}, "lateness='manual'"),
    ({"time_unit": "s"}, "time_unit='s'.*has its own unit"),
    ({"schema": {"ts": "bigint"}, "time_unit": "h"}, "time unit 'h' is unknown"),
]


@pytest.mark.parametrize(("options", "message"), STREAMS, ids=[str(o) for o, _ in STREAMS])
def test_streams_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(QueryError, match=message):
        stream(**options)


def windowed(*windows: Any, **named: Any) -> Any:
    return stream(key="k").window(*windows, **named)


QUERIES: list[tuple[Any, str]] = [
    (lambda: windowed(), "needs at least one window"),
    (lambda: windowed(bar="1 min").agg(**COUNT), "the window 'bar' must be a window"),
    (lambda: windowed("1 min").agg(**COUNT), "must be a window"),
    (lambda: windowed(pn.tumbling("1 min"), pn.tumbling("1 min")), "given twice"),
    (
        lambda: windowed(pn.tumbling("1 min"), **{'tumbling("1 min")': pn.tumbling("2 min")}),
        "two windows have the label",
    ),
    (lambda: windowed(bar=pn.tumbling(5)).agg(**COUNT), "window 'bar': size=5 has no unit"),
    (lambda: windowed(bar=pn.tumbling(5, on="km")).agg(**COUNT), "window 'bar': .*no column 'km'"),
    (lambda: windowed(bar=pn.tumbling("1 min"), emit_empty="yes"), "emit_empty must be True or False"),
    (lambda: windowed(bar=pn.tumbling("1 min")).agg(), "needs at least one aggregate"),
    (lambda: windowed(bar=pn.tumbling("1 min")).agg(k="count(*)"), "'k' is a key column"),
    (
        lambda: windowed(bar=pn.tumbling("1 min")).agg(window="count(*)"),
        "'window' is a column of every result",
    ),
    (lambda: windowed(bar=pn.tumbling("1 min")).agg(revision="count(*)"), "'revision' is a column"),
    (lambda: windowed(bar=pn.tumbling("1 min")).agg("count(*)", "count(*)"), "given twice"),
    (lambda: windowed(bar=pn.tumbling("1 min")).agg(x=3), "must be SQL text"),
    (lambda: windowed(bar=pn.tumbling("1 min")).agg(x="v"), "must be inside an aggregate"),
    (lambda: stream().where("v + 1"), r"where\('v \+ 1'\) must be a condition"),
    (lambda: stream().where("w > 1"), "no column 'w'"),
    (lambda: stream().with_columns(), "needs at least one column"),
    (lambda: stream().with_columns(x="w"), "no column 'w'"),
    (lambda: stream().with_columns(x="k + 1"), "can't be computed"),
    (lambda: stream().with_columns(ts="v"), "'ts' is the time"),
    (lambda: stream().select("w"), "no column 'w'"),
    (lambda: stream().select(), "needs at least one column"),
    (lambda: stream().select("k").where("v > 1"), "no column 'v'"),
]


@pytest.mark.parametrize(("build", "message"), QUERIES, ids=range(len(QUERIES)))
def test_queries_that_cannot_be(build: Any, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        build()


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2], pa.int64()),
        (pa.array([1, 2], pa.int16()), pa.int64()),
        ([datetime(2024, 1, 1), datetime(2024, 1, 2)], pa.timestamp("us")),
        (pa.array([1, 2], pa.timestamp("ns", "UTC")), pa.timestamp("ns", "UTC")),
        (["2024-01-01", "2024-01-02T03:04:05Z"], pa.timestamp("us")),
        ([date(2024, 1, 1), date(2024, 1, 2)], pa.timestamp("s")),
    ],
)
def test_a_time_column_keeps_its_type(values: Any, kind: pa.DataType) -> None:
    built = pn.stream({"t": values, "v": [1, 2]}, time="t")
    assert built._plan.schema.field("t").type == kind
    assert built._node.schema == built._plan.schema
    assert built._plan.domain.integer == pa.types.is_integer(kind)


def test_time_as_text_that_is_no_time_is_refused() -> None:
    with pytest.raises(pn.errors.DataError, match="'t'"):
        pn.stream([{"t": "yesterday"}], time="t")


def test_units_of_the_time_column() -> None:
    bounds = {
        unit: pn.stream(None, schema={"t": f"timestamp[{unit}]"}, time="t", watermark="2 s")._plan.watermark
        for unit in ("s", "ms", "us", "ns")
    }
    assert bounds == {"s": 2, "ms": 2_000, "us": 2_000_000, "ns": 2_000_000_000}
    integer = {"schema": {"t": "bigint"}, "time": "t"}
    assert pn.stream(None, **integer, watermark="2 s")._plan.watermark == 2000
    assert pn.stream(None, **integer, watermark=2)._plan.watermark == 2
    assert pn.stream(None, **integer, watermark="2 s", time_unit="s")._plan.watermark == 2
    assert pn.stream(None, **integer, watermark="manual")._plan.watermark == "manual"
    assert pn.stream(None, **integer, lateness=timedelta(seconds=1))._plan.lateness == 1000


def test_every_step_leaves_the_one_before_alone() -> None:
    base = stream()
    base.where("v > 1").with_columns(w="v * 2").select("w")
    assert base._plan.where == ()
    assert base._plan.scope.names == tuple(SCHEMA)


def test_select_keeps_time_and_keys() -> None:
    chosen = stream(key="k").select("v", twice="v * 2")
    assert chosen._plan.scope.names == ("ts", "k", "v", "twice")


def test_streams_and_queries_print_readably() -> None:
    assert "key k" in repr(stream(key="k"))
    query = windowed(bar=pn.tumbling("1 min")).agg(**COUNT)
    assert repr(query) == "<Query of n_rows over bar>"


def test_there_is_nothing_to_run_without_data() -> None:
    query = windowed(bar=pn.tumbling("1 min")).agg(**COUNT)
    with pytest.raises(QueryError, match="no data of its own"):
        query.to_spark()
    with pytest.raises(QueryError, match="no data of its own"):
        query.to_arrow()
    with pytest.raises(QueryError, match="after a run"):
        _ = query.late


def test_expressions_of_windows_are_compiled_with_the_query() -> None:
    query = windowed(trip=pn.punctuated(begin="v > 2 * n")).agg(total="sum(v * n)")
    assert set(query._plan.scalars.wanted) == {"v > 2 * n", "v * n"}
    with pytest.raises(ExpressionError, match="window 'trip'"):
        windowed(trip=pn.punctuated(begin="vv > 2")).agg(**COUNT)
