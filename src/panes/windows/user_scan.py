"""The discretizer behind user-defined deterministic windows: Python code, row by row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from panes.errors import QueryError, calling, raise_named
from panes.windows.base import NEVER, Array, Closed, Discretizer, KeyRuns, Scanned, StateDefaults

if TYPE_CHECKING:
    from panes.windows.user import DeterministicWindow


class WindowEvents(NamedTuple):
    """At a row: how many windows begin (the row is in them) and how many end before it."""

    begin: int = 0
    end: int = 0


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
class UserDeterministicScan(Discretizer):
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

    @property
    def may_fail(self) -> bool:
        return True

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

    @property
    def user_code(self) -> str:
        return f"{self.where}: {self.window!r}" if self.where else repr(self.window)

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
