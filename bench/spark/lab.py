"""How streams are timed: each runs over files until they are done, into a sink that drops everything."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.harness import RATE, Goal, Lab, Options
from bench.spark.data import SCHEMA
from bench.spark.processes import cpu_seconds

#: Builds results from the events.
Build = Callable[[Any], Any]
CPU = "CPU s per million rows"


@dataclass(frozen=True)
class Case:
    """A contender: what it computes (in one stream, or several one after the other), and on which files.

    Where it would take too long, that is fewer `files` of the folder, or another `folder`.
    """

    name: str
    build: Build | Sequence[Build]
    files: int | None = None
    folder: Path | None = None
    goal: Goal | None = None

    @property
    def builds(self) -> Sequence[Build]:
        return self.build if isinstance(self.build, Sequence) else [self.build]


@dataclass(frozen=True)
class Timed:
    rows: int
    seconds: float
    cpu: float
    batches: list[Any]


class SparkLab(Lab):
    """A lab with a Spark session."""

    def __init__(self, workload: str, options: Options, log: Callable[[str], None], spark: Any) -> None:
        super().__init__(workload, options, log)
        self.spark = spark

    def source(self, folder: Path, *, files: int | None = None, per_batch: int | None = None) -> Any:
        """A stream of the events in a folder, or of its first files."""
        reader = self.spark.readStream.schema(SCHEMA)
        if per_batch is not None:
            reader = reader.option("maxFilesPerTrigger", per_batch)
        if files is not None:
            reader = reader.option("pathGlobFilter", "{" + ",".join(p.name for p in _files(folder)[:files]) + "}")
        return reader.parquet(str(folder))

    def time(self, frames: Sequence[Any]) -> Timed:
        """Run streams one after the other until their input is done."""
        rows, batches = 0, []
        cpu, began = cpu_seconds(), time.perf_counter()
        for frame in frames:
            checkpoint = tempfile.mkdtemp(prefix="panes-bench-")
            try:
                writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
                query = writer.outputMode("append").trigger(availableNow=True).start()
                query.awaitTermination()
                batches += query.recentProgress
                rows += sum(p["numInputRows"] for p in query.recentProgress)
            finally:
                shutil.rmtree(checkpoint, ignore_errors=True)
        return Timed(rows, time.perf_counter() - began, cpu_seconds() - cpu, batches)

    def compare(
        self, folder: Path, cases: Sequence[Case], *, params: Mapping[str, Any], per_batch: int | None = None
    ) -> dict[str, list[Timed]]:
        """Rows per second and CPU of each case, interleaved and repeated, after a run to warm up."""
        runs: dict[str, list[Timed]] = {case.name: [] for case in cases}
        for repeat in range(-1, self.options.repeat):
            warming = repeat < 0
            for case in cases:
                what = "warming up" if warming else f"repeat {repeat + 1}"
                self._log(f"{self.workload} {dict(params)}: {case.name}, {what}")
                # Java is slow until it has compiled what it runs often: all rows, but only one of several queries
                builds = case.builds[:1] if warming else case.builds
                place = case.folder or folder
                timed = self.time([b(self.source(place, files=case.files, per_batch=per_batch)) for b in builds])
                if not warming:
                    runs[case.name].append(timed)
        for case in cases:
            self._add(case, runs[case.name], dict(params))
        return runs

    def _add(self, case: Case, runs: Sequence[Timed], params: dict[str, Any]) -> None:
        """Rates are per query: several streams over the same rows do not make them more."""
        queries = len(case.builds)
        rates = [r.rows / queries / r.seconds for r in runs]
        cpu = statistics.median(r.cpu for r in runs)
        rows = runs[0].rows // queries
        facts: dict[str, Any] = {"cut": case.files is not None or case.folder is not None, "rows": rows}
        self.record(
            case.name,
            RATE,
            statistics.median(rates),
            params=params,
            goal=case.goal,
            spread=max(rates) / min(rates),
            **facts,
        )
        self.record(case.name, CPU, cpu / rows * 1e6, params=params, **facts)


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.parquet"))
