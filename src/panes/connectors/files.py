"""Files as sources: Parquet, CSV and JSON lines, one or many, plain or compressed, read piece by piece.

In: a path, a glob, or a list of them. Out: batches in the order of the sorted paths. Lines that can't be read
are rejected with file and reason; the run goes on.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from panes.connectors.lines import CsvLines, JsonLines, LineFormat, Piece, complete_types, pieces
from panes.connectors.memory import overridden
from panes.connectors.source import BATCH_ROWS, Source
from panes.errors import DataError
from panes.plan.batches import conform
from panes.plan.types import canonical_schema
from panes.runtime.rejects import Rejects

SAMPLE_BYTES = 1 << 20
_COMPRESSED = (".gz", ".bz2", ".zst")
_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}


class FileSource(Source):
    """Rows of files. The schema is that of the first file, with the types the user declared."""

    def __init__(self, pattern: str | os.PathLike[str] | Sequence[str], declared: pa.Schema | None) -> None:
        self.paths = find_files(pattern)
        self._name = str(pattern) if isinstance(pattern, str | os.PathLike) else f"{len(self.paths)} files"
        first = self.paths[0]
        found = canonical_schema(_open(first).schema(first, declared))
        try:
            self.schema = overridden(found, declared, sparse=_format(first) == "json")
        except DataError as error:
            line = ", line 1" if _format(first) in ("csv", "tsv") else ""
            raise DataError(f"{first}{line}: {error}") from None
        for path in self.paths:
            _open(path)  # a file of an unknown format is refused before the run
        self.rows = self._count_rows()

    def read(self, rejects: Rejects, *, promptly: bool = False) -> Iterator[pa.Table]:
        for path in self.paths:
            try:
                yield from _open(path).batches(path, self.schema, rejects)
            except (DataError, pa.ArrowException, OSError, EOFError) as error:
                raise error if str(error).startswith(path) else DataError(f"{path}: {error}") from error

    def _count_rows(self) -> int | None:
        if any(_format(path) != "parquet" for path in self.paths):
            return None
        import pyarrow.parquet

        return sum(pyarrow.parquet.read_metadata(path).num_rows for path in self.paths)

    def __str__(self) -> str:
        return self._name


def find_files(pattern: str | os.PathLike[str] | Sequence[str]) -> list[str]:
    """The files that `pattern` names, sorted; a folder means the data files in it."""
    patterns = [os.fspath(p) for p in ([pattern] if isinstance(pattern, str | os.PathLike) else pattern)]
    found: list[str] = []
    for one in patterns:
        path = os.path.expanduser(one)
        if os.path.isdir(path):
            inside = sorted(str(p) for p in Path(path).rglob("*") if p.is_file() and _format(str(p)))
            found += [p for p in inside if not Path(p).name.startswith(("_", "."))]
        elif os.path.exists(path):
            found.append(path)
        else:
            found += sorted(p for p in glob.glob(path, recursive=True) if os.path.isfile(p))
    if not found:
        shown = patterns[0] if len(patterns) == 1 else patterns
        raise DataError(f"data={shown!r}: there is no such file, and no file matches it as a pattern")
    return found


def looks_like_path(data: object) -> bool:
    """Whether `data` names files: a path, or text (text is never data by itself)."""
    if isinstance(data, list | tuple):
        return bool(data) and all(isinstance(d, str | os.PathLike) for d in data)
    return isinstance(data, str | os.PathLike)


def _format(path: str) -> str | None:
    stem, suffix = os.path.splitext(path.lower())
    if suffix in _COMPRESSED:
        suffix = os.path.splitext(stem)[1]
    return _FORMATS.get(suffix)


class _Parquet:
    def schema(self, path: str, declared: pa.Schema | None) -> pa.Schema:
        import pyarrow.parquet

        try:
            return pyarrow.parquet.read_schema(path)
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{path} is no Parquet file: {error}") from error

    def batches(self, path: str, schema: pa.Schema, rejects: Rejects) -> Iterator[pa.Table]:
        import pyarrow.parquet

        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=BATCH_ROWS):
                yield conform(batch, schema)


class _Lines:
    """JSON lines and CSV. The first line of CSV files names the columns."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def schema(self, path: str, declared: pa.Schema | None) -> pa.Schema:
        """What the first lines look like; if they don't agree, what the user has declared."""
        form, piece = self._open(next(pieces(path, quoted_breaks=self.kind != "json", size=SAMPLE_BYTES)))
        try:
            return complete_types(form.infer(piece.records))
        except (pa.ArrowException, DataError) as error:
            if declared is not None:
                return declared
            raise DataError(f"{path}: the columns can't be found out, so give schema=: {error}") from error

    def batches(self, path: str, schema: pa.Schema, rejects: Rejects) -> Iterator[pa.Table]:
        form: LineFormat | None = None
        for piece in pieces(path, quoted_breaks=self.kind != "json"):
            if form is None:
                form, piece = self._open(piece)
                if isinstance(form, CsvLines):
                    _check_names(path, form.names, schema)
            if piece.records:
                table = form.parse(piece.records, schema, rejects, place=piece.place)
                if len(table):
                    yield table

    def _open(self, piece: Piece) -> tuple[LineFormat, Piece]:
        """The format of a file that begins with `piece`, and the piece without a line that names the columns."""
        if self.kind == "json":
            if piece.records and piece.records[0].lstrip().startswith(b"["):
                raise DataError(f"{piece.path}: a JSON file must hold one object per line; this one is a single array")
            return JsonLines(), piece
        if not piece.records:
            raise DataError(f"{piece.path} has no first line that names the columns")
        delimiter = "\t" if self.kind == "tsv" else ","
        return CsvLines(header_names(piece, delimiter), delimiter=delimiter), piece.without_first()


def _check_names(path: str, found: Sequence[str], schema: pa.Schema) -> None:
    for name in schema.names:
        if name not in found:
            raise DataError(f"{path}, line 1: there is no column {name!r}; the columns are {', '.join(found)}")


def header_names(piece: Piece, delimiter: str) -> list[str]:
    """The names in the first line of a file, the first of `piece`."""
    import csv

    try:
        (names,) = csv.reader([piece.records[0].decode("utf-8", "replace")], delimiter=delimiter)
    except csv.Error as error:
        raise DataError(f"{piece.path}, line 1: lines end in CR here and in LF further on; use one of them") from error
    return [name.strip() for name in names]


def _open(path: str) -> _Parquet | _Lines:
    kind = _format(path)
    if kind is None:
        raise DataError(
            f"{path}: the format is not known by its name; it must end in {', '.join(_FORMATS)}, "
            f"and may be compressed ({', '.join(_COMPRESSED)})"
        )
    return _Parquet() if kind == "parquet" else _Lines(kind)
