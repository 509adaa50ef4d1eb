"""What every window follows: a spec as the user writes it, the kind that it is bound to, and the values they exchange.

A *spec* (`Window`) is what the user writes: a small frozen value. Bound to a stream (`Bound`) it is of one of six
kinds, each with a contract of its own:

- `ContextFree`: all edges are known without looking at rows (tumbling, sliding, cumulate, landmark,
  fixed, calendar, user-defined ones), on one measure: event time, row count, or an advancing column; those that are
  `Regular` (one size, at regular steps) can be asked many at once;
- `KeyBorders`: ends at regular borders that each key passes by its own rows (policies of counts and of times, "the
  last 100 rows at every 50th");
- `LookBack`: ends are ticks, the start is so many rows, so much time or so much of a column back (multi-measure);
- `Discretizer`: edges are decided row by row, in event-time order, per key (session, punctuated,
  delta, threshold, user-defined deterministic ones); those that are `Sessions` need no order of rows;
- `FreeForm`: user code says how many rows expire and when to emit;
- `MachineWindow`: an object with state of its own, `Running`, looks at the rows of all keys and says which windows
  there are (policies).

Before windows are computed they are brought to their normal form (normal_form.py), the cheapest kind that is equal.
`slicing/` asks for nothing but these contracts, and knows no single kind of window.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from panes.errors import DataError
    from panes.state.entries import Banks
    from panes.units import TimeDomain

Array = np.ndarray
#: "after a border": only if rows of the key came after its last border
AtEnd = Literal["never", "always", "after a border"]
NEVER = np.iinfo(np.int64).max
ALWAYS = np.iinfo(np.int64).min
#: names of per-key state -> what a key that was never seen has; None: objects
StateDefaults: TypeAlias = "Mapping[str, np.generic | None]"


class ContextClass(str, Enum):
    """How much a window must see to know its edges (SPEC S-07)."""

    CONTEXT_FREE = "context free"
    FORWARD_FREE = "forward context free"
    FORWARD_AWARE = "forward context aware"
    SESSION = "session"


@dataclass(frozen=True)
class Measure:
    """What a window counts in: event time, rows per key, an advancing column, or time since the key's first row.

    Windows that count in nothing lie on "data": what rows say decides.
    """

    kind: str  # "time" | "rows" | "column" | "since" | "data"
    column: str | None = None

    def __str__(self) -> str:
        return _MEASURES.get(self.kind, str(self.column))

    @property
    def dimension(self) -> str | None:
        """What slices must know of each row beside its time and position: a column, or SINCE_FIRST."""
        return SINCE_FIRST if self.kind == "since" else self.column


_MEASURES = {
    "time": "event time",
    "rows": "row count",
    "since": "event time since the first row",
    "data": "what rows say",
}
#: the dimension of Measure("since"), which is no column
SINCE_FIRST = "time since the first row"
TIME = Measure("time")
ROWS = Measure("rows")
SINCE = Measure("since")
DATA = Measure("data")


class Window(ABC):
    """What a user writes: `pn.tumbling("1 min")`. Frozen, hashable, readable as text."""

    @abstractmethod
    def bind(self, domain: TimeDomain) -> Bound:
        """Resolve units against the stream's time domain; raises QueryError on misuse."""

    def labelled(self, label: str, domain: TimeDomain) -> Bound:
        """`bind`, for a window whose results have this label."""
        return replace(self.bind(domain), label=label)


class Part:
    """A piece of a window spec that is a value of its own, such as a policy. Frozen, hashable, readable as text."""


@dataclass(frozen=True)
class Bound:
    """A window spec with all units resolved. `measure` says which dimension its edges lie on."""

    measure: Measure
    context: ClassVar[ContextClass]
    #: SQL expressions over the row that the window needs to see, evaluated once per batch.
    columns: tuple[str, ...] = field(default=(), kw_only=True)
    #: a window with the same rows as the one before it (of the same key) is not given
    changes_only: bool = field(default=False, kw_only=True)
    #: what its results are labelled, for messages
    label: str = field(default="", kw_only=True, compare=False, repr=False)

    #: the clock of the stream closes windows, which rows of any key move, up to the last of all
    clocked = False

    @property
    def where(self) -> str:
        """Its name at the beginning of messages."""
        return f"window {self.label!r}" if self.label else ""

    @property
    def measures(self) -> tuple[Measure, ...]:
        """All measures that the window looks at."""
        return (self.measure,)

    @property
    def may_fail(self) -> bool:
        """Whether a row can make it fail: user code does, and values that it can't take."""
        return False

    @property
    def repeats(self) -> str | None:
        """Why two of its windows may have the same key and bounds; None: no two have."""
        return None


class ContextFree(Bound, ABC):
    """Windows whose edges are known without rows. All intervals are half-open [start, end).

    Values are int64 ticks (time), int64 positions (rows) or float64/int64 (column measures).
    """

    context = ContextClass.CONTEXT_FREE

    @property
    @abstractmethod
    def reach(self) -> float:
        """How far behind a row the last window that must be emitted because of it can end: every window that holds a
        row at t and is due ends in (t, t + reach]. May be infinite (math.inf)."""

    @property
    def fresh(self) -> float | None:
        """If set, a window is due only when rows lie in [end - fresh, end) (landmark: emit on news only)."""
        return None

    @abstractmethod
    def edges(self, lo: float, hi: float) -> Array:
        """All window starts and ends e with lo < e <= hi, sorted and unique."""

    @abstractmethod
    def ending(self, lo: float, hi: float) -> tuple[Array, Array]:
        """(starts, ends) of all windows with lo < end <= hi, ordered by end, then start."""

    @abstractmethod
    def containing(self, value: float) -> tuple[Array, Array]:
        """(starts, ends) of all windows with start <= value < end, ordered by end, then start.

        With `fresh` set, only those whose last step holds `value` or lies after it are meant to be
        revised; the caller bounds them by its watermark, so implementations return them up to
        `value + reach` at least and callers use `ending` for more.
        """

    def ends_over(self, values: Array) -> tuple[Array, Array]:
        """When the first and the last window that hold each value end; NEVER and ALWAYS where none does."""
        known, which = np.unique(values, return_inverse=True)
        first, last = np.full(len(known), NEVER), np.full(len(known), ALWAYS)
        for i, value in enumerate(known.tolist()):
            ends = self.containing(value)[1]
            if len(ends):
                first[i], last[i] = ends[0], ends[-1]
        return first[which], last[which]

    @abstractmethod
    def horizon(self, progress: float) -> float:
        """The smallest start among windows that end after `progress`; rows before it are never needed again.

        NEVER (or +inf) if no window ends after `progress`.
        """


class Regular(ContextFree):
    """Windows [offset + k*slide, offset + k*slide + size) for all integers k; on rows those from 0 on."""

    size: float
    slide: float
    offset: float
    #: on rows, one after the other: the end of the stream ends the last window too, with fewer rows
    partial: bool

    @abstractmethod
    def edge_before(self, values: Array) -> Array:
        """The largest edge <= each value: where its slice starts, also when edges are too many to list.

        On rows, edges before the first window (negative ones) come out as if windows started there.
        """


@dataclass(frozen=True)
class KeyRuns:
    """Rows released for context-aware windows: grouped by key, in event-time order inside a key.

    Group i is rows offsets[i]:offsets[i + 1]; its first row is number first_pos[i] of its key.
    """

    slots: Array  # int64[g]: the key slot of each group
    offsets: Array  # int64[g + 1]
    first_pos: Array  # int64[g]
    times: Array  # int64[n]
    columns: Mapping[str, Array]  # expression -> values[n] (nulls: NaN for floats, masked False for booleans)
    #: flat row i came as number arrival[i] of the release, over all keys; None: in the order in which they are here
    arrival: Array | None = None

    def __len__(self) -> int:
        return len(self.times)

    def group_of_row(self) -> Array:
        return np.repeat(np.arange(len(self.slots)), np.diff(self.offsets))

    def positions(self) -> Array:
        """Position of each row within its key."""
        if len(self.slots) == 1:
            return np.arange(self.first_pos[0], self.first_pos[0] + len(self.times))
        first = np.repeat(self.first_pos - self.offsets[:-1], np.diff(self.offsets))
        return first + np.arange(len(self.times))

    def since(self, first: Array) -> tuple[KeyRuns, Array]:
        """The rows from position first[i] of group i on, and where they are here; `arrival` must be None."""
        heads = self.offsets[:-1] + np.clip(first - self.first_pos, 0, np.diff(self.offsets))
        left = self.offsets[1:] - heads
        some = left > 0
        kept = np.flatnonzero(self.positions() >= np.repeat(first, np.diff(self.offsets)))
        offsets = np.concatenate(([0], left[some].cumsum()))
        columns = {name: values[kept] for name, values in self.columns.items()}
        begin = (self.first_pos + heads - self.offsets[:-1])[some]
        return KeyRuns(self.slots[some], offsets, begin, self.times[kept], columns), kept


@dataclass(frozen=True)
class Closed:
    """Windows that ended: rows [start_pos, stop_pos) of a key, with their [start, end) in event time.

    `end` is NEVER where only the end of the stream closed the window. `upto` is where they end on the measure of
    the window, if that is a column.
    """

    slots: Array
    start_pos: Array
    stop_pos: Array
    start: Array
    end: Array
    upto: Array | None = None

    @classmethod
    def none(cls) -> Closed:
        empty = np.empty(0, np.int64)
        return cls(empty, empty, empty, empty, empty)

    def __len__(self) -> int:
        return len(self.slots)


@dataclass(frozen=True)
class Scanned:
    """What a discretizer found in one release of rows."""

    closed: Closed
    #: flat row indexes (into the KeyRuns) where a window begins or ends before that row:
    #: slices are cut there, so that every window is a whole number of slices.
    cuts: Array


class Discretizer(Bound, ABC):
    """Windows whose edges are decided row by row, in event-time order, per key."""

    context = ContextClass.FORWARD_FREE

    #: object columns of `state` that hold bytes or None: pairs of int64, the position and time of windows that are open
    packed: ClassVar[tuple[str, ...]] = ()

    @property
    @abstractmethod
    def state(self) -> StateDefaults:
        """Per-key state, one NumPy column each, of the dtype of its default (object for user state)."""

    @abstractmethod
    def scan(self, rows: KeyRuns, state: dict[str, Array]) -> Scanned:
        """Find windows in `rows`. `state[name][i]` belongs to group i (not slot); update it in place."""

    def advance(self, watermark: int, slots: Array, state: dict[str, Array]) -> Closed:
        """Event time has reached `watermark`: windows closed by time alone. `state` rows belong to `slots`."""
        return Closed.none()

    def finish(self, slots: Array, state: dict[str, Array], rows_seen: Array) -> Closed:
        """End of stream: windows that the end closes. `rows_seen` is the number of rows of each key."""
        return Closed.none()

    def asked_by_time(self, state: dict[str, Array]) -> Array:
        """For which keys time alone runs user code, which may change the objects of users in `state`."""
        return np.empty(0, np.int64)

    @abstractmethod
    def open_from(self, state: dict[str, Array]) -> Array:
        """Per key the first position that a window still open may need; NEVER where none is open."""


class Sessions(Discretizer):
    """Rows of a key that follow each other within a gap of event time: a row joins up to the deadline, the largest
    time + gap of the rows so far. The gap is `gap` ticks, or what `gap_column` says in each row.

    A session is [first, deadline), due once event time has passed the deadline. Its state has the deadline, and whether
    a session is open.
    """

    context = ContextClass.SESSION

    gap: int
    gap_column: str | None


@dataclass(frozen=True)
class LookBack(Bound):
    """Ends where `ticks` ends, holds the last `size` on the measure `back`: "last 10 rows every 5 s".

    The rows before a tick count, and the last of them is where `size` is measured from: n rows with it, or all
    rows whose value is above its value - size. Due only if the step before the tick holds a row (an unchanged
    answer is not repeated), or else with `unchanged`. `measure` is that of the ticks.
    """

    back: Measure = field(kw_only=True)
    size: float = field(kw_only=True)
    ticks: ContextFree = field(kw_only=True)
    #: ticks on time only: due only if the step holds a row that is number n, 2n, 3n, ... of its key
    passing: int = field(default=1, kw_only=True)
    #: ticks on rows only: the end of the stream is a tick too, if rows have come since the last one
    at_end: bool = field(default=False, kw_only=True)
    #: ticks on time or a column only: due also if the step holds no row, from the first row of the key on
    unchanged: bool = field(default=False, kw_only=True)
    context = ContextClass.FORWARD_AWARE

    @property
    def repeats(self) -> str | None:
        if self.unchanged and self.measure != TIME and not self.changes_only:
            return (
                f"windows at every step of {self.measure}, unchanged ones too, have nothing that tells one from the "
                "next: say unchanged=False (in CQL: ON CHANGE)"
            )
        return None

    @property
    def no_lateness(self) -> str | None:
        """Why late rows can't correct these windows; None: they can."""
        if self.unchanged and self.measure != TIME:
            return (
                f"windows at every step of {self.measure}, unchanged ones too, have nothing by which late rows could "
                "tell one from the next: say unchanged=False (in CQL: ON CHANGE)"
            )
        return None

    @property
    def measures(self) -> tuple[Measure, ...]:
        return (self.measure, self.back)


@dataclass(frozen=True)
class KeyBorders(Bound):
    """Windows [border - size, border) at the borders first, first + slide, ..., which each key passes by its own rows.

    A border is an event time (`by_time`) or a number of rows of the key. Nothing has to be remembered of these windows:
    the rows that a key has had say which of them were given. They are given only where they hold a row.
    """

    by_time: bool = field(kw_only=True)
    first: int = field(kw_only=True)
    slide: int = field(kw_only=True)
    size: int = field(kw_only=True)
    #: windows follow each other: `size` is the slide, and the first holds all rows before its border
    tumbling: bool = field(default=False, kw_only=True)
    #: the first row at the border or after it gives the window, whose end it is; else the last row before it does
    passed: bool = field(default=True, kw_only=True)
    #: when the end of the stream makes a window of the last `size` (tumbling: of the rows since the last border)
    at_end: AtEnd = field(default="never", kw_only=True)
    #: added to a running operator it begins with the next row, and does not look at those that are there
    afresh: bool = field(default=True, kw_only=True)
    #: what to say when more windows than anybody can want are given up to a time; None: that can't be
    too_many: Callable[[int], DataError] | None = field(default=None, kw_only=True, compare=False, repr=False)
    #: how windows are assembled, in a few words, for explain and metrics; None: they don't say it
    plan: str | None = field(default=None, kw_only=True)
    context = ContextClass.CONTEXT_FREE

    @property
    def may_fail(self) -> bool:
        return self.too_many is not None

    def grids(self) -> tuple[int, ...]:
        """Where regular edges at every `slide` begin: those of starts, and of ends where they are others."""
        if self.tumbling:
            return (self.first,)
        return (self.first - self.size,) if self.size % self.slide == 0 else (self.first - self.size, self.first)


class FreeForm(Bound, ABC):
    """User code decides: how many rows leave at the head, and whether to emit, at each row."""

    context = ContextClass.FORWARD_AWARE

    @abstractmethod
    def new_state(self) -> object:
        """State of one key."""

    #: whether time alone may make a window due
    timed: bool = False

    @abstractmethod
    def on_row(self, state: object, row: Mapping[str, object], position: int, time: int) -> tuple[int, int | None]:
        """Called before the row enters: number of rows that expire at the head; the end of a window, or None.

        With an end, all rows held, after expiry and before this row enters, are a result.
        """

    def on_time(self, state: object, time: int) -> list[tuple[int, int]]:
        """Event time has reached `time`: of each window that is due, how many rows leave before it, and its end."""
        return []

    def on_finish(self, state: object) -> list[tuple[int, int]]:
        """The same at the end of the stream; an end may be NEVER."""
        return []


@dataclass(frozen=True)
class MachineWindow(Bound):
    """Windows that an object with state of its own finds in the rows of all keys at once."""

    context = ContextClass.FORWARD_AWARE

    #: why late rows can't correct these windows; None: they can
    no_lateness: ClassVar[str | None] = None
    #: windows of a key depend on rows of others, so all keys must be in one place
    central: ClassVar[bool] = False

    def start(self, *, reduces: bool) -> Running:
        """A machine that has seen nothing. `reduces`: partials are smaller than the rows they are made of."""
        raise NotImplementedError


class Running(ABC):
    """A `MachineWindow` at work. Keys are slots; one that it has not seen yet has no rows before the next one."""

    @abstractmethod
    def take(self, rows: KeyRuns) -> Scanned:
        """Find windows in `rows`. `Scanned.cuts` must let every window found, now or later, be whole slices."""

    @abstractmethod
    def advance(self, watermark: int) -> Closed:
        """Event time has reached `watermark`: windows closed by time alone."""

    @property
    @abstractmethod
    def follows_time(self) -> bool:
        """Whether `advance` may change what is held of any key."""

    @abstractmethod
    def finish(self) -> Closed:
        """End of stream: windows that the end closes."""

    @abstractmethod
    def needed(self, slots: int) -> Array:
        """For slots 0..slots-1 the first position that a window still to come may need; NEVER where none may."""

    @abstractmethod
    def reached(self, slots: int) -> Array:
        """For slots 0..slots-1 the position after the last row that was seen; NEVER where none was."""

    @abstractmethod
    def select(self, slots: Array) -> Running:
        """A copy of the state of these keys, renumbered 0, 1, ..."""

    @abstractmethod
    def saved(self, slots: Array | None) -> Callable[[], None]:
        """What puts everything back as it is now, after rows of these keys came, or (None) time or the end."""

    @abstractmethod
    def put(self, slots: Array, part: Running) -> None:
        """Put the state of `select`, possibly moved on, in the place of these keys' state."""

    @abstractmethod
    def banks(self) -> Banks:
        """All state, for one dump or load: they may share what they find out for it."""

    @abstractmethod
    def check(self, slots: Array) -> None:
        """State of these keys was loaded: refuse what can't be."""

    @property
    def plan(self) -> str:
        """How windows are assembled, in a few words, for explain and metrics."""
        return "windows of whole slices"

    @property
    def declares(self) -> str | None:
        """Which code of users declares where windows begin, so that it must be checked; None: none does."""
        return None

    @property
    def ends_in_rows(self) -> bool:
        """Whether windows of `finish` may begin inside a slice, so that rows that are `needed` are kept for them."""
        return False
