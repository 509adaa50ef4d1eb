"""A day of Wikipedia edits as a stream on Spark, through twenty windows in one query: `make demo`.

39,244 real edits of 12 September 2015 are replayed as fast as Spark takes them. While the stream runs, a line
shows how it is doing; then come a table, a picture, and how long Spark's own windows take for those of the
twenty that it has. Writes wikipedia.png into out/, or into the folder given as argument.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from wikipedia_edits import WINDOWS, console, load_edits, show_explanation, show_twenty_windows, titled_table

import panes as pn
from panes.api.stream import Query

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

BATCH_ROWS = 10_000
COLUMNS = ["time", "user", "added", "isRobot"]
#: Spark's own windows are measured for about so many seconds, one query after the other.
PLAIN_SECONDS = 25.0


def replayed(spark: SparkSession) -> DataFrame:
    """The edits as a stream. A last row, two days later, lets the windows know that the day is over."""
    edits = load_edits().select(COLUMNS)
    over = pc.max(edits["time"]).as_py().replace(day=14)
    end = pa.Table.from_pylist([{"time": over, "user": "", "added": 0, "isRobot": False}], schema=edits.schema)
    return pn.replay(pa.concat_tables([edits, end]), batch_rows=BATCH_ROWS).to_spark(spark)


def twenty_windows(edits: DataFrame) -> Query:
    return (
        pn.stream(edits, time="time", watermark="30 s")
        .window(**WINDOWS)
        .agg(edits="count(*)", users="approx_count_distinct(user)", added="sum(added)")
    )


def run(query: Query) -> tuple[pa.Table, dict[str, Any], float]:
    """Run the stream to the end of the day: results and late rows, its last progress, and seconds."""
    batches: list[pa.Table] = []
    results = query.to_spark(late=True)
    with tempfile.TemporaryDirectory() as checkpoint:
        began = perf_counter()
        stream = (
            results.writeStream.foreachBatch(lambda frame, batch: batches.append(frame.toArrow()))
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        facts = pn.watch(stream, file=sys.stdout)
        seconds = perf_counter() - began
    return pa.concat_tables(batches), facts, seconds


def spark_windows() -> dict[str, Column]:
    """Those of the twenty windows that Spark has too: one query each, since it refuses two in one."""
    from pyspark.sql import functions as F

    return {
        "minute": F.window("time", "1 minute"),
        "last 10 min": F.window("time", "10 minutes", "30 seconds"),
        "busy, 5 s": F.session_window("time", "5 seconds"),
        "5 minutes": F.window("time", "5 minutes"),
        "last 5 min": F.window("time", "5 minutes", "1 minute"),
        "busy, 8 s": F.session_window("time", "8 seconds"),
        "quarter": F.window("time", "15 minutes"),
        "last hour": F.window("time", "1 hour", "5 minutes"),
        "busy, 10 s": F.session_window("time", "10 seconds"),
        "hour": F.window("time", "1 hour"),
        "last 3 hours": F.window("time", "3 hours", "1 hour"),
        "6 hours": F.window("time", "6 hours"),
    }


def run_on_plain_spark(edits: DataFrame, window: Column) -> float:
    """Seconds that Spark's own window takes for the same stream, without showing its results."""
    from pyspark.sql import functions as F

    # its sessions need a second column to group by, even if that is the same for all rows
    grouped = edits.withWatermark("time", "30 seconds").groupBy(F.isnotnull("user"), window)
    results = grouped.agg(F.count("*"), F.approx_count_distinct("user"), F.sum("added"))
    with tempfile.TemporaryDirectory() as checkpoint:
        began = perf_counter()
        stream = (
            results.writeStream.format("noop")
            .outputMode("append")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        stream.awaitTermination()
        return perf_counter() - began


def compare(measure: Callable[[Column], float], panes_seconds: float) -> None:
    """Measure as many of Spark's windows as the time allows, all kinds among them; say which were estimated."""
    windows = spark_windows()
    took: dict[str, float] = {}
    for label, window in windows.items():
        if len(took) >= 3 and sum(took.values()) > PLAIN_SECONDS:
            break
        took[label] = measure(window)
    spent = sum(took.values())
    total = spent / len(took) * len(windows)
    rest = "" if len(took) == len(windows) else f", the others estimated from {len(took)} that took {spent:.1f} s"
    table = titled_table("The same on plain Spark", "same stream, same micro-batches, same session, one by one")
    for name in ("", "windows", "queries", "seconds"):
        table.add_column(name, justify="left" if not name else "right")
    table.add_row("Panes on Spark", f"{len(WINDOWS)}", "1", f"{panes_seconds:.1f}")
    table.add_row(f"Spark's own windows{rest}", f"{len(windows)}", f"{len(windows)}", f"{total:.1f}")
    console.print(table)
    left = ", ".join(label for label in WINDOWS if label not in windows)
    console.print(f"Spark has no window for: {left}.\n", highlight=False)


def main(out: Path) -> None:
    began = perf_counter()
    console.print("[bold]A day of Wikipedia edits[/bold], replayed as a stream on Spark.", highlight=False)
    spark = pn.spark(quick=True)
    console.print(f"Spark started in {perf_counter() - began:.1f} s.", highlight=False)
    edits = replayed(spark)
    query = twenty_windows(edits)
    table, facts, seconds = run(query)
    late = pc.is_valid(table["late_reason"])
    results = table.filter(pc.invert(late)).drop_columns(["late_reason", "late_row"])
    rows = facts["total"]["rows"] - 1  # the last is no edit
    speed = f"{rows:,} edits in {seconds:.1f} s and {facts['total']['batches']} micro-batches, {len(results):,} results"
    show_twenty_windows(results.to_pylist(), speed)
    console.print(
        f"Late, that is more than 30 seconds behind the micro-batches before: {pc.sum(late).as_py()} edits. Such rows "
        "are not lost: they come with the results, each with its reason.\n",
        highlight=False,
    )
    compare(lambda window: run_on_plain_spark(edits, window), seconds)
    show_explanation(query)
    out.mkdir(parents=True, exist_ok=True)
    query.plot(out / "wikipedia.png", results=results)
    console.print(f"\nThe same as a picture: {out}/wikipedia.png")
    console.print(f"All of this took {perf_counter() - began:.0f} s, start of Spark included.", highlight=False)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("out"))
