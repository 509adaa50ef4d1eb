"""Where queries run: in this process or on Spark. Opens sessions and starts queries; both give tables as they come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from panes.cql.compile import Built
    from panes.cql.session import Session


class Runner(str, Enum):
    spark = "spark"
    local = "local"


class Work(Protocol):
    """A query that has been started."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def rows_read(self) -> int | None:
        """How many rows of the data were read so far; None: not known."""

    @property
    def unused(self) -> int:
        """How many rows no result uses, and how many lines could not be read."""

    def tables(self) -> Iterator[pa.Table]:
        """What it gives, as it comes; tables without rows come so that whoever shows them can say how far it is."""

    def facts(self) -> str:
        """How far it is."""


@dataclass(frozen=True)
class Engine:
    """A runner, and how it was asked to run."""

    runner: Runner
    folder: Path | None = None
    master: str | None = None
    settings: dict[str, str] = field(default_factory=dict)
    checkpoint: Path | None = None
    continuous: bool = False

    @property
    def on_spark(self) -> bool:
        return self.runner is Runner.spark

    @property
    def streaming(self) -> bool:
        """Whether files are watched, or read where the last run has stopped, instead of read whole."""
        return self.on_spark and (self.continuous or self.checkpoint is not None)

    def session(self) -> Session:
        """A new session of CQL; starts Spark if that is where its queries run."""
        from panes.cql.session import Session

        if self.on_spark:
            from panes.cli.on_spark import start_spark

            start_spark(self.master, self.settings)
            # Spark may have been started in another folder
            return Session(runner="spark", folder=(self.folder or Path()).absolute(), streaming=self.streaming)
        return Session(folder=self.folder)

    def start(self, query: Built, number: int, *, progress: bool | None = None) -> Work:
        """Start a query. `number` is its place in the program; `progress` as in `query.to_arrow`."""
        if not self.on_spark:
            return query._start(progress)
        from panes.cli.on_spark import SparkWork

        return SparkWork(query, self.checkpoint_of(number), self.continuous)

    def checkpoint_of(self, number: int) -> Path | None:
        """Each query of a program has a checkpoint of its own."""
        return None if self.checkpoint is None else self.checkpoint / f"query_{number}"


def together(sources: Sequence[Iterator[pa.Table]]) -> Iterator[tuple[int, pa.Table]]:
    """The tables of several queries by turns, each with the number of its query, until all have ended."""
    running = dict(enumerate(sources))
    while running:
        for number, tables in list(running.items()):
            table = next(tables, None)
            if table is None:
                del running[number]
            else:
                yield number, table
