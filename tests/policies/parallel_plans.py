"""One policy window over many workers (SPEC P-48..P-54): who sees rows, who reduces them, who puts windows together.

Policies that count or compare must see all rows: `Discretizer` runs them in one place and sends rows, window numbers
and deletions to `PreAggregator`s, whose partials a `FinalAggregator` combines. Policies that go by time alone need no
history: `run_by_time` lets every worker run them over its own share. All pieces are plain objects that pass messages,
so that a runner can put them where it likes; `run_central` and `run_by_time` wire them up in this process. The reduce
function must be associative and commutative.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from panes.errors import QueryError
from panes.policies.buffers import Costs, Reduce, fold
from panes.policies.flow import Group, send_before
from panes.policies.policy import PolicyMachine
from panes.policies.runtimes import running_evictions, running_trigger
from panes.policies.specs import Time
from panes.policies.user import TIME

NO_WINDOW = -1


class Message(NamedTuple):
    """What a worker is told: delete so many of its oldest rows, then answer for a window, then take a row."""

    row: Any
    window: int
    delete: int


class Partial(NamedTuple):
    """A worker's answer for a window; `empty` if it held no rows."""

    value: Any
    window: int
    empty: bool = False


def needs_history(machine: PolicyMachine) -> bool:
    """Whether policies must see all rows to know where windows are (SPEC P-48)."""
    return not all(isinstance(p, Time) and p.active for p in machine.leaves()) or machine.central


class Discretizer(Group):
    """Runs the policies and tells workers what to do (CWD). Rows go round; `send(worker, message)` delivers."""

    __slots__ = ("costs", "deletions", "send", "window", "workers")

    def __init__(
        self, machine: PolicyMachine, workers: int, send: Callable[[int, Message], None], costs: Costs
    ) -> None:
        if machine.central:
            raise QueryError("a central discretizer is for one window; grouped ones have central policies already")
        super().__init__(
            None, [running_trigger(p) for p in machine.trigger], running_evictions(machine.evict), self._tell_window
        )
        self.workers, self.send, self.costs = workers, send, costs
        self.window = 0
        self.deletions = [0] * workers  # not yet told

    def _tell_window(self, group: Group, when: Any) -> None:
        self.window += 1
        for worker in range(self.workers):
            self._send(worker, None, self.window)

    def delete(self, n: int) -> None:
        n = min(n, self.size)
        for number in range(self.head, self.head + n):
            self.deletions[number % self.workers] += 1
        self.head += n

    def insert(self, row: Any) -> None:
        target = self.tail % self.workers
        self._send(target, row, NO_WINDOW)
        for worker in range(self.workers):
            if self.deletions[worker]:
                self._send(worker, None, NO_WINDOW)
        self.tail += 1

    def finish(self) -> None:
        """End of stream: one last window, if rows are held."""
        if self.size:
            self._tell_window(self, None)

    def _send(self, worker: int, row: Any, window: int) -> None:
        self.costs.network += 1
        self.send(worker, Message(row, window, self.deletions[worker]))
        self.deletions[worker] = 0


class PreAggregator:
    """Holds its share of the rows and answers with partials (DPA)."""

    def __init__(self, reduce: Reduce, value: Callable[[Any], Any], costs: Costs) -> None:
        self.reduce, self.value, self.costs = reduce, value, costs
        self.rows: deque[Any] = deque()

    def take(self, message: Message) -> Partial | None:
        for _ in range(message.delete):
            self.rows.popleft()
        answer = None
        if message.window != NO_WINDOW:
            answer = Partial(None, message.window, True)
            if self.rows:
                self.costs.reduce_at_end += len(self.rows) - 1
                answer = Partial(fold(self.reduce, self.rows), message.window)
            self.costs.network += 1
        if message.row is not None:
            self.rows.append(self.value(message.row))
            self.costs.holds(len(self.rows))
        return answer


class FinalAggregator:
    """Combines the partials of all workers, and gives windows in the order of their numbers (CFA)."""

    def __init__(self, reduce: Reduce, workers: int, costs: Costs) -> None:
        self.reduce, self.workers, self.costs = reduce, workers, costs
        self.open: dict[int, list[Any]] = {}  # window -> [answers, partials so far]
        self.next = 1

    def take(self, partial: Partial) -> Iterator[tuple[int, Any]]:
        entry = self.open.setdefault(partial.window, [0])
        entry[0] += 1
        if not partial.empty:
            if len(entry) == 2:
                self.costs.reduce_at_end += 1
                entry[1] = self.reduce(entry[1], partial.value)
            else:
                entry.append(partial.value)
        while self.next in self.open and self.open[self.next][0] == self.workers:
            yield self.next, self.open.pop(self.next)[1]
            self.next += 1


def run_central(
    machine: PolicyMachine,
    rows: Iterable[Any],
    reduce: Reduce,
    *,
    workers: int,
    value: Callable[[Any], Any],
    costs: Costs | None = None,
    tell: Callable[[int, Message], None] | None = None,
) -> list[Any]:
    """Central discretization, distributed pre-aggregation, central final aggregation; the values of all windows."""
    costs = Costs() if costs is None else costs
    shares = [PreAggregator(reduce, value, costs) for _ in range(workers)]
    final = FinalAggregator(reduce, workers, costs)
    results: list[Any] = []

    def send(worker: int, message: Message) -> None:
        if tell is not None:
            tell(worker, message)
        answer = shares[worker].take(message)
        if answer is not None:
            results.extend(found for _, found in final.take(answer))

    discretizer = Discretizer(machine, workers, send, costs)
    for row in rows:
        discretizer.process_real(row, row[TIME])
    if machine.end:
        discretizer.finish()
    return results


class TimeShare(Group):
    """Policies by time alone over one worker's share of the rows (DWD with its DPA): partials by border."""

    __slots__ = ("answers", "reduce", "rows", "value")

    def __init__(self, machine: PolicyMachine, reduce: Reduce, value: Callable[[Any], Any]) -> None:
        if needs_history(machine):
            raise QueryError("every worker can run these policies over its own share only if all of them go by time")
        super().__init__(
            None, [running_trigger(p) for p in machine.trigger], running_evictions(machine.evict), self._answer
        )
        self.reduce, self.value = reduce, value
        self.rows: deque[Any] = deque()
        #: (border, which of several windows at it) and the partial
        self.answers: list[tuple[tuple[Any, int], Any]] = []

    def _answer(self, group: Group, when: Any) -> None:
        last, nth = self.answers[-1][0] if self.answers else (None, 0)
        self.answers.append(((when, nth + 1 if last == when else 0), fold(self.reduce, self.rows)))

    def delete(self, n: int) -> None:
        n = min(n, self.size)
        for _ in range(n):
            self.rows.popleft()
        self.head += n

    def insert(self, row: Any) -> None:
        self.rows.append(self.value(row))
        self.tail += 1

    def reach(self, time: int) -> None:
        """The clock of all workers has come to `time`: give what is due, let go what a row of that time would."""
        send_before({TIME: time}, time, (self,))
        size, most = self.size, 0
        for eviction in self.active_evictions:
            most = max(most, eviction.notify_fake(time, size))
        self.delete(most)


def run_by_time(
    machine: PolicyMachine,
    rows: Iterable[Any],
    reduce: Reduce,
    *,
    workers: int,
    finals: int,
    value: Callable[[Any], Any],
) -> list[list[tuple[Any, Any]]]:
    """The fully parallel form: each worker discretizes its share, partials go to the final aggregator of their border.

    Returns what each final aggregator gives, by border (None: the end of the stream); among aggregators there is no
    order.
    """
    shares = [TimeShare(machine, reduce, value) for _ in range(workers)]
    last: int | None = None
    for number, row in enumerate(rows):
        shares[number % workers].process_real(row, row[TIME])
        last = row[TIME]
    gathered: list[dict[tuple[Any, int], list[Any]]] = [{} for _ in range(finals)]
    for share in shares:
        if last is not None:
            share.reach(last)
        if machine.end and share.size:
            share.emit(share, None)
        for place, partial in share.answers:
            gathered[0 if place[0] is None else place[0] % finals].setdefault(place, []).append(partial)
    return [[(place[0], fold(reduce, final[place])) for place in sorted(final, key=_last_none)] for final in gathered]


def _last_none(place: tuple[int | None, int]) -> tuple[bool, int, int]:
    border, nth = place
    return border is None, 0 if border is None else border, nth
