"""What a call changes, so that it can be taken back: `push`, `advance` and `finish` are all or nothing.

State lives in objects whose attributes are replaced and in arrays that are written in place. When a call begins,
`watch` remembers the attributes of the objects; code that writes in place says so before it does (`keep`, `saw`). If
the call fails, `rewind` puts everything back, newest change first; if not, `commit` forgets.

Nothing is copied that is not about to be overwritten, and where old values have been read anyway they are handed over
(`saw`), so that a call that does not fail costs next to nothing more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, Protocol, TypeAlias

import numpy as np

from panes.state.changes import ChangedKeys
from panes.state.pickles import Own, saved

Array = np.ndarray
Container: TypeAlias = "list[Any] | dict[Any, Any] | deque[Any]"
#: Places in an array, as one writes them in brackets.
Places: TypeAlias = "Array | int | slice | tuple[int | slice | Array, ...]"


class Replaced:
    """Names of the attributes of a class that calls replace; its objects have it as `replaced`.

    They are named one by one: objects whose `__dict__` somebody has looked at are slower ever after.
    """

    def __init__(self, first: str, *others: str) -> None:
        self.names = (first, *others)
        get = attrgetter(*self.names)
        self.of: Callable[[Any], tuple[Any, ...]] = get if others else lambda target: (get(target),)


class Watched(Protocol):
    """An object some attributes of which calls replace."""

    @property
    def replaced(self) -> Replaced: ...


class Journal:
    """Changes since the call began. Closed (between calls) it remembers nothing of them.

    Whoever writes to it also notes keys that change, for those who ask for changes since an epoch (`changed`).
    """

    __slots__ = ("_entries", "changed", "is_open")

    def __init__(self) -> None:
        self.is_open = False
        self.changed = ChangedKeys()
        #: functions that take a change back, with their arguments
        self._entries: list[tuple[Any, ...]] = []

    def watch(self, objects: Iterable[Watched]) -> None:
        """A call begins; attributes of these objects may be replaced by it."""
        self._entries += [(_set_attributes, each, each.replaced.of(each)) for each in objects]

    def keep_attributes(self, target: Watched) -> None:
        """Attributes of an object are about to be replaced, of one that is not watched in every call."""
        if self.is_open:
            self._entries.append((_set_attributes, target, target.replaced.of(target)))

    def keep(self, array: Array, where: Places) -> None:
        """`array[where]` is about to be overwritten."""
        if self.is_open:
            old = array[where]
            self._entries.append((_write, array, where, old.copy() if old.base is not None else old))

    def saw(self, array: Array, where: Places, old: object) -> None:
        """`array[where]`, which was read as `old`, is about to be overwritten; nobody writes to `old`."""
        if self.is_open:
            self._entries.append((_write, array, where, old))

    def keep_container(self, container: Container) -> None:
        """Entries of a small container are about to come, go or be replaced."""
        if self.is_open:
            self._entries.append((_refill, container, container.copy()))

    def keep_length(self, entries: list[Own]) -> None:
        """Entries are about to be appended."""
        if self.is_open:
            self._entries.append((_cut_off, entries, len(entries)))

    def keep_user_objects(self, array: Array, where: Array) -> None:
        """User code is about to see, and may change, the objects at these places."""
        if self.is_open:
            self._entries.append((_write_copies, array, where, [saved(each) for each in array[where].tolist()]))

    def undo_by(self, function: Callable[..., None], *arguments: object) -> None:
        """Something is about to change that `function` can take back."""
        if self.is_open:
            self._entries.append((function, *arguments))

    def begin(self) -> None:
        """A call begins."""
        self.is_open = True

    def commit(self) -> None:
        """The call has succeeded."""
        self.is_open = False
        self._entries.clear()

    def rewind(self) -> None:
        """The call has failed: everything is as it was when it began."""
        self.is_open = False
        entries, self._entries = self._entries, []
        for function, *arguments in reversed(entries):
            function(*arguments)


def _set_attributes(target: Watched, values: tuple[object, ...]) -> None:
    for name, value in zip(target.replaced.names, values, strict=True):
        setattr(target, name, value)


def _write(array: Array, where: Places, values: object) -> None:
    array[where] = values


def _write_copies(array: Array, where: Array, copies: list[Callable[[], object]]) -> None:
    for place, copy in zip(where.tolist(), copies, strict=True):
        array[place] = copy()


def _refill(container: Container, entries: Container) -> None:
    container.clear()
    if isinstance(container, dict):
        container.update(entries)
    else:
        container.extend(entries)


def _cut_off(entries: list[Own], length: int) -> None:
    del entries[length:]
