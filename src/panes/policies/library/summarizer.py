"""Summarizers: one object per tumbling subwindow that stands for its tuples, so that none are stored.

A window is given a factory (usually the class) and makes a summarizer when a subwindow opens. The flush handler asks
for it with `window.summarizer(key)`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Protocol

from panes.errors import QueryError

_METHODS = ("on_open_window", "on_tuple_insertion", "on_close_window")


class Summarizer(Protocol):
    """What a window tells its summarizer."""

    def on_open_window(self, key: Hashable) -> None:
        """The subwindow of this key has opened."""

    def on_tuple_insertion(self, row: Any) -> None:
        """A tuple has come."""

    def on_close_window(self) -> None:
        """The subwindow is full; the flush handlers are called next."""


SummarizerFactory = Callable[[], Summarizer]


def checked(factory: SummarizerFactory) -> SummarizerFactory:
    """The factory, if what it makes can be a summarizer."""
    if not callable(factory):
        raise QueryError(f"summarizer={factory!r}: must be a class, or a function that makes a summarizer")
    if isinstance(factory, type):
        missing = [name for name in _METHODS if not callable(getattr(factory, name, None))]
        if missing:
            raise QueryError(f"summarizer={factory.__name__} has no {', '.join(missing)}: a summarizer has all of them")
    return factory
