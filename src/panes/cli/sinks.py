"""Where the tables of one running query go."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any, TextIO

import typer

from panes.cli.cells import PrintedTable, right_aligned, row_cells
from panes.cli.live import Seen

if TYPE_CHECKING:
    import pyarrow as pa

    from panes.cli.writers import Writer

#: How often it is told how far a query is, in seconds.
EVERY = 0.2


class Sink(ABC):
    """Takes tables as they come. `close` when all have come, `give_up` when the query has failed."""

    def __init__(self) -> None:
        self.rows = 0
        #: a line on stderr that says how far the query is
        self.status: Any = None
        self._next = 0.0

    @abstractmethod
    def add(self, table: pa.Table) -> None: ...

    def say(self, facts: Callable[[], str]) -> None:
        """How far the query is; only asked as often as someone could read it."""
        now = monotonic()
        if now >= self._next:
            self._next = now + EVERY
            self._say(facts)

    def _say(self, facts: Callable[[], str]) -> None:
        if self.status is not None:
            from rich.text import Text

            self.status.update(Text(facts()))

    def close(self) -> None:  # noqa: B027  # most have nothing to do
        """All tables have come."""

    def give_up(self) -> None:  # noqa: B027  # most have nothing to do
        """No more tables will come, and some are missing."""


class PrintedSink(Sink):
    """Rows on stdout as they arrive. Where several queries share it, each says whose rows follow."""

    def __init__(self, title: str, schema: pa.Schema, out: TextIO, shared: list[PrintedSink]) -> None:
        super().__init__()
        self._title = title
        self._out = out
        self._shared = shared  # the sink that printed last, if any did
        self._table = PrintedTable(schema.names, right_aligned(schema), out)

    def add(self, table: pa.Table) -> None:
        self._begin()
        self._table.add(row_cells(table))
        self.rows = self._table.rows

    def close(self) -> None:
        if not self._table.rows:
            self._begin()
            self._table.close()

    def _begin(self) -> None:
        if self._shared == [self]:
            return
        if self._shared:
            self._out.write("\n")
            self._table.begin_again()
        self._shared[:] = [self]
        if self._title:
            self._out.write(f"> {self._title}\n")


class LiveSink(Sink):
    """Rows in a table that changes on the screen; `LiveTables` shows it."""

    def __init__(self, title: str, schema: pa.Schema, most: int | None) -> None:
        super().__init__()
        self.seen = Seen(title, schema, most)

    def add(self, table: pa.Table) -> None:
        self.seen.add(table)
        self.rows = self.seen.rows

    def _say(self, facts: Callable[[], str]) -> None:
        self.seen.facts = facts()


class FileSink(Sink):
    """Rows in a file, or on stdout if `said` is None."""

    def __init__(self, writer: Writer, said: str | None) -> None:
        super().__init__()
        self._writer = writer
        self._said = said

    def add(self, table: pa.Table) -> None:
        self._writer.write(table)
        self.rows = self._writer.rows

    def close(self) -> None:
        self._writer.close()
        if self._said is not None:
            typer.echo(f"wrote {self.rows:,} row{'' if self.rows == 1 else 's'} {self._said}", err=True)

    def give_up(self) -> None:
        self._writer.give_up()


class Silent(Sink):
    """Nothing to do: Spark writes the rows itself."""

    def __init__(self, said: str) -> None:
        super().__init__()
        self._said = said

    def add(self, table: pa.Table) -> None:
        raise AssertionError("Spark keeps the rows that it writes")

    def close(self) -> None:
        typer.echo(self._said, err=True)
