"""`SOURCE FILE` on Spark: the files are read by Spark, as they come or those that are there now.

Text is taken as lines, which the parser of the embedded runner turns into rows: both read the same. Values with
line breaks in them are the exception: no task of Spark sees more than its own lines.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from panes.connectors.files import find_files
from panes.connectors.frames import FrameSource
from panes.connectors.lines import CsvLines, JsonLines, LineFormat, pieces
from panes.cql.files import checked_delimiter, file_kind, files_inside, full_path, named_columns
from panes.cql.given import columns_found
from panes.errors import DataError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


#: as much of a file as its first line may take
_FIRST_BYTES = 1 << 16


def spark_files(
    path: str, delimiter: str | None, schema: pa.Schema, folder: Path | None, *, streaming: bool
) -> FrameSource:
    """The files as a DataFrame, which is made when it is first needed."""
    full = path if "://" in path else full_path(path, folder)
    files = _SparkFiles(full, checked_delimiter(delimiter), schema, streaming)
    return FrameSource(schema, files.frame, full, streaming=streaming)


@dataclass(frozen=True)
class _SparkFiles:
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
        from panes.runners.spark.fitting import fit, parse_lines

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
