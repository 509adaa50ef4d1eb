"""Native overlaps: on a stream, every row is counted in each of the few windows that hold it, by Spark alone.

This is what `groupBy(window())` does. Slices would be shared by the windows, but Spark calls a row late that is behind
its slice; here it is judged window by window, as everywhere else in Panes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from panes.runners.spark.columns import NoColumn
from panes.runners.spark.event_time import EVENT_TIME
from panes.runners.spark.strategies.card import StrategyJob
from panes.runners.spark.strategies.native_rows import NativeQuery, native_strategy
from panes.runners.spark.strategies.native_streams import CELL, StreamClock, check_stream, stream_cost
from panes.runners.spark.strategies.native_windows import Ends, Slices
from panes.windows.base import NEVER

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: A row is copied for each window that holds it: more copies than this and all other ways are faster.
_MOST = 64
#: Time relative to the key-group operator: a row, and each of its copies. With few rows in a micro-batch copies cost
#: nothing beside what key groups take in any case, with many they cost as much from six of them on; nobody knows
#: beforehand which it will be. So that no stream is slower than plain Spark, this is the choice up to 16.
_PER_ROW, _PER_COPY = 0.2, 0.05


def _build(job: StrategyJob) -> DataFrame:
    from pyspark.sql import functions as F

    query = NativeQuery(job)
    if not job.streaming:
        raise NoColumn("a static frame has no late rows, so its windows can share slices: see native")
    check_stream(query, streaming=True)
    only = _window(job)
    clock = StreamClock(query)
    rows = clock.marked()
    rows = rows.withColumn(CELL, F.explode(_ends(clock.number(F.col(EVENT_TIME)), only)))
    rows = rows.withColumn(CELL, clock.instant(F.col(CELL))).withMetadata(CELL, clock.metadata)
    parts = rows.groupBy(*query.keys, CELL).agg(*query.lift())
    end = clock.number(F.col(CELL))
    return query.results(parts, F.lit(0), end - F.lit(only.size), end)


def _window(job: StrategyJob) -> Ends:
    ends = Slices.of(job.plan).ends
    if len(ends) != 1:
        raise NoColumn("it has several windows, and rows would be copied for each; slices are shared by all of them")
    (only,) = ends
    if only.high < NEVER or only.round > 1:
        raise NoColumn("only tumbling and sliding windows begin at every step")
    if only.overlap > _MOST:
        raise NoColumn(f"a row is in {only.overlap:.0f} windows, and up to {_MOST} copies of it are worth making")
    return only


def _ends(time: Column, window: Ends) -> Column:
    """Where the windows end that hold a time."""
    from pyspark.sql import functions as F

    first = time + F.lit(window.step) - F.pmod(time - F.lit(window.first), F.lit(window.step))
    ends = [first + F.lit(i * window.step) for i in range(-(-window.size // window.step))]
    if window.size % window.step == 0:
        return F.array(*ends)
    *always, last = ends  # some rows are in one window less than others
    held = last <= time + F.lit(window.size)
    return F.when(held, F.array(*always, last)).otherwise(F.array(*always))


def _cost(job: StrategyJob) -> float:
    return stream_cost(job, _PER_ROW + _PER_COPY * _window(job).overlap)


NATIVE_OVERLAPS = native_strategy(
    "native_overlaps",
    _build,
    summary="every row counted in each window that holds it, by Spark's own aggregation",
    applies=f"streams with one tumbling or sliding window on event time, up to {_MOST} windows per row, and the "
    "aggregates of the native strategy",
    costs="no Python; a copy of the row for each window that holds it",
    limits=(
        "no late rows, lateness or snapshots; averages and the like may differ in the last digit, since Spark adds in "
        "another order"
    ),
    cost=_cost,
)
