"""The operator: batches of rows in, results that are due out. A deterministic state machine.

Rows are read, those behind the watermark are found (arrival.py) and judged (lateness.py), expressions are evaluated
once, keys become slots, and the lanes that the windows need (workload.py) do the rest. Pushing rows one by one, in
batches of any size, or across snapshot and restore gives the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from threading import RLock
from typing import Any

import numpy as np
import pyarrow as pa

from panes.aggregates.columns import column_from_arrow
from panes.errors import OperatorClosed, QueryError
from panes.slicing.admission import TIME_LIMIT, bad_gaps, with_time
from panes.slicing.arrival import Arrival, arrive
from panes.slicing.checkpoint import restore, snapshot
from panes.slicing.identity import Identity
from panes.slicing.idle_keys import IdleKeys
from panes.slicing.key_groups import KeyGroups, key_group
from panes.slicing.keys import KeyDirectory
from panes.slicing.lane import Query, Results, Rows
from panes.slicing.lateness import Arriving
from panes.slicing.ledger import TOO_LATE, LateLedger
from panes.slicing.moments import pieces
from panes.slicing.partials.partial_lane import PartialLane
from panes.slicing.raw_rows import RawRows
from panes.slicing.result_schema import dimensions, positions
from panes.slicing.results import Result, ResultBuilder
from panes.slicing.row_buffer import RowBuffer
from panes.slicing.rows.row_lane import RowLane
from panes.slicing.spec import MANUAL, NOT_EARLY, OperatorSpec
from panes.slicing.workload import Workload, analyse, order_free
from panes.state.checked import demand
from panes.state.journal import Journal, Replaced
from panes.windows.base import ALWAYS, NEVER, SINCE_FIRST, Bound, Window

Array = np.ndarray


class SliceOperator:
    """A running query. Made by `query.operator()`.

    A call that raises changes nothing: the operator is as it was before. Calls from several threads take turns.
    """

    replaced = Replaced("watermark", "_seq", "_held", "_due", "_finished", "_calm_until")
    #: when windows come and go
    _planned = (
        "_queries", "_next_number", "_expressions", "_builder", "_gaps", "_needs_raw", "_fails_on_rows",
        "_order_matters", "_on_time",
    )  # fmt: skip

    def __init__(self, spec: OperatorSpec) -> None:
        self.spec = spec
        self._journal = Journal()
        self._turn = RLock()
        self._halfway = self._broken = False
        self.watermark: int = ALWAYS
        self._queries = tuple(
            Query(label, number, bound) for number, (label, bound) in enumerate(spec.bound_windows.items())
        )
        self._windows = dict(spec.windows)
        self._next_number = len(self._queries)
        self._expressions = spec.expressions.including(_wanted(self._queries, spec))
        self._keys = KeyDirectory([spec.schema.field(k).type for k in spec.keys]) if spec.keys else None
        self._lanes: list[PartialLane | RowLane] = self._make_lanes(self._queries)
        self._ledger = LateLedger(spec.schema, spec.keep_late, self._journal)
        #: by number of the window, how many rows it had to miss
        self._missed: dict[int, int] = {}
        #: stretches of arrival numbers of rows that windows on time were there for: from, and up to
        self._on_time: tuple[tuple[int, int], ...] = ()
        self._raw = RawRows(self._journal)
        self._buffer = RowBuffer(spec, self._next_due, self._journal)
        self._held: list[Results] = []
        #: results of parts that were put together when some of them were behind the others
        self._due: list[pa.Table] = []
        self._idle_keys = IdleKeys()
        #: the key groups that are held, of an operator that was restored from parts; None: all
        self._groups: KeyGroups | None = None
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

    def __repr__(self) -> str:
        outputs = ", ".join(self.spec.outputs or [a.name for a in self.spec.aggs])
        reached = "" if self.watermark == ALWAYS else f", watermark {self.spec.domain.shown(self.watermark)}"
        state = "finished" if self._finished else f"{self._counts['rows_in']:,} rows in{reached}"
        return f"<Operator of {outputs} over {', '.join(self._windows)}: {state}>"

    def _make_lanes(self, queries: Sequence[Query]) -> list[PartialLane | RowLane]:
        """A lane for windows that take rows in any order, and one for those that must see them in order."""
        free = [q for q in queries if order_free(q.window)]
        ordered = [q for q in queries if not order_free(q.window)]
        lanes = [self._lane(free, rows=False, dimensions={})] if free or not ordered else []
        if ordered:
            lanes.append(self._lane(ordered, rows=True, dimensions=self._dimensions(ordered)))
        return lanes

    def _lane(
        self, queries: Sequence[Query], *, rows: bool, dimensions: Mapping[str, np.dtype]
    ) -> PartialLane | RowLane:
        spec = self.spec
        if not rows:
            return PartialLane(
                queries, spec.aggs_in_any_order, lateness=spec.lateness, keyed=bool(spec.keys), store=spec.store,
                emit_empty=spec.emit_empty, in_order=spec.in_order and spec.lateness is None,
                early=spec.early is not None, journal=self._journal,
            )  # fmt: skip
        return RowLane(
            queries, spec.aggs, lateness=spec.lateness, dimensions=dimensions, store=spec.store,
            emit_empty=spec.emit_empty, in_order=spec.in_order and spec.lateness is None, journal=self._journal,
        )  # fmt: skip

    def _dimensions(self, queries: Sequence[Query]) -> dict[str, np.dtype]:
        return dimensions([(q.label, q.window) for q in queries], self._expressions.types)

    def _plan_changed(self) -> None:
        labels = {q.number: q.label for q in self._queries}
        there = bool(self._on_time) and self._on_time[-1][1] == NEVER
        if there != any(order_free(q.window) for q in self._queries):
            *before, (since, _) = self._on_time if there else (*self._on_time, (self._seq, NEVER))
            self._on_time = (*before, (since, self._seq if there else NEVER))
        by_rows = [lane for lane in self._lanes if isinstance(lane, RowLane)]
        kinds = [d for lane in by_rows for d in lane.live.dimensions.values()]
        numbers = positions([q.window for q in self._queries], kinds) if by_rows else None
        self._builder = ResultBuilder(
            self.spec, self._keys, labels, positions=numbers, told_apart=self._told_apart(numbers is not None)
        )
        self._gaps = sorted({c for q in self._queries for c in _gap_columns(q.window)})
        self._needs_raw = bool(kinds)
        #: rows that are not late give nothing, and can't fail, as long as the watermark stays below this
        self._calm_until = ALWAYS
        self._fails_on_rows = any(a.bound.may_fail for a in self.spec.aggs) or any(
            q.window.may_fail for q in self._queries
        )
        ordered = any(f.name.endswith("seq") for lane in self._lanes for a in lane.aggs for f in a.bound.fields)
        self._order_matters = ordered or any(isinstance(lane, RowLane) for lane in self._lanes)
        self._buffer.forget_due()

    def _told_apart(self, positions: bool) -> Callable[[], Identity] | None:
        """How results of the windows of now are told apart."""
        windows = {q.label: q.window for q in self._queries}
        return None if self.spec.told_apart is None else partial(self.spec.told_apart, windows, positions)

    def _next_due(self) -> tuple[int, int, bool]:
        """The watermark and the number of rows before which nothing can be due, and whether a row behind the watermark
        may make something due sooner: a correction, or a session that ends at once."""
        rows = [lane.rows_until_due() for lane in self._lanes if isinstance(lane, RowLane)]
        sessions = any(isinstance(lane, PartialLane) and lane.sessions for lane in self._lanes)
        due = min(*(lane.next_due(self.watermark) for lane in self._lanes), self._next_early())
        return due, min(rows, default=NEVER), sessions or self.spec.lateness is not None

    def _next_early(self) -> int:
        """No window is given before it closes as long as the watermark is below this."""
        return NEVER if self.spec.early is None else self.spec.early.next_after(self.watermark)

    def next_due(self) -> int:
        """Nothing can become due before the watermark has reached this tick (unless rows come)."""
        with self._turn:
            self._settle()
            due, rows, _ = self._next_due()
        return due if rows > 0 else ALWAYS  # rows that wait for the watermark may complete a count of rows

    def take_late(self) -> pa.Table:
        """The rows of `late`, which are forgotten here, but stay counted: whoever asks keeps them."""
        with self._turn:
            self._settle()
            return self._ledger.take()

    def push(self, batch: Any) -> Result:
        """Take rows (Arrow, pandas, Polars, a dict or a list of dicts); returns the results now due."""
        with self._turn:
            if self._finished or self._broken or self._journal.is_open:
                self._open("push")
            if not isinstance(batch, dict) or self._due or self._groups is not None or not self._buffer.takes(batch):
                return self._all_or_nothing(self._push, batch)
            # a single row waits as long as nothing can come of it
            held = len(self._buffer.rows)
            try:
                if not self._buffer.add(batch, self.watermark) and self.spec.rows_can_wait:
                    return self._builder.empty()
                return self._all_or_nothing(self._flush)
            except BaseException:
                self._buffer.take_back(held)
                raise

    def _push(self, batch: Any) -> list[Results]:
        parts = self._flush()
        table = self.spec.read(batch)
        return parts + self._ingest(table) if table.num_rows else parts

    def advance(self, watermark: Any) -> Result:
        """Event time has reached `watermark` (tick, datetime or ISO string); returns the results now due."""
        tick = self.spec.domain.point(watermark, argument="watermark")
        with self._turn:
            self._open("advance")
            return self._all_or_nothing(self._advance_to, tick)

    def _advance_to(self, tick: int) -> list[Results]:
        self._begin()
        parts = self._flush()
        if tick < self.watermark:
            self._counts["watermark_regressions"] += 1
        elif tick > self.watermark:
            before = self.watermark
            parts += self._advance(min(tick, TIME_LIMIT))
            parts += self._early_since(before)
        return parts

    def early(self) -> Result:
        """Open windows as they stand, those that have changed since they were last given; of a query with `early`."""
        if self.spec.early is None:
            raise QueryError("early(): say query.early(...) first, so that results have a column that says so: `final`")
        with self._turn:
            self._open("early")
            return self._all_or_nothing(self._give_early)

    def end_of_batch(self) -> Result | None:
        """A micro-batch has ended: what is given then, beside what is due."""
        return self.early() if self.spec.early is not None and self.spec.early.by_batch else None

    def _give_early(self) -> list[Results]:
        self._begin()
        return self._flush() + self._standing()

    def _standing(self) -> list[Results]:
        return [results for lane in self._lanes if isinstance(lane, PartialLane) for results in lane.stand()]

    def _early_since(self, before: int) -> list[Results]:
        """What is given early because the watermark has moved from `before` to where it is."""
        early = self.spec.early
        return self._standing() if early is not None and early.passed(before, self.watermark) else []

    def finish(self) -> Result:
        """End of stream; returns everything that the end makes due. No more input after this."""
        with self._turn:
            self._open("finish")
            return self._all_or_nothing(self._finish)

    def _finish(self) -> list[Results]:
        self._begin()
        parts = self._flush()
        for lane in self._lanes:
            parts.append(lane.finish())
            self._collect_rejected(lane)
        self._finished = True
        return parts

    def _all_or_nothing(self, work: Callable[..., list[Results]], *arguments: Any) -> Result:
        """The results of a call; if it fails, everything is as before."""
        self._halfway = False
        try:
            result = self._given(work(*arguments))
        except BaseException:
            self._take_back()
            raise
        self._journal.commit()
        if self._keys is not None:  # only now: what lanes give names keys by their slots
            self._idle_keys.forget(self._keys, self._lanes)
        return result

    def _changing(self, work: Callable[..., None], *arguments: Any) -> None:
        """Do something that gives no results; if it fails, everything is as before."""
        self._halfway = False
        try:
            work(*arguments)
        except BaseException:
            self._take_back()
            raise
        self._journal.commit()

    def _take_back(self) -> None:
        """A call has failed."""
        if self._journal.is_open:
            self._broken = True  # as long as not all of it is taken back
            self._journal.rewind()
            self._broken = False
        elif self._halfway:
            self._broken = True

    def _begin(self) -> None:
        """From here on something may fail after something has changed."""
        journal = self._journal
        if journal.is_open:
            return
        journal.begin()
        journal.keep_container(self._counts)
        if self._keys is not None:
            journal.undo_by(self._keys.forget_after, self._keys.sizes())
        watched: list[Any] = [self]
        for lane in self._lanes:
            watched += lane.begin()
        journal.watch(watched)

    def _open(self, call: str) -> None:
        if self._broken:
            raise OperatorClosed(
                f"{call}: an earlier call was interrupted halfway, so what the operator holds can't be trusted; "
                "go on with query.operator(restore=...) from a snapshot"
            )
        if self._journal.is_open:
            raise OperatorClosed(
                f"{call}: the operator is in the middle of a call; user code that it runs can't call it"
            )
        if self._finished:
            raise OperatorClosed(f"{call} after finish: the stream has ended; make a new operator")

    def _flush(self) -> list[Results]:
        if not len(self._buffer):
            return []
        self._begin()
        return self._ingest(self.spec.read(self._buffer.drain()))

    def _settle(self) -> None:
        """Work on single rows held back; what they give (nothing, as a rule) goes out with the next call."""
        with self._turn:
            if len(self._buffer):
                self._open("metrics")
                self._changing(self._hold)

    def _hold(self) -> None:
        self._held = [*self._held, *self._flush()]

    def _given(self, parts: list[Results]) -> Result:
        parts, self._held = [*self._held, *parts], []
        if self._needs_raw:
            waiting = [lane.buffer.oldest(self._seq) for lane in self._lanes if isinstance(lane, RowLane)]
            self._raw.forget(min(waiting, default=self._seq))
        result = self._builder.build(parts)
        self._halfway = False
        self._counts["results"] += len(result)
        if self._due:
            result, self._due = self._builder.joined([*self._due, result.table]), []
        return result

    def _ingest(self, table: pa.Table) -> list[Results]:
        if self.spec.early is None or self.spec.watermark == MANUAL:
            return self._take(table)
        parts: list[Results] = []
        for piece in pieces(table, self.spec, self.watermark):
            before = self.watermark
            parts += self._take(piece)
            parts += self._early_since(before)
        return parts

    def _take(self, table: pa.Table) -> list[Results]:
        if self._groups is not None:
            self._groups.check(table, self.spec.keys)
        evaluated = {text: column_from_arrow(a) for text, a in self._expressions.evaluate(table).items()}
        came = table.num_rows
        table, times, around, usable, others = with_time(table, self.spec.time)
        n = len(times)
        bound = None if self.spec.watermark == MANUAL else self.spec.bound
        arrival = None if around is None else arrive(times, around, self.watermark, bound)
        # up to here nothing has changed; from here on nothing may fail, or all of it can be taken back
        calm = arrival is not None and arrival.late is None and arrival.watermark < self._calm_until
        if calm and not others and not self._held and not self._due:
            self._halfway = True
        else:
            self._begin()
        self._counts["rows_in"] += came
        for rejected, reason in others:
            self._ledger.put(rejected, reason)
        if arrival is None or around is None:
            return []
        if usable is not None:
            evaluated = {text: c.take(usable) for text, c in evaluated.items()}
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
        return self._with_rows_behind(table, rows, arrival, unusable)

    def _arrival_numbers(self, n: int) -> Array:
        if self._order_matters:
            return np.arange(self._seq, self._seq + n)
        # nobody looks at them: numbers without a start cost nothing
        if len(self._ramp) < n:
            self._ramp = np.arange(n)
        return self._ramp[:n]

    def _with_rows_behind(self, table: pa.Table, rows: Rows, arrival: Arrival, unusable: Array | None) -> list[Results]:
        """A batch with rows that are behind the watermark or unusable: each lane says which of them it takes."""
        behind = np.zeros(len(rows), bool) if arrival.late is None else arrival.late
        met = np.full(len(rows), self.watermark) if arrival.met is None else arrival.met
        if unusable is not None:
            good = np.flatnonzero(~unusable)
            table, rows = table.take(pa.array(good)), rows.take(good)
            behind, met = behind[good], met[good]
        at = np.flatnonzero(behind)
        if not len(at):
            self._counts["rows_used"] += len(rows)
            self._add(rows)
            return self._advance(arrival.watermark)
        batch = Arriving(rows, met, at, max(self.watermark, arrival.watermark))
        found = [lane.take(batch) for lane in self._lanes]
        taken = np.any([each.taken for each in found], axis=0)
        self._counts["rows_used"] += len(rows) - int(np.count_nonzero(~taken))
        self._counts["rows_corrected"] += int(np.count_nonzero(np.any([each.corrected for each in found], axis=0)))
        for each in found:
            for number, count in each.missed.items():
                self._miss(number, count)
        for each in found:
            for i, reason in each.reasons.items():
                if not taken[i]:
                    self._ledger.put(table.slice(int(at[i]), 1), reason)
                    taken[i] = True  # that is, not too late
        self._ledger.put(table.take(pa.array(at[~taken])), TOO_LATE)
        return [results for each in found for results in each.results] + self._advance(arrival.watermark)

    def _miss(self, number: int, rows: int) -> None:
        if rows:
            self._journal.keep_container(self._missed)
            self._missed[number] = self._missed.get(number, 0) + rows

    def _add(self, rows: Rows) -> None:
        for lane in self._lanes:
            lane.add(rows)

    def _advance(self, watermark: int) -> list[Results]:
        step = watermark - self.watermark
        self.watermark = max(self.watermark, watermark)
        parts = [lane.advance(self.watermark) for lane in self._lanes]
        for lane in self._lanes:
            self._collect_rejected(lane)
        if self.watermark >= self._calm_until and not self._fails_on_rows:
            self._calm_until = min(lane.calm_until(step) for lane in self._lanes)
            if self.spec.early is not None:
                self._calm_until = min(self._calm_until, self._next_early())
        self._buffer.forget_due()
        return parts

    def _collect_rejected(self, lane: PartialLane | RowLane) -> None:
        """Rows that broke the rule of a measure: used by windows on time alone, or nowhere."""
        if isinstance(lane, RowLane) and lane.rejected:
            for seq, reason in lane.rejected:
                for query in lane.queries:
                    self._miss(query.number, len(seq))
                used = [(since <= seq) & (seq < until) for since, until in self._on_time]
                nowhere = seq[~np.any(used, axis=0)] if used else seq
                if len(nowhere):
                    self._ledger.put(self._raw.find(nowhere), reason)
                    self._counts["rows_used"] -= len(nowhere)
            lane.rejected = []

    def _begin_with_windows(self) -> None:
        self._begin()
        self._journal.keep_container(self._lanes)
        self._journal.keep_container(self._windows)
        for name in self._planned:
            self._journal.undo_by(setattr, self, name, getattr(self, name))

    def add_window(self, label: str, window: Window) -> None:
        """Give this window too from now on, starting with the first one whose rows are all still there."""
        with self._turn:
            self._open("add_window")
            self._settle()
            self._changing(self._add_window, label, window)

    def _add_window(self, label: str, window: Window) -> None:
        self._begin_with_windows()
        if label in self._windows:
            raise QueryError(f"window {label!r} is there already: remove it first, or choose another label")
        bound = window.labelled(label, self.spec.domain)
        query = Query(label, self._next_number, bound)
        self._expressions = self._expressions.including(bound.columns)
        by_rows = not order_free(bound)
        if by_rows and self.spec.early is not None:
            raise QueryError(f"window {label!r}: {NOT_EARLY}")
        for lane in self._lanes:
            if isinstance(lane, RowLane) == by_rows:
                lane.add_window(query, self.watermark)
                break
        else:
            self._lanes.append(self._new_lane(query, rows=by_rows))
        self._queries = (*self._queries, query)
        self._windows[label] = window
        self._next_number += 1
        self._plan_changed()

    def _new_lane(self, query: Query, *, rows: bool) -> PartialLane | RowLane:
        """A lane that begins in the middle of the stream."""
        if rows:
            lane = self._lane([query], rows=True, dimensions=self._dimensions([query]))
            lane.advance(self.watermark)
            return lane
        lane = self._lane([], rows=False, dimensions={})
        lane.last_time = max(other.last_time for other in self._lanes)
        lane.add_window(query, self.watermark)
        return lane

    def remove_window(self, label: str) -> None:
        """Stop giving this window."""
        with self._turn:
            self._open("remove_window")
            self._settle()
            self._changing(self._remove_window, label)

    def _remove_window(self, label: str) -> None:
        self._begin_with_windows()
        if label not in self._windows:
            raise QueryError(f"there is no window {label!r} to remove; there are {', '.join(self._windows)}")
        query = next(q for q in self._queries if q.label == label)
        for lane in self._lanes:
            if any(q.number == query.number for q in lane.queries):
                lane.remove_window(query.number)
        self._queries = tuple(q for q in self._queries if q.label != label)
        del self._windows[label]
        self._plan_changed()

    def snapshot(self, *, key_groups: range | None = None) -> bytes:
        """The whole state as bytes, or the part of some key groups (a range within 0..128).

        Of an operator that was restored from parts, the whole is the part of the key groups that it holds.
        """
        with self._turn:
            self._settle()
            return snapshot(self, key_groups)

    def restore(self, blobs: bytes | Sequence[bytes], *, trusted: bool = False) -> SliceOperator:
        """Take over the state of a snapshot, or of parts; for an operator that has seen nothing yet.

        `trusted`: see `query.operator`. If the bytes are refused, the operator is as before.
        """
        restore(self, [blobs] if isinstance(blobs, bytes) else list(blobs), trusted=trusted)
        return self

    def key_group(self, *key: Any, **named: Any) -> int:
        """The key group, 0..127, of a key: its values in the order of the key columns, or by their names."""
        return key_group({k: self.spec.schema.field(k).type for k in self.spec.keys}, key, named)

    def _resume(self, facts: Mapping[str, Any], windows: Mapping[str, tuple[Window, Bound]]) -> None:
        """Be where a snapshot was taken, with lanes still empty."""
        spec = self.spec
        self._keys = KeyDirectory([spec.schema.field(k).type for k in spec.keys]) if spec.keys else None
        self._ledger = LateLedger(spec.schema, spec.keep_late, self._journal)
        self._raw, self._held, self._due = RawRows(self._journal), [], []
        self._missed = {}
        self._on_time = tuple((since, until) for since, until in facts["on_time"])
        self._counts = dict.fromkeys(self._counts, 0)
        self.watermark, self._seq = facts["watermark"], facts["seq"]
        self._next_number, self._finished = facts["next_number"], facts["finished"]
        self._idle_keys = IdleKeys(facts["keys_used"])
        self._windows = {label: window for label, (window, _) in windows.items()}
        self._queries = tuple(Query(label, number, windows[label][1]) for label, number, _ in facts["windows"])
        self._expressions = self.spec.expressions.including(_wanted(self._queries, self.spec))
        by_number = {q.number: q for q in self._queries}
        self._lanes = [self._resumed_lane([by_number[n] for n in lane["numbers"]], lane) for lane in facts["lanes"]]

    def _resumed_lane(self, queries: Sequence[Query], known: Mapping[str, Any]) -> PartialLane | RowLane:
        """A lane as a snapshot says that it was, if it can have been so."""
        measures = {name: np.dtype(kind) for name, kind in known["dimensions"].items()}
        if known["rows"]:
            demand(self._dimensions(queries).items() <= measures.items(), "a window is on a measure that is not kept")
            # windows that are gone may have left measures behind, which go on being kept
            self._expressions = self._expressions.including(m for m in measures if m != SINCE_FIRST)
        demand(all(order_free(q.window) != known["rows"] for q in queries), "windows are kept as others are")
        return self._lane(queries, rows=known["rows"], dimensions=measures)

    def _used_columns(self) -> Iterable[str]:
        """All row expressions that the lanes of now look at."""
        lanes = [lane for lane in self._lanes if isinstance(lane, RowLane)]
        measures = [m for lane in lanes for m in lane.live.dimensions if m != SINCE_FIRST]
        return dict.fromkeys([*_wanted(self._queries, self.spec), *measures])

    @property
    def late(self) -> pa.Table:
        """Rows that no result uses, with the reason: the newest `keep_late` of the stream."""
        with self._turn:
            self._settle()
            return self._ledger.table()

    @property
    def metrics(self) -> dict[str, Any]:
        """Rows in, used and late (by reason), results, keys, watermark, bytes of state (filled: without room for more).

        `late_by_window`: by label, how many rows some window of it had to miss, used by others or not.

        Of slices: how many there are, how often one was cut in two (`splits`), joined to another (`merges`) or took
        more rows in a call (`updates`), and how many partials were put together (`combines`). Sessions count too.
        """
        with self._turn:
            return self._metrics()

    def _metrics(self) -> dict[str, Any]:
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
            "late_by_window": {q.label: self._missed[q.number] for q in self._queries if self._missed.get(q.number)},
            "keys": 1 if self._keys is None else len(self._keys),
            "watermark": None if self.watermark == ALWAYS else self.spec.domain.shown(self.watermark),
            **lanes,
        }


def _wanted(queries: Sequence[Query], spec: OperatorSpec) -> Iterable[str]:
    """All row expressions that windows and aggregates look at."""
    return dict.fromkeys([*(c for q in queries for c in q.window.columns), *(c for a in spec.aggs for c in a.inputs)])


def _gap_columns(window: Bound) -> tuple[str, ...]:
    gap = getattr(window, "gap_column", None)
    return (gap,) if gap else ()
