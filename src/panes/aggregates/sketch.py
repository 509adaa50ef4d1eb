"""Approximate distinct count: a HyperLogLog, kept sparse and sorted.

A value's 64-bit hash names a register (its first bits) and a level (the zeros after them, plus one); a
register keeps its highest level. A partial lists the registers in use as `register << 8 | level`, so small
sets cost a few bytes, and combining is a sort that keeps the last entry of each register. The estimate is
Ertl's improved one, which needs no correction tables and no switch between ranges.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from panes.aggregates.base import (
    IDEMPOTENT,
    Array,
    BoundAggregate,
    Cells,
    Field,
    Inputs,
    Laws,
    Ragged,
    Spec,
    present_values,
)
from panes.aggregates.segments import normal, positions_of, segment_ids
from panes.aggregates.types import ORDERED
from panes.errors import QueryError
from panes.state.checked import demand


@dataclass(frozen=True, repr=False)
class ApproxCountDistinct(Spec):
    """How many different values there are, within a relative standard error."""

    name: ClassVar[str] = "approx_count_distinct"
    promises: ClassVar[Laws] = IDEMPOTENT
    takes: ClassVar[tuple[str, ...] | None] = ORDERED
    advice: ClassVar[str] = "count something that can be compared"

    relative_error: float = 0.02

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.002 <= self.relative_error <= 0.26:
            raise QueryError(
                f"approx_count_distinct: relative_error = {self.relative_error!r} is not in 0.002..0.26; "
                "a smaller error needs more registers than an exact count_distinct is worth"
            )

    def bind(self, types: Sequence[pa.DataType]) -> BoundApproxCountDistinct:
        self.argument_types(types)
        return BoundApproxCountDistinct(math.ceil(2 * math.log2(1.04 / self.relative_error)))


class BoundApproxCountDistinct(BoundAggregate):
    laws = IDEMPOTENT
    fields = (Field("registers", pa.uint32(), ragged=True),)
    out_type = pa.int64()

    def __init__(self, bits: int) -> None:
        self.bits = bits
        #: zeros are counted up to here; 52 bits are read at once, and more than that is never reached
        self.depth = min(64 - bits, 52)

    def lift(self, rows: Inputs, offsets: Array) -> Cells:
        values, offsets = present_values(rows.columns[0], offsets)
        hashes = hash_values(values)
        register = (hashes >> np.uint64(64 - self.bits)).astype(np.int64)
        level = _leading_zeros(hashes << np.uint64(self.bits), self.depth) + 1
        if len(offsets) << self.bits < 4 * len(values):
            return self._table(register, level, offsets)
        return self._highest((register << 8 | level).astype(np.uint32), offsets)

    def fold(self, cells: Cells, offsets: Array) -> Cells:
        (lists,) = cells.fields
        bounds = lists.offsets[offsets]
        return self._highest(lists.values[bounds[0] : bounds[-1]], bounds - bounds[0])

    def _table(self, register: Array, level: Array, offsets: Array) -> Cells:
        """The same for few large segments, by way of a full table of registers."""
        n = len(offsets) - 1
        table = np.zeros(n << self.bits, np.int64)
        np.maximum.at(table, (segment_ids(offsets) << self.bits) + register, level)
        at = np.flatnonzero(table)
        entries = ((at & ((1 << self.bits) - 1)) << 8 | table[at]).astype(np.uint32)
        return Cells((Ragged(np.searchsorted(at, np.arange(n + 1) << self.bits), entries),))

    def _highest(self, entries: Array, offsets: Array) -> Cells:
        """Sorted entries of each segment, the highest level of each register only."""
        keyed = (segment_ids(offsets).astype(np.uint64) << np.uint64(32)) | entries
        keyed.sort()
        last = np.ones(len(keyed), bool)
        last[:-1] = (keyed[1:] >> np.uint64(8)) != (keyed[:-1] >> np.uint64(8))
        return Cells((Ragged(positions_of(last, offsets), keyed[last].astype(np.uint32)),))

    def check(self, cells: Cells) -> None:
        super().check(cells)
        entries = cells.fields[0].values
        demand(bool((entries >> np.uint32(8) < 1 << self.bits).all()), "a sketch has registers that it does not have")
        levels = entries & np.uint32(255)
        demand(bool(((levels > 0) & (levels <= self.depth + 1)).all()), "a sketch has seen what can't be seen")

    def lower(self, cells: Cells) -> pa.Array:
        (lists,) = cells.fields
        n, levels = len(lists), self.depth + 2
        first, stop = lists.offsets[0], lists.offsets[-1]
        level = (lists.values[first:stop] & np.uint32(255)).astype(np.int64)
        at = segment_ids(lists.offsets) * levels + level
        histogram = np.bincount(at, minlength=n * levels).reshape(n, levels)
        histogram[:, 0] = (1 << self.bits) - np.diff(lists.offsets)
        return pa.array([_estimate(row, 1 << self.bits) for row in histogram.tolist()], pa.int64())


def _estimate(histogram: list[int], registers: int) -> int:
    """Ertl's improved raw estimate from how many registers are at each level."""
    if histogram[0] == registers:
        return 0
    z = registers * _tau(1 - histogram[-1] / registers)
    for count in reversed(histogram[1:-1]):
        z = 0.5 * (z + count)
    z += registers * _sigma(histogram[0] / registers)
    return round(registers * registers / (2 * math.log(2) * z))


def _sigma(x: float) -> float:
    y, z = 1.0, x
    while True:
        x *= x
        before = z
        z += x * y
        y += y
        if z == before:
            return z


def _tau(x: float) -> float:
    if x in (0.0, 1.0):
        return 0.0
    y, z = 1.0, 1 - x
    while True:
        x = math.sqrt(x)
        before = z
        y *= 0.5
        z -= (1 - x) ** 2 * y
        if z == before:
            return z / 3


def hash_values(values: Array) -> Array:
    """A 64-bit hash of each value, the same in every process. Equal values of one type have equal hashes."""
    if values.dtype.kind == "O":
        known: dict[object, int] = {}
        for value in values:
            if value not in known:
                known[value] = _hash_object(value)
        return np.fromiter((known[v] for v in values), np.uint64, len(values))
    if values.dtype.kind == "f":
        values = normal(values).astype(np.float64, copy=False)
        bits = np.where(np.isnan(values), np.nan, values).view(np.uint64)
    else:
        bits = values.astype(np.uint64 if values.dtype.kind == "u" else np.int64).view(np.uint64)
    return _mix(bits)


def _hash_object(value: object) -> int:
    text = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def _mix(bits: Array) -> Array:
    """The finaliser of SplitMix64: every input bit moves every output bit."""
    with np.errstate(over="ignore"):
        z = bits + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def _leading_zeros(x: Array, most: int) -> Array:
    """Leading zero bits of 64-bit numbers, at most `most` (up to 52), read off the exponent of a float."""
    exponent = ((x >> np.uint64(11)).astype(np.float64).view(np.int64) >> 52) - 1023
    zeros: Array = np.minimum(52 - exponent, most)
    return zeros
