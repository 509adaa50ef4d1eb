"""Windows written by users, in the three classes of the literature.

- `ContextFreeWindow`: edges known without rows (`next_edge`, `ends_between`);
- `DeterministicWindow`: each row says how many windows begin at it and how many end before it (`on_row`);
- `FreeFormWindow`: each row says how many rows expire at the head (`expire`), whether what is left is a result
  (`emit`) and when that ends (`end`); so may the time that events have reached (`on_watermark`).

Users subclass one of them; `bind` puts the object behind the protocol that slicing knows, and its answers are checked.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np

from panes.errors import QueryError, calling, raise_named
from panes.units import TimeDomain
from panes.windows.base import (
    NEVER,
    ROWS,
    TIME,
    Array,
    Bound,
    Closed,
    ContextFree,
    Discretizer,
    FreeForm,
    KeyRuns,
    Measure,
    Scanned,
    StateDefaults,
    Window,
)
from panes.windows.spec import columns_of

__all__ = ["ContextFreeWindow", "DeterministicWindow", "FreeFormWindow", "UserContextFree", "WindowDue", "WindowEvents"]

Own = TypeVar("Own", bound="_UserWindow")


class WindowEvents(NamedTuple):
    """At a row: how many windows begin (the row is in them) and how many end before it."""

    begin: int = 0
    end: int = 0


class WindowDue(NamedTuple):
    """A free-form window that is due by time alone: it ends at `end`, once `expire` of the oldest rows have left."""

    end: int | None
    expire: int = 0


#: How many edges are walked to find the windows around a value before the class is asked for its `reach`.
_WALK = 100_000


class _UserWindow(Window):
    def resolve(self: Own, domain: TimeDomain) -> Own:
        """This window with its sizes in ticks: override it to accept durations (see `domain.ticks`)."""
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


class ContextFreeWindow(_UserWindow):
    """Subclass it for windows whose edges don't depend on rows. All values are ticks, or units of `measure`.

    Unless `reach` is set, windows must be first in, first out: one that starts later doesn't end earlier.
    """

    #: what edges are measured in: event time, rows of a key, or `Measure("column", name)`
    measure: Measure = TIME
    #: length of the longest window, if there is one
    reach: float | None = None

    @abstractmethod
    def next_edge(self, value: float) -> float | None:
        """The smallest window start or end after `value`; None if there is none."""

    @abstractmethod
    def ends_between(self, previous: float, current: float) -> Iterable[tuple[float, float]]:
        """(start, end) of all windows with previous < end <= current."""

    def bind(self, domain: TimeDomain) -> UserContextFree:
        return UserContextFree(self.measure, window=self.resolve(domain), columns=columns_of(self.measure))


class DeterministicWindow(_UserWindow):
    """Subclass it for windows that rows begin and end. Open windows end in the order in which they began."""

    #: SQL expressions over the row that `on_row` reads
    columns: tuple[str, ...] = ()

    def new_state(self) -> Any:
        """What the window remembers of one key; mutable, not None."""
        return {}

    @abstractmethod
    def on_row(self, state: Any, row: Mapping[str, Any], position: int, time: int) -> WindowEvents:
        """How many windows begin at this row (it is in them) and how many end before it (it is not)."""

    def on_watermark(self, state: Any, time: int) -> int | Iterable[int]:
        """Event time has reached `time`: how many windows end, or the times at which they end.

        Called before each row too, with its time, so it must not depend on how often it is called.
        """
        return 0

    def on_finish(self, state: Any) -> int:
        """The stream has ended: how many of the open windows are given; the others are incomplete."""
        return 0

    def bind(self, domain: TimeDomain) -> UserDeterministicScan:
        timed = type(self).on_watermark is not DeterministicWindow.on_watermark
        return UserDeterministicScan(ROWS, window=self.resolve(domain), timed=timed, columns=tuple(self.columns))


class FreeFormWindow(_UserWindow):
    """Subclass it for windows that neither edges nor marks describe. They cost most: each row is a slice.

    Windows end at the time of the row that gives them, or where `end` or `on_watermark` says: not before the last
    row that they hold, nor later than events have come.
    """

    #: SQL expressions over the row that `expire` and `emit` read
    columns: tuple[str, ...] = ()

    def new_state(self) -> Any:
        """What the window remembers of one key; mutable, not None."""
        return {}

    @abstractmethod
    def expire(self, state: Any, row: Mapping[str, Any], position: int, time: int) -> int:
        """How many of the oldest rows leave before this row enters."""

    @abstractmethod
    def emit(self, state: Any, row: Mapping[str, Any], position: int, time: int) -> bool:
        """Whether the rows held are a result now: after `expire`, before this row enters."""

    def end(self, state: Any, row: Mapping[str, Any], position: int, time: int) -> int:
        """When the window ends that `emit` has said is a result: at the time of this row, unless you say."""
        return time

    def on_watermark(self, state: Any, time: int) -> Iterable[int | WindowDue]:
        """Event time has reached `time`: windows of the rows held that are due, by their ends.

        Called before and after rows too, with their times, so it must not depend on how often it is called.
        """
        return ()

    def on_finish(self, state: Any) -> Iterable[int | WindowDue | None]:
        """The stream has ended: windows of the rows held that are given, by their ends; None: nobody knows when."""
        return ()

    def bind(self, domain: TimeDomain) -> UserFreeForm:
        timed = type(self).on_watermark is not FreeFormWindow.on_watermark
        return UserFreeForm(ROWS, window=self.resolve(domain), timed=timed, columns=tuple(self.columns))


class _Answering(Bound):
    """Windows that code of users answers for: it may fail, and errors name it."""

    window: _UserWindow

    @property
    def user_code(self) -> str:
        return f"{self.where}: {self.window!r}" if self.where else repr(self.window)

    @property
    def may_fail(self) -> bool:
        return True


class _Open:
    """The open windows of one key, oldest first; kept between scans as bytes of int64 pairs."""

    def __init__(self, packed: bytes | None) -> None:
        pairs = np.frombuffer(packed or b"", np.int64).reshape(-1, 2)
        self.windows: list[tuple[int, int]] = [(int(p), int(t)) for p, t in pairs]

    def packed(self) -> bytes | None:
        return np.array(self.windows, np.int64).tobytes() if self.windows else None

    def first_pos(self) -> int:
        return self.windows[0][0] if self.windows else NEVER


class _Found:
    """Closed windows as they are found."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int, int, int]] = []

    def close(self, slot: int, opened: _Open, ends: Iterable[int], stop_pos: int, window: object) -> int:
        ends = list(ends)
        if len(ends) > len(opened.windows):
            raise QueryError(
                f"{window!r} ended {len(ends)} windows at row {stop_pos}, but {len(opened.windows)} are open"
            )
        for (start_pos, start), end in zip(opened.windows, ends, strict=False):
            self.rows.append((slot, start_pos, stop_pos, start, end))
        del opened.windows[: len(ends)]
        return len(ends)

    def closed(self) -> Closed:
        return Closed(*np.array(self.rows, np.int64).reshape(-1, 5).T.copy())


@dataclass(frozen=True)
class UserDeterministicScan(_Answering, Discretizer):
    """A `DeterministicWindow` behind the protocol. `timed`: it closes windows by time as well."""

    window: DeterministicWindow = field(kw_only=True)
    timed: bool = field(default=False, kw_only=True)
    packed = ("open",)

    @property
    def clocked(self) -> bool:  # type: ignore[override]
        return self.timed

    @property
    def state(self) -> StateDefaults:
        return {"user": None, "open": None, "first": np.int64(NEVER), "seen": np.int64(0)}

    def scan(self, rows: KeyRuns, state: dict[str, Array]) -> Scanned:
        found, cuts = _Found(), []
        columns = {name: rows.columns[name].tolist() for name in self.window.columns}
        times = rows.times.tolist()
        for g, slot in enumerate(rows.slots.tolist()):
            if state["user"][g] is None:
                with calling(self, "new_state"):
                    state["user"][g] = self.window.new_state()
            user, opened = state["user"][g], _Open(state["open"][g])
            first, last = int(rows.offsets[g]), int(rows.offsets[g + 1])
            position = int(rows.first_pos[g])
            for i in range(first, last):
                time = times[i]
                ended = self._by_time(user, time, slot, opened, position, found) if self.timed else 0
                row = {name: values[i] for name, values in columns.items()}
                try:
                    begin, end = self.window.on_row(user, row, position, time)
                except Exception as error:
                    raise_named(error, self, "on_row", (user, row, position, time))
                ended += found.close(slot, opened, [time] * end, position, self.window) if end else 0
                opened.windows += [(position, time)] * begin
                if begin or ended:
                    cuts.append(i)
                position += 1
            state["open"][g], state["first"][g], state["seen"][g] = (
                opened.packed(),
                opened.first_pos(),
                position,
            )
        return Scanned(found.closed(), np.array(cuts, np.int64))

    def _by_time(self, user: object, time: int, slot: int, opened: _Open, position: int, found: _Found) -> int:
        try:
            ends = self.window.on_watermark(user, time)
            ends = list(ends) if isinstance(ends, Iterable) else [time] * ends
        except Exception as error:
            raise_named(error, self, "on_watermark", (user, time))
        return found.close(slot, opened, ends, position, self.window)

    def advance(self, watermark: int, slots: Array, state: dict[str, Array]) -> Closed:
        if not self.timed:
            return Closed.none()
        found = _Found()
        for i in np.flatnonzero(state["first"] != NEVER).tolist():
            opened = _Open(state["open"][i])
            seen = int(state["seen"][i])
            if self._by_time(state["user"][i], watermark, int(slots[i]), opened, seen, found):
                state["open"][i], state["first"][i] = opened.packed(), opened.first_pos()
        return found.closed()

    def asked_by_time(self, state: dict[str, Array]) -> Array:
        return np.flatnonzero(state["first"] != NEVER) if self.timed else np.empty(0, np.int64)

    def finish(self, slots: Array, state: dict[str, Array], rows_seen: Array) -> Closed:
        found = _Found()
        for i in np.flatnonzero(state["first"] != NEVER).tolist():
            opened = _Open(state["open"][i])
            with calling(self, "on_finish", (state["user"][i],)):
                ends = [NEVER] * self.window.on_finish(state["user"][i])
            found.close(int(slots[i]), opened, ends, int(rows_seen[i]), self.window)
            state["open"][i], state["first"][i] = opened.packed(), opened.first_pos()
        return found.closed()

    def open_from(self, state: dict[str, Array]) -> Array:
        return state["first"]


@dataclass(frozen=True)
class UserFreeForm(_Answering, FreeForm):
    """A `FreeFormWindow` behind the protocol, its answers checked. `timed`: it looks at the watermark as well."""

    window: FreeFormWindow = field(kw_only=True)
    timed: bool = field(default=False, kw_only=True)

    @property
    def clocked(self) -> bool:  # type: ignore[override]
        return self.timed

    def new_state(self) -> object:
        with calling(self, "new_state"):
            return self.window.new_state()

    def on_row(self, state: object, row: Mapping[str, object], position: int, time: int) -> tuple[int, int | None]:
        method = "expire"
        try:
            expired = self._rows(self.window.expire(state, row, position, time), "expire")
            method = "emit"
            if not self.window.emit(state, row, position, time):
                return expired, None
            method = "end"
            return expired, self._tick(self.window.end(state, row, position, time), "end")
        except Exception as error:
            raise_named(error, self, method, (state, row, position, time))

    def on_time(self, state: object, time: int) -> list[tuple[int, int]]:
        try:
            return [self._due(each, "on_watermark") for each in self.window.on_watermark(state, time)]
        except Exception as error:
            raise_named(error, self, "on_watermark", (state, time))

    def on_finish(self, state: object) -> list[tuple[int, int]]:
        with calling(self, "on_finish", (state,)):
            due = [WindowDue(each) if each is None else each for each in self.window.on_finish(state)]
            return [self._due(each, "on_finish") for each in due]

    def _due(self, said: int | WindowDue | None, method: str) -> tuple[int, int]:
        due = said if isinstance(said, WindowDue) else WindowDue(said)
        if due.end is None and method == "on_finish":
            return self._rows(due.expire, method), NEVER
        return self._rows(due.expire, method), self._tick(due.end, method)

    def _rows(self, said: int, method: str) -> int:
        if int(said) < 0:
            raise QueryError(f"{self.window!r}.{method} returned {said}: the number of rows can't be negative")
        return int(said)

    def _tick(self, said: object, method: str) -> int:
        if isinstance(said, bool) or not isinstance(said, int | np.integer):
            raise QueryError(f"{self.window!r}.{method} named the end {said!r}: it must be a time in ticks, an integer")
        return int(said)


@dataclass(frozen=True)
class UserContextFree(_Answering, ContextFree):
    """A `ContextFreeWindow` behind the protocol, its answers checked."""

    window: ContextFreeWindow = field(kw_only=True)

    @property
    def reach(self) -> float:
        return math.inf if self.window.reach is None else self.window.reach

    def _next_edge(self, value: float) -> float | None:
        with calling(self, "next_edge", (value,)):
            edge = self.window.next_edge(value)
        if edge is not None and not edge > value:
            raise QueryError(f"{self.window!r}.next_edge({value}) returned {edge}: it must lie after {value}")
        return edge

    def _ends(self, lo: float, hi: float) -> list[tuple[float, float]]:
        """Windows with lo < end <= hi, by end, then start."""
        with calling(self, "ends_between", (lo, hi)):
            found = sorted((end, start) for start, end in self.window.ends_between(lo, hi))
        for end, start in found:
            if not (start < end and lo < end <= hi):
                raise QueryError(
                    f"{self.window!r}.ends_between({lo}, {hi}) gave ({start}, {end}): "
                    f"it must end in ({lo}, {hi}], and after it starts"
                )
        return [(start, end) for end, start in found]

    def edges(self, lo: float, hi: float) -> Array:
        found = []
        edge = self._next_edge(lo)
        while edge is not None and edge <= hi:
            found.append(edge)
            edge = self._next_edge(edge)
        return _array(found)

    def ending(self, lo: float, hi: float) -> tuple[Array, Array]:
        return _both(self._ends(lo, hi))

    def containing(self, value: float) -> tuple[Array, Array]:
        if self.window.reach is not None:
            found = self._ends(value, value + self.window.reach)
        else:
            # first in, first out: once a window that starts after `value` has ended, all that hold it have
            found = []
            for some in self._walk(value):
                found += some
                if any(start > value for start, _ in some):
                    break
        return _both([w for w in found if w[0] <= value])

    def horizon(self, progress: float) -> float:
        if self.window.reach is None:
            for some in self._walk(progress):
                if some:
                    return min(start for start, _ in some)
            return NEVER
        starts = [start for start, _ in self._ends(progress, progress + self.window.reach)]
        edge = self._next_edge(progress)  # no window that starts later starts before the next edge
        starts += [] if edge is None else [edge]
        return min(starts, default=NEVER)

    def _walk(self, value: float) -> Iterable[list[tuple[float, float]]]:
        """The windows that end at each edge after `value`, edge by edge."""
        for _ in range(_WALK):
            edge = self._next_edge(value)
            if edge is None:
                return
            yield self._ends(value, edge)
            value = edge
        raise QueryError(f"{self.window!r}: no window ended within {_WALK} edges; set `reach` to the longest length")


def _array(values: list[float]) -> Array:
    return np.array(values) if values else np.empty(0, np.int64)


def _both(windows: list[tuple[float, float]]) -> tuple[Array, Array]:
    return _array([start for start, _ in windows]), _array([end for _, end in windows])
