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

from panes.errors import DataError
from panes.plan.batches import conform
from panes.plan.types import canonical_schema
from panes.runners.local.lines import CsvLines, JsonLines, LineFormat, complete_types, split_records
from panes.runners.local.memory import overridden
from panes.runners.local.rejects import Rejects
from panes.runners.local.source import BATCH_ROWS, Source

PIECE_BYTES = 4 << 20
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
        self.schema = overridden(found, declared, sparse=_format(first) == "json")
        for path in self.paths:
            _open(path)  # a file of an unknown format is refused before the run
        self.rows = self._count_rows()

    def read(self, rejects: Rejects) -> Iterator[pa.Table]:
        for path in self.paths:
            try:
                yield from _open(path).batches(path, self.schema, rejects)
            except (DataError, pa.ArrowException, OSError, EOFError) as error:
                raise DataError(f"{path}: {error}") from error

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
        with _stream(path) as stream:
            sample = stream.read(SAMPLE_BYTES)
            more = bool(stream.read(1))
        form, records, _ = self._open(path, sample, last=not more)
        try:
            return complete_types(form.infer(records))
        except (pa.ArrowException, DataError) as error:
            if declared is not None:
                return declared
            raise DataError(f"{path}: the columns can't be found out, so give schema=: {error}") from error

    def batches(self, path: str, schema: pa.Schema, rejects: Rejects) -> Iterator[pa.Table]:
        with _stream(path) as stream:
            form: LineFormat | None = None
            rest = b""
            while True:
                piece = stream.read(PIECE_BYTES)
                data = rest + piece
                if form is None:
                    form, records, rest = self._open(path, data, last=not piece)
                    if isinstance(form, CsvLines):
                        for name in schema.names:
                            if name not in form.names:
                                raise DataError(f"the file has no column {name!r}")
                else:
                    records, rest = split_records(data, quoted_breaks=form.quoted_breaks, last=not piece)
                if records:
                    table = form.parse(records, schema, rejects)
                    if len(table):
                        yield table
                if not piece:
                    return

    def _open(self, path: str, data: bytes, *, last: bool) -> tuple[LineFormat, list[bytes], bytes]:
        """The format of a file that begins with `data`, its first records, and the rest."""
        data = data.removeprefix(b"\xef\xbb\xbf")
        if self.kind == "json":
            if data.lstrip().startswith(b"["):
                raise DataError("a JSON file must hold one object per line; this one is a single array")
            return JsonLines(), *split_records(data, quoted_breaks=False, last=last)
        records, rest = split_records(data, quoted_breaks=True, last=last)
        if not records:
            raise DataError(f"{path} has no first line that names the columns")
        delimiter = "\t" if self.kind == "tsv" else ","
        return CsvLines(_header(records[0], delimiter), delimiter=delimiter), records[1:], rest


def _header(record: bytes, delimiter: str) -> list[str]:
    import csv

    (names,) = csv.reader([record.decode("utf-8", "replace")], delimiter=delimiter)
    return [name.strip() for name in names]


def _stream(path: str) -> pa.NativeFile:
    return pa.input_stream(path, compression="detect")


def _open(path: str) -> _Parquet | _Lines:
    kind = _format(path)
    if kind is None:
        raise DataError(
            f"{path}: the format is not known by its name; it must end in {', '.join(_FORMATS)}, "
            f"and may be compressed ({', '.join(_COMPRESSED)})"
        )
    return _Parquet() if kind == "parquet" else _Lines(kind)
