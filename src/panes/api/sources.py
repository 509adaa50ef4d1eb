"""`pn.replay(...)` and `pn.socket_source(...)`: data that comes while time passes, here and as a stream on Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from panes.connectors.lines import CsvLines, JsonLines, LineFormat
from panes.connectors.replay import Pace, ReplaySource
from panes.connectors.sockets import SocketSource
from panes.connectors.source import Source
from panes.connectors.sources import open_source
from panes.errors import QueryError
from panes.plan.hints import did_you_mean
from panes.plan.types import arrow_schema
from panes.units import TimeDomain, is_number

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Replay(ReplaySource):
    """Recorded rows that come again at a pace. Made by `pn.replay`."""

    def to_spark(
        self, spark: SparkSession | None = None, *, partitions: int | None = None, folder: str | None = None
    ) -> DataFrame:
        """The replay as a streaming DataFrame; the same rows have the same offset in every run.

        - `partitions`: how many tasks read a micro-batch, by default as many as there are cores.
        - `folder`: where the rows are kept for Spark's workers, by default a temporary one.
        """
        from panes.runners.spark.sources.tape import play

        return play(self, spark, partitions, folder)


class LineSocket(SocketSource):
    """Lines from a TCP connection. Made by `pn.socket_source`."""

    def to_spark(self, spark: SparkSession | None = None, *, folder: str | None = None) -> DataFrame:
        """The socket as a streaming DataFrame. Rows are kept in `folder` until Spark has committed them."""
        from panes.runners.spark.sources.socket import listen

        return listen(self, spark, folder)


def replay(
    data: Any,
    *,
    time: str | None = None,
    speed: float | str = "max",
    rows_per_second: float | None = None,
    batch_rows: int | None = None,
    schema: Mapping[str, str | pa.DataType] | pa.Schema | None = None,
    time_unit: str = "ms",
) -> Replay:
    """Recorded rows as a stream that runs again, as data of `pn.stream` on both runners.

    - `data`: what `pn.stream` takes: a frame, a table, a list of dicts, the path of Parquet, CSV or JSON files.
    - `speed`: how many seconds of event time pass in one second: 1 as it was, 60 a minute per second; "max":
      rows don't wait. With a speed, `time` names the event-time column (`time_unit` if it holds integers).
    - `rows_per_second`: so many rows per second instead, whatever their times.
    - `batch_rows`: at most so many rows in one batch or micro-batch.
    """
    if not (speed == "max" or (is_number(speed) and float(speed) > 0)):
        raise QueryError(f"speed must be a positive number or 'max'; got {speed!r}")
    if rows_per_second is not None and not (is_number(rows_per_second) and rows_per_second > 0):
        raise QueryError(f"rows_per_second must be a positive number; got {rows_per_second!r}")
    if rows_per_second is not None and speed != "max":
        raise QueryError("replay: give speed or rows_per_second, not both")
    if batch_rows is not None and (isinstance(batch_rows, bool) or not isinstance(batch_rows, int) or batch_rows < 1):
        raise QueryError(f"batch_rows must be a whole number from 1 on; got {batch_rows!r}")
    if speed != "max" and time is None:
        raise QueryError(f"speed={speed!r} is measured in event time: name its column with time=")
    source = open_source(data, None if schema is None else arrow_schema(schema))
    if time is not None:
        _check_time(source, time)
    TimeDomain(time_unit, True)
    pace = Pace(None if speed == "max" else float(speed), rows_per_second)
    return Replay(source, time, time_unit, pace, batch_rows)


def _check_time(source: Source, time: str) -> None:
    if time not in source.schema.names:
        raise QueryError(f"time={time!r}: there is no such column{did_you_mean(time, source.schema.names)}")
    kind = source.schema.field(time).type
    if pa.types.is_string(kind) or pa.types.is_date(kind):
        source.retype(time, pa.timestamp("us"))
    elif not (pa.types.is_timestamp(kind) or pa.types.is_integer(kind)):
        raise QueryError(f"time={time!r} must be a timestamp or an integer column; it is {kind}")


def socket_source(
    port: int,
    *,
    schema: Mapping[str, Any] | pa.Schema,
    host: str = "127.0.0.1",
    format: str = "json",
    wait: float = 0.1,
    timeout: float | None = None,
) -> LineSocket:
    """Rows as text lines from a TCP socket, as data of a stream; ends when the other side closes.

    `format` is "json" (an object per line) or "csv" (values in the order of `schema`, no header). `wait` is
    how many seconds rows may wait for others to form a batch; `timeout` is how long the socket may be silent
    (None: for ever).
    """
    if isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536:
        raise QueryError(f"port must be a number from 1 to 65535; got {port!r}")
    if format not in ("json", "csv"):
        raise QueryError(f"format must be 'json' or 'csv'; got {format!r}")
    if not wait > 0:
        raise QueryError(f"wait must be a positive number of seconds; got {wait!r}")
    if timeout is not None and not timeout > 0:
        raise QueryError(f"timeout must be a positive number of seconds, or None; got {timeout!r}")
    columns = arrow_schema(schema)
    form: LineFormat = JsonLines() if format == "json" else CsvLines(columns.names)
    return LineSocket(host, port, form, columns, wait=wait, timeout=timeout)
