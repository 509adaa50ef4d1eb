"""`SOURCE FILE ('path')`: rows of the files under a path or pattern, with the columns that a stream declares.

Parquet and JSON lines are known by their suffix and read by name of column; every other file is text with one
row per line, split at the delimiter, in the order of the declared columns. A first line that
names the columns says in which order they are, and is no row; one that names others is refused. Lines that can't be
read are kept aside as rejects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from panes.connectors.files import FileSource, find_files, header_names
from panes.connectors.lines import CsvLines, Piece, pieces
from panes.connectors.source import Source
from panes.cql.given import fitted
from panes.errors import DataError, QueryError
from panes.plan.graph import Node, ReadNode
from panes.runtime.rejects import Rejects

#: what may be a name of a column: a word, no number
_NAME = re.compile(r"[^\W\d][\w .-]*")
_BY_NAME = {".parquet": "parquet", ".pq": "parquet", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
_COMPRESSED = (".gz", ".bz2", ".zst")


def open_files(path: str, delimiter: str | None, schema: pa.Schema, folder: Path | None) -> Node:
    """The rows of the files; raises DataError if there are none."""
    full = full_path(path, folder)
    paths = find_files(full) if not Path(full).is_dir() else files_inside(full)
    kinds = {file_kind(p) for p in paths}
    if len(kinds) > 1:
        raise DataError(f"FILE ('{path}'): the files are of several formats: {', '.join(sorted(kinds))}")
    if kinds == {"text"}:
        return ReadNode.of(TextFiles(paths, path, schema, delimiter))
    if delimiter is not None:
        raise QueryError(f"FILE ('{path}', '{delimiter}'): {kinds.pop()} files have no delimiter")
    files = FileSource(paths, schema if kinds == {"json"} else None)
    return fitted(ReadNode.of(files), schema, path)


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

    def read(self, rejects: Rejects, *, promptly: bool = False) -> Iterator[pa.Table]:
        for path in self._paths:
            try:
                yield from self._lines(path, rejects)
            except (pa.ArrowException, OSError, EOFError) as error:
                raise DataError(f"{path}: {error}") from error

    def _lines(self, path: str, rejects: Rejects) -> Iterator[pa.Table]:
        form: CsvLines | None = None
        for piece in pieces(path, quoted_breaks=True):
            if form is None:
                names = named_columns(piece, self.schema, self._delimiter)
                form = CsvLines(names or self.schema.names, delimiter=self._delimiter)
                piece = piece.without_first() if names else piece
            if piece.records:
                table = form.parse(piece.records, self.schema, rejects, place=piece.place)
                if table.num_rows:
                    yield table

    def __str__(self) -> str:
        return self._name


def named_columns(piece: Piece, schema: pa.Schema, delimiter: str) -> list[str] | None:
    """The columns of a file in their order, if its first line, the first of `piece`, names them; None: it is a row.

    A line that has names of other columns, and is no row of these, raises DataError.
    """
    if not piece.records:
        return None
    found = header_names(piece, delimiter)
    declared = {name.lower(): name for name in schema.names}
    if {name.lower() for name in found} >= declared.keys():
        return [declared.get(name.lower(), name) for name in found]
    if all(_NAME.fullmatch(name) for name in found) and _is_no_row(piece.records[0], schema, delimiter):
        raise DataError(
            f"{piece.path}, line 1: the columns are {', '.join(found)}, and the stream has {', '.join(schema.names)}; "
            "rename the one or the other"
        )
    return None


def _is_no_row(record: bytes, schema: pa.Schema, delimiter: str) -> bool:
    rejects = Rejects()
    CsvLines(schema.names, delimiter=delimiter).parse([record], schema, rejects)
    return bool(rejects.count)
