"""Containers of the window library for the ports of an operator: from a clause, in the time of the stream.

Built-in operators keep row numbers in their windows, and rows in a `RowStore`; policies read attributes of rows
through `Attribute`. Operators of users keep rows as dicts.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from panes.clock import Clock, FakeClock
from panes.errors import DataError, QueryError
from panes.operators.clauses import TUMBLING, Clause
from panes.policies.library import SlidingWindow, TumblingWindow
from panes.policies.library.specs import Delta, PartitionAge, Policy, Time, count
from panes.units import TimeDomain

Array = np.ndarray


class RowClock(FakeClock):
    """The clock of an operator: it follows the time of rows, in their ticks.

    Windows see ticks from the earliest possible on, so that no moment is negative for them, before 1970 either.
    """

    SHIFT = 1 << 62

    @property
    def tick(self) -> int:
        """The time of the rows; far below all times before the first."""
        return self._now - self.SHIFT

    def reach(self, tick: int) -> None:
        """Let time pass until a row of this time comes."""
        self.advance_to(tick + self.SHIFT)


class Attribute:
    """The values of a column, by row number, for policies that compare them; its text is the column's name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._values: dict[int, Any] = {}

    def coming(self, numbers: Array, column: pa.ChunkedArray) -> None:
        """Rows that are about to be inserted; those before them were."""
        values = plain_values(column)
        if pa.types.is_decimal(column.type):  # whole numbers of the last digit, as `in_ticks` scales the difference
            values = [None if v is None else int(v.scaleb(column.type.scale)) for v in values]
        self._values = dict(zip(numbers.tolist(), values))

    def __call__(self, number: int) -> Any:
        value = self._values[number]
        if value is None:
            raise DataError(f"delta({self.name!r}): row {number} of the stream has no value there, so no difference")
        return value

    def __repr__(self) -> str:
        return self.name


def plain_values(column: pa.ChunkedArray) -> list[Any]:
    """Python values that compare; points in time as ticks."""
    if pa.types.is_temporal(column.type):
        width = 32 if pa.types.is_date32(column.type) or pa.types.is_time32(column.type) else 64
        column = column.cast(pa.int32() if width == 32 else pa.int64())
    return column.to_pylist()


def keys_of(table: pa.Table, names: tuple[str, ...]) -> list[Hashable] | None:
    """The key of each row, to find its window by; None: the stream has no key."""
    if not names:
        return None
    columns = [_equal_values(table.column(name)) for name in names]
    return columns[0] if len(names) == 1 else list(zip(*columns))


def _equal_values(column: pa.ChunkedArray) -> list[Any]:
    """Values that are found again: NaN, which is not equal to itself, by its name."""
    values = plain_values(column)
    return ["NaN" if v != v else v for v in values] if pa.types.is_floating(column.type) else values


def in_ticks(clause: Clause, domain: TimeDomain, types: Callable[[str], pa.DataType], where: str) -> Clause:
    """The clause with sizes in ticks of the stream's time, and differences in units of their column."""
    evict = _scaled(clause.evict, domain, types, where)
    every = None if clause.every is None else _scaled(clause.every, domain, types, where)
    partition = clause.partition_evict
    if isinstance(partition, PartitionAge):
        partition = PartitionAge(_ticks(partition, domain, where))
    return replace(clause, evict=evict, every=every, partition_evict=partition)


def _scaled(policy: Policy, domain: TimeDomain, types: Callable[[str], pa.DataType], where: str) -> Policy:
    if isinstance(policy, Time):
        return Time(_ticks(policy, domain, where))
    if not isinstance(policy, Delta):
        return policy
    kind = types(str(policy.attribute))
    if pa.types.is_timestamp(kind):
        nanos = int(policy.delta * 1000)
        return replace(policy, delta=nanos // TimeDomain(kind.unit).nanos_per_tick)
    if pa.types.is_decimal(kind):
        return replace(policy, delta=int(Decimal(str(policy.delta)).scaleb(kind.scale)))
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise QueryError(f"{where}: {policy!r} needs a column of numbers or times; {policy.attribute} is {kind}")
    return policy


def _ticks(policy: Time | PartitionAge, domain: TimeDomain, where: str) -> int:
    return domain.ticks(policy.written, argument=f"{where}: {policy.kind}(size)")


def renamed(policy: Policy, attributes: Mapping[str, Any]) -> Policy:
    """The policy with its attribute under another name, or read by a function."""
    return replace(policy, attribute=attributes[str(policy.attribute)]) if isinstance(policy, Delta) else policy


def container(
    clause: Clause, *, keyed: bool, clock: Clock, attributes: Mapping[str, Attribute] | None = None
) -> TumblingWindow | SlidingWindow:
    """The window of a clause in ticks; `attributes`: how policies read rows that are numbers."""

    def of(policy: Policy) -> Policy:
        return policy if attributes is None else renamed(policy, attributes)

    options: dict[str, Any] = {
        "partitioned": keyed,
        "partition_evict": clause.partition_evict,
        "select": clause.select,
        "clock": clock,
    }
    if clause.kind == TUMBLING:
        return TumblingWindow(evict=of(clause.evict), **options)
    trigger = count(1) if clause.every is None else of(clause.every)
    return SlidingWindow(evict=of(clause.evict), trigger=trigger, **options)
