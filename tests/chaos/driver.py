"""Runs the job on Spark until all files are done: `python -m tests.chaos.driver data place`.

Started again, it goes on from its checkpoints. It knows nothing of kills.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import panes as pn
from tests.chaos.job import KEY_GROUPS, SEQUENCE, SINKS, SPARK_SCHEMA, query


def main(data: str, place: Path) -> None:
    spark = pn.spark(cores=2, memory="1g", quick=True, log=place / "spark.log")
    running = [start(spark, data, place, sink) for sink in SINKS]
    for stream in running:
        stream.awaitTermination()


def start(spark: Any, data: str, place: Path, sink: str) -> Any:
    rows = spark.readStream.schema(SPARK_SCHEMA).option("maxFilesPerTrigger", 1).parquet(data)
    results = query(rows).to_spark(late=True, key_groups=KEY_GROUPS, sequence=SEQUENCE)
    writer = results.writeStream.option("checkpointLocation", str(place / sink / "checkpoint"))
    out = place / sink / "out"
    if sink == "files":
        writer = writer.format("parquet").option("path", str(out))
    else:
        out.mkdir(parents=True, exist_ok=True)

        def once_per_batch(frame: Any, batch: int) -> None:
            """A batch may come again after a kill: it then takes the place of its first try."""
            part = out / f"{batch}.part"
            pq.write_table(frame.toArrow(), part)
            os.replace(part, out / f"{batch}.parquet")

        writer = writer.foreachBatch(once_per_batch)
    return writer.trigger(availableNow=True).start()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
