"""Events in Parquet files, made once and kept in the folder for temporary files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = "ts timestamp, k bigint, v double"
#: Rows per second of event time.
EVENT_RATE = 100_000
_BEGIN = 1_700_000_000_000_000


@dataclass(frozen=True)
class Events:
    """Files of events in order of time: `rows` in all, in `files` files, of `keys` keys."""

    rows: int
    keys: int = 1000
    files: int = 10

    @property
    def name(self) -> str:
        return f"events-{self.rows}-{self.keys}-{self.files}"

    def folder(self) -> Path:
        """Where the files are; writes them if they are not there yet."""
        return _once(self.name, self._write)

    def _write(self, folder: Path) -> None:
        rng = np.random.default_rng(7)
        per_file = -(-self.rows // self.files)
        for number in range(self.files):
            at = np.arange(number * per_file, min((number + 1) * per_file, self.rows))
            write(folder, number, _BEGIN + at * (1_000_000 // EVENT_RATE), rng.integers(0, self.keys, len(at)), rng)


@dataclass(frozen=True)
class KeyBatches:
    """One row for each of `keys` keys, then files that touch a share of the keys: one file per micro-batch."""

    keys: int
    shares: tuple[float, ...]

    def folder(self) -> Path:
        return _once(f"keys-{self.keys}-{'-'.join(map(str, self.shares))}", self._write)

    def _write(self, folder: Path) -> None:
        rng = np.random.default_rng(7)
        for number, share in enumerate((1.0, *self.shares)):
            keys = rng.permutation(self.keys)[: max(1, int(self.keys * share))]
            write(folder, number, _BEGIN + number * 1_000_000 + np.arange(len(keys)) % 1000, keys, rng)


def write(folder: Path, number: int, times: np.ndarray, keys: np.ndarray, rng: np.random.Generator) -> None:
    table = pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
            "k": pa.array(keys, pa.int64()),
            "v": rng.normal(50, 10, len(times)),
        }
    )
    path = folder / f"part-{number:04}.parquet"
    pq.write_table(table, path)
    os.utime(path, (1_000_000_000 + number, 1_000_000_000 + number))  # Spark reads files in order of this time


def _once(name: str, write_files: Callable[[Path], None]) -> Path:
    folder = Path(tempfile.gettempdir()) / "panes-bench-spark" / name
    if not folder.exists():
        made = folder.with_suffix(f".{os.getpid()}")
        made.mkdir(parents=True)
        write_files(made)
        made.rename(folder)
    return folder
