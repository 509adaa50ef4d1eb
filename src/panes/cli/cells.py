"""Values as they stand in tables on a screen, and the plain tables that rows are printed in as they arrive."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    import pyarrow as pa

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
