"""A socket on Spark: lines are received on the driver, kept in a folder, and read by workers by number.

In: a `SocketSource` (connectors/sockets.py). Out: a streaming DataFrame whose offsets are numbers of rows.
A socket can't be asked for the same lines twice, so rows stay in the folder until Spark has committed them: a
batch that is repeated has the same rows, also after a restart if the folder was named by the user. A line that
can't be read is a row of nulls, which a query puts on its ledger (it has no time), and a line of
`unreadable.txt` in the folder, with the reason.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from panes.connectors.lines import CsvLines, JsonLines
from panes.connectors.sockets import SocketSource
from panes.connectors.spark_types import arrow_schema, spark_schema, storable_schema
from panes.errors import DataError
from panes.runners.spark.sources.folders import RowRange, folder_for, read_rows, register, shares, write_table
from panes.runtime.rejects import Rejects

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT = "panes_socket"
_FILE = re.compile(r"(\d{15})-(\d{15})\.arrow")


def listen(source: SocketSource, spark: SparkSession | None, folder: str | None) -> DataFrame:
    """The streaming DataFrame of a socket."""
    from panes.runners.spark.session import spark as default_session

    session = spark or default_session()
    register(session, SocketLines)
    reader = session.readStream.format(FORMAT).schema(spark_schema(storable_schema(source.schema)))
    for name, value in source.options.items():
        reader = reader.option(name, str(value))
    frame = reader.option("folder", str(folder_for(session, folder))).load()
    return frame.dropna(how="all") if source.drops_unreadable else frame


class SocketLines(DataSource):
    """Spark's way to a socket."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return SocketReader(dict(self.options), arrow_schema(schema))


class SocketReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are numbers of rows since the folder was empty."""

    def __init__(self, options: dict[str, str], schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema
        self._folder = Path(options["folder"])
        self._receiver: Receiver | None = None
        self._to_the_end = False

    def initialOffset(self) -> dict:
        return {"row": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """What is available is what comes until the other side closes, as in an embedded run."""
        self._to_the_end = True

    def latestOffset(self, start: dict, limit: ReadLimit) -> dict:
        if self._receiver is None:
            first = max([start["row"], *(end for _, _, end in files(self._folder))])
            self._receiver = Receiver(self._options, self._schema, self._folder, first)
        return {"row": max(start["row"], self._receiver.rows(start["row"] if self._to_the_end else None))}

    def partitions(self, start: dict, end: dict) -> Sequence[InputPartition]:
        if start["row"] == end["row"]:
            return []
        kept = sorted((max(a, start["row"]), min(b, end["row"])) for _, a, b in files(self._folder))
        if sum(b - a for a, b in kept if a < b) < end["row"] - start["row"]:
            raise DataError(
                f"rows {start['row']} to {end['row']} of the socket came in an earlier run and were not kept: "
                "name a folder, socket_source(...).to_spark(folder=...), and they will be there after a restart"
            )
        return shares(start["row"], end["row"], 1)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RowRange)
        for path, begin, last in sorted(files(self._folder), key=lambda file: file[1]):
            first, end = max(partition.first, begin), min(partition.end, last)
            if first < end:
                yield from read_rows(path, first - begin, end - begin)

    def commit(self, end: dict) -> None:
        for path, _, last in files(self._folder):
            if last <= end["row"]:
                path.unlink()


def files(folder: Path) -> list[tuple[Path, int, int]]:
    """Kept rows: (file, number of the first row, number after the last)."""
    found = ((path, _FILE.fullmatch(path.name)) for path in folder.iterdir())
    return [(path, int(match[1]), int(match[2])) for path, match in found if match is not None]


class Receiver:
    """A thread that writes rows to the folder as they come."""

    def __init__(self, options: dict[str, str], schema: pa.Schema, folder: Path, first: int) -> None:
        timeout = options.get("timeout")
        csv = options["format"] == "csv"
        self._source = SocketSource(
            options["host"],
            int(options["port"]),
            CsvLines(schema.names, delimiter=options.get("delimiter", ",")) if csv else JsonLines(),
            schema,
            wait=float(options["wait"]),
            timeout=float(timeout) if timeout else None,
        )
        self._folder = folder
        self._rows = first
        self._changed = threading.Condition()
        self._error: Exception | None = None
        self._ended = False
        threading.Thread(target=self._receive, daemon=True).start()

    def rows(self, wait_beyond: int | None) -> int:
        """How many rows there are; with `wait_beyond`, once there are more than that or no more will come."""
        with self._changed:
            if wait_beyond is not None:
                self._changed.wait_for(lambda: self._rows > wait_beyond or self._ended)
            if self._error is not None:
                raise self._error
            return self._rows

    def _receive(self) -> None:
        rejects = Rejects()
        try:
            for table in self._source.batches(rejects):
                self._keep(table, rejects)
            self._keep(self._source.schema.empty_table(), rejects)
        except Exception as error:
            self._error = error
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _keep(self, table: pa.Table, rejects: Rejects) -> None:
        """Write rows, and a row of nulls for each line that could not be read."""
        if rejects.count:
            nulls: list[Any] = [pa.nulls(rejects.count, f.type) for f in table.schema]
            table = pa.concat_tables([table, pa.Table.from_arrays(nulls, schema=table.schema)])
            with (self._folder / "unreadable.txt").open("a", encoding="utf-8") as out:
                out.writelines(f"{reason}\n" for reason in rejects.reasons)
            rejects.clear()
        if not table.num_rows:
            return
        end = self._rows + table.num_rows
        write_table(self._folder / f"{self._rows:015}-{end:015}.arrow", table)
        with self._changed:
            self._rows = end
            self._changed.notify_all()
