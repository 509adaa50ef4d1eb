"""Rows on their way between Spark's tasks: packed into few large binary values, by key group.

A row of Spark that holds a whole Arrow table costs one copy; the same rows one by one would be taken apart
and put together again on every side of a shuffle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from panes.plan.query import StreamPlan
from panes.runners.spark.beats import PULSE
from panes.runners.spark.event_time import EventTime
from panes.runners.spark.workers import tune_worker
from panes.slicing.keys import KEY_GROUPS, KeyDirectory

#: A packed row: for whom, from where (these two give rows an order that does not change), the rows, and on a
#: stream the latest time among them and those packed with them: the watermark needs no more, and to ask every
#: row costs Spark a quarter of what it does with a row.
PACKED_TIME = "panes_time"
PACKED_ROWS = "panes_group int, panes_part int, panes_chunk int, panes_rows binary"
PACKED = f"{PACKED_ROWS}, {PACKED_TIME} timestamp_ltz"
_TYPES = {"panes_group": pa.int32(), "panes_part": pa.int32(), "panes_chunk": pa.int32(), "panes_rows": pa.binary()}
_TIME_TYPE = pa.timestamp("us", tz="UTC")
#: Bytes of rows in a packed value: many, so that the cost per value is small, and few enough that Spark, which
#: counts values and not bytes when it hands them to a worker, never holds too much of them at once.
_VALUE_BYTES = 1 << 19
#: Keys that a task remembers the group of; more than this and it begins anew.
_KNOWN_KEYS = 1 << 18
#: Fast both ways, and rows take half the bytes on their way and in the state.
_IPC = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)


@lru_cache(maxsize=8)
def group_labels(groups: int) -> tuple[int, ...]:
    """One integer per key group, chosen so that Spark's hash spreads them evenly over its partitions.

    Spark puts a row into partition hash(label) modulo the number of partitions. Labels whose hashes are
    0, 1, 2, ... modulo 960 are spread evenly over any number of partitions that divides 960.
    """
    candidates = np.arange(200_000, dtype=np.uint32)
    hashes = _murmur3(candidates).view(np.int32).astype(np.int64) % 960
    return tuple(int(np.argmax(hashes == i % 960) if i < 960 else i) for i in range(groups))


def _murmur3(values: np.ndarray) -> np.ndarray:
    """The hash of Spark for a column of 32 bit integers (Murmur3, seed 42)."""
    with np.errstate(over="ignore"):
        k = values * np.uint32(0xCC9E2D51)
        k = (k << np.uint32(15)) | (k >> np.uint32(17))
        k *= np.uint32(0x1B873593)
        h = np.uint32(42) ^ k
        h = (h << np.uint32(13)) | (h >> np.uint32(19))
        h = h * np.uint32(5) + np.uint32(0xE6546B64)
        h ^= np.uint32(4)
        h ^= h >> np.uint32(16)
        h *= np.uint32(0x85EBCA6B)
        h ^= h >> np.uint32(13)
        h *= np.uint32(0xC2B2AE35)
        h ^= h >> np.uint32(16)
    return h


def read(stream: StreamPlan, table: pa.Table) -> pa.Table:
    """Rows as the stream reads them, without those that `where` leaves out."""
    # columns that nobody looks at were not read; the stream's schema has them, and null will do
    for field in stream.schema:
        if field.name not in table.column_names:
            table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    return stream.read(table)


@dataclass(frozen=True)
class Packer:
    """The first step of a query in Spark's tasks: rows read, those that `where` leaves out dropped, and packed."""

    stream: StreamPlan
    columns: tuple[str, ...]  # those that are sent on
    groups: int
    time: EventTime | None = None  # of a stream
    #: put into the schema of what is packed
    metadata: dict[bytes, bytes] | None = None
    #: every task with rows tells every group that some came, if not for it then for another
    pulses: bool = False

    @property
    def used_groups(self) -> int:
        """How many groups have rows: without keys all are in the first, and the others never run."""
        return self.groups if self.stream.keys else 1

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        tune_worker()
        context = TaskContext.get()
        part = 0 if context is None else context.partitionId()
        packing = Packing(self)
        held: list[pa.RecordBatch] = []
        waiting = 0
        for batch in batches:
            held.append(batch)
            waiting += batch.nbytes
            if waiting >= self.groups * _VALUE_BYTES:
                yield packing.pack(held, part)
                held, waiting = [], 0
        if held:
            yield packing.pack(held, part)


def packed_rows(
    groups: Sequence[int], parts: Sequence[int], chunks: Sequence[int], rows: Sequence[bytes]
) -> pa.RecordBatch:
    """A batch of packed rows, without their times."""
    columns = [pa.array(each, kind) for each, kind in zip((groups, parts, chunks, rows), _TYPES.values())]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(_TYPES))


class Packing:
    """The work of one task: gives each key's rows to its group, in the order in which they came."""

    def __init__(self, packer: Packer) -> None:
        self._stream = packer.stream
        self._columns = packer.columns
        self._groups = packer.groups
        self._time = packer.time
        self._metadata = packer.metadata
        self._used = packer.used_groups
        self._pulsing = packer.used_groups if packer.pulses else 0
        self._labels = group_labels(packer.groups)
        self._of_hash = group_of(np.arange(KEY_GROUPS), packer.groups)
        self._keys: KeyDirectory | None = None
        self._values = 0

    def pack(self, held: Sequence[pa.RecordBatch], part: int) -> pa.RecordBatch:
        """The rows of some batches as packed values."""
        table = self._read(pa.Table.from_batches(held))
        found = [(label, to_bytes(rows)) for label, rows in self._by_group(table)]
        n = len(found)
        latest = None if self._time is None else self._time.reached(table[self._stream.time])
        numbers = range(self._values, self._values + n)
        self._values += n
        pulses, self._pulsing = self._pulsing, 0
        labels, rows = zip(*found) if found else ((), ())
        packed = packed_rows(
            [*labels, *self._labels[:pulses]],
            [part] * n + [PULSE] * pulses,
            [*numbers, *([0] * pulses)],
            [*rows, *([b""] * pulses)],
        )
        return packed.append_column(PACKED_TIME, pa.array([latest] * n + [None] * pulses, _TIME_TYPE))

    def _read(self, table: pa.Table) -> pa.Table:
        rows = read(self._stream, table).select(self._columns)
        return rows if self._metadata is None else rows.replace_schema_metadata(self._metadata)

    def _by_group(self, table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """(label of a group, rows of it), in pieces of limited size."""
        if not table.num_rows:
            return
        most = max(1, _VALUE_BYTES * table.num_rows // max(table.nbytes, 1))
        ends = [table.num_rows]
        if self._used > 1:
            of = self._group_of_rows(table)
            # in one chunk: rows of many chunks are picked several times slower
            table = table.combine_chunks().take(pa.array(np.argsort(of, kind="stable")))
            ends = np.cumsum(np.bincount(of, minlength=self._groups)).tolist()
        for label, start, end in zip(self._labels, [0, *ends], ends):
            for at in range(start, end, most):
                yield label, table.slice(at, min(most, end - at))

    def _group_of_rows(self, table: pa.Table) -> np.ndarray:
        if self._keys is None or len(self._keys) > _KNOWN_KEYS:
            self._keys = KeyDirectory([table.schema.field(k).type for k in self._stream.keys])
        slots = self._keys.slots([table[k] for k in self._stream.keys])
        of_slot = self._of_hash[self._keys.groups(np.arange(len(self._keys)))]
        return of_slot[slots]


def group_of(hash_groups: np.ndarray, groups: int) -> np.ndarray:
    """The key group of a query that has `groups` of them, as a range of the fixed hash groups."""
    return (hash_groups * groups // KEY_GROUPS).astype(np.uint8)


def hash_groups(group: int, groups: int) -> range:
    """The fixed hash groups that make up one key group of a query."""
    return range(-(-group * KEY_GROUPS // groups), -(-(group + 1) * KEY_GROUPS // groups))


def in_order(parts: Sequence[int], chunks: Sequence[int], rows: Sequence[bytes]) -> list[bytes]:
    """Packed rows by input partition and place in it: the same order at every repetition."""
    return [rows[i] for i in sorted(range(len(rows)), key=lambda i: (parts[i], chunks[i]))]


def unpacked(packed: Sequence[bytes]) -> pa.Table | None:
    """The rows of packed values, end to end."""
    return pa.concat_tables([from_bytes(data) for data in packed]) if packed else None


def to_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_IPC) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def from_bytes(data: bytes) -> pa.Table:
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()


def filled(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with the columns of `schema`; null where it has none."""
    names = table.column_names
    columns = [table.column(f.name) if f.name in names else pa.nulls(table.num_rows, f.type) for f in schema]
    return pa.table(columns, schema=schema)
