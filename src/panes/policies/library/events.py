"""The events of a window and who listens to them. Events that nobody listens to cost nothing.

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

Handler = Callable[..., Any]

_BOTH = ("before_insert", "after_insert", "partition_evict", "partition_select")
EVENTS: dict[str, tuple[str, ...]] = {
    "tumbling": (*_BOTH, "before_flush", "after_flush"),
    "sliding": (*_BOTH, "before_evict", "after_evict", "trigger", "initial_full"),
}


class Handlers:
    """Handlers by event, called in the order of their registration."""

    __slots__ = (
        "_allowed", "_window", "after_evict", "after_flush", "after_insert", "before_evict", "before_flush",
        "before_insert", "initial_full", "partition_evict", "partition_select", "trigger",
    )  # fmt: skip

    def __init__(self, kind: str, select: str) -> None:
        self._window = kind
        self._allowed = tuple(e for e in EVENTS[kind] if e != "partition_select" or select == "user")
        self.before_insert: list[Handler] = []
        self.after_insert: list[Handler] = []
        self.before_flush: list[Handler] = []
        self.after_flush: list[Handler] = []
        self.before_evict: list[Handler] = []
        self.after_evict: list[Handler] = []
        self.trigger: list[Handler] = []
        self.initial_full: list[Handler] = []
        self.partition_evict: list[Handler] = []
        self.partition_select: list[Handler] = []

    def register(self, event: str, handler: Handler) -> None:
        if event not in self._allowed:
            why = " (it needs select='user')" if event == "partition_select" else ""
            raise QueryError(
                f"on({event!r}): a {self._window} window has no such event{why}; it has {', '.join(self._allowed)}"
            )
        if not callable(handler):
            raise QueryError(f"on({event!r}, {handler!r}): a handler must be callable")
        getattr(self, event).append(handler)
