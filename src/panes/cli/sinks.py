"""Where the tables of one running query go: a screen, or CSV, JSON lines or Parquet in a file or on stdout."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO, TextIO

import pyarrow as pa
import typer

from panes.cli.tables import PrintedTable, Seen, right_aligned, row_cells
from panes.errors import QueryError

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

    def __init__(self, writer: FileWriter, said: str | None) -> None:
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


class Format(str, Enum):
    table = "table"
    csv = "csv"
    json = "json"
    parquet = "parquet"


_SUFFIXES = {".csv": Format.csv, ".parquet": Format.parquet, ".pq": Format.parquet}
_SUFFIXES |= dict.fromkeys((".json", ".jsonl", ".ndjson"), Format.json)


def format_of(path: str) -> Format | None:
    """What the suffix of a path says, if anything."""
    return _SUFFIXES.get(Path(path).suffix.lower())


class FileWriter(ABC):
    """Writes tables of one schema. A file that is there is replaced when all is written, not before."""

    def __init__(self, schema: pa.Schema, to: Path | BinaryIO) -> None:
        self.schema = schema
        self.rows = 0
        self._path = to if isinstance(to, Path) else None
        self._aside: Path | None = None
        if isinstance(to, Path):
            # it may be what the query reads
            self._aside = to.with_name(f".{to.name}.new") if to.is_file() else None
            self._out: BinaryIO = (self._aside or to).open("wb")
        else:
            self._out = to
        self._begin()

    def write(self, table: pa.Table) -> None:
        if table.num_rows:
            self._write(table)
            self.rows += table.num_rows
            self._out.flush()

    def close(self) -> None:
        """All is written."""
        self._end()
        self._out.flush()
        if self._path is not None:
            self._out.close()
            if self._aside is not None:
                self._aside.replace(self._path)

    def give_up(self) -> None:
        """Not all could be written: a file that was there stays as it was."""
        if self._path is not None:
            self._out.close()
            if self._aside is not None:
                self._aside.unlink(missing_ok=True)

    def _begin(self) -> None:  # noqa: B027  # some have nothing to do
        """Before the first table."""

    @abstractmethod
    def _write(self, table: pa.Table) -> None: ...

    def _end(self) -> None:  # noqa: B027  # some have nothing to do
        """After the last table."""


class CsvWriter(FileWriter):
    """A line of names, then a line per row. Lists and structs are written as JSON."""

    def _begin(self) -> None:
        names = ",".join(_csv_name(name) for name in self.schema.names)
        self._out.write(f"{names}\n".encode())

    def _write(self, table: pa.Table) -> None:
        from pyarrow import csv

        sink = pa.BufferOutputStream()
        options = csv.WriteOptions(include_header=False, quoting_style="needed")
        csv.write_csv(pa.table([_flat(c) for c in table.columns], table.column_names), sink, options)
        self._out.write(sink.getvalue())


class JsonWriter(FileWriter):
    """An object per line. Times are ISO 8601, bytes base64; numbers that JSON does not have are null."""

    def _write(self, table: pa.Table) -> None:
        lines = (json.dumps(_plain(row), ensure_ascii=False) for row in table.to_pylist())
        self._out.write("".join(f"{line}\n" for line in lines).encode())


class ParquetWriter(FileWriter):
    def _begin(self) -> None:
        from pyarrow import parquet

        self._file = parquet.ParquetWriter(self._out, self.schema)

    def _write(self, table: pa.Table) -> None:
        self._file.write_table(table.cast(self.schema))

    def _end(self) -> None:
        self._file.close()


_WRITERS: dict[Format, type[FileWriter]] = {
    Format.csv: CsvWriter,
    Format.json: JsonWriter,
    Format.parquet: ParquetWriter,
}


def open_writer(form: Format, schema: pa.Schema, to: Path | BinaryIO) -> FileWriter:
    if form not in _WRITERS:
        raise QueryError(f"files can be written as {', '.join(f.value for f in _WRITERS)}; not as {form.value}")
    return _WRITERS[form](schema, to)


def _csv_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if any(c in name for c in ',"\r\n') else name


def _flat(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_nested(column.type):
        return pa.chunked_array([[v if v is None else json.dumps(_plain(v)) for v in column.to_pylist()]], pa.string())
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return pa.chunked_array([[_plain(v) for v in column.to_pylist()]], pa.string())
    return column


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.isoformat() if isinstance(value, dt.date | dt.time) else str(value)
