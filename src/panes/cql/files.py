"""`SOURCE FILE ('path')`: rows of the files under a path or pattern, with the columns that a stream declares.

Parquet and JSON lines are known by their suffix and read by name of column; every other file is text with one
row per line, split at the delimiter, in the order of the declared columns. A first line that
names the columns says in which order they are, and is no row; one that names others is refused. Lines that can't be
read are kept aside as rejects.

On Spark, files are read by Spark, as they come or those that are there now. Text is taken as lines, which the parser of
the embedded runner turns into rows: both read the same. Values with line breaks in them are the exception: no task of
Spark sees more than its own lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from panes.connectors.files import FileSource, find_files, header_names
from panes.connectors.frames import FrameSource
from panes.connectors.lines import CsvLines, JsonLines, LineFormat, Piece, pieces
from panes.connectors.source import Source
from panes.cql.errors import did_you_mean, problem
from panes.errors import DataError, QueryError
from panes.plan.graph import FitNode, Node, ReadNode
from panes.runtime.rejects import Rejects

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: what may be a name of a column: a word, no number
_NAME = re.compile(r"[^\W\d][\w .-]*")
_BY_NAME = {".parquet": "parquet", ".pq": "parquet", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
_COMPRESSED = (".gz", ".bz2", ".zst")
#: as much of a file as its first line may take
_FIRST_BYTES = 1 << 16


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


def spark_files(
    path: str, delimiter: str | None, schema: pa.Schema, folder: Path | None, *, streaming: bool
) -> FrameSource:
    """The files as a DataFrame, which is made when it is first needed."""
    full = path if "://" in path else full_path(path, folder)
    files = SparkFiles(full, checked_delimiter(delimiter), schema, streaming)
    return FrameSource(schema, files.frame, full, streaming=streaming)


@dataclass(frozen=True)
class SparkFiles:
    """Files that Spark reads."""

    path: str
    delimiter: str
    schema: pa.Schema
    streaming: bool

    def frame(self) -> DataFrame:
        from pyspark.errors import AnalysisException

        from panes.runners.spark.session import spark

        try:
            return self._frame(spark())
        except AnalysisException as error:
            raise DataError(f"FILE ('{self.path}'): {str(error).splitlines()[0]}") from error

    def _frame(self, session: SparkSession) -> DataFrame:
        from panes.runners.spark.flows import fit, parse_lines

        reader: Any = session.readStream if self.streaming else session.read
        kind = self._kind()
        if kind == "parquet":
            # a stream must be told the columns; those of the files that are there are taken
            given = session.read.parquet(self.path).schema
            frame = reader.schema(given).parquet(self._watched(reader))
            return fit(frame, columns_found(self.schema, frame.columns, self.path), self.schema)
        names = self.schema.names if kind == "json" else self._names()
        form: LineFormat = JsonLines() if kind == "json" else CsvLines(names, delimiter=self.delimiter)
        return parse_lines(reader.text(self._watched(reader)), form, self.schema, header=kind == "text")

    def _names(self) -> list[str]:
        """The columns of text files in their order, as the first lines of those say that are here now."""
        paths = [p for p in _local_files(self.path) if file_kind(p) == "text"]
        firsts = [next(pieces(path, quoted_breaks=True, size=_FIRST_BYTES)) for path in paths]
        orders = {tuple(named_columns(piece, self.schema, self.delimiter) or self.schema.names) for piece in firsts}
        if len(orders) > 1:
            shown = " and ".join(", ".join(names) for names in sorted(orders))
            raise DataError(
                f"FILE ('{self.path}'): on Spark all files must have their columns in one order; got {shown}"
            )
        return list(orders.pop()) if orders else self.schema.names

    def _kind(self) -> str:
        inside = files_inside(self.path) if Path(self.path).is_dir() else [self.path]
        return file_kind(inside[0])

    def _watched(self, reader: Any) -> str:
        """Spark watches folders and patterns; a single file is a pattern for itself."""
        if self.streaming and Path(self.path).is_file():
            parent, name = Path(self.path).parent, Path(self.path).name
            reader.option("pathGlobFilter", name)
            return str(parent)
        return self.path


def _local_files(path: str) -> list[str]:
    """The files under a path that this machine can look into; none if they are elsewhere, or still to come."""
    if "://" in path:
        return []
    try:
        return files_inside(path) if Path(path).is_dir() else find_files(path)
    except DataError:
        return []


def fitted(node: Node, schema: pa.Schema, name: str) -> Node:
    """Rows with the columns that a stream declares: found without case, in order, of the declared types."""
    return FitNode.of(node, schema, columns_found(schema, node.schema.names, name))


def columns_found(schema: pa.Schema, names: Sequence[str], data: str) -> dict[str, str]:
    """Declared column -> the column of the data that it is: of the same name, else of the same but for case."""
    found = {}
    by_lower = {column.lower(): column for column in reversed(names)}
    for column in schema.names:
        there = column if column in names else by_lower.get(column.lower())
        if there is None:
            raise problem(f"the data {data!r} has no column {column!r}", did_you_mean(column, names))
        found[column] = there
    return found
