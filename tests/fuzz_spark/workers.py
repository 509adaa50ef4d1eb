"""The code that Spark's workers run, without Spark: packing, the processor, its state, its timers.

The store is a dict per key group. Two workers with operators of their own take turns, so that some of what they
keep is out of date; a batch can be lost after it was done, so that what they keep may never have been.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark import cloudpickle

from panes.runners.spark import group_state, stored
from panes.runners.spark.group_operator import GroupQuery, used_columns
from panes.runners.spark.group_state import OperatorCache
from panes.runners.spark.packing import Packer, from_bytes, group_labels, hash_groups
from panes.runners.spark.processor import GroupProcessor
from tests.fuzz.engine import Engine
from tests.fuzz_spark.cuts import Move, SparkJob, watermarks
from tests.fuzz_spark.reference import Late, compare, embedded, snapshot_before
from tests.oracle.oracle import Result


@dataclass
class Store:
    """The state of one key group: variables, and the timers that are set."""

    values: dict[str, Any] = field(default_factory=dict)
    timers: set[int] = field(default_factory=set)


class Handle:
    """What Spark gives a processor: variables and timers of the group that is called now."""

    def __init__(self) -> None:
        self.now = Store()
        self.watermark = 0

    def getValueState(self, name: str, schema: str) -> Any:
        return _Value(self, name)

    def getMapState(self, name: str, key: str, value: str) -> Any:
        return _Map(self, name)

    def registerTimer(self, millis: int) -> None:
        assert millis > self.watermark, f"a timer at {millis} that is not after the watermark {self.watermark}"
        self.now.timers.add(millis)

    def deleteTimer(self, millis: int) -> None:
        self.now.timers.remove(millis)


class _Value:
    def __init__(self, handle: Handle, name: str) -> None:
        self._handle, self._name = handle, name

    def get(self) -> Any:
        return self._handle.now.values.get(self._name)

    def update(self, value: tuple[Any, ...]) -> None:
        self._handle.now.values[self._name] = value


class _Map:
    def __init__(self, handle: Handle, name: str) -> None:
        self._handle, self._name = handle, name

    def _all(self) -> dict[Any, Any]:
        found: dict[Any, Any] = self._handle.now.values.setdefault(self._name, {})
        return found

    def getValue(self, key: tuple[Any, ...]) -> Any:
        return self._all().get(key)

    def containsKey(self, key: tuple[Any, ...]) -> bool:
        return key in self._all()

    def updateValue(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None:
        self._all()[key] = value

    def removeKey(self, key: tuple[Any, ...]) -> None:
        del self._all()[key]

    def iterator(self) -> Iterator[Any]:
        return iter(list(self._all().items()))


@dataclass(frozen=True)
class TimerValues:
    watermark: int

    def getCurrentWatermarkInMs(self) -> int:
        return self.watermark


class Workers:
    """Runs a job micro-batch by micro-batch."""

    def __init__(self, job: SparkJob, seed: int) -> None:
        plan = job.query._plan
        whole = job.keep_late or job.embedded
        columns = tuple(plan.stream.schema.names) if whole else used_columns(plan)
        self.job = job
        self.rng = Random(seed)
        self.labels = group_labels(job.groups)
        self.query = GroupQuery(plan, columns, at_once=job.at_once, early=job.time if job.at_once else None)
        self.packer = Packer(plan.stream, columns, job.groups, pulses=self.query.follows)
        processor = GroupProcessor(self.query, job.time, job.groups, keep_late=job.keep_late)
        self.sent = cloudpickle.dumps(processor)
        self.stores: dict[int, Store] = {}
        self.engine = Engine(job.program)
        self.restart()

    def restart(self) -> None:
        """New processes: nothing is kept."""
        self.kept = [OperatorCache(), OperatorCache()]

    def start_from(self, blob: bytes) -> None:
        op = self.query.operator([blob])
        op.take_late()
        for group, label in enumerate(self.labels if self.job.program.keys else self.labels[:1]):
            part = op.snapshot(key_groups=hash_groups(group, self.job.groups))
            frame = pd.DataFrame({"panes_group": [label], "panes_snapshot": [part]})
            with self._process(label, 0) as (processor, _):
                processor.handleInitialState((label,), frame, TimerValues(0))

    def step(self, move: Move, watermark: int) -> tuple[list[Result], list[Late]]:
        if move.restart:
            self.restart()
        if move.lost:
            before = copy.deepcopy(self.stores)
            self._batch(move, watermark)
            self.stores = before
        return self._batch(move, watermark)

    def _batch(self, move: Move, watermark: int) -> tuple[list[Result], list[Late]]:
        given: list[pd.DataFrame] = []
        packed = self._packed(move)
        for label, frame in packed:
            with self._process(label, watermark) as (processor, values):
                given += processor.handleInputRows((label,), iter([frame[:1], frame[1:]]), values)
        for label in list(self.stores):
            for millis in sorted(t for t in self.stores[label].timers if t <= watermark):
                with self._process(label, watermark) as (processor, values):
                    given += processor.handleExpiredTimer(key=(label,), timerValues=values, expiredTimerInfo=None)
                self.stores[label].timers.discard(millis)
        results = [r for f in given for b in f["results"] if b is not None for r in self.engine.results(from_bytes(b))]
        late = [from_bytes(b) for f in given for b in f["late"] if b is not None]
        return results, [pair for t in late for pair in zip(t["id"].to_pylist(), t["reason"].to_pylist(), strict=True)]

    def _packed(self, move: Move) -> list[tuple[int, pd.DataFrame]]:
        """Rows by key group, the packs of a group in any order: a shuffle keeps none."""
        tables = []
        for part, rows in enumerate(move.parts):
            table = self.job.table(rows)
            for batch in self.packer(iter(table.to_batches())):
                found = pa.Table.from_batches([batch])
                parts = [part if known >= 0 else known for known in found["panes_part"].to_pylist()]
                tables.append(found.set_column(1, "panes_part", pa.array(parts, pa.int32())))
        if not tables:
            return []
        frame = pa.concat_tables(tables).to_pandas().sample(frac=1, random_state=self.rng.randrange(2**31))
        return [(int(label), rows) for label, rows in frame.groupby("panes_group")]

    @contextmanager
    def _process(self, label: int, watermark: int) -> Iterator[tuple[GroupProcessor, TimerValues]]:
        """A processor as a task has it: unpickled, in one of the workers, with the state of the group."""
        handle = Handle()
        handle.now, handle.watermark = self.stores.setdefault(label, Store()), watermark
        before = group_state.operator_cache, group_state._FREE, stored.PIECE_BYTES
        group_state.operator_cache = self.rng.choice(self.kept)
        group_state._FREE, stored.PIECE_BYTES = self.job.log_bytes, self.job.piece_bytes
        try:
            processor = cloudpickle.loads(self.sent)
            processor.init(handle)
            yield processor, TimerValues(watermark)
            processor.close()
        finally:
            group_state.operator_cache, group_state._FREE, stored.PIECE_BYTES = before


def check(job: SparkJob, seed: int = 0) -> str | None:
    """None if workers and embedded operator agree, else what differs."""
    blob = snapshot_before(job)
    want, want_late = embedded(job, blob)
    workers = Workers(job, seed)
    if blob is not None:
        workers.start_from(blob)
    moves = job.moves[job.embedded :]
    given = [workers.step(move, millis) for move, millis in zip(moves, watermarks(moves, job.time), strict=True)]
    return compare(job, want, [results for results, _ in given], want_late, [late for _, late in given])
