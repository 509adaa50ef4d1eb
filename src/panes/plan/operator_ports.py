"""The input ports of operators: batches of a stream to the columns that the operator keeps, with times.

In: any batch of the stream's data, and where punctuations stand in it. Out: the rows that `where` lets through, in
the columns that were asked for, each with the tick of its time. Rows without a time are left out and named.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from panes.aggregates.columns import column_from_arrow
from panes.operators.arrivals import PortOutput
from panes.plan.batches import conform
from panes.plan.expressions import Expression
from panes.plan.query import StreamPlan
from panes.plan.scalars import Scalars

#: The column of every operator's results that says when they were given; shown if it is asked for.
RESULT_TIME = "result_time"
_TIME = "panes.time"
_NO_MARKS = np.empty(0, np.int64)


def chosen(stream: StreamPlan, data: object, marks: np.ndarray) -> tuple[pa.Table, np.ndarray]:
    """The rows of a batch that `where` lets through, and where punctuations stand among them."""
    table = conform(data, stream.schema)
    for condition in stream.where:
        kept = condition.scalars.evaluate(table)[condition.text].fill_null(False)
        if len(marks):
            marks = np.concatenate(([0], np.cumsum(kept.to_numpy())))[marks]
        table = table.filter(kept)
    return table, marks


@dataclass(frozen=True)
class PortPlan:
    """What an operator keeps of the rows of a stream. Frozen and picklable: it travels to Spark's workers."""

    stream: StreamPlan
    scalars: Scalars
    time_type: pa.DataType

    @classmethod
    def of(cls, stream: StreamPlan, wanted: Mapping[str, Expression], time_type: pa.DataType | None = None) -> PortPlan:
        time = stream.scope.named(stream.time)
        # a table without columns would have no rows to count
        scalars = Scalars(stream.scope, {**(wanted or {"panes.row": time}), _TIME: time})
        return cls(stream, scalars, time_type or scalars.types[_TIME])

    @cached_property
    def rows(self) -> pa.Schema:
        """The columns that the operator sees."""
        return pa.schema([pa.field(name, kind) for name, kind in self.scalars.types.items() if name != _TIME])

    def read(
        self, data: object, marks: np.ndarray = _NO_MARKS, mark_times: np.ndarray = _NO_MARKS
    ) -> tuple[PortOutput, pa.Table | None]:
        """Rows of a batch; and those left out because they have no time, in the columns of the stream, if any."""
        table, marks = chosen(self.stream, data, marks)
        columns = self.scalars.evaluate(table)
        times = columns.pop(_TIME)
        if times.type != self.time_type:
            times = times.cast(self.time_type)
        rows = pa.table([columns[name] for name in self.rows.names], schema=self.rows)
        if not times.null_count:
            return PortOutput(rows, column_from_arrow(times).values, marks, mark_times), None
        missing = times.is_null()
        known = ~missing.to_numpy()
        given = PortOutput(rows, column_from_arrow(times).values, marks, mark_times)
        return given.filter(known), table.filter(missing)
