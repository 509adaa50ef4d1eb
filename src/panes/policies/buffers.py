"""What a window holds while it waits for its trigger: all rows, or partial results (SPEC P-55..P-65).

All buffers answer the same question, the value of the rows held, with the same answer; they differ in when the reduce
function is called and how much they hold, which `Costs` counts. `choose` is the optimiser: it takes the cheapest buffer
that is right for a set of policies.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from panes.errors import QueryError
from panes.policies.borders import KnownBorders, borders_of
from panes.policies.specs import Active, Tumble

if TYPE_CHECKING:
    from panes.policies.policy import PolicyMachine

Reduce = Callable[[Any, Any], Any]
PLANS = ("tumbling", "borders", "granular", "none")


@dataclass
class Costs:
    """The four dimensions of SPEC P-55, summed up; `buffered` is the largest number of entries held at once."""

    reduce_before: int = 0
    reduce_at_end: int = 0
    buffered: int = 0
    network: int = 0

    def holds(self, entries: int) -> None:
        self.buffered = max(self.buffered, entries)


def choose(machine: PolicyMachine, *, reduces: bool, granularity: int | None = None) -> str:
    """Which buffer to use (SPEC P-65): "tumbling", "borders", "granular" or "none" (all rows)."""
    if not reduces:
        return "none"
    # what the centre lets go leaves when the next row is in already: a running value could not tell them apart
    tumbling = (isinstance(p.eviction if isinstance(p, Active) else p, Tumble) for p in machine.evict)
    if not machine.central_evict and all(tumbling):
        return "tumbling"
    if borders_of(machine) is not None:
        return "borders"
    return "none" if granularity is None else "granular"


class _Buffer(ABC):
    @abstractmethod
    def value(self) -> Any:
        """The value of the rows held, of which there are some."""

    def final(self) -> Any:
        """The same at the end of the stream."""
        return self.value()


class ItemBuffer(_Buffer):
    """All rows, reduced when a result is due; without a reduce function, the rows themselves."""

    def __init__(self, costs: Costs, reduce: Reduce | None) -> None:
        self.costs, self.reduce = costs, reduce
        self.items: deque[Any] = deque()

    def insert(self, value: Any, position: int, time: Any) -> None:
        self.items.append(value)
        self.costs.holds(len(self.items))

    def delete(self, n: int) -> None:
        for _ in range(n):
            self.items.popleft()

    def value(self) -> Any:
        if self.reduce is None:
            return list(self.items)
        self.costs.reduce_at_end += len(self.items) - 1
        return fold(self.reduce, self.items)


class TumblingBuffer(_Buffer):
    """One running value (SPEC P-57): rows leave all at once."""

    def __init__(self, costs: Costs, reduce: Reduce) -> None:
        self.costs, self.reduce = costs, reduce
        self.size, self.running = 0, None

    def insert(self, value: Any, position: int, time: Any) -> None:
        if self.size:
            self.costs.reduce_before += 1
            value = self.reduce(self.running, value)
        self.running, self.size = value, self.size + 1
        self.costs.holds(1)

    def delete(self, n: int) -> None:
        self.size -= n  # one by one where the centre lets them go, but never only some of them

    def value(self) -> Any:
        return self.running


class BorderBuffer(_Buffer):
    """A partial from border to border (SPEC P-60); rows that no window holds are only counted (SPEC P-64).

    `end`: the window at the end of the stream may begin between two borders, so rows are kept for it, too.
    """

    def __init__(self, costs: Costs, reduce: Reduce, borders: KnownBorders, *, end: bool) -> None:
        self.costs, self.reduce, self.borders = costs, reduce, borders
        self.items: deque[Any] | None = deque() if end else None
        self.entries: deque[list[Any]] = deque()  # [rows, value], or [rows] where rows were skipped
        self.gone = 0  # rows that have left the first entry, which left with the first of them
        self.last: Any = None
        self.held = 0

    def insert(self, value: Any, position: int, time: Any) -> None:
        at = time if self.borders.by_time else position
        starts = not self.entries or self.borders.between(self.last, at)
        self.last = at
        if self.items is not None:
            self.items.append(value)
        if self.borders.is_skipped(at):
            self.entries.append([1])
        elif starts or len(self.entries[-1]) == 1:
            self.entries.append([1, value])
            self.held += 1
        else:
            entry = self.entries[-1]
            entry[0] += 1
            entry[1] = self.reduce(entry[1], value)
            self.costs.reduce_before += 1
        self.costs.holds(self.held + len(self.items or ()))

    def delete(self, n: int) -> None:
        self.gone += n
        for _ in range(n if self.items is not None else 0):
            self.items.popleft()  # type: ignore[union-attr]
        while self.entries and self.gone:
            first = self.entries[0]
            if len(first) == 2 and first[1] is not _GONE:
                first[1] = _GONE
                self.held -= 1
            if self.gone < first[0]:
                return
            self.gone -= first[0]
            self.entries.popleft()

    def value(self) -> Any:
        if self.borders.declared and self.gone and len(self.entries[0]) == 2:
            raise QueryError(f"{self.borders.declared}: a window begins at a row that is no border as it declares them")
        values = [e[1] for e in self.entries if len(e) == 2 and e[1] is not _GONE]
        self.costs.reduce_at_end += len(values) - 1
        return fold(self.reduce, values)

    def final(self) -> Any:
        assert self.items is not None
        values: list[Any] = []
        items, gone = iter(self.items), self.gone
        for entry in self.entries:
            rows = list(islice(items, entry[0] - gone))
            values += [entry[1]] if len(entry) == 2 and entry[1] is not _GONE else rows
            gone = 0
        self.costs.reduce_at_end += len(values) - 1
        return fold(self.reduce, values)


class GranularBuffer(ItemBuffer):
    """All rows, and partials of `granularity` rows each (SPEC P-63): for policies that say nothing in advance."""

    reduce: Reduce

    def __init__(self, costs: Costs, reduce: Reduce, granularity: int) -> None:
        super().__init__(costs, reduce)
        self.granularity = granularity
        self.partials: deque[tuple[int, Any]] = deque()  # (position of the first row, value)
        self.running: list[Any] = []  # [position of the first row, value], or nothing
        self.head = self.tail = 0

    def insert(self, value: Any, position: int, time: Any) -> None:
        super().insert(value, position, time)
        if self.running:
            self.running[1] = self.reduce(self.running[1], value)
            self.costs.reduce_before += 1
        else:
            self.running = [self.tail, value]
        self.tail += 1
        if self.tail - self.running[0] == self.granularity:
            if self.running[0] >= self.head:  # else some of its rows have left
                self.partials.append((self.running[0], self.running[1]))
            self.running = []
        self.costs.holds(len(self.items) + len(self.partials) + bool(self.running))

    def delete(self, n: int) -> None:
        super().delete(n)
        self.head += n
        while self.partials and self.partials[0][0] < self.head:
            self.partials.popleft()

    def value(self) -> Any:
        parts = list(self.partials)
        if self.running and self.running[0] >= self.head:
            parts.append((self.running[0], self.running[1]))
        first = parts[0][0] if parts else self.tail
        single = [self.items[i] for i in range(first - self.head)]
        values = [*single, *(value for _, value in parts)]
        if parts and not (self.running and self.running[0] >= self.head):
            after = parts[-1][0] + self.granularity
            values += [self.items[i - self.head] for i in range(after, self.tail)]
        self.costs.reduce_at_end += len(values) - 1
        return fold(self.reduce, values)


_GONE = object()


def fold(reduce: Reduce, values: Any) -> Any:
    """Pairwise, in the order of the rows."""
    values = iter(values)
    out = next(values)
    for value in values:
        out = reduce(out, value)
    return out


def buffer(
    plan: str, costs: Costs, reduce: Reduce | None, machine: PolicyMachine, granularity: int | None, last: int | None
) -> Any:
    """An empty buffer of this plan."""
    if plan == "none" or reduce is None:
        return ItemBuffer(costs, reduce)
    if plan == "tumbling":
        return TumblingBuffer(costs, reduce)
    if plan == "granular":
        assert granularity is not None
        return GranularBuffer(costs, reduce, granularity)
    borders = borders_of(machine)
    assert borders is not None
    known: Any = replace(borders, last=last)  # type: ignore[type-var]
    return BorderBuffer(costs, reduce, known, end=machine.end)
