"""Runs over data in this process: of a query, and of a stream without windows.

In: a node of the logical graph. Out: what it gives as it becomes due, then what was late and what it cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from panes.plan.batches import RowRefused
from panes.plan.graph import SelectNode, WindowsNode
from panes.plan.query import QueryPlan
from panes.runners.local.progress import ProgressBar
from panes.runners.local.reading import ReadOptions, arrivals, batches, check_unread
from panes.runners.local.trace import Trace
from panes.runtime.nodes import make_operator
from panes.runtime.quiet import Beat, ByClock, EarlyByClock, SilenceLimit, moved
from panes.runtime.rejects import Rejects
from panes.slicing.results import Result
from panes.slicing.spec import MANUAL


class Run:
    """One run of a query over its data."""

    def __init__(self, query: WindowsNode, *, progress: bool | None = None, trace: bool = False) -> None:
        check_unread(query)
        plan = self.plan = query.plan
        self.operator = make_operator(plan, keep_late=plan.stream.keep_late)
        self.rejects = Rejects(plan.stream.keep_late)
        self.finished = False
        self.repeatable = query.repeatable
        self.trace = Trace(_bound(plan), _drawn_columns(plan)) if trace else None
        self._source = query.source
        self._bar = ProgressBar(query.source.rows, progress)
        self.rows_read = 0
        self._results = 0
        self.given: pa.Table | None = None

    def results(self, *, promptly: bool) -> Iterator[Result]:
        """Results as they become due; the run goes on as far as they are asked for."""
        stream = self.plan.stream
        every = None if self.plan.early is None else self.plan.early.clock
        reading = ReadOptions.of(self._source, stream, self.rejects, promptly=promptly, always=every is not None)
        ear = reading.ear
        clock = None if ear is None else ByClock(stream.silence, stream.domain, ear)
        early = None if ear is None or every is None else EarlyByClock(every, ear)
        timeout = SilenceLimit(stream.silence.timeout, ear)
        try:
            for given in arrivals(self._source, reading):
                if clock is not None and ear is not None:
                    if isinstance(given, Beat):
                        if timeout.hear(given):
                            break
                        by_clock, _ = moved(clock, given, self.operator)
                        if by_clock is not None:
                            yield self._count(by_clock, 0)
                        if early is not None and early.due(given):
                            yield self._count(self.operator.early(), 0)
                        if given.waits:
                            ear.wait()
                        continue
                    clock.row()
                    timeout.row()
                result = self._push(given)
                if self.trace is not None and isinstance(given, pa.Table):
                    self.trace.see(given, self.plan.stream.time)
                    self.trace.reached(self.operator.watermark)
                yield self._count(result, len(given) if isinstance(given, pa.Table) else 1)
            yield self._count(self.operator.finish(), 0)
            self.finished = True
        finally:
            if ear is not None:
                ear.close()
            self._bar.close(self.rows_read, self.facts)

    def _push(self, given: pa.Table | dict[str, Any]) -> Result:
        try:
            return self.operator.push(given)
        except RowRefused as error:
            raise error.after(self.rows_read) from None

    @property
    def schema(self) -> pa.Schema:
        """The columns of the results."""
        return self.plan.shape.schema

    def tables(self) -> Iterator[pa.Table]:
        """Results as they become due, as tables; some hold no rows."""
        return (result.table for result in self.results(promptly=False))

    def table(self) -> pa.Table:
        """Run to the end; all results as one table."""
        parts = list(self.tables())
        filled = [part for part in parts if part.num_rows]
        self.given = pa.concat_tables(filled).combine_chunks() if filled else parts[-1]
        return self.given

    def rows(self) -> Iterator[dict[str, Any]]:
        """Run as far as results are asked for; each as a dict. None is kept: the stream may have no end."""
        for result in self.results(promptly=True):
            if len(result):
                yield from result.rows()

    def late(self) -> pa.Table:
        """Rows that no result uses, then lines that could not be read, with their reasons."""
        late = self.operator.late
        if not self.rejects.count:
            return late
        return pa.concat_tables([late, self.rejects.table(self.plan.stream.schema).cast(late.schema)])

    @property
    def unused(self) -> int:
        """How many rows and lines there were that `late` has the newest of."""
        return int(self.operator.metrics["rows_late"]) + self.rejects.count

    def metrics(self) -> Any:
        """What the operator has counted, and how many lines could not be read."""
        counted = self.operator.metrics
        return type(counted)({**counted, "rows_rejected": self.rejects.count})

    def _count(self, result: Result, rows: int) -> Result:
        self.rows_read += rows
        self._results += len(result)
        self._bar.update(self.rows_read, self.facts)
        return result

    def facts(self) -> str:
        """Watermark, results and late rows, for the progress bar."""
        reached = self.operator.watermark
        shown = "-" if abs(reached) > 2**62 else str(self.plan.stream.domain.shown(reached))
        return f"watermark {shown}, {self._results:,} results, {self.unused:,} late"


class FlowRun:
    """One run of a stream over its data."""

    def __init__(self, stream: SelectNode, *, progress: bool | None = None) -> None:
        check_unread(stream)
        self.flow = stream.flow
        self.rejects = Rejects()
        self._source = stream.source
        self._bar = ProgressBar(stream.source.rows, progress)
        self.rows_read = 0
        self._given = 0

    def tables(self) -> Iterator[pa.Table]:
        """What the stream shows, batch by batch; the run goes on as far as it is asked for."""
        return self._tables(promptly=False)

    def _tables(self, *, promptly: bool) -> Iterator[pa.Table]:
        reading = ReadOptions.of(self._source, self.flow.stream, self.rejects, promptly=promptly)
        ear = reading.ear
        timeout = SilenceLimit(self.flow.stream.silence.timeout, ear)
        try:
            for batch in batches(self._source, reading):
                if isinstance(batch, Beat):
                    if timeout.hear(batch):
                        break
                    if ear is not None and batch.waits:
                        ear.wait()
                    continue
                timeout.row()
                table = self.flow.apply(batch)
                self.rows_read += len(batch)
                self._given += table.num_rows
                self._bar.update(self.rows_read, self.facts)
                if table.num_rows:
                    yield table
        finally:
            if ear is not None:
                ear.close()
            self._bar.close(self.rows_read, self.facts)

    def table(self) -> pa.Table:
        """Run to the end; all rows as one table."""
        return pa.concat_tables([self.flow.schema.empty_table(), *self.tables()]).combine_chunks()

    def rows(self) -> Iterator[dict[str, Any]]:
        """Run as far as rows are asked for; each as a dict."""
        for table in self._tables(promptly=True):
            yield from table.to_pylist()

    def late(self) -> pa.Table:
        """Lines that could not be read, and rows that queries inside have left out, with their reasons."""
        return self.rejects.table(self.flow.schema)

    @property
    def schema(self) -> pa.Schema:
        """The columns that the stream shows."""
        return self.flow.schema

    @property
    def unused(self) -> int:
        """How many lines and rows there were that `late` has the newest of."""
        return self.rejects.count

    def facts(self) -> str:
        """Rows given and rejected, for the progress bar."""
        return f"{self._given:,} rows given, {self.rejects.count:,} rejected"


def _bound(plan: QueryPlan) -> int | None:
    """How far the watermark stays behind the newest row, if that is fixed."""
    watermark = plan.stream.watermark
    return None if watermark == MANUAL else int(watermark or 0)


def _drawn_columns(plan: QueryPlan) -> list[str]:
    """Columns whose values a picture may show behind results, and the keys to choose rows by.

    None if rows were filtered: those that were left out would be drawn, too.
    """
    if plan.stream.where:
        return []
    inputs = (e for each in plan.aggregations for e in each.inputs.values())
    read = [e.column for e in inputs if e.column is not None and e.column in plan.stream.schema.names]
    return list(dict.fromkeys((*plan.stream.keys, *read)))
