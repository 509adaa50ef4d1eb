"""The window of an input port: `tumbling(count(100))`, `sliding(time("10 s"), every=count(1))`.

In: policies of the window library. Out: a frozen `Clause` that operator models are checked against; `in_ticks` reads it
in the time of the stream, and `container` makes the window. Where a stream has a key, each key has a window of its own.

Built-in operators keep row numbers in their windows, and rows in a `RowStore`; policies read attributes of rows
through `Attribute`. Operators of users keep rows as dicts.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from panes.clock import Clock, FakeClock
from panes.errors import DataError, QueryError
from panes.policies.library import SlidingWindow, TumblingWindow
from panes.policies.library.specs import (
    SELECTS,
    Count,
    Delta,
    PartitionAge,
    PartitionCount,
    PartitionPolicy,
    Policy,
    Punct,
    Select,
    Time,
    TupleCount,
    check_plain,
    count,
    text,
)
from panes.units import Duration, TimeDomain

Array = np.ndarray

TUMBLING, SLIDING = "tumbling", "sliding"
_EVICTIONS = {TUMBLING: (Count, Delta, Time, Punct), SLIDING: (Count, Delta, Time)}
_EXAMPLE = "count(100), delta('ts', 10), time('10 s')"


@dataclass(frozen=True, repr=False)
class Clause:
    """A window by its policies. `every` is None for tumbling windows, which are processed when they are full, and
    for sliding ones whose operator fixes it."""

    kind: str
    evict: Policy
    every: Policy | None = None
    partition_evict: PartitionPolicy | None = None
    select: Select = "lru"

    @property
    def form(self) -> tuple[str, ...]:
        """What models allow or refuse: the kind of window, of its eviction and of its trigger."""
        trigger = () if self.every is None else (self.every.kind,)
        return (self.kind, self.evict.kind, *trigger)

    @property
    def keeps_none(self) -> bool:
        """Whether no row stays in the window."""
        return isinstance(self.evict, Count) and self.evict.size == 0

    @property
    def punctuated(self) -> bool:
        return isinstance(self.evict, Punct)

    @property
    def attributes(self) -> tuple[str, ...]:
        """Columns that its policies look at."""
        policies = (self.evict, self.every)
        return tuple(dict.fromkeys(str(p.attribute) for p in policies if isinstance(p, Delta)))

    def __repr__(self) -> str:
        shown = [text(self.evict)]
        shown += [] if self.every is None else [f"every={text(self.every)}"]
        shown += [] if self.partition_evict is None else [f"partition_evict={self.partition_evict!r}"]
        shown += [] if self.select == "lru" else [f"select={self.select!r}"]
        return f"{self.kind}({', '.join(shown)})"


def tumbling(evict: Policy, *, partition_evict: PartitionPolicy | None = None, select: Select = "lru") -> Clause:
    """Rows are kept until the window is full, then processed, and all leave.

    - `evict`: when it is full: count(n), delta(column, d), time(size), or punct(): when a punctuation comes.
    - `partition_evict`, `select`: which keys are forgotten, of a stream that has a key.

    >>> from panes.operators import count, tumbling
    >>> print(tumbling(count(100)))
    tumbling(count(100))
    """
    _check_policy(evict, TUMBLING, "evict", _EVICTIONS[TUMBLING])
    if isinstance(evict, Count) and evict.size < 1:
        raise QueryError("tumbling(evict=count(0)): a window of no rows is never full; count at least 1")
    return _checked(Clause(TUMBLING, evict, None, partition_evict, select))


def sliding(
    evict: Policy,
    *,
    every: Policy | None = None,
    partition_evict: PartitionPolicy | None = None,
    select: Select = "lru",
) -> Clause:
    """The newest rows are kept, the oldest leave one by one.

    - `evict`: what stays: the last count(n) rows, delta(column, d) or time(size); count(0) keeps none.
    - `every`: when it is processed: count(m), delta or time. Operators that look at each row need none.
    - `partition_evict`, `select`: which keys are forgotten, of a stream that has a key.
    """
    _check_policy(evict, SLIDING, "evict", _EVICTIONS[SLIDING])
    if every is not None:
        _check_policy(every, SLIDING, "every", _EVICTIONS[SLIDING])
        if isinstance(every, Count) and every.size < 1:
            raise QueryError("sliding(every=count(0)): a window can't be processed every 0 rows; count at least 1")
    return _checked(Clause(SLIDING, evict, every, partition_evict, select))


def _checked(clause: Clause) -> Clause:
    given = clause.partition_evict
    if given is not None and not isinstance(given, PartitionCount | TupleCount | PartitionAge):
        raise QueryError(
            f"{clause.kind}(partition_evict={given!r}) must be partition_count(n), tuple_count(n) or "
            "partition_age('1 h')"
        )
    if clause.select not in SELECTS:
        raise QueryError(f"{clause.kind}(select={clause.select!r}) must be one of {', '.join(SELECTS)}")
    if clause.select == "user":
        raise QueryError(
            f"{clause.kind}(select='user'): a choice of your own needs a handler, which only an operator of your "
            "own can register (see panes.operators.Operator)"
        )
    for policy in (clause.evict, clause.every):
        if policy is not None:
            check_plain(policy, clause.kind)
        if isinstance(policy, Delta) and not isinstance(policy.attribute, str):
            raise QueryError(f"{clause.kind}({text(policy)}): in the window of a stream the attribute must be a column")
    return clause


def _check_policy(policy: Any, kind: str, argument: str, allowed: tuple[type, ...]) -> None:
    if isinstance(policy, allowed):
        return
    if isinstance(policy, Punct):
        why = "punctuations end windows, and a sliding window has no end; use tumbling(punct())"
        raise QueryError(f"{kind}({argument}=punct()): {why}")
    more = " or punct()" if kind == TUMBLING else ""
    raise QueryError(f"{kind}({argument}={policy!r}) must be a policy such as {_EXAMPLE}{more}")


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
        return replace(policy, size=Duration(1000 * _ticks(policy, domain, where)))  # as the operator's clock counts
    if not isinstance(policy, Delta):
        return policy
    kind = types(str(policy.attribute))
    if pa.types.is_timestamp(kind):
        nanos = int(policy.threshold * 1000)
        return replace(policy, threshold=nanos // TimeDomain(kind.unit).nanos_per_tick)
    if pa.types.is_decimal(kind):
        return replace(policy, threshold=int(Decimal(str(policy.threshold)).scaleb(kind.scale)))
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise QueryError(f"{where}: {text(policy)} needs a column of numbers or times; {policy.attribute} is {kind}")
    return policy


def _ticks(policy: Time | PartitionAge, domain: TimeDomain, where: str) -> int:
    return domain.ticks(
        policy.size if isinstance(policy, Time) else policy.written, argument=f"{where}: {policy.kind}(size)"
    )


def renamed(policy: Policy, attributes: Mapping[str, Any]) -> Policy:
    """The policy with its attribute under another name, or read by a function."""
    return replace(policy, on=(attributes[str(policy.attribute)],)) if isinstance(policy, Delta) else policy


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
