"""The window of an input port, as a value: `tumbling(count(100))`, `sliding(time("10 s"), every=count(1))`.

In: policies of the window library. Out: a frozen `Clause` that operator models are checked against, and that
`windows.py` makes a container of. Where a stream has a key, each key has a window of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from panes.errors import QueryError
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
)

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
    def punctuated(self) -> bool:
        return isinstance(self.evict, Punct)

    @property
    def attributes(self) -> tuple[str, ...]:
        """Columns that its policies look at."""
        policies = (self.evict, self.every)
        return tuple(dict.fromkeys(str(p.attribute) for p in policies if isinstance(p, Delta)))

    def __repr__(self) -> str:
        shown = [repr(self.evict)]
        shown += [] if self.every is None else [f"every={self.every!r}"]
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
    if isinstance(evict, Count) and evict.n < 1:
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
        if isinstance(every, Count) and every.n < 1:
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
        if isinstance(policy, Delta) and not isinstance(policy.attribute, str):
            raise QueryError(f"{clause.kind}({policy!r}): in the window of a stream the attribute must be a column")
    return clause


def _check_policy(policy: Any, kind: str, argument: str, allowed: tuple[type, ...]) -> None:
    if isinstance(policy, allowed):
        return
    if isinstance(policy, Punct):
        why = "punctuations end windows, and a sliding window has no end; use tumbling(punct())"
        raise QueryError(f"{kind}({argument}=punct()): {why}")
    more = " or punct()" if kind == TUMBLING else ""
    raise QueryError(f"{kind}({argument}={policy!r}) must be a policy such as {_EXAMPLE}{more}")
