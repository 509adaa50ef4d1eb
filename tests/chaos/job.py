"""What runs under fire: prepared files, one query with windows of several kinds, and where results go."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import panes as pn
from panes.api.stream import Query

SCHEMA = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.int64()), ("s", pa.string()), ("seq", pa.int64())]
)
SPARK_SCHEMA = "ts timestamp, k bigint, v bigint, s string, seq bigint"
#: Numbers rows in the order of files. Spark reads the larger of two files in a micro-batch first, whatever their times.
SEQUENCE = "seq"
KEY_GROUPS = 16
BOUND_MS = 20
SINKS = ("files", "foreach")
_STEP_MS = 250  # event time that one file brings


@dataclass(frozen=True)
class Job:
    """A folder with the data of one round; each run of it has a folder of its own inside."""

    folder: Path
    seed: int
    files: int
    rows: int

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def prepare(self) -> None:
        """Write the files; their times of change say in which order Spark reads them, one per micro-batch."""
        self.data.mkdir(parents=True)
        for number, table in enumerate(self.tables()):
            path = self.data / f"{number:04}.parquet"
            pq.write_table(table, path)
            os.utime(path, (1_000_000_000 + number, 1_000_000_000 + number))

    def tables(self) -> Iterator[pa.Table]:
        """Rows out of order, some too late even for corrections, and keys that come and go."""
        rng = np.random.default_rng(self.seed)
        for number in range(self.files):
            now = 10_000_000 + number * _STEP_MS
            times = now + rng.integers(0, _STEP_MS, self.rows)
            late = rng.random(self.rows)
            times = np.where(late < 0.003, now - rng.integers(20, 300, self.rows), times)
            times = np.where(late > 0.995, times - 2_000, times)
            columns = [
                pa.array(times * 1000, SCHEMA.field("ts").type),
                pa.array((rng.integers(0, 40, self.rows) + number // 4).astype(np.int64)),
                pa.array(rng.integers(-1000, 1000, self.rows)),
                pa.array(np.array(["a", "b", "cc", None], dtype=object)[rng.integers(0, 4, self.rows)], pa.string()),
                pa.array(number * self.rows + np.arange(self.rows)),
            ]
            yield pa.Table.from_arrays(columns, schema=SCHEMA)


def query(data: Any = None, *, manual: bool = False) -> Query:
    """Row-count, sliding and session windows over one stream, with corrections by late rows."""
    schema = SCHEMA if data is None else None
    watermark = "manual" if manual else f"{BOUND_MS} ms"
    return (
        pn.stream(data, schema=schema, time="ts", key="k", watermark=watermark, lateness="300 ms")
        .window(
            rows=pn.sliding(pn.rows(50), every=pn.rows(25)),
            slide=pn.sliding("200 ms", every="50 ms"),
            visit=pn.session("4 ms"),
        )
        .agg(n="count(*)", total="sum(v)", middle="median(v)", text="max(s)")
    )


def micro_batches(checkpoint: Path) -> list[int]:
    """How many files Spark had begun by the end of each micro-batch.

    Mostly one more each time, or none where only the watermark has moved. But Spark writes down the files of a source
    before the micro-batch that they are for: killed between the two, it takes them together with the next file into
    one micro-batch.
    """
    logs = sorted((int(path.name), path) for path in (checkpoint / "offsets").iterdir() if path.name.isdigit())
    return [json.loads(path.read_text().splitlines()[-1])["logOffset"] + 1 for _, path in logs]


def undisturbed(job: Job, ends: Sequence[int] | None = None) -> pa.Table:
    """What the embedded operator gives for micro-batches that end at these files: results and late rows."""
    op = query(manual=True).operator()
    given, latest, begun = [], None, 0
    tables = list(job.tables())
    for end in ends or [*range(1, len(tables) + 1), len(tables)]:
        reached = latest
        if begun < end:
            table = pa.concat_tables(tables[begun:end])
            given.append(op.push(table).table)
            newest = int(pc.max(table["ts"].cast(pa.int64())).as_py()) // 1000
            latest = newest if latest is None else max(newest, latest)
        begun = end
        if reached is not None:
            given.append(op.advance((reached - BOUND_MS) * 1000).table)
    assert begun == len(tables), f"the last micro-batch ends at file {begun} of {len(tables)}"
    results, late = pa.concat_tables(given), op.late
    rows = pa.StructArray.from_arrays(
        [late.column(f.name).combine_chunks() for f in late.schema if f.name != "reason"],
        fields=[f for f in late.schema if f.name != "reason"],
    )
    return pa.concat_tables(
        [results, pa.table({"late_reason": late.column("reason"), "late_row": rows})], promote_options="default"
    )
