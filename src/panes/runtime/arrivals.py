"""Rows on their way to the ports of operators and from them: read, split, merged by time, and named for users."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from panes.operators.arrivals import Arrivals, PortOutput
from panes.plan.flow import Flow
from panes.plan.operator_plan import OperatorPlan
from panes.plan.operator_ports import RESULT_TIME, PortPlan, chosen
from panes.runtime.rejects import Rejects


def read(port: PortPlan, given: PortOutput, rejects: Rejects) -> PortOutput:
    """What the port keeps of a batch; rows without a time are rejected."""
    kept, left_out = port.read(given.table, given.marks, given.mark_times)
    for row in left_out.to_pylist() if left_out is not None else ():
        rejects.add("null time in an operator", str(row))
    return kept


def split(arrivals: Arrivals, port: int, n: int) -> tuple[Arrivals, Arrivals]:
    """The first `n` arrivals at one port, and the others."""
    marks = arrivals.marks
    rows = n if marks is None else int(n - marks[:n].sum())
    halves = []
    for place, part in ((slice(0, n), slice(0, rows)), (slice(n, None), slice(rows, None))):
        tables = tuple(
            t.slice(part.start, None if part.stop is None else part.stop - part.start) if i == port else t
            for i, t in enumerate(arrivals.tables)
        )
        halves.append(
            Arrivals(arrivals.ports[place], arrivals.times[place], tables, None if marks is None else marks[place])
        )
    return halves[0], halves[1]


def merge(parts: Sequence[Arrivals]) -> Arrivals:
    """Arrivals of several ports as one, by time; ties by the order of the parts."""
    if len(parts) == 1:
        return parts[0]
    times = np.concatenate([part.times for part in parts])
    order = np.argsort(times, kind="stable")
    tables = tuple(max(each, key=len) for each in zip(*(part.tables for part in parts)))
    marks = None
    if any(part.marks is not None for part in parts):
        marks = np.concatenate([np.zeros(len(p), bool) if p.marks is None else p.marks for p in parts])[order]
    return Arrivals(np.concatenate([part.ports for part in parts])[order], times[order], tables, marks)


def joined(parts: Sequence[Arrivals], port: int) -> Arrivals:
    """Arrivals of one port, end to end."""
    if len(parts) == 1:
        return parts[0]
    tables = tuple(
        pa.concat_tables([part.tables[i] for part in parts]) if i == port else table
        for i, table in enumerate(parts[0].tables)
    )
    marks = None
    if any(part.marks is not None for part in parts):
        marks = np.concatenate([np.zeros(len(p), bool) if p.marks is None else p.marks for p in parts])
    return Arrivals(np.concatenate([p.ports for p in parts]), np.concatenate([p.times for p in parts]), tables, marks)


def stamped(plan: OperatorPlan, port: int, given: PortOutput) -> PortOutput:
    """What a machine gives as rows of the stream: under their own names, with the time they were given at."""
    output = plan.outputs[port]
    table = pa.Table.from_arrays(given.table.columns, schema=output.rows)
    if output.stamped:
        kind = output.stream.schema.field(RESULT_TIME).type
        table = table.append_column(RESULT_TIME, pa.array(given.times).cast(kind))
    return PortOutput(table, given.times, given.marks, given.mark_times)


def passed_on(flow: Flow, given: PortOutput) -> PortOutput:
    """What a stream without windows makes of rows, with their punctuations."""
    table, marks = chosen(flow.stream, given.table, given.marks)
    return PortOutput(flow.project(table), np.empty(0, np.int64), marks, given.mark_times)
