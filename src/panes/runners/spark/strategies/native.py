"""Native slices: rows to slices and slices to windows as Spark's own aggregations, no Python on the path of data.

One aggregation finds the parts of every slice, a second one combines the slices of every window of every query; a
query whose windows share no row needs the first alone. On streams key groups do what the second one does.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from panes.aggregates.registry import entries
from panes.runners.spark.strategies.card import StrategyJob
from panes.runners.spark.strategies.native_aggregates import TIME
from panes.runners.spark.strategies.native_rows import NativeQuery, native_strategy
from panes.runners.spark.strategies.native_streams import build_stream, cells_of, stream_cost, windows_are_cells
from panes.runners.spark.strategies.native_windows import Slices

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Time relative to the key-group operator, measured on 2 cores: a row; a window that holds a slice, where a slice has
#: 20 rows; how much dearer it is to combine moments than numbers; and what Spark must sort rows for.
_PER_ROW, _PER_WINDOW, _MOMENTS, _SORTED = 0.2, 0.0065, 3.0, 1.5


def _build(job: StrategyJob) -> DataFrame:
    return build_stream(job) if job.streaming else _static(job)


def _static(job: StrategyJob) -> DataFrame:
    from pyspark.sql import functions as F

    query, slices = NativeQuery(job), Slices.of(job.plan)
    query.check()
    rows = query.rows()
    number, end = F.col("w_number"), F.col("w_end")
    if slices.alone:
        held = slices.window_of(rows, TIME).groupBy(*query.keys, "w_end").agg(*query.lift())
        number = F.lit(0)
    else:
        parts = rows.withColumn("s", slices.slice_of(F.col(TIME))).groupBy(*query.keys, "s").agg(*query.lift())
        held = slices.windows_of(parts, "s").groupBy(*query.keys, "w_number", "w_end").agg(*query.merge())
    return query.results(held, number, slices.start_of(number, end), end)


def _cost(job: StrategyJob) -> float:
    """Time relative to the key-group operator. A stream of slices knows no late rows but those behind their slice, so
    there it must be asked for, unless slices are windows."""
    slices, query = Slices.of(job.plan), NativeQuery(job)
    if job.streaming:
        return stream_cost(job, _PER_ROW) if windows_are_cells(slices, cells_of(query, slices)) else math.inf
    if slices.alone:
        cost = _PER_ROW
    else:
        merging = _MOMENTS if any(part.nested for part in query.parts.values()) else 1.0
        cost = (_PER_ROW + _PER_WINDOW * slices.overlap) * merging
    return max(cost, _SORTED) if any(part.sorted for part in query.parts.values()) else cost


def _aggregates(*, by_arrival: bool) -> str:
    """Which aggregates Spark's own aggregations compute, by name."""
    found = [entry for entry in entries() if entry.native and entry.spec.promises.by_arrival == by_arrival]
    return ", ".join(dict.fromkeys(entry.names[0] for entry in found))


NATIVE = native_strategy(
    "native",
    _build,
    summary="rows to slices and slices to windows as Spark's own aggregations",
    applies=(
        "tumbling, sliding, cumulate and fixed windows on event time, any number at once; "
        f"{_aggregates(by_arrival=False)}, and on static frames {_aggregates(by_arrival=True)}. "
        "On a stream only if asked for by name, unless it is one tumbling window"
    ),
    costs=(
        "no Python for rows; one aggregation of the rows, then one of the slices, which grows with the windows per "
        "slice. On a stream the operator of key groups does the second: twice the fixed cost of a micro-batch, less "
        "than half the cost of a row"
    ),
    limits=(
        "no late rows, lateness or snapshots; on a stream of several slices a row is late that is behind its slice, "
        "though its windows may be open, windows are given up to a slice later, and edges may come in 32 different "
        "rhythms at most; averages and the like may differ in the last digit, since Spark adds in another order"
    ),
    cost=_cost,
)
