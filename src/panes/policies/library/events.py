"""What happens to a window, in which order, and who listens. Events that nobody listens to cost nothing.

The steps of an arrival are SPEC tables I and II, as data: the containers look theirs up here, and no code branches on
pairs of policies. What a table leaves out happens on its own: by the clock, or when a punctuation comes.

| event | windows | handler's arguments |
|---|---|---|
| before_insert, after_insert | both | tuple, key, window |
| before_flush, after_flush | tumbling | key, window |
| before_evict, after_evict | sliding | tuple, key, window |
| trigger, initial_full | sliding | key, window |
| partition_evict | both | iterator of (key, content) of the subwindows about to go |
| partition_select | both, with select="user" | iterator of candidates, which can be marked |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from panes.errors import QueryError

#: Steps of an arrival. "flush" processes and empties a tumbling window if its policy says so.
FLUSH, EVICT, INSERT, TRIGGER = "flush", "evict", "insert", "trigger"

#: Table I: eviction of a tumbling window -> steps when a tuple arrives.
TUMBLING_STEPS: dict[str, tuple[str, ...]] = {
    "count": (INSERT, FLUSH),
    "delta": (FLUSH, INSERT),
    "time": (INSERT,),  # flushes by the clock
    "punct": (INSERT,),  # flushes by punctuations
}

#: Table II: (eviction, trigger) of a sliding window -> steps when a tuple arrives.
SLIDING_STEPS: dict[tuple[str, str], tuple[str, ...]] = {
    ("count", "count"): (EVICT, INSERT, TRIGGER),
    ("count", "delta"): (TRIGGER, EVICT, INSERT),
    ("count", "time"): (EVICT, INSERT),
    ("delta", "count"): (EVICT, INSERT, TRIGGER),
    ("delta", "delta"): (TRIGGER, EVICT, INSERT),
    ("delta", "time"): (EVICT, INSERT),
    ("time", "count"): (INSERT, TRIGGER),
    ("time", "delta"): (TRIGGER, INSERT),
    ("time", "time"): (INSERT,),
}

Handler = Callable[..., Any]

_BOTH = ("before_insert", "after_insert", "partition_evict", "partition_select")
EVENTS: dict[str, tuple[str, ...]] = {
    "tumbling": (*_BOTH, "before_flush", "after_flush"),
    "sliding": (*_BOTH, "before_evict", "after_evict", "trigger", "initial_full"),
}


class Handlers(dict[str, list[Handler]]):
    """Handlers by event, called in the order of their registration."""

    def __init__(self, kind: str, select: str) -> None:
        super().__init__({event: [] for events in EVENTS.values() for event in events})
        self._window = kind
        self._allowed = tuple(e for e in EVENTS[kind] if e != "partition_select" or select == "user")

    def register(self, event: str, handler: Handler) -> None:
        if event not in self._allowed:
            why = " (it needs select='user')" if event == "partition_select" else ""
            raise QueryError(
                f"on({event!r}): a {self._window} window has no such event{why}; it has {', '.join(self._allowed)}"
            )
        if not callable(handler):
            raise QueryError(f"on({event!r}, {handler!r}): a handler must be callable")
        self[event].append(handler)
