"""First results: from the start of a process to the end of a stream of 1,000 rows, and how micro-batches of few rows
go on from there: `python -m bench.spark.start`.

Every run is a process of its own. Contenders take turns; figures are medians of ratios to plain Spark in the same turn.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

OUT = Path(__file__).resolve().parents[2] / "out" / "bench-start"
ROWS, FILES = 1_000, 10
PLAIN = "Spark"
app = typer.Typer(add_completion=False)


def _builder() -> Any:
    """A session as users of Spark start it, with as many partitions as cores."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2")
    builder = builder.config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
    return builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()


def _of_panes() -> Any:
    import panes as pn

    return pn.spark(cores=2)


def _window(events: Any) -> Any:
    from pyspark.sql import functions as F

    grouped = events.withWatermark("ts", "5 seconds").groupBy("k", F.window("ts", "10 seconds"))
    return grouped.agg(F.sum("v").alias("s"))


def _session_window(events: Any) -> Any:
    from pyspark.sql import functions as F

    grouped = events.withWatermark("ts", "5 seconds").groupBy("k", F.session_window("ts", "2 seconds"))
    return grouped.agg(F.sum("v").alias("s"))


def _panes(window: str) -> Callable[[Any], Any]:
    def build(events: Any) -> Any:
        import panes as pn

        windows = {
            "tumbling": lambda: pn.tumbling("10 s"),
            "session": lambda: pn.session("2 s"),
            "rows": lambda: pn.tumbling(pn.rows(10)),
        }
        stream = pn.stream(events, time="ts", key="k", watermark="5 s")
        return stream.window(w=windows[window]()).agg(s="sum(v)").to_spark()

    return build


#: name -> how the session is started, the query, and what it is measured by
CONTENDERS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], str]] = {
    PLAIN: (_builder, _window, PLAIN),
    "Spark, sessions": (_builder, _session_window, "Spark, sessions"),
    "Spark in pn.spark()": (_of_panes, _window, PLAIN),
    "Panes, tumbling": (_of_panes, _panes("tumbling"), PLAIN),
    "Panes, sessions": (_of_panes, _panes("session"), "Spark, sessions"),
    "Panes, rows": (_of_panes, _panes("rows"), PLAIN),
}


def run_here(name: str, events: Path, checkpoint: Path, began: float) -> dict[str, float]:
    """One run in this process, which began at that moment; seconds."""
    start, build, _ = CONTENDERS[name]
    spark = start()
    there = time.time()
    frame = spark.readStream.schema("ts timestamp, k string, v double").option("maxFilesPerTrigger", 1)
    results = build(frame.parquet(str(events)))
    writer = results.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.outputMode("append").trigger(availableNow=True).start()
    query.awaitTermination()
    ended = time.time()
    batches = [p["durationMs"]["triggerExecution"] / 1000 for p in query.recentProgress if p["numInputRows"]]
    figures = {
        "session": there - began,
        "whole": ended - began,
        "first micro-batch": batches[0],
        "later micro-batches": statistics.median(batches[1:]),
    }
    spark.stop()
    return figures


def write_events(folder: Path) -> None:
    """1,000 rows of 20 keys in ten files, 100 s of event time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    per = ROWS // FILES
    for number in range(FILES):
        at = range(number * per, (number + 1) * per)
        times = pa.array([1_700_000_000_000_000 + i * 100_000 for i in at], pa.timestamp("us", tz="UTC"))
        table = {"ts": times, "k": [f"k{i % 20}" for i in at], "v": [float(i % 7) for i in at]}
        pq.write_table(pa.table(table), folder / f"{number:02}.parquet")


def measured(name: str, events: Path, scratch: Path) -> dict[str, float]:
    """One run in a process of its own."""
    checkpoint = Path(tempfile.mkdtemp(dir=scratch))
    command = [sys.executable, "-m", "bench.spark.start", "--one", name, "--events", str(events)]
    began = time.time()
    command += ["--checkpoint", str(checkpoint), "--began", repr(began)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).resolve().parents[2])
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr.strip()[-3000:]}")
    shutil.rmtree(checkpoint, ignore_errors=True)
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


@app.command()
def bench(
    repeat: Annotated[int, typer.Option(min=1, help="Turns; figures are medians.")] = 5,
    only: Annotated[list[str] | None, typer.Option(help="Only this contender, beside what it is measured by.")] = None,
    one: Annotated[str | None, typer.Option(hidden=True)] = None,
    events: Annotated[Path | None, typer.Option(hidden=True)] = None,
    checkpoint: Annotated[Path | None, typer.Option(hidden=True)] = None,
    began: Annotated[float, typer.Option(hidden=True)] = 0.0,
    out: Annotated[Path, typer.Option(help="Folder for the figures.")] = OUT,
) -> None:
    """From process start to the end of a stream of 1,000 rows, Panes beside plain Spark."""
    if one is not None:
        assert events is not None
        assert checkpoint is not None
        print(json.dumps(run_here(one, events, checkpoint, began)))
        return
    chosen = only or list(CONTENDERS)
    names = [n for n in CONTENDERS if n in chosen or n in {CONTENDERS[c][2] for c in chosen}]
    figures: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory(prefix="panes-start-") as scratch:
        folder = Path(scratch) / "events"
        write_events(folder)
        for turn in range(repeat + 1):  # the first one fills the caches of the system, and does not count
            for name in names:
                found = measured(name, folder, Path(scratch))
                print(f"turn {turn} {name}: " + ", ".join(f"{k} {v:.2f} s" for k, v in found.items()), flush=True)
                if turn:
                    figures[name].append(found)
    out.mkdir(parents=True, exist_ok=True)
    (out / "figures.json").write_text(json.dumps(figures, indent=1))
    print(table(figures))


def table(figures: dict[str, list[dict[str, float]]]) -> str:
    """Medians, and medians of the ratios to what a contender is measured by."""
    lines = []
    for name, runs in figures.items():
        beside = figures[CONTENDERS[name][2]]
        cells = []
        for metric in runs[0]:
            median = statistics.median(r[metric] for r in runs)
            ratio = statistics.median(r[metric] / b[metric] for r, b in zip(runs, beside, strict=True))
            cells.append(f"{metric} {median:.2f} s ({ratio:.2f}x)")
        lines.append(f"{name:20} {'; '.join(cells)}")
    return "\n".join(lines)


if __name__ == "__main__":
    app()
