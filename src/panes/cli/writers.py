"""Results as CSV, JSON lines or Parquet, to a file or to stdout, table by table."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
from abc import ABC, abstractmethod
from enum import Enum
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from panes.errors import QueryError


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


class Writer(ABC):
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


class CsvWriter(Writer):
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


class JsonWriter(Writer):
    """An object per line. Times are ISO 8601, bytes base64; numbers that JSON does not have are null."""

    def _write(self, table: pa.Table) -> None:
        lines = (json.dumps(_plain(row), ensure_ascii=False) for row in table.to_pylist())
        self._out.write("".join(f"{line}\n" for line in lines).encode())


class ParquetWriter(Writer):
    def _begin(self) -> None:
        from pyarrow import parquet

        self._file = parquet.ParquetWriter(self._out, self.schema)

    def _write(self, table: pa.Table) -> None:
        self._file.write_table(table.cast(self.schema))

    def _end(self) -> None:
        self._file.close()


_WRITERS: dict[Format, type[Writer]] = {
    Format.csv: CsvWriter,
    Format.json: JsonWriter,
    Format.parquet: ParquetWriter,
}


def open_writer(form: Format, schema: pa.Schema, to: Path | BinaryIO) -> Writer:
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
