"""How a run hears that nothing comes: sources that may keep it waiting are read in threads, and the clock is asked.

A run that goes by a clock has one `Ear`. Each source at its edge is read ahead in a thread of its own, and each item is
noted with the moments at which it was asked for and came. What a source gives is then items and beats, which say what
the clock said: before an item, and when there is none. Nothing in between waits. Whoever knows of a moment at which
something is due tells the ear (`wake_at`), and the run alone waits, for an item or the first such moment. What a run
gives depends on those notes alone, not on which thread was faster.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

from panes.clock import Clock, wall_clock
from panes.errors import QueryError
from panes.plan.silence import Silence
from panes.runtime.quiet import Beat

Item = TypeVar("Item")
#: Items of a source that are read ahead.
_AHEAD = 16
_END = object()


class _Came(NamedTuple):
    asked: int
    came: int
    item: Any
    error: BaseException | None = None


class Ear:
    """Listens to the sources of one run, by one clock."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        #: what the clock said when the item that is worked on now came
        self.now = clock.now()
        self._changed = threading.Condition()
        self._news = 0
        self._heard = 0
        self._due: int | None = None
        self.closed = False

    def listen(self, items: Iterator[Item]) -> Iterator[Item | Beat]:
        """Items as they come, with beats; `items` is read in a thread."""
        came: deque[_Came] = deque()
        asked = [self.clock.now()]
        threading.Thread(target=self._read, args=(items, came, asked), name="panes-reader", daemon=True).start()
        while True:
            with self._changed:
                found = came.popleft() if came else None
                if found is None:
                    beat = Beat(self.clock.now(), asked[0], True)
                else:
                    beat = Beat(found.came, found.asked, False)
                    self._changed.notify_all()  # there is room to read ahead
            self.now = max(self.now, beat.now)
            if found is None:
                yield beat
                continue
            if found.error is not None:
                raise found.error
            yield beat
            if found.item is _END:
                return
            yield found.item

    def _read(self, items: Iterator[Any], came: deque[_Came], asked: list[int]) -> None:
        error: BaseException | None = None
        item: Any = None
        while item is not _END and error is None:
            with self._changed:
                while len(came) >= _AHEAD and not self.closed:
                    self._changed.wait()
                if self.closed:
                    break
                asked[0] = self.clock.now()
            try:
                item = next(items, _END)
            except BaseException as raised:  # raised where the items are read
                error = raised
            with self._changed:
                came.append(_Came(asked[0], self.clock.now(), item, error))
                self._news += 1
                self._changed.notify_all()
        close = getattr(items, "close", None)
        if close is not None:
            close()

    def wake_at(self, moment: int) -> None:
        """Something is due at this moment; for the next `wait`."""
        self._due = moment if self._due is None else min(self._due, moment)

    def wait(self) -> None:
        """Until something comes, or something is due."""
        due, self._due = self._due, None
        with self._changed:
            while self._news == self._heard and (due is None or self.clock.now() < due):
                self.clock.wait(self._changed, due)
            self._heard = self._news

    def close(self) -> None:
        """Nobody listens any more; threads end once their sources give something."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()


def ear_for(silences: Iterable[Silence], *, always: bool = False) -> Ear | None:
    """The ear of a run over streams that are silent in these ways; None: the clock plays no part in it.

    `always`: it plays one whatever they do.
    """
    active = [silence for silence in silences if silence.active or always]
    if not active:
        return None
    clocks = list({id(s.clock): s.clock for s in active if s.clock is not None}.values())
    if len(clocks) > 1:
        raise QueryError("streams of one run go by one clock: give the same clock= to all of them, or none")
    return Ear(clocks[0] if clocks else wall_clock())
