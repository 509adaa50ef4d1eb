"""Drives a stream without windows over its source in this process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from panes.plan.flow import Flow
from panes.runners.local.by_clock import hand_out
from panes.runners.local.listening import Beat, until_silent
from panes.runners.local.progress import ProgressBar
from panes.runners.local.rejects import Rejects
from panes.runners.local.source import Source


class FlowRun:
    """One run of a stream over its data."""

    def __init__(self, flow: Flow, source: Source, *, progress: bool | None = None) -> None:
        self.flow = flow
        self.rejects = Rejects()
        self._source = source
        self._batches = source.batches(self.rejects)
        self._bar = ProgressBar(source.rows, progress)
        self.rows_read = 0
        self._given = 0

    def tables(self) -> Iterator[pa.Table]:
        """What the stream shows, batch by batch; the run goes on as far as it is asked for."""
        return self._tables(promptly=False)

    def _tables(self, *, promptly: bool) -> Iterator[pa.Table]:
        ear = hand_out(self._source, self.flow.stream, promptly=promptly)
        try:
            for batch in until_silent(self._batches, self.flow.stream.silence.timeout, ear):
                if isinstance(batch, Beat):
                    if ear is not None and batch.waits:
                        ear.wait()
                    continue
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
