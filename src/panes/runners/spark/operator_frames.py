"""Streams that operators give, on static frames: the operators and what is between them run in Spark's workers.

Rows of all frames go to a group, are put in order of event time, and run there by the code of the embedded runner,
punctuations between operators included. Where keys can't meet, rows are spread over groups by key; else one task does
all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from panes.errors import QueryError
from panes.operators.models import Use
from panes.plan.batches import conform
from panes.runners.local.derived import FlowSource
from panes.runners.local.merged import MergedSource
from panes.runners.local.operated import OperatorSource
from panes.runners.local.rejects import Rejects
from panes.runners.local.source import Source
from panes.runners.spark.packing import from_bytes, group_labels, group_of, in_order, to_bytes
from panes.runners.spark.shipping import packed, unpacked
from panes.runners.spark.source import frame_of
from panes.runners.spark.spark_types import spark_schema, storable_schema
from panes.slicing.keys import KeyDirectory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SCHEMA = "panes_group int, panes_source int, panes_part int, panes_chunk int, panes_rows binary"
_GROUPS = 16


class Held(Source):
    """Rows of a frame, in the place of the frame."""

    def __init__(self, schema: pa.Schema, time: str) -> None:
        self.schema = schema
        self.time = time
        self.table = schema.empty_table()

    def read(self, rejects: Rejects) -> Iterator[pa.Table]:
        yield self.table

    def take(self, rows: Sequence[bytes], sequence: str | None) -> None:
        """These rows, in order of event time, then of the sequence, then as they are."""
        table = conform(pa.concat_tables(map(from_bytes, rows)), self.schema) if rows else self.schema.empty_table()
        order = [self.time] if sequence is None or sequence not in table.column_names else [self.time, sequence]
        self.table = table.sort_by([(name, "ascending") for name in order])

    def __str__(self) -> str:
        return "rows of a frame"


@dataclass(frozen=True)
class Frames:
    """The graph of operators with its frames taken out."""

    source: OperatorSource
    held: list[Held]
    sources: list[Source]

    @classmethod
    def of(cls, source: OperatorSource) -> Frames:
        known: dict[tuple[int, str], Held] = {}
        sources: list[Source] = []

        def without(given: Source, time: str) -> Any:
            if isinstance(given, OperatorSource):
                ports = zip(given.inputs, given.plan.ports)
                return OperatorSource(given.plan, [without(s, port.stream.time) for s, port in ports], given.port)
            if isinstance(given, FlowSource):
                return FlowSource(given.flow, without(given.inputs[0], given.flow.stream.time))
            if isinstance(given, MergedSource):
                return MergedSource([without(each, time) for each in given.inputs], time)
            found = known.get((id(given), time))
            if found is None:
                found = known[id(given), time] = Held(given.schema, time)
                sources.append(given)
            return found

        return cls(without(source, source.plan.outputs[source.port].stream.time), list(known.values()), sources)


def operator_frame(source: OperatorSource, sequence: str | None = None) -> DataFrame:
    """What an operator gives of static frames."""
    graph = Frames.of(source)
    name = source.plan.use.model.name
    frames = [frame_of(each) for each in graph.sources]
    if any(frame.isStreaming for frame in frames):
        raise QueryError(
            f"to_spark(): {name} is an operator that looks at rows as they arrive, and runs on static frames only, not "
            "on streaming ones: push rows to stream.operator(), use windows (stream.window(...)), which run there, or "
            "write the stream to a table and read that"
        )
    if sequence is not None and not any(sequence in held.schema.names for held in graph.held):
        raise QueryError(f"sequence={sequence!r}: none of the streams that {name} reads has such a column")
    keys = split_keys(source)
    rows = [frame.mapInArrow(_Rows(i, each.schema, keys[i]), _SCHEMA) for i, (frame, each) in
            enumerate(zip(frames, graph.held))]  # fmt: skip
    everything = rows[0]
    for more in rows[1:]:
        everything = everything.union(more)
    schema, shipped = storable_schema(source.schema), packed((graph.source, graph.held))

    # a plain function: Spark counts the arguments that it takes
    def whole_group(given: pa.Table) -> pa.Table:
        running, held = unpacked(shipped)
        of, parts, chunks, values = (given.column(i).to_pylist() for i in (1, 2, 3, 4))
        for number, each in enumerate(held):
            mine = [i for i, source_number in enumerate(of) if source_number == number]
            each.take(in_order(*([line[i] for i in mine] for line in (parts, chunks, values))), sequence)
        tables = [t.select(schema.names).cast(schema) for t in running.batches(Rejects())]
        return pa.concat_tables([schema.empty_table(), *tables])

    return everything.groupBy("panes_group").applyInArrow(whole_group, spark_schema(schema))


def split_keys(source: OperatorSource) -> list[tuple[str, ...]]:
    """For each frame the columns by which its rows may be spread; none: all rows must be in one place.

    Windows by time, and forgotten keys, go by the rows of all keys; so does the time of what the end gives.
    """
    plan = source.plan
    alone = not any(isinstance(each, OperatorSource | FlowSource | MergedSource) for each in source.inputs)
    apart = len({id(each) for each in source.inputs}) == len(source.inputs)
    keyed = all(p.stream.keys and all(k in p.stream.schema.names for k in p.stream.keys) for p in plan.ports)
    by_rows = all(c.partition_evict is None and {*c.form[1:]} <= {"count", "delta"} for c in plan.use.windows.values())
    if alone and apart and keyed and by_rows and _same_without_others(plan.use, plan.outputs[source.port].stamped):
        return [port.stream.keys for port in plan.ports]
    return [() for _ in Frames.of(source).held]


def _same_without_others(use: Use, stamped: bool) -> bool:
    """Whether keys know nothing of each other, also at the end."""
    if use.model.name == "Aggregate":
        return not use.parameters["partial"]
    if use.model.name == "Join":
        return bool(use.parameters["how"] == "inner")
    return use.model.name in ("Sort", "Dedupe") and not stamped


@dataclass(frozen=True)
class _Rows:
    """Rows of a frame, packed for the groups that they go to."""

    number: int
    schema: pa.Schema
    keys: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        part = 0 if context is None else context.partitionId()
        for chunk, batch in enumerate(batches):
            found = list(self._by_group(conform(pa.Table.from_batches([batch]), self.schema)))
            columns = [[label for label, _ in found], *([n] * len(found) for n in (self.number, part, chunk))]
            arrays = [pa.array(column, pa.int32()) for column in columns]
            values = pa.array([to_bytes(rows) for _, rows in found], pa.binary())
            names = [field.split()[0] for field in _SCHEMA.split(", ")]
            yield pa.RecordBatch.from_arrays([*arrays, values], names)

    def _by_group(self, table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        if not table.num_rows:
            return
        if not self.keys:
            yield 0, table
            return
        directory = KeyDirectory([table.schema.field(k).type for k in self.keys])
        slots = directory.slots([table[k] for k in self.keys])
        of = group_of(directory.groups(np.arange(len(directory))), _GROUPS)[slots]
        for group in np.unique(of):
            yield group_labels(_GROUPS)[group], table.filter(pa.array(of == group))
