"""The same query over Spark Connect, in a process of its own: Spark allows one kind of session per process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import io, sys
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
import panes as pn
from panes.runners.spark.session import CHANGELOG, ROCKSDB, SHUFFLE_PARTITIONS, STATE_STORE

folder = sys.argv[1]
spark = SparkSession.builder.remote("local[2]").getOrCreate()
rows = pa.table({"t": pa.array(range(100), pa.int64()), "v": pa.array(range(100), pa.int64())})
pq.write_table(rows, folder + "/rows.parquet")

def query(data):
    windows = dict(w=pn.tumbling(10), r=pn.tumbling(pn.rows(7)))
    return pn.stream(data, time="t").window(**windows).agg(n="count(*)", s="sum(v)")

stream = spark.readStream.schema("t bigint, v bigint").parquet(folder + "/*.parquet")
try:
    query(stream).to_spark()
except pn.errors.QueryError as error:
    print("REFUSED", error)
for name, value in {STATE_STORE: ROCKSDB, SHUFFLE_PARTITIONS: "2", CHANGELOG: "true"}.items():
    spark.conf.set(name, value)
running = (
    query(stream).to_spark().writeStream.format("parquet").option("path", folder + "/out")
    .option("checkpointLocation", folder + "/checkpoint").trigger(availableNow=True).start()
)
print("WATERMARK", pn.watch(running, file=io.StringIO())["watermark"])
embedded = query(rows).to_arrow().to_pylist()
shown = lambda found: sorted(str(sorted(row.items())) for row in found)
due = [r for r in embedded if r["window"] == "r" or r["window_end"] <= 99]
print("STREAM", shown(pq.read_table(folder + "/out").to_pylist()) == shown(due), len(due))
static = query(spark.read.parquet(folder + "/rows.parquet")).to_spark().toArrow().to_pylist()
print("STATIC", shown(static) == shown(embedded), len(embedded))
"""


@pytest.mark.xdist_group("spark apart")
def test_streams_and_static_frames_over_connect(tmp_path: Path) -> None:
    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # the server runs for half a minute
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_SUBMIT_OPTS": quick}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env=env,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "REFUSED spark.sql.streaming.stateStore.providerClass" in done.stdout
    assert "WATERMARK 99" in done.stdout
    assert "STREAM True 23" in done.stdout
    assert "STATIC True 24" in done.stdout
