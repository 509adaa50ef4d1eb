"""Text lines to rows: JSON (one object per line) and CSV, fast when all is well, exact when it isn't.

In: bytes that hold whole records. Out: a table of the stream's schema; records that can't be read go to
`Rejects` with their reason. A piece with a bad record is halved until the bad record stands alone, so the
same parser decides in both cases and one bad line costs a few parses, not a slow path for all.

Files come piece by piece, as whole records, each with where it stands. What can't be read of the file itself raises
DataError with the file and the line; lines end in LF, CR LF, or, throughout a file, in CR alone.
"""

from __future__ import annotations

import io
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

import pyarrow as pa
import pyarrow.csv
import pyarrow.json

from panes.errors import DataError
from panes.plan.batches import conform
from panes.plan.types import canonical_schema
from panes.runtime.rejects import Rejects

PIECE_BYTES = 4 << 20
_MARK = b"\xef\xbb\xbf"
#: Where a record stands, by its number.
Place = Callable[[int], str]
_BAD_VALUE = re.compile(r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error to (.+?): invalid value '(.*)'")
_BAD_COUNT = re.compile(r"CSV parse error: (?:Row #\d+: )?Expected (\d+) columns, got (\d+)")
_NULL_AFTER_OBJECT = re.compile(rb"\}\s*null")


class LineFormat(ABC):
    """How records are written as text."""

    #: whether a quoted value may hold line breaks, so that lines and records differ
    quoted_breaks = False

    @abstractmethod
    def read(self, records: Sequence[bytes], schema: pa.Schema) -> pa.Table:
        """All of `records` as a table of `schema`; raises on the first that does not fit."""

    @abstractmethod
    def infer(self, records: Sequence[bytes]) -> pa.Schema:
        """The schema that `records` seem to have."""

    def parse(
        self,
        records: Sequence[bytes],
        schema: pa.Schema,
        rejects: Rejects,
        *,
        place: Place | None = None,
        first: int = 0,
    ) -> pa.Table:
        """The rows of `records` in order, without those that go to `rejects`.

        `place` says where a record stands, by its number; that of the first one here is `first`.
        """
        if not records:
            return schema.empty_table()
        try:
            return self.read(records, schema)
        except (pa.ArrowException, DataError, ValueError, RecursionError) as error:
            if len(records) == 1:
                where = "line" if place is None else place(first)
                rejects.add(f"malformed {where} ({self.reason(error)})", records[0].decode("utf-8", "replace"))
                return schema.empty_table()
        middle = len(records) // 2
        halves = [
            self.parse(records[:middle], schema, rejects, place=place, first=first),
            self.parse(records[middle:], schema, rejects, place=place, first=first + middle),
        ]
        return pa.concat_tables(halves)

    def reason(self, error: Exception) -> str:
        """Why a record can't be read, in a few words."""
        if isinstance(error, RecursionError):
            return "it is nested too deeply"
        text = str(error).strip().splitlines()
        return text[0] if text else type(error).__name__


class JsonLines(LineFormat):
    """One JSON object per line. Keys that are missing are null; unknown keys are ignored."""

    def read(self, records: Sequence[bytes], schema: pa.Schema) -> pa.Table:
        text = b"\n".join(records)
        # the fast reader turns decimals into floats, and crashes on a null after an object
        if any(pa.types.is_decimal(f.type) for f in schema) or _NULL_AFTER_OBJECT.search(text):
            return self._read_exactly(records, schema)
        if not all(record.startswith(b"{") and record.endswith(b"}") for record in map(bytes.strip, records)):
            raise DataError("not one JSON object in a line")
        text.decode("utf-8")  # the fast reader lets broken UTF-8 through
        options = pyarrow.json.ParseOptions(explicit_schema=_as_text(schema), unexpected_field_behavior="ignore")
        table = _read_json(records, options)
        if len(table) != len(records):
            raise DataError("not one JSON object in a line")
        return conform(table, schema)

    def _read_exactly(self, records: Sequence[bytes], schema: pa.Schema) -> pa.Table:
        rows = [json.loads(record, parse_float=Decimal) for record in records]
        if not all(isinstance(row, dict) for row in rows):
            raise DataError("not one JSON object in a line")
        return conform(rows, schema)

    def infer(self, records: Sequence[bytes]) -> pa.Schema:
        """Looks at the records that are objects; the others will be rejected anyway."""
        objects = [r for r in map(bytes.strip, records) if _is_object(r)]
        try:
            return _read_json(objects, None).schema if objects else pa.schema([])
        except (pa.ArrowInvalid, RecursionError) as error:
            raise DataError(f"the first lines have no common schema, so give schema=: {error}") from error


class CsvLines(LineFormat):
    """Comma-separated values; `names` are the columns of the text, in order."""

    quoted_breaks = True

    def __init__(self, names: Sequence[str], *, delimiter: str = ",") -> None:
        self.names = list(names)
        self.delimiter = delimiter

    def read(self, records: Sequence[bytes], schema: pa.Schema) -> pa.Table:
        if any(not record.strip() for record in records):
            raise DataError("an empty line")
        kinds = {f.name: f.type for f in _as_text(schema) if f.name in self.names}
        table = self._table(records, kinds)
        if len(table) != len(records):
            raise DataError("a quote that is not closed, or a line break (CR) inside a value")
        missing = [name for name in schema.names if name not in self.names]
        for name in missing:
            raise DataError(f"the text has no column {name!r}")
        return conform(table, schema)

    def reason(self, error: Exception) -> str:
        text = super().reason(error)
        if found := _BAD_VALUE.match(text):
            return f"column {self.names[int(found[1])]!r} must be {found[2]}, and has {found[3]!r}"
        if found := _BAD_COUNT.match(text):
            return f"it has {found[2]} values, and there are {found[1]} columns"
        return text

    def infer(self, records: Sequence[bytes]) -> pa.Schema:
        """Looks at the records that have a value for each column; the others will be rejected anyway."""
        return self._table(records, {}, skip=True).schema

    def _table(self, records: Sequence[bytes], kinds: dict[str, pa.DataType], *, skip: bool = False) -> pa.Table:
        return pyarrow.csv.read_csv(
            io.BytesIO(b"\n".join(records) + b"\n"),
            read_options=pyarrow.csv.ReadOptions(column_names=self.names, use_threads=False),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=self.delimiter,
                newlines_in_values=True,
                invalid_row_handler=(lambda row: "skip") if skip else None,
            ),
            # an empty field is null, also in text columns; a quoted empty one is an empty text
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=kinds, strings_can_be_null=True, quoted_strings_can_be_null=False
            ),
        )


def split_records(data: bytes, *, quoted_breaks: bool, last: bool) -> tuple[list[bytes], bytes]:
    """Whole records of `data`, and the bytes of the record that is not complete yet.

    With `last` there are no more bytes to come, so the rest is a record too.
    """
    lines = data.split(b"\n")
    rest = lines.pop()
    if quoted_breaks and b'"' in data:
        lines, rest = _join_quoted(lines, rest)
    records = [line[:-1] if line.endswith(b"\r") else line for line in lines]
    if last and rest:
        records.append(rest[:-1] if rest.endswith(b"\r") else rest)
        rest = b""
    return [record for record in records if record.strip()], rest


def record_lines(data: bytes, *, quoted_breaks: bool) -> list[int]:
    """On which line of `data` each of the records begins that `split_records` finds in it, counted from 0."""
    found, number, open_quote, start, filled = [], 0, False, 0, False
    for number, line in enumerate(data.split(b"\n")):
        if not open_quote:
            start, filled = number, False
        filled = filled or bool(line.strip())
        if quoted_breaks and line.count(b'"') % 2:
            open_quote = not open_quote
        if not open_quote and filled:
            found.append(start)
    if open_quote and filled:
        found.append(start)
    return found


def _join_quoted(lines: list[bytes], rest: bytes) -> tuple[list[bytes], bytes]:
    """A line with an odd number of quotes goes on until the next such line."""
    joined: list[bytes] = []
    open_part: list[bytes] = []
    for line in lines:
        open_part.append(line)
        if sum(part.count(b'"') for part in open_part) % 2 == 0:
            joined.append(b"\n".join(open_part))
            open_part = []
    return joined, b"\n".join([*open_part, rest])


def complete_types(inferred: pa.Schema) -> pa.Schema:
    """An inferred schema in canonical types; a column without any value is taken as text."""
    canonical = canonical_schema(inferred)
    return pa.schema([pa.field(f.name, pa.string() if pa.types.is_null(f.type) else f.type) for f in canonical])


def _is_object(record: bytes) -> bool:
    try:
        return isinstance(json.loads(record), dict)
    except (ValueError, RecursionError):
        return False


def _read_json(records: Sequence[bytes], parse: pyarrow.json.ParseOptions | None) -> pa.Table:
    data = b"\n".join(records) + b"\n"
    # one block: a block ends inside a record when it is smaller than the record
    read = pyarrow.json.ReadOptions(use_threads=False, block_size=max(len(data) + 1, 1 << 16))
    return pyarrow.json.read_json(io.BytesIO(data), read_options=read, parse_options=parse)


def _as_text(schema: pa.Schema) -> pa.Schema:
    """Times are read as text first: with or without a zone, `conform` then takes both."""
    temporal = (pa.types.is_timestamp, pa.types.is_date)
    return pa.schema([pa.field(f.name, pa.string() if any(t(f.type) for t in temporal) else f.type) for f in schema])


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
