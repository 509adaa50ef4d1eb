"""`SOURCE FILE ('path')`: rows of the files under a path or pattern, with the columns that a stream declares.

Parquet and JSON lines are known by their suffix and read by name of column; every other file is text with one
row per line, split at the delimiter, in the order of the declared columns. A first line that only repeats the
names of the columns is skipped. Lines that can't be read are kept aside as rejects.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from panes.cql.given import Fitted
from panes.errors import DataError, QueryError
from panes.runners.local.files import FileSource, find_files
from panes.runners.local.lines import CsvLines, split_records
from panes.runners.local.rejects import Rejects
from panes.runners.local.source import Source

PIECE_BYTES = 4 << 20
_BY_NAME = {".parquet": "parquet", ".pq": "parquet", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
_COMPRESSED = (".gz", ".bz2", ".zst")


def open_files(path: str, delimiter: str | None, schema: pa.Schema, folder: Path | None) -> Source:
    """The files as a source; raises DataError if there are none."""
    full = full_path(path, folder)
    paths = find_files(full) if not Path(full).is_dir() else files_inside(full)
    kinds = {file_kind(p) for p in paths}
    if len(kinds) > 1:
        raise DataError(f"FILE ('{path}'): the files are of several formats: {', '.join(sorted(kinds))}")
    if kinds == {"text"}:
        return TextFiles(paths, path, schema, delimiter)
    if delimiter is not None:
        raise QueryError(f"FILE ('{path}', '{delimiter}'): {kinds.pop()} files have no delimiter")
    return Fitted(FileSource(paths, schema if kinds == {"json"} else None), schema, path)


def full_path(path: str, folder: Path | None) -> str:
    """A path as written, below `folder` if it is relative."""
    expanded = Path(path).expanduser()
    return str(expanded) if folder is None or expanded.is_absolute() else str(folder / expanded)


def file_kind(path: str) -> str:
    suffixes = [s.lower() for s in Path(path).suffixes]
    if suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    return _BY_NAME.get(suffixes[-1] if suffixes else "", "text")


def checked_delimiter(delimiter: str | None) -> str:
    if delimiter is None:
        return ","
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise QueryError(f"the delimiter must be one character, and no quote or line break; got {delimiter!r}")
    return delimiter


def files_inside(folder: str) -> list[str]:
    """The files of a folder that hold data; DataError if there are none."""
    found = sorted(str(p) for p in Path(folder).iterdir() if p.is_file() and not p.name.startswith(("_", ".")))
    if not found:
        raise DataError(f"the folder {folder!r} holds no files")
    return found


class TextFiles(Source):
    """Lines of files, one row each."""

    def __init__(self, paths: list[str], name: str, schema: pa.Schema, delimiter: str | None) -> None:
        self.schema = schema
        self._paths = paths
        self._name = name
        self._delimiter = checked_delimiter(delimiter)

    def read(self, rejects: Rejects) -> Iterator[pa.Table]:
        for path in self._paths:
            try:
                yield from self._lines(path, rejects)
            except (pa.ArrowException, OSError, EOFError) as error:
                raise DataError(f"{path}: {error}") from error

    def _lines(self, path: str, rejects: Rejects) -> Iterator[pa.Table]:
        form = CsvLines(self.schema.names, delimiter=self._delimiter)
        with pa.input_stream(path, compression="detect") as stream:
            rest, first = b"", True
            while True:
                piece = stream.read(PIECE_BYTES)
                data = rest + piece
                if first:
                    data = data.removeprefix(b"\xef\xbb\xbf")
                records, rest = split_records(data, quoted_breaks=True, last=not piece)
                if first and records:
                    first = False
                    records = records[self._is_header(records[0]) :]
                if records:
                    table = form.parse(records, self.schema, rejects)
                    if table.num_rows:
                        yield table
                if not piece:
                    return

    def _is_header(self, record: bytes) -> bool:
        return is_header(record.decode("utf-8", "replace"), self.schema.names, self._delimiter)

    def __str__(self) -> str:
        return self._name


def is_header(line: str, names: list[str], delimiter: str) -> bool:
    """Whether a line only repeats the names of the columns."""
    import csv

    (found,) = csv.reader([line], delimiter=delimiter)
    return [f.strip().lower() for f in found] == [n.lower() for n in names]
