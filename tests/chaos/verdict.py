"""What a run has written against what it should have: rows lost, written twice, wrong."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq

from tests.chaos.job import Job, micro_batches, undisturbed


@dataclass(frozen=True)
class Verdict:
    """How many rows of the right results there are, and how many are lost, double and wrong."""

    rows: int
    lost: int
    double: int
    wrong: int

    @property
    def clean(self) -> bool:
        return not (self.lost or self.double or self.wrong)

    def __str__(self) -> str:
        return f"{self.rows:,} rows, {self.lost} lost, {self.double} double, {self.wrong} wrong"


def verdicts(job: Job, place: Path) -> dict[str, Verdict]:
    """Each sink against what an undisturbed operator gives for the same micro-batches."""
    found = {}
    for sink, read in (("files", written_files), ("foreach", written_batches)):
        right = undisturbed(job, micro_batches(place / sink / "checkpoint"))
        found[sink] = compare(read(place, right.schema), right)
    return found


def compare(written: pa.Table, right: pa.Table) -> Verdict:
    got, wanted = _count(written), _count(right)
    extra = got - wanted
    double = sum(n for row, n in extra.items() if row in wanted)
    return Verdict(wanted.total(), (wanted - got).total(), double, extra.total() - double)


def _count(table: pa.Table) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True, default=str) for row in table.to_pylist())


def written_files(place: Path, schema: pa.Schema) -> pa.Table:
    """The results of the file sink: the files that its own log names. A kill can leave others, which don't count."""
    out = place / "files" / "out"
    named: dict[str, None] = {}
    for log in sorted((out / "_spark_metadata").iterdir()):
        if log.name.startswith("."):
            continue
        for entry in _entries(log):
            named[unquote(urlparse(entry["path"]).path)] = None
    return _read([Path(name) for name in named], schema)


def _entries(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]


def written_batches(place: Path, schema: pa.Schema) -> pa.Table:
    """The results of the foreachBatch sink."""
    return _read(sorted((place / "foreach" / "out").glob("*.parquet")), schema)


def _read(paths: list[Path], schema: pa.Schema) -> pa.Table:
    tables = [pq.ParquetFile(path).read() for path in paths]
    return pa.concat_tables([t.select(schema.names).cast(schema) for t in tables] or [schema.empty_table()])
