"""The containers over whole batches: columns in, what each flush or trigger sees as ranges of rows out.

`ColumnarWindow` does what `TumblingWindow` and `SlidingWindow` do, event for event (tests compare them), at the speed
of a loop over arrays (kernels.py), with many keys at once. It takes built-in policies only; time policies follow the
time column of the rows, as a container does whose clock is advanced to the time of each row before it is inserted.
Rows whose times and attributes can't be read are named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Column
from panes.aggregates.columns import column_from_arrow
from panes.clock import FakeClock
from panes.errors import DataError, QueryError
from panes.policies.library import events, kernels
from panes.policies.library import fields as k
from panes.policies.library.arrays import Arrays, TupleStore, held_rows, locate, never_falls, to_table, view
from panes.policies.library.columnar_state import restore, snapshot
from panes.policies.library.sliding import SlidingWindow
from panes.policies.library.specs import Count, Delta, PartitionAge, PartitionPolicy, Policy, Select, Time, text
from panes.policies.library.tumbling import TumblingWindow
from panes.slicing.keys import KeyDirectory

Array = np.ndarray
NO_VALUES = np.empty(0, np.int64)
_STEPS = (events.FLUSH, events.EVICT, events.INSERT, events.TRIGGER)  # as fields.py numbers them
_KINDS = ("count", "delta", "time", "punct")
_LIMITS = (None, "partition_count", "tuple_count", "partition_age")
_SELECTS = ("lru", "lfu", "oldest")
#: Events given per call of the loop; more of them are given in several calls.
_ROOM = 1 << 16


def value_type(policy: Policy | None, schema: pa.Schema) -> np.dtype:
    """In what the attribute of a policy is compared; refuses columns that have no difference."""
    if not isinstance(policy, Delta):
        return NO_VALUES.dtype
    type = schema.field(str(policy.attribute)).type
    if pa.types.is_integer(type) or pa.types.is_timestamp(type) or pa.types.is_date(type):
        return np.dtype(np.int64)
    if pa.types.is_floating(type):
        return np.dtype(np.float64)
    raise QueryError(f"{text(policy)}: column {policy.attribute!r} is of type {type}, which has no difference")


def times_of(name: str, column: Column) -> Array:
    """The time of each row."""
    if column.valid is not None and not column.valid.all():
        row = int(np.flatnonzero(~column.valid)[0])
        raise DataError(f"time column {name!r} is null in row {row} of the batch: every row needs its time")
    return _ticks(column)


def values_of(policy: Policy | None, columns: Mapping[str, Column]) -> Array:
    """The attribute of each row that a policy compares; none if it compares none."""
    if not isinstance(policy, Delta):
        return NO_VALUES
    column = columns[str(policy.attribute)]
    values = column.values.astype(np.float64) if pa.types.is_floating(column.type) else _ticks(column)
    bad = values != values if column.valid is None else (values != values) | ~column.valid
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise DataError(
            f"{text(policy)}: the attribute is not a number in row {row} of the batch, so it has no difference"
        )
    return values


def _ticks(column: Column) -> Array:
    """Integers as they are, points in time as microseconds."""
    type = column.type
    if pa.types.is_timestamp(type) and type.unit != "us":
        per = {"s": 10**6, "ms": 10**3}.get(type.unit)
        return column.values * per if per is not None else column.values // 1000
    if pa.types.is_date(type):
        return column.values * (86400 * 10**6 if pa.types.is_date32(type) else 1000)
    return column.values.astype(np.int64, copy=False)


#: The events that can be watched. "fired" is a flush or trigger, the others are as in events.py.
WATCHABLE = ("fired", "initial_full", "partition_evict")


@dataclass(frozen=True)
class Firings:
    """Events in the order in which they happen. Event i sees tuples `start[i]:stop[i]` of `columns`, oldest first.

    `row` is the row of the batch that caused it, or that time had to pass for; `full` is whether a sliding subwindow
    has been full; `kind` counts WATCHABLE. Ranges of one key overlap where windows do.
    """

    kind: Array
    row: Array
    at: Array
    full: Array
    keys: tuple[pa.Array, ...]
    start: Array
    stop: Array
    columns: Mapping[str, Column]

    def __len__(self) -> int:
        return len(self.kind)

    def table(self) -> pa.Table:
        """The tuples that the ranges refer to."""
        return to_table(self.columns)


def vectorises(evict: Policy, trigger: Policy | None = None, select: str = "lru") -> bool:
    """Whether a columnar window can do this: all built-in policies of named attributes can be done."""
    by_function = any(isinstance(p, Delta) and not isinstance(p.attribute, str) for p in (evict, trigger))
    return select != "user" and not by_function


class ColumnarWindow:
    """A tumbling window (without `trigger`) or a sliding one, partitioned by `key` if there is one."""

    def __init__(
        self,
        schema: pa.Schema,
        *,
        evict: Policy,
        trigger: Policy | None = None,
        key: Sequence[str] = (),
        time: str | None = None,
        keep: Sequence[str] | None = None,
        partition_evict: PartitionPolicy | None = None,
        select: Select = "lru",
        discard: bool = True,
        watch: Sequence[str] = ("fired",),
    ) -> None:
        options: dict[str, Any] = {"partitioned": bool(key), "partition_evict": partition_evict, "select": select}
        # The containers know what is allowed.
        if trigger is None:
            self.discard = TumblingWindow(evict=evict, clock=FakeClock(), discard=discard, **options).discard
        else:
            self.discard = False
            SlidingWindow(evict=evict, trigger=trigger, clock=FakeClock(), **options)
        if not vectorises(evict, trigger, select):
            raise QueryError(
                "a columnar window takes deltas of columns and built-in selections only: functions and select='user' "
                "run in TumblingWindow and SlidingWindow"
            )
        self.schema = schema
        self.evict, self.trigger, self.partition_evict, self.select = evict, trigger, partition_evict, select
        self.key, self.time = tuple(key), time
        self.keep = tuple(schema.names if keep is None else keep)
        deltas = [p.attribute for p in (evict, trigger) if isinstance(p, Delta)]
        for name in (*self.key, *self.keep, *deltas, *([] if time is None else [time])):
            if name not in schema.names:
                raise QueryError(f"there is no column {name!r}; the columns are {', '.join(schema.names)}")
        if time is None and any(isinstance(p, (Time, PartitionAge)) for p in (evict, trigger, partition_evict)):
            raise QueryError("time is missing: time policies over batches follow a time column")
        unknown = [name for name in watch if name not in WATCHABLE]
        if unknown:
            raise QueryError(f"watch={unknown[0]!r} is unknown: use {', '.join(WATCHABLE)}")
        self._watch = sum(1 << WATCHABLE.index(name) for name in watch)
        steps = events.TUMBLING_STEPS[evict.kind] if trigger is None else events.SLIDING_STEPS[evict.kind, trigger.kind]
        self._steps = np.array([_STEPS.index(step) for step in steps], np.int64)
        self._deltas = (_threshold(evict), _threshold(trigger))
        self._keys = KeyDirectory([schema.field(name).type for name in self.key]) if self.key else None
        self._arrays = self._fresh_arrays()

    def _fresh_arrays(self) -> Arrays:
        """The state of a window that has seen nothing."""
        schema = self.schema
        arrays = Arrays(
            self._config(),
            TupleStore({name: schema.field(name).type for name in self.keep}),
            np.empty(0, value_type(self.evict, schema)),
            value_type(self.trigger, schema),
        )
        if self.time is not None:
            arrays.g[k.G_NOW] = k.NO_TIME
        return arrays

    def push(self, batch: pa.Table | pa.RecordBatch) -> Firings:
        """Rows arrive, in their order; a batch that is refused changes nothing."""
        n = batch.num_rows
        columns = {name: column_from_arrow(batch[name]) for name in self._needed}
        times = NO_VALUES if self.time is None else times_of(self.time, columns[self.time])
        values = [values_of(p, columns) for p in (self.evict, self.trigger)]
        if self._keys is None:
            slots = np.zeros(n, np.int64)
            known = 1
        else:
            slots = self._keys.slots([batch[name] for name in self.key])
            known = len(self._keys)
        arrays = self._arrays
        arrays.room(known, n)
        first = arrays.tuples.n
        arrays.tuples.append(columns, n)
        if isinstance(self.evict, Delta):
            arrays.evict_values[first : first + n] = values[0]
        coming = values[1].astype(arrays.trigger_type)  # a copy, since compiled code is made for writable arrays
        arrays.worked += n
        backup = None if self._surely_rises(slots, first, coming) else arrays.copy()
        found: list[Array] = []
        room = self._room(n)
        done = 0
        while done < n:
            arrays.g[[k.G_OUT, k.G_FIRED]] = 0
            done = kernels.arrive.worth(arrays.worked)(
                done, slots, times, first, arrays.subs, arrays.rows, arrays.g, arrays.config, self._steps,
                arrays.evict_values, self._deltas[0], coming, self._deltas[1], arrays.bases,
                arrays.last_evict, arrays.last_trigger, arrays.due, arrays.rarest, room,
            )  # fmt: skip
            if arrays.g[k.G_BAD] != k.NEVER:
                assert backup is not None
                self._arrays = backup
                backup.tuples.drop_last(n)
                raise self._fell(batch, int(arrays.g[k.G_BAD]))
            found.append(room[: arrays.g[k.G_OUT]].copy())
        return self._given(found)

    def advance(self, now: int) -> Firings:
        """The time is `now`, in microseconds: what the clock brings until then."""
        arrays = self._arrays
        found: list[Array] = []
        room = self._room(0)
        over = False
        if now > arrays.g[k.G_NOW]:
            arrays.g[k.G_NOW] = now
            arrays.room(arrays.n, 0)
            while not over:
                arrays.g[[k.G_OUT, k.G_FIRED]] = 0
                over = kernels.advance.worth(arrays.worked)(
                    0, now, arrays.subs, arrays.rows, arrays.g, arrays.config, arrays.due, room
                )
                found.append(room[: arrays.g[k.G_OUT]].copy())
        return self._given(found)

    def punctuate(self) -> Firings:
        """A window punctuation of the stream: all subwindows are processed, older ones first."""
        if self.evict.kind != "punct":
            raise QueryError(f"punctuate(): the window is full by {text(self.evict)}, not by punct()")
        arrays = self._arrays
        if self._keys is None and not arrays.g[k.G_LIVE]:
            # A window that is not partitioned is there, also before its first tuple.
            arrays.room(1, 1)
            kernels.create.plain(0, arrays.g[k.G_NOW], arrays.subs, arrays.g, arrays.config, arrays.due, arrays.rarest)
        alive = np.flatnonzero(arrays.subs[: arrays.n, k.S_ALIVE] == 1)
        alive = alive[np.argsort(arrays.subs[alive, k.S_CREATED], kind="stable")]
        room = np.empty((len(alive), k.E_FIELDS), np.int64)
        arrays.g[[k.G_OUT, k.G_FIRED]] = 0
        kernels.punctuate.worth(arrays.worked)(alive, 0, arrays.subs, arrays.g, arrays.config, room)
        return self._given([room[: arrays.g[k.G_OUT]]])

    def held(self) -> Firings:
        """All subwindows, older ones first, as if each had been flushed now; nothing changes."""
        arrays = self._arrays
        subs = arrays.subs[: arrays.n]
        alive = np.flatnonzero(subs[:, k.S_ALIVE] == 1)
        alive = alive[np.argsort(subs[alive, k.S_CREATED], kind="stable")]
        sizes = subs[alive, k.S_SIZE]
        stops = np.cumsum(sizes)
        rows = np.empty(int(sizes.sum()), np.int64)
        held_rows.worth(arrays.worked)(alive, arrays.subs, arrays.rows, rows)
        none = np.zeros(len(alive), np.int64)
        keys = () if self._keys is None else tuple(self._keys.key_columns(alive))
        full = subs[alive, k.S_FULL] == 1
        return Firings(none, none, none, full, keys, stops - sizes, stops, arrays.tuples.take(rows))

    def snapshot(self) -> bytes:
        """All that the window holds, as bytes."""
        return snapshot(self)

    def saved(self) -> Callable[[ColumnarWindow], None]:
        """What puts the state of now into windows of the same configuration; this one must be given up by then."""
        arrays, keys = self._arrays.twin(), None if self._keys is None else self._keys.dump()

        def put_back(window: ColumnarWindow) -> None:
            window._arrays = arrays.twin()
            if window._keys is not None and keys is not None:
                window._keys = KeyDirectory(window._keys.types)
                window._keys.load(keys)

        return put_back

    def restore(self, blob: bytes) -> None:
        """Go on where a snapshot of a window with the same configuration was taken."""
        restore(self, blob)

    @property
    def metrics(self) -> dict[str, int]:
        """What the window holds now."""
        g = self._arrays.g
        counts = {"partitions": int(g[k.G_LIVE]), "tuples": int(g[k.G_TUPLES]), "timers": int(g[k.G_DUE])}
        return {**counts, "bytes": self._arrays.nbytes}

    @property
    def _needed(self) -> list[str]:
        deltas = [str(p.attribute) for p in (self.evict, self.trigger) if isinstance(p, Delta)]
        return list(dict.fromkeys([*self.keep, *deltas, *([] if self.time is None else [self.time])]))

    def _config(self) -> Array:
        """As fields.py numbers it."""
        limit = self.partition_evict
        most = 0 if limit is None else limit.us if isinstance(limit, PartitionAge) else limit.most
        return np.array(
            [
                _KINDS.index(self.evict.kind),
                _size(self.evict),
                -1 if self.trigger is None else _KINDS.index(self.trigger.kind),
                _size(self.trigger),
                self.discard,
                _LIMITS.index(None if limit is None else limit.kind),
                most,
                # age needs no selection: it always takes what was updated least recently
                0 if isinstance(limit, PartitionAge) else _SELECTS.index(self.select),
                self.trigger is None,
                self._watch,
                _ROOM,
            ],
            np.int64,
        )

    def _surely_rises(self, slots: Array, first: int, coming: Array) -> bool:
        """Whether no attribute of a delta falls, even if partitions are not evicted in between."""
        arrays = self._arrays
        for policy, values, at, last in (
            (self.evict, arrays.evict_values, first, arrays.last_evict),
            (self.trigger, coming, 0, arrays.last_trigger),
        ):
            if isinstance(policy, Delta) and not never_falls.worth(arrays.worked)(slots, values, at, arrays.subs, last):
                return False
        return True

    def _fell(self, batch: pa.Table | pa.RecordBatch, row: int) -> DataError:
        policies = " or ".join(text(p) for p in (self.evict, self.trigger) if isinstance(p, Delta))
        return DataError(
            f"{policies}: the attribute falls in row {row} of the batch, {batch.slice(row, 1).to_pylist()[0]!r}; "
            "a delta policy needs an attribute that never decreases"
        )

    def _room(self, rows: int) -> Array:
        """Space for the events of one call of the loop."""
        others = int(self._arrays.g[k.G_LIVE]) + rows
        watched = (self._watch >> k.FILLED & 1) + (self._watch >> k.DROPPED & 1)
        return np.empty((_ROOM + 2 + watched * others, k.E_FIELDS), np.int64)

    def _given(self, parts: list[Array]) -> Firings:
        arrays = self._arrays
        happened = np.concatenate(parts) if parts else np.empty((0, k.E_FIELDS), np.int64)
        n = len(happened)
        starts, stops, slots = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
        seen, total = locate.worth(arrays.worked)(happened, arrays.subs, starts, stops, slots)
        rows = np.empty(total, np.int64)
        view.worth(arrays.worked)(slots[:seen], arrays.subs, arrays.rows, rows)
        keys = () if self._keys is None else tuple(self._keys.key_columns(happened[:, k.E_SLOT]))
        found = Firings(
            happened[:, k.E_KIND], happened[:, k.E_ROW], happened[:, k.E_AT], happened[:, k.E_FULL] == 1, keys, starts,
            stops, arrays.tuples.take(rows),
        )  # fmt: skip
        self._tidy()
        return found

    def _tidy(self) -> None:
        """Memory follows what is in the windows, not what ever was."""
        arrays = self._arrays
        arrays.shrink_tuples()
        arrays.shrink_queues()
        if self._keys is not None and arrays.many_idle():
            self._forget()

    def _forget(self) -> None:
        """Forget every tuple and key that no window holds."""
        self._arrays.compact_tuples()
        if self._keys is not None:
            used = self._arrays.used_slots()
            self._keys.compact(used)
            self._arrays.keep_slots(used)


def _size(policy: Policy | None) -> int:
    return policy.size if isinstance(policy, Count) else policy.us if isinstance(policy, Time) else 0


def _threshold(policy: Policy | None) -> float:
    return float(policy.threshold) if isinstance(policy, Delta) else 0.0
