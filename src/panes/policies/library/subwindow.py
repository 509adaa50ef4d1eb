"""One subwindow: the tuples of one key, oldest first, and what its policies remember of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Any

#: Stands for "never": no timer waits. Earlier than all times, which may be negative.
NEVER = -(2**63)


class Subwindow:
    """Plain state; the policies write their own fields and read no others."""

    __slots__ = (
        "alive", "arrivals", "baseline", "counter", "created", "evict_due", "full", "key", "last_trigger_value",
        "last_value", "size", "summarizer", "trigger_due", "tuples", "updated", "updated_at", "updates", "values",
    )  # fmt: skip

    def __init__(self, key: Hashable, created: int, now: int) -> None:
        self.key = key
        self.alive = True
        self.tuples: deque[Any] = deque()
        self.size = 0  # tuples in the window, also when a summarizer stands for them
        self.full = False  # whether a sliding subwindow was ever full
        self.summarizer: Any = None
        # how partition eviction knows it: number of its creation and latest update among all, updates, time of the last
        self.created = created
        self.updated = created
        self.updates = 0
        self.updated_at = now
        # count trigger: tuples since the last one
        self.counter = 0
        # delta eviction: attribute of each tuple (when tumbling, of the first one), and of the last that came
        self.values: deque[Any] = deque()
        self.last_value: Any = None
        # delta trigger: attribute of the last triggering tuple, and of the last that came
        self.baseline: Any = None
        self.last_trigger_value: Any = None
        # time: arrival of each tuple, and when flush or eviction, and trigger, are due
        self.arrivals: deque[int] = deque()
        self.evict_due = NEVER
        self.trigger_due = NEVER
