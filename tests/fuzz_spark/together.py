"""Many queries in one query of a real Spark: its scheduler, shuffle, state store, timers, checkpoints.

A stateful micro-batch costs half a second however little is in it, so queries share them. A row of the input is
a query's number and some of its rows; packing and processing pass it to the code of that query. What is not
Spark's own here is only the clock: after micro-batch i Spark's watermark is i seconds, and each query reads
that as the watermark which it is to have by then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import panes as pn
from panes.runners.spark.event_time import EventTime
from panes.runners.spark.group_operator import GroupQuery, used_columns
from panes.runners.spark.packing import PACKED, Packer, from_bytes, to_bytes
from panes.runners.spark.processor import GIVEN, GroupProcessor
from panes.windows.base import ALWAYS, NEVER
from tests.fuzz_spark.single import collect

#: labels of a query's key groups lie in a range of their own
LABELS = 1_000_000
#: a watermark that no row is behind
BEFORE_ALL = -(2**60)
INPUT = pa.schema([("query", pa.int32()), ("rows", pa.binary()), ("at", pa.timestamp("us", "UTC"))])


@dataclass(frozen=True)
class Clock:
    """Stands in for EventTime: Spark's watermark counts micro-batches, `marks[i]` is that of i batches in ticks."""

    marks: tuple[int, ...]
    beginning: int = ALWAYS

    def watermark(self, millis: int) -> int:
        return self.marks[millis // 1000] if millis > 0 else ALWAYS

    def millis(self, tick: int) -> int:
        at = next((i for i, mark in enumerate(self.marks) if mark >= tick), None)
        return 10**9 if tick >= NEVER or at is None else at * 1000


@dataclass(frozen=True)
class Member:
    """What workers know of one of the queries."""

    packer: Packer
    query: GroupQuery
    clock: Clock
    groups: int
    keep_late: bool


def member(
    query: pn.Query,
    marks: Sequence[int | None],
    *,
    groups: int,
    keep_late: bool,
    at_once: bool = False,
    early: EventTime | None = None,
) -> Member:
    """A query whose watermark is `marks[i]` after i + 1 micro-batches; None: it has none yet."""
    plan = query._plan
    columns = tuple(plan.stream.schema.names) if keep_late else used_columns(plan)
    # Spark's watermark has begun with the first micro-batch
    clock = Clock((ALWAYS, *(BEFORE_ALL if mark is None else mark for mark in marks)))
    asked = GroupQuery(plan, columns, at_once=at_once, early=early)
    return Member(Packer(plan.stream, columns, groups, pulses=asked.follows), asked, clock, groups, keep_late)


@dataclass
class Given:
    """What one of the queries gave."""

    results: list[pa.Table] = field(default_factory=list)
    late: list[pa.Table] = field(default_factory=list)


def micro_batch(number: int, parts: Sequence[Sequence[pa.Table]]) -> pa.Table:
    """The input of micro-batch `number`: the tables of each query, and a row that moves the watermark."""
    rows: list[dict[str, Any]] = [
        {"query": q, "rows": to_bytes(table), "at": None} for q, tables in enumerate(parts) for table in tables
    ]
    rows.append({"query": None, "rows": None, "at": (number + 1) * 1_000_000})
    return pa.table({f.name: pa.array([row[f.name] for row in rows], f.type) for f in INPUT}, schema=INPUT)


class Together:
    """A streaming query over many queries. Started again, it goes on from its checkpoint."""

    def __init__(self, spark: Any, members: Sequence[Member], folder: Path) -> None:
        self._source = pn.testing.MicroBatches(spark, schema=INPUT, partitions=2, folder=folder / "input")
        self._checkpoint = folder / "checkpoint"
        self._frame = (
            self._source.frame.withWatermark("at", "0 milliseconds")
            .mapInArrow(Pack(members), PACKED)
            .groupBy("panes_group")
            .transformWithStateInPandas(
                TogetherProcessor(members),
                outputStructType=f"{GIVEN}, query int",
                outputMode="append",
                timeMode="EventTime",
            )
            .select("query", "results", "late")
        )

    def run(self, inputs: Iterable[pa.Table]) -> dict[int, Given]:
        """Start, take these micro-batches, let the watermark after them be felt, and stop: what each query gave."""
        for table in inputs:
            self._source.add(table)
        return by_query(collect(self._frame, self._checkpoint))


def by_query(tables: Sequence[pa.Table]) -> dict[int, Given]:
    """Packed results and late rows of all queries, apart."""
    found: dict[int, Given] = defaultdict(Given)
    for row in (row for table in tables for row in table.to_pylist()):
        if row["results"] is not None:
            found[row["query"]].results.append(from_bytes(row["results"]))
        if row["late"] is not None:
            found[row["query"]].late.append(from_bytes(row["late"]))
    return found


class Pack:
    """Rows of many queries to packed rows of their key groups."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = members

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        first = 1000 * (0 if context is None else context.partitionId())
        seen = 0
        for batch in batches:
            for number, data in zip(batch["query"].to_pylist(), batch["rows"].to_pylist()):
                if number is None:
                    continue
                for packed in self._members[number].packer(iter(from_bytes(data).to_batches())):
                    labels = pa.array([label + number * LABELS for label in packed[0].to_pylist()], pa.int32())
                    known = packed["panes_part"].to_pylist()
                    places = pa.array([first + seen if part >= 0 else part for part in known], pa.int32())
                    seen += 1
                    yield pa.RecordBatch.from_arrays([labels, places, *packed.columns[2:]], schema=packed.schema)


class Shared:
    """A handle for many processors: Spark lets a variable be asked for only once."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._known: dict[str, Any] = {}

    def getValueState(self, name: str, schema: str) -> Any:
        return self._known.setdefault(name, None) or self._new(name, self._handle.getValueState(name, schema))

    def getMapState(self, name: str, key: str, value: str) -> Any:
        return self._known.setdefault(name, None) or self._new(name, self._handle.getMapState(name, key, value))

    def _new(self, name: str, state: Any) -> Any:
        self._known[name] = state
        return state

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handle, name)


class TogetherProcessor(StatefulProcessor):
    """Hands every call to the processor of its query."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._processors = [GroupProcessor(m.query, m.clock, m.groups, keep_late=m.keep_late) for m in members]

    def init(self, handle: Any) -> None:
        shared = Shared(handle)
        # the variables must be there before the first row comes
        self._processors[0].init(shared)
        self._shared: Any = shared
        self._begun = {0}

    def _of(self, key: Any) -> tuple[int, GroupProcessor]:
        number = int(key[0]) // LABELS
        if number not in self._begun:
            self._processors[number].init(self._shared)
            self._begun.add(number)
        return number, self._processors[number]

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        number, processor = self._of(key)
        for frame in processor.handleInputRows(key, rows, timerValues):
            yield frame.assign(query=number)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        number, processor = self._of(key)
        for frame in processor.handleExpiredTimer(key, timerValues, expiredTimerInfo):
            yield frame.assign(query=number)

    def close(self) -> None:
        """Nothing is open."""
