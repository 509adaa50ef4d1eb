"""Which keys have changed since which epoch, so that a snapshot can hold the changes and nothing else.

State is known by key slots. Whoever changes what is held of keys notes their slots; noting one too many does no harm,
it is only written once more. Nothing is noted before the first epoch has ended, that is, unless somebody asks.
"""

from __future__ import annotations

import numpy as np

Array = np.ndarray


class ChangedKeys:
    """For each slot the last epoch in which it changed. Epochs are numbered by whoever ends them, rising."""

    __slots__ = ("_all", "_changed_in", "_late", "epochs")

    def __init__(self) -> None:
        #: those that have ended; empty: nobody asked yet
        self.epochs: list[int] = []
        self._late: list[int] = []  # rows on the ledger when each ended
        self._changed_in = np.zeros(0, np.int64)  # per slot: how many epochs had ended when it changed last
        self._all = 0  # the same for what changed of all keys

    def end(self, epoch: int, late: int) -> None:
        """An epoch ends, with so many rows on the late ledger so far."""
        self.epochs.append(epoch)
        self._late.append(late)

    def note(self, slots: Array | None) -> None:
        """What is held of these keys changes (None: the stream has no key, and one slot)."""
        if not self.epochs:
            return
        if slots is None:
            slots = np.zeros(1, np.int64)
        if len(slots):
            below = int(slots.max()) + 1
            if below > len(self._changed_in):
                more = np.zeros(max(below, 2 * len(self._changed_in)), np.int64)
                more[: len(self._changed_in)] = self._changed_in
                self._changed_in = more
            self._changed_in[slots] = len(self.epochs)

    def note_all(self) -> None:
        """What is held of any key may change, or its slot."""
        self._all = len(self.epochs)

    def since(self, epoch: int, keys: int) -> Array | None:
        """Slots below `keys` that have changed since this epoch, which has ended; None: all may have."""
        ended = self.epochs.index(epoch) + 1
        if self._all >= ended:
            return None
        return np.flatnonzero(self._changed_in[:keys] >= ended)

    def late_since(self, epoch: int, late: int) -> int:
        """How many rows have come to the late ledger since; there are `late` of them by now."""
        return late - self._late[self.epochs.index(epoch)]
