"""Runs the queries of a program and brings their results where they should go: a screen, stdout, or files."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from panes.cli.engine import Engine, Work, together
from panes.cli.sinks import FileSink, Format, LiveSink, PrintedSink, Silent, Sink, format_of, open_writer

if TYPE_CHECKING:
    import pyarrow as pa

    from panes.cql.session import QueryRows


@dataclass(frozen=True)
class ProgramQuery:
    """A query of a program: its place among the queries, and what it is called on the screen."""

    rows: QueryRows
    number: int
    title: str = ""


@dataclass(frozen=True)
class Delivery:
    """Where results go that no statement sends elsewhere.

    - `live`: tables change on the screen while queries run; else rows are printed as they arrive.
    - `output`: the file, or on Spark the folder, for formats that are none for screens.
    - `most`: how many rows of a long table stay on the screen; None: all.
    - `several`: the program has more than one such query, so that their files are numbered.
    """

    engine: Engine
    form: Format = Format.table
    output: Path | None = None
    live: bool = False
    most: int | None = None
    several: bool = False

    def run(self, jobs: Sequence[ProgramQuery]) -> list[int]:
        """Run queries side by side until they end; how many rows each has given."""
        with ExitStack() as stack:
            works = [self.engine.start(job.rows.query, job.number, progress=self._bar(job)) for job in jobs]
            shared: list[PrintedSink] = []
            sinks = [self._sink(job, work, shared) for job, work in zip(jobs, works)]
            sources = [self._source(job, work) for job, work in zip(jobs, works)]
            for source in sources:
                stack.enter_context(closing(source))  # type: ignore[type-var]  # all of them can be closed
            self._show(stack, sinks, works)
            self._follow(works, sources, sinks)
        return [sink.rows for sink in sinks]

    def _follow(self, works: Sequence[Work], sources: Sequence[Iterator[pa.Table]], sinks: Sequence[Sink]) -> None:
        try:
            for number, table in together(sources):
                if table.num_rows:
                    sinks[number].add(table)
                sinks[number].say(partial(_facts, works[number]))
        except KeyboardInterrupt:  # what has come so far is kept
            for sink in sinks:
                sink.close()
            raise
        except BaseException:
            for sink in sinks:
                sink.give_up()
            raise
        for sink, work in zip(sinks, works):
            sink.close()
            if work.unused:
                what = "1 row or line is" if work.unused == 1 else f"{work.unused:,} rows or lines are"
                typer.echo(f"{what} in no result: late, or not to be read", err=True)

    def _show(self, stack: ExitStack, sinks: Sequence[Sink], works: Sequence[Work]) -> None:
        """Tables that change on stdout, or else how far queries on Spark are on stderr."""
        seen = [sink.seen for sink in sinks if isinstance(sink, LiveSink)]
        if seen:
            from rich.console import Console

            from panes.cli.tables import LiveTables

            stack.enter_context(LiveTables(Console(), seen))
        elif self.engine.on_spark and sys.stderr.isatty() and not self._on_screen:
            from rich.console import Console

            status = stack.enter_context(Console(stderr=True).status("started"))
            for sink in sinks:
                sink.status = status

    def _sink(self, job: ProgramQuery, work: Work, shared: list[PrintedSink]) -> Sink:
        form, path = self._target(job)
        if path is not None:
            if self.engine.on_spark:
                return Silent(f"Spark wrote {path}")
            return FileSink(open_writer(form, work.schema, path), f"to {path}")
        if form is not Format.table:
            return FileSink(open_writer(form, work.schema, sys.stdout.buffer), None)
        if self.live:
            return LiveSink(job.title, work.schema, self.most)
        return PrintedSink(job.title, work.schema, sys.stdout, shared)

    def _source(self, job: ProgramQuery, work: Work) -> Iterator[pa.Table]:
        form, path = self._target(job)
        if path is not None and self.engine.on_spark:
            from panes.cli.on_spark import SparkWork

            assert isinstance(work, SparkWork)
            return work.write(form.value, str(path.absolute()))
        return work.tables()

    def _target(self, job: ProgramQuery) -> tuple[Format, Path | None]:
        if job.rows.sink == "console":
            return Format.table, None
        if job.rows.path is not None:
            from panes.cql.files import full_path

            return format_of(job.rows.path) or Format.csv, Path(full_path(job.rows.path, self.engine.folder))
        if self.output is None:
            return self.form, None
        numbered = self.output.with_stem(f"{self.output.stem}-{job.number}") if self.several else self.output
        return self.form, numbered

    def _bar(self, job: ProgramQuery) -> bool | None:
        """Whether a local run shows a progress bar on stderr: not where the results appear themselves."""
        return False if self._target(job)[1] is None and self._on_screen else None

    @property
    def _on_screen(self) -> bool:
        return self.output is None and sys.stdout.isatty()


def _facts(work: Work) -> str:
    return work.facts() if work.rows_read is None else f"{work.rows_read:,} rows read, {work.facts()}"
