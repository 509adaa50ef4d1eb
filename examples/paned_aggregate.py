"""A large sliding window by time as a tumbling one that feeds a sliding one, with the same results (SPEC G-28).

`sliding, time(R), time(S)` with R = k S becomes `tumbling, time(S)`, whose flushes are aggregated to one partial each,
also where nothing came, and `sliding, count(k), count(1)` over those partials. So a window of an hour that moves every
minute holds the tuples of one minute and 60 partials, and each tuple is aggregated once. What is carried is what
aggregates combine (sum and count for an average), never finished results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Aggregate, BoundAggregate, Cells, Column, Inputs
from panes.aggregates.columns import arrow_field, cells_from_arrow, cells_to_arrow
from panes.errors import QueryError
from panes.policies.library.columnar import ColumnarWindow, Firings
from panes.policies.library.specs import Count, Policy, Time
from panes.slicing.keys import KeyDirectory
from panes.state.checked import INT64, MANY, demand, numbers, read_table, reading, rising, whole
from panes.state.pickles import trusting
from panes.state.snapshot import pack, unpack

Array = np.ndarray
_SEQ, _CELL = "panes.seq", "panes.cell"


def rewritten(evict: Policy, trigger: Policy) -> tuple[Time, Count, Count]:
    """The tumbling eviction, and the sliding eviction and trigger behind it.

    >>> from panes.policies.library import time
    >>> rewritten(time("1 h"), time("1 min"))
    (time("1 min"), count(60), count(1))
    """
    if not isinstance(evict, Time) or not isinstance(trigger, Time):
        raise QueryError(f"evict={evict!r}, trigger={trigger!r}: only time(R), time(S) can be made of smaller windows")
    if evict.us % trigger.us:
        raise QueryError(f"evict={evict!r} is no multiple of trigger={trigger!r}: the windows can't share their parts")
    return trigger, Count(evict.us // trigger.us), Count(1)


class PanedAggregate:
    """Aggregates over `sliding, time(R), time(S)`: one line per key and trigger, also for empty windows.

    The result has the key columns, `at` (when it was due), `full` (whether the window had been full), the aggregates.
    `evict` and `trigger` are those of the large window; arguments of aggregates are columns.
    """

    def __init__(
        self,
        schema: pa.Schema,
        aggs: Mapping[str, Aggregate],
        *,
        evict: Policy,
        trigger: Policy,
        time: str,
        key: Sequence[str] = (),
    ) -> None:
        slide, self._k, every = rewritten(evict, trigger)
        self.aggs = dict(aggs)
        self._bound: dict[str, BoundAggregate] = {}
        for name, aggregate in self.aggs.items():
            missing = [column for column in aggregate.inputs if column not in schema.names]
            if missing:
                raise QueryError(f"{name}: {missing[0]!r} is no column; the columns are {', '.join(schema.names)}")
            if not aggregate.laws.associative:
                raise QueryError(f"{name}: {aggregate!r} is not associative, it can't be made of partials")
            self._bound[name] = aggregate.bind([schema.field(c).type for c in aggregate.inputs])
        self._time, self._key = time, tuple(key)
        inputs = dict.fromkeys([*(c for a in self.aggs.values() for c in a.inputs), time, _SEQ])
        numbered = schema.append(pa.field(_SEQ, pa.int64()))
        self._tumbling = ColumnarWindow(numbered, evict=slide, key=key, time=time, keep=list(inputs), discard=False)
        partials = pa.schema([*(schema.field(name) for name in key), pa.field(_CELL, pa.int64())])
        self._sliding = ColumnarWindow(partials, evict=self._k, trigger=every, key=key, keep=[_CELL])
        self._keys = KeyDirectory([schema.field(name).type for name in key]) if key else None
        self._periods = np.zeros(1, np.int64)  # of each key: intervals so far
        self._seq = 0
        self._numbers = np.empty(0, np.int64)  # of the partials in the sliding window, rising
        self._next = 0
        self._cells = {name: bound.empty(0) for name, bound in self._bound.items()}

    def push(self, batch: pa.Table | pa.RecordBatch) -> pa.Table:
        """Rows arrive; the results that their times make due."""
        table = pa.table(batch) if isinstance(batch, pa.RecordBatch) else batch
        numbers = pa.array(np.arange(self._seq, self._seq + table.num_rows))
        fired = self._tumbling.push(table.append_column(_SEQ, numbers))
        self._seq += table.num_rows
        return self._slide(fired)

    def advance(self, now: int) -> pa.Table:
        """The time is `now`, in microseconds."""
        return self._slide(self._tumbling.advance(now))

    @property
    def metrics(self) -> dict[str, int]:
        """What is held: tuples of the current interval, and partials."""
        return {"tuples": self._tumbling.metrics["tuples"], "partials": self._sliding.metrics["tuples"]}

    def snapshot(self) -> bytes:
        """All that is held, as bytes."""
        self._forget()
        tables = {
            f"cells.{name}": pa.table(cells_to_arrow(bound, self._cells[name])) for name, bound in self._bound.items()
        }
        tables["numbers"] = pa.table({"number": self._numbers})
        tables["windows"] = pa.table({"blob": [self._tumbling.snapshot(), self._sliding.snapshot()]})
        tables["periods"] = pa.table({"periods": self._periods})
        if self._keys is not None:
            tables["keys"] = self._keys.dump()
        pickled = any(field.python for bound in self._bound.values() for field in bound.fields)
        return pack({"seq": self._seq, "next": self._next, "pickled": pickled}, tables)

    def restore(self, blob: bytes, *, trusted: bool = False) -> None:
        """Go on where a snapshot was taken; if the bytes are refused, nothing changes.

        `trusted`: the bytes are as you wrote them, and pickles of your own aggregates in them may be read.
        """
        before = dict(self.__dict__)
        self._tumbling, self._sliding = copy(self._tumbling), copy(self._sliding)
        try:
            with trusting(trusted), reading("the snapshot"):
                self._restore(*unpack(blob))
        except BaseException:
            self.__dict__.update(before)
            raise

    def _restore(self, facts: dict[str, Any], tables: dict[str, pa.Table]) -> None:
        blobs = read_table(tables, "windows", {"blob": pa.binary()})
        demand(blobs.num_rows == 2, "there are other windows than a tumbling and a sliding one")
        tumbling, sliding = blobs["blob"].to_pylist()
        self._tumbling.restore(tumbling)
        self._sliding.restore(sliding)
        self._seq, self._next = whole(facts, "seq", 0, MANY), whole(facts, "next", 0, MANY)
        self._numbers = numbers(read_table(tables, "numbers", {"number": INT64}), "number", low=0, high=self._next - 1)
        rising(self._numbers, "the numbers of partials")
        held = self._sliding.held().columns[_CELL].values
        demand(np.isin(held, self._numbers).all(), "a window holds partials that are not there")
        self._periods = numbers(read_table(tables, "periods", {"periods": INT64}), "periods", low=0, high=MANY)
        if self._keys is not None:
            self._keys = KeyDirectory(self._keys.types)
            self._keys.load(read_table(tables, "keys"))
            demand(len(self._periods) >= len(self._keys), "there are more keys than periods")
        demand(len(self._periods) >= (self._keys is None), "there are no periods")
        self._cells = {}
        for name, bound in self._bound.items():
            columns = read_table(tables, f"cells.{name}", {f.name: arrow_field(f).type for f in bound.fields})
            self._cells[name] = cells_from_arrow(bound, {c: columns[c] for c in columns.column_names})
            demand(columns.num_rows == len(self._numbers), "there are more partials than numbers, or fewer")

    def _slide(self, fired: Firings) -> pa.Table:
        """Aggregate each flush to a partial, and feed the partials to the sliding window."""
        sizes = fired.stop - fired.start
        offsets = np.concatenate(([0], np.cumsum(sizes)))
        index = np.arange(offsets[-1]) + np.repeat(fired.start - offsets[:-1], sizes)
        columns = {name: column.take(index) for name, column in fired.columns.items()}
        for name, bound in self._bound.items():
            arguments = tuple(columns[c] for c in self.aggs[name].inputs)
            fresh = bound.lift(
                Inputs(arguments, _times(columns[self._time]), columns[_SEQ].values, len(index)), offsets
            )
            self._cells[name] = Cells.concat([self._cells[name], fresh])
        numbers = np.arange(self._next, self._next + len(fired))
        self._next += len(fired)
        self._numbers = np.concatenate((self._numbers, numbers))
        keyed = dict(zip(self._key, fired.keys))
        result = self._results(fired, self._sliding.push(pa.table({**keyed, _CELL: numbers})))
        if len(self._numbers) > 2 * self._sliding.metrics["tuples"] + 1024:
            self._forget()
        return result

    def _results(self, fired: Firings, slid: Firings) -> pa.Table:
        """Combine the partials of each window; the sliding window fires once per partial, in their order."""
        sizes = slid.stop - slid.start
        offsets = np.concatenate(([0], np.cumsum(sizes)))
        index = np.arange(offsets[-1]) + np.repeat(slid.start - offsets[:-1], sizes)
        cells = np.searchsorted(self._numbers, slid.columns[_CELL].values[index])
        out: dict[str, Any] = dict(zip(self._key, fired.keys))
        out["at"] = fired.at
        # The large window is full when a tuple has become too old, one interval after there are k partials.
        out["full"] = self._count_periods(fired) > self._k.size
        for name, bound in self._bound.items():
            out[name] = bound.lower_ranges(self._cells[name], cells, offsets)
        return pa.table(out)

    def _count_periods(self, fired: Firings) -> Array:
        """Which interval of its key each flush ends: 1, 2, ..."""
        slots = np.zeros(len(fired), np.int64) if self._keys is None else self._keys.slots(fired.keys)
        known = 1 if self._keys is None else len(self._keys)
        if known > len(self._periods):
            self._periods = np.concatenate((self._periods, np.zeros(known, np.int64)))
        order = np.argsort(slots, kind="stable")
        ordered = slots[order]
        first = np.flatnonzero(np.diff(ordered, prepend=-1))
        within = np.arange(len(ordered)) - np.repeat(first, np.diff(first, append=len(ordered)))
        found = np.empty(len(slots), np.int64)
        found[order] = self._periods[ordered] + within + 1
        np.add.at(self._periods, slots, 1)
        return found

    def _forget(self) -> None:
        """Keep only the partials that are in the sliding window."""
        held = np.sort(self._sliding.held().columns[_CELL].values)
        index = np.searchsorted(self._numbers, held)
        self._numbers = held
        self._cells = {name: cells.take(index) for name, cells in self._cells.items()}


def _times(column: Column) -> Array:
    return column.values.astype(np.int64, copy=False)
