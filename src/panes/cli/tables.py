"""Tables on a screen: values as cells, rows printed as they arrive, and tables that change while queries run.

When a query has ended its table stays on the screen, whole if it is short, else its first and last rows.
"""

from __future__ import annotations

import datetime as dt
from collections import deque
from collections.abc import Iterator, Sequence
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console


#: Longer text is cut.
WIDEST = 60
#: Rows are formatted in pieces, so that the first appear at once; columns are as wide as the first piece needs.
PIECE = 500


def cell(value: Any) -> str:
    """A value on one line, without signs that would control a terminal."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return format(value, ".12g")
    if isinstance(value, dt.datetime):
        return value.isoformat(" ", "auto" if value.microsecond % 1000 or not value.microsecond else "milliseconds")
    if isinstance(value, dict):
        return _cut("{" + ", ".join(f"{k}: {cell(v)}" for k, v in value.items()) + "}")
    if isinstance(value, list):
        return _cut("[" + ", ".join(map(cell, value)) + "]")
    return _cut("".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(value)))


def _cut(text: str) -> str:
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 3]}..."


def row_cells(table: pa.Table) -> Iterator[list[str]]:
    """The rows of a table as cells, piece by piece."""
    for start in range(0, table.num_rows, PIECE):
        columns = [list(map(cell, column.to_pylist())) for column in table.slice(start, PIECE).columns]
        yield from map(list, zip(*columns))


def right_aligned(schema: pa.Schema) -> list[bool]:
    """Which columns hold numbers."""
    import pyarrow.types as types

    return [types.is_integer(f.type) or types.is_floating(f.type) or types.is_decimal(f.type) for f in schema]


class PrintedTable:
    """Prints rows under their names as they arrive; wider values widen the columns from there on."""

    def __init__(self, names: Sequence[str], right: Sequence[bool], out: TextIO) -> None:
        self._names = list(names)
        self._right = list(right)
        self._out = out
        self._widths: list[int] = []
        self.rows = 0

    def add(self, rows: Iterator[list[str]]) -> None:
        piece = []
        for row in rows:
            piece.append(row)
            if len(piece) == PIECE:
                self._print(piece)
                piece = []
        if piece:
            self._print(piece)

    def begin_again(self) -> None:
        """Something else was printed, so the names are shown again before further rows."""
        self._widths = []

    def close(self) -> None:
        """Nothing more will come; the names are shown even if no rows came."""
        if not self._widths:
            self._print([])

    def _print(self, rows: list[list[str]]) -> None:
        from rich.cells import cell_len

        first = not self._widths
        shown = [self._names, *rows] if first else rows
        widths = self._widths or [0] * len(self._names)
        self._widths = [max(w, *(cell_len(r[i]) for r in shown)) for i, w in enumerate(widths)]
        if first:
            self._line(self._names)
            self._line(["-" * width for width in self._widths])
        for row in rows:
            self._line(row)
        self.rows += len(rows)
        self._out.flush()

    def _line(self, row: list[str]) -> None:
        from rich.cells import cell_len

        padded = []
        for text, width, right in zip(row, self._widths, self._right):
            space = " " * (width - cell_len(text))
            padded.append(space + text if right else text + space)
        self._out.write("  ".join(padded).rstrip() + "\n")


class Seen:
    """The rows of one query that may still be shown."""

    def __init__(self, title: str, schema: pa.Schema, most: int | None) -> None:
        self.title = title
        self.names = schema.names
        self.right = right_aligned(schema)
        self.rows = 0
        self.facts = ""
        self.began = monotonic()
        half = None if most is None else max(1, most // 2)
        self._head: list[list[str]] = []
        self._tail: deque[list[str]] = deque(maxlen=half)
        self._half = half

    def add(self, table: pa.Table) -> None:
        self.rows += table.num_rows
        if self._half is not None and len(self._head) >= self._half:
            table = table.slice(max(0, table.num_rows - self._half))  # the others are never shown
        elif self._half is not None and table.num_rows > 4 * self._half:
            import pyarrow as pa

            table = pa.concat_tables([table.slice(0, self._half), table.slice(table.num_rows - self._half)])
        for row in row_cells(table):
            if self._half is not None and len(self._head) < self._half:
                self._head.append(row)
            else:
                self._tail.append(row)

    def newest(self, count: int) -> list[list[str]]:
        return [*self._head, *self._tail][-count:]

    def whole(self) -> tuple[list[list[str]], list[list[str]], int]:
        """First rows, last rows, and how many are between them."""
        return self._head, list(self._tail), self.rows - len(self._head) - len(self._tail)


class LiveTables:
    """Shows queries on a console while they run; a context manager."""

    def __init__(self, console: Console, seen: Sequence[Seen]) -> None:
        from rich.live import Live

        self._console = console
        self._seen = seen
        self._live = Live(self, console=console, refresh_per_second=8, transient=True)

    def __enter__(self) -> LiveTables:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()
        for seen in self._seen:
            if error is None or seen.rows or isinstance(error, KeyboardInterrupt):
                self._console.print(final(seen))

    def __rich__(self) -> Any:
        """The tables as they are now: as many of the newest rows as fit the screen."""
        from rich.console import Group

        room = max(3, self._console.height // max(1, len(self._seen)) - 6)
        return Group(*(_table(s, s.newest(room), s.facts or "waiting for the first rows") for s in self._seen))


def final(seen: Seen) -> Any:
    """The table of a query that has ended."""
    head, tail, between = seen.whole()
    rows = [*head, *([["..."] * len(seen.names)] if between else []), *tail]
    took = f"{monotonic() - seen.began:,.1f} s"
    return _table(seen, rows, f"{seen.rows:,} row{'' if seen.rows == 1 else 's'} in {took}")


def _table(seen: Seen, rows: list[list[str]], said: str) -> Any:
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    for name, right in zip(seen.names, seen.right):
        table.add_column(Text(name), justify="right" if right else "left", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    title = [Text(seen.title, style="bold", overflow="ellipsis", no_wrap=True)] if seen.title else []
    return Group(*title, table, Text(f" {said}", style="dim"))
