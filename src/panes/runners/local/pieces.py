"""Files of lines, piece by piece: whole records, and where each of them stands.

In: a path, plain or compressed. Out: pieces of records. What can't be read of the file itself raises DataError with the
file and the line; lines end in LF, CR LF, or, throughout a file, in CR alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from panes.errors import DataError
from panes.runners.local.lines import record_lines, split_records

PIECE_BYTES = 4 << 20
_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Piece:
    """Some records of a file, in order."""

    path: str
    records: list[bytes]
    #: the text of the records, and of as many before them as `skipped` says
    _text: bytes
    _quoted_breaks: bool
    #: lines before the text
    _line: int
    _skipped: int = 0

    def place(self, number: int) -> str:
        """Where a record stands, by its number in the piece."""
        return f"line {self._line + self._lines[self._skipped + number] + 1:,} of {self.path}"

    @cached_property
    def _lines(self) -> list[int]:
        """The line of each record in the text; looked up only where something is wrong."""
        return record_lines(self._text, quoted_breaks=self._quoted_breaks)

    def without_first(self) -> Piece:
        return Piece(self.path, self.records[1:], self._text, self._quoted_breaks, self._line, self._skipped + 1)


def pieces(path: str, *, quoted_breaks: bool, size: int | None = None) -> Iterator[Piece]:
    """The records of a file; at least one piece, the first of which has a record if the file has any."""
    rest, line, first, lone_cr = b"", 0, True, False
    try:
        with pa.input_stream(path, compression="detect") as stream:
            while True:
                piece = stream.read(size or PIECE_BYTES)
                data = rest + piece
                if first:
                    data = data.removeprefix(_MARK)
                    lone_cr = b"\r" in data and b"\n" not in data
                if lone_cr:
                    data = data.replace(b"\r", b"\n")
                records, rest = split_records(data, quoted_breaks=quoted_breaks, last=not piece)
                text = data[: len(data) - len(rest)]
                if records or not piece:
                    yield Piece(path, records, text, quoted_breaks, line)
                    first = False
                line += text.count(b"\n")
                if not piece:
                    return
    except (OSError, EOFError, pa.ArrowException) as error:
        after = f", after line {line:,}" if line else ""
        what = "the compressed file is cut off" if "Truncated" in str(error) else str(error)
        raise DataError(f"{path}{after}: {what}") from error
