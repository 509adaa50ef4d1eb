"""Native sessions: Spark's `session_window()` merges rows of a key that follow each other within the gap."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from panes.runners.spark.columns import NoColumn
from panes.runners.spark.event_time import EVENT_TIME
from panes.runners.spark.strategies.card import StrategyJob
from panes.runners.spark.strategies.native_aggregates import TIME
from panes.runners.spark.strategies.native_rows import NativeQuery, native_strategy
from panes.runners.spark.strategies.native_streams import StreamClock, check_stream
from panes.runners.spark.strategies.native_windows import Scale
from panes.windows.base import TIME as EVENT
from panes.windows.session import SessionScan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Time relative to the key-group operator: Spark sorts all rows of a key. Measured on 2 cores.
_COST = 2.5


def _build(job: StrategyJob) -> DataFrame:
    from pyspark.sql import functions as F

    query = NativeQuery(job)
    check_stream(query, job.streaming)
    gap = Scale.of(job.plan.stream.domain).count(_gap(job))
    if job.streaming:
        if not query.keys:
            raise NoColumn("sessions of a stream without a key are not known to Spark")
        clock = StreamClock(query)
        found = _sessions(query, clock.marked(), clock.span(gap))
        start, end = (clock.number(F.col(f"w.{edge}")) for edge in ("start", "end"))
    else:
        found = _sessions(query, query.rows().withColumn(EVENT_TIME, F.timestamp_micros(TIME)), f"{gap} microseconds")
        start, end = (F.unix_micros(f"w.{edge}") for edge in ("start", "end"))
    return query.results(found, F.lit(0), start, end)


def _sessions(query: NativeQuery, rows: DataFrame, gap: str) -> DataFrame:
    from pyspark.sql import functions as F

    return rows.groupBy(*query.keys, F.session_window(EVENT_TIME, gap).alias("w")).agg(*query.lift())


def _gap(job: StrategyJob) -> int:
    """The gap in ticks of the one window that there is."""
    if len(job.plan.bound) != 1:
        raise NoColumn("Spark takes one session window at a time; this query has several windows")
    (label, window) = job.plan.bound[0]
    if not isinstance(window, SessionScan) or window.measure != EVENT:
        raise NoColumn(f"window {label!r} is no session on event time")
    if window.gap_column is not None:
        raise NoColumn(f"window {label!r} has a gap of each row, which Spark reads in another way if it is 0")
    return window.gap


def _cost(job: StrategyJob) -> float:
    return math.inf if job.streaming else _COST


NATIVE_SESSIONS = native_strategy(
    "native_sessions",
    _build,
    summary="Spark's session_window(), no Python on the path of data",
    applies="one session window with a fixed gap, and the aggregates of the native strategy; on streams if asked for",
    costs="no Python; Spark sorts the rows of every key by time",
    limits=(
        "as the native strategy; on a stream a session is closed once its end is the watermark, one tick earlier "
        "than elsewhere, so a row exactly at that time begins a new one"
    ),
    cost=_cost,
)
