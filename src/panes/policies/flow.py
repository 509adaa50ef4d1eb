"""The flow of policies, one row at a time, in Python: for policies that users write (SPEC P-05, P-11, P-43, P-44).

A `Group` is one key's window: its triggers, its evictions, and how many rows it holds. A `Grouped` is many of them
under central policies. Rows themselves are not kept here: `delete`, `insert` and `emit` say what happens to them, and
whoever drives the flow overrides or reads these.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

from panes.policies.runtimes import RunningEviction, RunningTrigger
from panes.policies.ticks import Sender, send_before

#: called with (group, when): the rows that the group holds are a result
Emit = Callable[["Group", Any], None]


class Group(Sender):
    """One key's window: rows `head` to `tail` - 1 of the key are held."""

    __slots__ = ("clears", "emit", "head", "key", "tail")

    def __init__(
        self,
        key: Any,
        triggers: Sequence[RunningTrigger],
        evictions: Sequence[RunningEviction],
        emit: Emit,
        first: int = 0,
    ) -> None:
        self.key = key
        self.use(triggers, evictions)
        self.clears = any(e.clears for e in self.evictions)
        self.emit = emit
        self.head = self.tail = first

    @property
    def size(self) -> int:
        return self.tail - self.head

    @property
    def held(self) -> bool:
        return self.tail > self.head

    @property
    def idle(self) -> bool:  # as for any sender, but asked before every row
        return self.tail == self.head and not self.told

    def process_real(self, row: Any, when: Any) -> None:
        """A row of this key: fake items before it, then the row itself."""
        if self.active_triggers and self.may_send(row):
            send_before(row, when, (self,))
        self.accept(row, when)

    def accept(self, row: Any, when: Any, *, fired: bool = False) -> None:
        """A row of this key: trigger, evict, insert. `fired`: the centre has triggered."""
        for trigger in self.triggers:
            if trigger.notify(row):
                fired = True
        if fired:
            self._give(when)
        size, most = self.size, 0
        for eviction in self.evictions:
            most = max(most, eviction.notify(row, fired, size))
        if most:
            self.delete(most)
        self.insert(row)

    def process_fake(self, fake: Any, when: Any) -> None:
        """A fake item: evict, then emit; tumbling waits for the result."""
        size, most = self.size, 0
        for eviction in self.active_evictions:
            if not eviction.clears:
                most = max(most, eviction.notify_fake(fake, size))
        if most:
            self.delete(most)
        self._give(when)
        if self.clears:
            self.delete(self.size)

    def process_real_as_fake(self, row: Any, when: Any) -> None:
        """The centre has triggered at a row of another key: emit, then evict as for a fake item."""
        self._give(when)
        size, most = self.size, 0
        for eviction in self.active_evictions:
            most = max(most, eviction.notify_fake(row, size))
        if most:
            self.delete(most)

    def _give(self, when: Any) -> None:
        if self.tail > self.head:
            self.emit(self, when)

    def delete(self, n: int) -> None:
        self.head = min(self.head + n, self.tail)

    def insert(self, row: Any) -> None:
        self.tail += 1


class Grouped(Sender):
    """Keys under central policies. Keys are in the order in which they were first seen."""

    def __init__(
        self,
        triggers: Sequence[RunningTrigger],
        evictions: Sequence[RunningEviction],
        new_group: Callable[[Any], Group],
    ) -> None:
        self.use(triggers, evictions)
        self._new_group = new_group
        self.groups: dict[Any, Group] = {}
        #: rows of all keys, oldest first, as (key, position in the key), if a central eviction may remove them
        self.rows: deque[tuple[Any, int]] = deque()

    def group(self, key: Any) -> Group:
        found = self.groups.get(key)
        if found is None:
            found = self.groups[key] = self._new_group(key)
        return found

    @property
    def held(self) -> bool:
        return any(group.tail > group.head for group in self.groups.values())

    def reached(self) -> Iterable[Sender]:
        return (self, *islice(self.groups.values(), 1))

    def process_real(self, key: Any, row: Any, when: Any) -> None:
        """A row: fake items of the centre and of its key before it, by time; then the row, to centre and key."""
        mine = self.group(key)
        senders = [sender for sender in (self, mine) if sender.active_triggers and sender.may_send(row)]
        if senders:
            send_before(row, when, senders)
        fired = False
        for trigger in self.triggers:
            if trigger.notify(row):
                fired = True
        mine.accept(row, when, fired=fired)
        if fired:
            for group in self.groups.values():
                if group is not mine:
                    group.process_real_as_fake(row, when)
        if self.evictions:
            size, most = len(self.rows), 0
            for eviction in self.evictions:
                most = max(most, eviction.notify(row, fired, size))
            self._delete(most)
            self.rows.append((key, mine.tail - 1))

    def process_fake(self, fake: Any, when: Any) -> None:
        """A fake item of the centre: rows leave through it, then all keys get the fake item."""
        size, most = len(self.rows), 0
        for eviction in self.active_evictions:
            if not eviction.clears:
                most = max(most, eviction.notify_fake(fake, size))
        self._delete(most)
        for group in self.groups.values():
            group.process_fake(fake, when)
        if any(e.clears for e in self.evictions):
            self._delete(len(self.rows))

    def _delete(self, n: int) -> None:
        for _ in range(min(n, len(self.rows))):
            key, position = self.rows.popleft()
            group = self.groups[key]
            if group.head <= position:  # else an eviction of the key's own was quicker
                group.delete(1)
