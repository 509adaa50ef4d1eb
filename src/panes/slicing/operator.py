"""The operator: batches of rows in, results that are due out. A deterministic state machine.

Rows are read, their lateness is decided (arrival.py), expressions are evaluated once, keys become slots, and
the lane that the workload needs (workload.py) does the rest. Pushing rows one by one, in batches of any size,
or across snapshot and restore gives the same results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from panes.aggregates.columns import column_from_arrow
from panes.errors import OperatorClosed, QueryError
from panes.slicing.admission import TIME_LIMIT, bad_gaps, with_time
from panes.slicing.arrival import Arrival, arrive
from panes.slicing.checkpoint import restore, snapshot
from panes.slicing.idle_keys import IdleKeys
from panes.slicing.keys import KeyDirectory
from panes.slicing.lane import Query, Results, Rows
from panes.slicing.ledger import TOO_LATE, LateLedger
from panes.slicing.partials.partial_lane import PartialLane
from panes.slicing.raw_rows import RawRows
from panes.slicing.result_schema import dimensions, needs_rows, positions
from panes.slicing.results import Result, ResultBuilder
from panes.slicing.row_buffer import RowBuffer
from panes.slicing.rows.row_lane import RowLane
from panes.slicing.spec import MANUAL, OperatorSpec
from panes.slicing.workload import Workload, analyse, order_free
from panes.windows.base import ALWAYS, NEVER, Bound, Window

Array = np.ndarray


class SliceOperator:
    """A running query. Made by `query.operator()`."""

    def __init__(self, spec: OperatorSpec) -> None:
        self.spec = spec
        self.watermark: int = ALWAYS
        self._queries = tuple(
            Query(label, number, bound) for number, (label, bound) in enumerate(spec.bound_windows.items())
        )
        self._windows = dict(spec.windows)
        self._next_number = len(self._queries)
        self._expressions = spec.expressions.including(_wanted(self._queries, spec))
        self._keys = KeyDirectory([spec.schema.field(k).type for k in spec.keys]) if spec.keys else None
        self._lanes: list[PartialLane | RowLane] = [self._make_lane(self._queries)]
        self._ledger = LateLedger(spec.schema)
        self._raw = RawRows()
        self._buffer = RowBuffer(spec, self._next_due)
        self._held: list[Results] = []
        #: results of parts that were put together when some of them were behind the others
        self._due: list[pa.Table] = []
        self._idle_keys = IdleKeys()
        self._seq = 0
        self._ramp = np.arange(0)
        self._finished = False
        self._counts = {
            "rows_in": 0,
            "rows_used": 0,
            "rows_corrected": 0,
            "results": 0,
            "watermark_regressions": 0,
        }
        self._plan_changed()

    @property
    def workload(self) -> Workload:
        """What the windows and aggregates of now require."""
        return analyse(
            [(q.label, q.window) for q in self._queries],
            [(a.name, a.bound.laws) for a in self.spec.aggs],
            in_order=self.spec.in_order,
            lateness=self.spec.lateness is not None,
        )

    @property
    def windows(self) -> dict[str, Window]:
        """The windows of now, by label."""
        return dict(self._windows)

    def _make_lane(self, queries: Sequence[Query]) -> PartialLane | RowLane:
        if not needs_rows(self.spec, [q.window for q in queries]):
            return self._lane(queries, rows=False, dimensions={})
        return self._lane(queries, rows=True, dimensions=self._dimensions(queries))

    def _lane(
        self, queries: Sequence[Query], *, rows: bool, dimensions: Mapping[str, np.dtype]
    ) -> PartialLane | RowLane:
        spec = self.spec
        if not rows:
            return PartialLane(
                queries, spec.aggs, lateness=spec.lateness, keyed=bool(spec.keys), store=spec.store,
                emit_empty=spec.emit_empty,
            )  # fmt: skip
        return RowLane(
            queries, spec.aggs, lateness=spec.lateness, dimensions=dimensions, store=spec.store,
            emit_empty=spec.emit_empty,
        )  # fmt: skip

    def _dimensions(self, queries: Sequence[Query]) -> dict[str, np.dtype]:
        return dimensions([(q.label, q.window) for q in queries], self._expressions.types)

    def _plan_changed(self) -> None:
        labels = {q.number: q.label for q in self._queries}
        by_rows = [lane for lane in self._lanes if isinstance(lane, RowLane)]
        kinds = [d for lane in by_rows for d in lane.live.dimensions.values()]
        numbers = positions([q.window for q in self._queries], kinds) if by_rows else None
        self._builder = ResultBuilder(self.spec, self._keys, labels, positions=numbers)
        self._gaps = sorted({c for q in self._queries for c in _gap_columns(q.window)})
        self._needs_raw = bool(kinds)
        ordered = any(f.name.endswith("seq") for a in self.spec.aggs for f in a.bound.fields)
        self._order_matters = ordered or any(isinstance(lane, RowLane) for lane in self._lanes)
        self._buffer.forget_due()

    def _next_due(self) -> tuple[int, int]:
        """The watermark, and the number of rows, before which nothing can be due."""
        rows = [lane.rows_until_due() for lane in self._lanes if isinstance(lane, RowLane)]
        return min(lane.next_due(self.watermark) for lane in self._lanes), min(rows, default=NEVER)

    def next_due(self) -> int:
        """Nothing can become due before the watermark has reached this tick (unless rows come)."""
        self._settle()
        due, rows = self._next_due()
        return due if rows > 0 else ALWAYS  # rows that wait for the watermark may complete a count of rows

    def take_late(self) -> pa.Table:
        """Rows that no result uses, as in `late`, which are forgotten here: whoever asks keeps them."""
        self._settle()
        return self._ledger.take()

    def push(self, batch: Any) -> Result:
        """Take rows (Arrow, pandas, Polars, a dict or a list of dicts); returns the results now due."""
        self._open("push")
        if isinstance(batch, dict) and not self._due and self._buffer.takes(batch):
            if not self._buffer.add(batch, self.watermark):
                return self._builder.empty()
            return self._given(self._flush())
        parts = self._flush()
        table = self.spec.read(batch)
        if table.num_rows:
            parts += self._ingest(table)
        return self._given(parts)

    def advance(self, watermark: Any) -> Result:
        """Event time has reached `watermark` (tick, datetime or ISO string); returns the results now due."""
        self._open("advance")
        tick = self.spec.domain.point(watermark, argument="watermark")
        parts = self._flush()
        if tick < self.watermark:
            self._counts["watermark_regressions"] += 1
        elif tick > self.watermark:
            parts += self._advance(min(tick, TIME_LIMIT))
        return self._given(parts)

    def finish(self) -> Result:
        """End of stream; returns everything that the end makes due. No more input after this."""
        self._open("finish")
        parts = self._flush()
        for lane in self._lanes:
            parts.append(lane.finish())
            self._collect_rejected(lane)
        self._finished = True
        return self._given(parts)

    def _open(self, call: str) -> None:
        if self._finished:
            raise OperatorClosed(f"{call} after finish: the stream has ended; make a new operator")

    def _flush(self) -> list[Results]:
        rows = self._buffer.drain()
        return self._ingest(self.spec.read(rows)) if rows else []

    def _settle(self) -> None:
        """Work on single rows held back; what they give (nothing, as a rule) goes out with the next call."""
        self._held += self._flush()

    def _given(self, parts: list[Results]) -> Result:
        parts, self._held = [*self._held, *parts], []
        if self._needs_raw:
            waiting = [lane.buffer.oldest(self._seq) for lane in self._lanes if isinstance(lane, RowLane)]
            self._raw.forget(min(waiting, default=self._seq))
        result = self._builder.build(parts)
        self._idle_keys.forget(self._keys, self._lanes)  # only now: what lanes give names keys by their slots
        self._counts["results"] += len(result)
        if self._due:
            result, self._due = Result(pa.concat_tables([*self._due, result.table])), []
        return result

    def _ingest(self, table: pa.Table) -> list[Results]:
        # first of all what may fail: a batch that does is refused whole, and nothing has changed
        evaluated = {text: column_from_arrow(a) for text, a in self._expressions.evaluate(table).items()}
        self._counts["rows_in"] += table.num_rows
        table, times, around, usable = with_time(table, self.spec.time, self._ledger)
        if around is None:
            return []
        if usable is not None:
            evaluated = {text: c.take(usable) for text, c in evaluated.items()}
        n = len(times)
        bound = None if self.spec.watermark == MANUAL else self.spec.bound
        arrival = arrive(times, around, self.watermark, bound)
        slots = None if self._keys is None else self._keys.slots([table[k] for k in self.spec.keys])
        keys = None if self._keys is None else len(self._keys)
        span = around.low, around.high
        rows = Rows(slots, times, self._arrival_numbers(n), evaluated, around.in_order, span, keys)
        self._seq += n
        if self._needs_raw:
            self._raw.keep(rows.seq, table)
        unusable = bad_gaps(table, [evaluated[gap] for gap in self._gaps], self._ledger)
        if arrival.late is None and unusable is None:
            self._counts["rows_used"] += n
            self._add(rows)
            return self._advance(arrival.watermark)
        return self._row_by_row(table, rows, arrival, unusable)

    def _arrival_numbers(self, n: int) -> Array:
        if self._order_matters:
            return np.arange(self._seq, self._seq + n)
        # nobody looks at them: numbers without a start cost nothing
        if len(self._ramp) < n:
            self._ramp = np.arange(n)
        return self._ramp[:n]

    def _row_by_row(self, table: pa.Table, rows: Rows, arrival: Arrival, unusable: Array | None) -> list[Results]:
        """A batch with rows that are late or unusable: each correction happens at its place among the others."""
        late = np.zeros(len(rows), bool) if arrival.late is None else arrival.late
        met = np.full(len(rows), self.watermark) if arrival.met is None else arrival.met
        out = np.zeros(len(rows), bool) if unusable is None else unusable
        gone = late & ~out & (rows.times < met - (self.spec.lateness or 0))
        self._ledger.put(table.filter(pa.array(gone)), TOO_LATE)
        out = out | gone
        self._counts["rows_used"] += int(len(out) - out.sum())
        parts: list[Results] = []
        done = 0
        for at in np.flatnonzero(late & ~out).tolist():
            parts += self._on_time(rows, late | out, done, at, int(met[at]))
            row = rows.take(np.array([at]))
            self._counts["rows_corrected"] += 1
            for lane in self._lanes:
                parts.append(lane.correct(row, self.watermark))
                self._collect_rejected(lane)
            done = at + 1
        return parts + self._on_time(rows, late | out, done, len(rows), arrival.watermark)

    def _on_time(self, rows: Rows, other: Array, begin: int, end: int, watermark: int) -> list[Results]:
        chosen = begin + np.flatnonzero(~other[begin:end])
        if len(chosen):
            self._add(rows.take(chosen))
        return self._advance(watermark)

    def _add(self, rows: Rows) -> None:
        for lane in self._lanes:
            lane.add(rows)

    def _advance(self, watermark: int) -> list[Results]:
        self.watermark = max(self.watermark, watermark)
        parts = [lane.advance(self.watermark) for lane in self._lanes]
        for lane in self._lanes:
            self._collect_rejected(lane)
        self._buffer.forget_due()
        return parts

    def _collect_rejected(self, lane: PartialLane | RowLane) -> None:
        if isinstance(lane, RowLane) and lane.rejected:
            for seq, reason in lane.rejected:
                self._ledger.put(self._raw.find(seq), reason)
                self._counts["rows_used"] -= len(seq)
            lane.rejected = []

    def add_window(self, label: str, window: Window) -> None:
        """Give this window too from now on, starting with the first one whose rows are all still there."""
        self._open("add_window")
        if label in self._windows:
            raise QueryError(f"window {label!r} is there already: remove it first, or choose another label")
        bound = window.bind(self.spec.domain)
        query = Query(label, self._next_number, bound)
        self._settle()
        self._expressions = self._expressions.including(bound.columns)
        for lane in self._lanes:
            if isinstance(lane, RowLane) or order_free(bound):
                lane.add_window(query, self.watermark)
                break
        else:
            self._lanes.append(self._make_lane([query]))
            self._lanes[-1].advance(self.watermark)
        self._queries = (*self._queries, query)
        self._windows[label] = window
        self._next_number += 1
        self._plan_changed()

    def remove_window(self, label: str) -> None:
        """Stop giving this window."""
        self._open("remove_window")
        if label not in self._windows:
            raise QueryError(f"there is no window {label!r} to remove; there are {', '.join(self._windows)}")
        self._settle()
        query = next(q for q in self._queries if q.label == label)
        for lane in self._lanes:
            if any(q.number == query.number for q in lane.queries):
                lane.remove_window(query.number)
        self._queries = tuple(q for q in self._queries if q.label != label)
        del self._windows[label]
        self._plan_changed()

    def snapshot(self, *, key_groups: range | None = None) -> bytes:
        """The whole state as bytes, or the part of some key groups (a range within 0..128)."""
        self._settle()
        return snapshot(self, key_groups)

    def restore(self, blobs: bytes | Sequence[bytes]) -> SliceOperator:
        """Take over the state of a snapshot, or of its parts; for an operator that has seen nothing yet."""
        restore(self, [blobs] if isinstance(blobs, bytes) else blobs)
        self._plan_changed()
        return self

    def _resume(self, facts: Mapping[str, Any], windows: Mapping[str, tuple[Window, Bound]]) -> None:
        """Be where a snapshot was taken, with lanes still empty."""
        self.watermark, self._seq = facts["watermark"], facts["seq"]
        self._next_number, self._finished = facts["next_number"], facts["finished"]
        self._idle_keys = IdleKeys(facts["keys_used"])
        self._windows = {label: window for label, (window, _) in windows.items()}
        self._queries = tuple(Query(label, number, windows[label][1]) for label, number, _ in facts["windows"])
        self._expressions = self.spec.expressions.including(_wanted(self._queries, self.spec))
        by_number = {q.number: q for q in self._queries}
        self._lanes = [
            self._lane(
                [by_number[n] for n in lane["numbers"]],
                rows=lane["rows"],
                dimensions={name: np.dtype(kind) for name, kind in lane["dimensions"].items()},
            )
            for lane in facts["lanes"]
        ]

    @property
    def late(self) -> pa.Table:
        """Rows that no result uses, with the reason."""
        self._settle()
        return self._ledger.table()

    @property
    def metrics(self) -> dict[str, Any]:
        """Rows in, used and late (by reason), results, slices, combines, keys, bytes of state (filled: without room
        for more), watermark."""
        self._settle()
        lanes: dict[str, Any] = {}
        for lane in self._lanes:
            for name, value in lane.metrics().items():
                known = lanes.get(name)
                lanes[name] = value if known is None or isinstance(value, str) else known + value
        return {
            **self._counts,
            "rows_late": len(self._ledger),
            "late_by_reason": dict(self._ledger.counts),
            "keys": 1 if self._keys is None else len(self._keys),
            "watermark": None if self.watermark == ALWAYS else self.watermark,
            **lanes,
        }


def _wanted(queries: Sequence[Query], spec: OperatorSpec) -> Iterable[str]:
    """All row expressions that windows and aggregates look at."""
    return dict.fromkeys([*(c for q in queries for c in q.window.columns), *(c for a in spec.aggs for c in a.inputs)])


def _gap_columns(window: Bound) -> tuple[str, ...]:
    gap = getattr(window, "gap_column", None)
    return (gap,) if gap else ()
