"""Several inputs, merged by the time that each has reached: from which of them can rows be taken now?

An input that has nothing to give holds up the others, since its next rows may be older than theirs. Where a run goes by
a clock, it does so only until it has been silent for as long as its stream says (`idle`); it counts again as soon as
something comes. When no input has anything, their silence is that of all of them, and passes on as a beat.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from panes.runners.local.listening import Beat, Ear, Quiet


class Side(ABC):
    """One input while it is merged. `patience`: silent for so long, it is not waited for; None: for ever."""

    def __init__(self, items: Iterator[Any], patience: int | None = None, ear: Ear | None = None) -> None:
        self._items = items
        self._patience = patience
        self._ear = ear
        self._quiet = Quiet()
        self.ended = False
        #: nothing is held, and it is not waited for
        self.silent = False
        #: what was heard last, and before the rows that are held
        self.beat: Beat | None = None
        self.came: Beat | None = None

    @property
    @abstractmethod
    def holds(self) -> bool:
        """Whether there are rows to take."""

    @abstractmethod
    def put(self, item: Any) -> None:
        """Rows come, when there are none to take."""

    def fill(self) -> None:
        """Have rows to take, if there are any more; where nobody listens, wait for them."""
        while not self.holds and not self.ended:
            item = next(self._items, None)
            if item is None:
                self.ended = True
            elif not isinstance(item, Beat):
                self.silent = False
                self._quiet.row()
                self.put(item)
            elif item.waits:
                self._wait(item)
                return
            else:
                self._quiet.hear(item)
                self.beat = self.came = item

    def _wait(self, beat: Beat) -> None:
        self.beat = beat
        quiet = self._quiet.hear(beat)
        if self._patience is None or self._ear is None:
            return
        self.silent = quiet >= self._patience
        if not self.silent:
            self._ear.wake_at(self._quiet.since + self._patience)


S = TypeVar("S", bound=Side)


def rounds(sides: Sequence[S]) -> Iterator[Beat | list[S]]:
    """Those that hold rows, each time that none is waited for; beats before them, and while some are."""
    waiting = list(sides)
    while True:
        for side in waiting:
            side.fill()
        waiting = [side for side in waiting if not side.ended]
        if not waiting:
            return
        holding = [side for side in waiting if side.holds]
        beats = [side.beat for side in waiting if side.beat is not None]
        if holding and all(side.holds or side.silent for side in waiting):
            came = [side.came.now for side in holding if side.came is not None]
            if came:
                # what rows meet is the silence before the first of them
                since = [s.came.since for s in holding if s.came is not None]
                since += [side.beat.since for side in waiting if side.silent and side.beat is not None]
                yield Beat(min(came), max(since), False)
            yield holding
        else:
            now = max(beat.now for beat in beats)
            yield Beat(now, now if holding else max(beat.since for beat in beats), True)
