"""The operator: batches of rows in, results that are due out. A deterministic state machine.

Rows are read, those behind the watermark are found (arrival.py) and judged by the lanes (lane.py), expressions are
evaluated once, keys become slots, and the lanes that the windows need (running.py) do the rest. Pushing rows one by
one, in batches of any size, or across snapshot and restore gives the same results.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Aggregate
from panes.aggregates.columns import column_from_arrow
from panes.errors import QueryError
from panes.slicing.arrival import TIME_LIMIT, BatchArrival, arrive, bad_gaps, pieces, with_time
from panes.slicing.calls import Calls
from panes.slicing.checkpoint import restore, snapshot
from panes.slicing.idle_keys import IdleKeys
from panes.slicing.key_groups import KeyGroups, key_group, key_of
from panes.slicing.keys import KeyDirectory
from panes.slicing.lane import Agg, Arriving, Lane, Results, RowBatch
from panes.slicing.ledger import TOO_LATE, LateLedger, RawRows
from panes.slicing.results import Result, ResultBuilder
from panes.slicing.row_buffer import RowBuffer
from panes.slicing.running import RunningQuery
from panes.slicing.spec import MANUAL, OperatorSpec
from panes.slicing.workload import Workload, analyse
from panes.state.journal import Replaced
from panes.windows.base import ALWAYS, NEVER, Window

Array = np.ndarray


class SliceOperator:
    """A running query. Made by `query.operator()`.

    A call that raises changes nothing: the operator is as it was before. Calls from several threads take turns.
    """

    replaced = Replaced("watermark", "_seq", "_held", "_due", "_finished", "_calm_until", "_builder")

    def __init__(self, spec: OperatorSpec) -> None:
        self.spec = spec
        self._calls = Calls()
        self._journal = self._calls.journal
        self._query = RunningQuery(spec, self._journal)
        self.watermark: int = ALWAYS
        self._keys = KeyDirectory([spec.schema.field(k).type for k in spec.keys]) if spec.keys else None
        self._ledger = LateLedger(spec.schema, spec.keep_late, self._journal)
        #: by number of the window, how many rows it had to miss
        self._missed: dict[int, int] = {}
        self._raw = RawRows(self._journal)
        self._buffer = RowBuffer(spec, self._next_due, self._journal)
        self._held: list[Results] = []
        #: results of parts that were put together when some of them were behind the others
        self._due: list[pa.Table] = []
        self._idle_keys = IdleKeys()
        #: the key groups that are held, of an operator that was restored from parts; None: all
        self._groups: KeyGroups | None = None
        self._seq = 0
        #: the rows, watermark and end of the stream at which the last epoch ended
        self._epoch_ended_at: tuple[int, int, bool] | None = None
        self._ramp = np.arange(0)
        self._finished = False
        self._counts = {
            "rows_in": 0,
            "rows_used": 0,
            "rows_corrected": 0,
            "results": 0,
            "watermark_regressions": 0,
        }
        self._windows_changed()

    @property
    def workload(self) -> Workload:
        """What the windows and aggregates of now require."""
        return analyse(
            [(each.label, each.window) for each in self._query.running],
            [(name, a.bound.laws) for name, a in self.aggregates.items()],
            in_order=self.spec.in_order,
            lateness=self.spec.lateness is not None,
        )

    @property
    def aggregates(self) -> dict[str, Agg]:
        """The aggregates of now, by name; by what they compute, if windows don't all give the same."""
        mixed = bool(self._query.own)
        return {repr(a.aggregate) if mixed and a.aggregate is not None else a.name: a for a in self._query.aggs}

    @property
    def outputs(self) -> dict[str, dict[str, str]]:
        """By label, what each output of a window computes; empty if all windows give the same."""
        query = self._query
        return {label: dict(query.outputs(label).computed) for label in query.windows} if query.own else {}

    @property
    def windows(self) -> dict[str, Window]:
        """The windows of now, by label."""
        return dict(self._query.windows)

    def __repr__(self) -> str:
        own = dict.fromkeys(name for computed in self.outputs.values() for name in computed)
        outputs = ", ".join(own or self.spec.outputs or [a.name for a in self.spec.aggs])
        reached = "" if self.watermark == ALWAYS else f", watermark {self.spec.domain.shown(self.watermark)}"
        state = "finished" if self._finished else f"{self._counts['rows_in']:,} rows in{reached}"
        return f"<Operator of {outputs} over {', '.join(self._query.windows)}: {state}>"

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """What serves the windows of now."""
        return tuple(self._query.lanes)

    def _windows_changed(self) -> None:
        query = self._query
        labels = {each.number: each.label for each in query.running}
        self._builder = ResultBuilder(
            self.spec, self._keys, labels, positions=query.positions, told_apart=query.told_apart,
            mixed=query.mixed(), aggs=query.aggs, owners=query.labels,
        )  # fmt: skip
        #: rows that are not late give nothing, and can't fail, as long as the watermark stays below this
        self._calm_until = ALWAYS
        self._buffer.forget_due()

    def _next_due(self) -> tuple[int, int, bool]:
        """The watermark and the number of rows before which nothing can be due, and whether a row behind the watermark
        may make something due sooner: a correction, or a session that ends at once."""
        lanes = self._query.lanes
        due = min(*(lane.next_due(self.watermark) for lane in lanes), self._next_early())
        behind = self.spec.lateness is not None or any(lane.closes_behind for lane in lanes)
        return due, min(lane.rows_until_due() for lane in lanes), behind

    def _next_early(self) -> int:
        """No window is given before it closes as long as the watermark is below this."""
        return NEVER if self.spec.early is None else self.spec.early.next_after(self.watermark)

    def next_due(self) -> int:
        """Nothing can become due before the watermark has reached this tick (unless rows come)."""
        with self._calls.turn:
            self._settle()
            due, rows, _ = self._next_due()
        return due if rows > 0 else ALWAYS  # rows that wait for the watermark may complete a count of rows

    def take_late(self) -> pa.Table:
        """The rows of `late`, which are forgotten here, but stay counted: whoever asks keeps them."""
        with self._calls.turn:
            self._settle()
            return self._ledger.take()

    def push(self, batch: object) -> Result:
        """Take rows (Arrow, pandas, Polars, a dict or a list of dicts); returns the results now due."""
        with self._calls.turn:
            if self._finished or self._calls.blocked:
                self._open("push")
            if not isinstance(batch, dict) or self._due or self._groups is not None or not self._buffer.takes(batch):
                return self._all_or_nothing(self._push, batch)
            # a single row waits as long as nothing can come of it
            held = len(self._buffer.rows)
            try:
                if not self._buffer.add(batch, self.watermark) and self._query.rows_can_wait:
                    return self._builder.empty()
                return self._all_or_nothing(self._flush)
            except BaseException:
                self._buffer.take_back(held)
                raise

    def _push(self, batch: object) -> list[Results]:
        parts, spec = self._flush(), self.spec
        if spec.reads_as_is and isinstance(batch, pa.Table) and batch.schema.equals(spec.schema):
            table = batch
        else:
            table = spec.read(batch)
        return parts + self._ingest(table) if table.num_rows else parts

    def advance(self, watermark: Any) -> Result:
        """Event time has reached `watermark` (tick, datetime or ISO string); returns the results now due."""
        tick = self.spec.domain.point(watermark, argument="watermark")
        with self._calls.turn:
            self._open("advance")
            return self._all_or_nothing(self._advance_to, tick)

    def _advance_to(self, tick: int) -> list[Results]:
        self._begin()
        parts = self._flush()
        if tick < self.watermark:
            self._counts["watermark_regressions"] += 1
        return parts + self._reach(tick)

    def _reach(self, tick: int) -> list[Results]:
        before = self.watermark
        return self._advance(min(tick, TIME_LIMIT)) + self._early_since(before) if tick > before else []

    def early(self) -> Result:
        """Open windows as they stand, those that have changed since they were last given; of a query with `early`."""
        if self.spec.early is None:
            raise QueryError("early(): say query.early(...) first, so that results have a column that says so: `final`")
        with self._calls.turn:
            self._open("early")
            return self._all_or_nothing(self._give_early)

    def micro_batch(self, before: int, rows: object | None, after: int) -> Result:
        """A micro-batch in one call: event time reaches tick `before`, rows come, it reaches `after`, and what is given
        at the end of every micro-batch is given, too. A tick that it has reached already is none."""
        with self._calls.turn:
            self._open("push")
            return self._all_or_nothing(self._take_micro_batch, before, rows, after)

    def _take_micro_batch(self, before: int, rows: object | None, after: int) -> list[Results]:
        self._begin()
        parts = self._flush() + self._reach(before)
        if rows is not None:
            parts += self._push(rows)
        parts += self._reach(after)
        return parts + self._standing() if self.spec.early is not None and self.spec.early.by_batch else parts

    def _give_early(self) -> list[Results]:
        self._begin()
        return self._flush() + self._standing()

    def _standing(self) -> list[Results]:
        query = self._query
        return [query.laid_out(lane, results) for lane in query.lanes for results in lane.stand()]

    def _early_since(self, before: int) -> list[Results]:
        """What is given early because the watermark has moved from `before` to where it is."""
        early = self.spec.early
        return self._standing() if early is not None and early.passed(before, self.watermark) else []

    def finish(self) -> Result:
        """End of stream; returns everything that the end makes due. No more input after this."""
        with self._calls.turn:
            self._open("finish")
            return self._all_or_nothing(self._finish)

    def _finish(self) -> list[Results]:
        self._begin()
        parts = self._flush()
        for lane in self._query.lanes:
            parts.append(self._query.laid_out(lane, lane.finish()))
            self._collect_rejected(lane)
        self._finished = True
        return parts

    def _all_or_nothing(self, work: Callable[..., list[Results]], *arguments: object) -> Result:
        """The results of a call; if it fails, everything is as before."""
        result = self._calls.all_or_nothing(self._given, work, arguments)
        if self._keys is not None:  # only now: what lanes give names keys by their slots
            self._idle_keys.forget(self._keys, self._query.lanes, self._journal.changed)
        return result

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
        for lane in self._query.lanes:
            watched += lane.begin()
        journal.watch(watched)

    def _open(self, call: str) -> None:
        self._calls.check(call, finished=self._finished)

    def _flush(self) -> list[Results]:
        if not len(self._buffer):
            return []
        self._begin()
        return self._ingest(self.spec.read(self._buffer.drain()))

    def _settle(self) -> None:
        """Work on single rows held back; what they give (nothing, as a rule) goes out with the next call."""
        with self._calls.turn:
            if len(self._buffer):
                self._open("metrics")
                self._calls.all_or_nothing(self._hold)

    def _hold(self) -> None:
        self._held = [*self._held, *self._flush()]

    def _given(self, work: Callable[..., list[Results]], arguments: tuple[Any, ...]) -> Result:
        parts = work(*arguments)
        parts, self._held = [*self._held, *parts], []
        if self._query.needs_raw:
            self._raw.forget(min(lane.oldest_waiting(self._seq) for lane in self._query.lanes))
        result = self._builder.build(parts)
        self._calls.halfway = False
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
        columns = self._query.expressions.columns
        if columns is not None:
            evaluated = {text: column_from_arrow(table.column(name)) for text, name in columns.items()}
        else:
            evaluated = {text: column_from_arrow(a) for text, a in self._query.expressions.evaluate(table).items()}
        came = table.num_rows
        table, times, around, usable, others = with_time(table, self.spec.time)
        n = len(times)
        bound = None if self.spec.watermark == MANUAL else self.spec.bound
        arrival = None if around is None else arrive(times, around, self.watermark, bound)
        # up to here nothing has changed; from here on nothing may fail, or all of it can be taken back
        calm = arrival is not None and arrival.late is None and arrival.watermark < self._calm_until
        if calm and not others and not self._held and not self._due:
            self._calls.halfway = True
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
        rows = RowBatch(slots, times, self._arrival_numbers(n), evaluated, around.in_order, span, keys)
        self._seq += n
        if self._journal.changed.epochs:
            self._journal.changed.note(slots)
        if self._query.needs_raw:
            self._raw.keep(rows.seq, table)
        unusable = bad_gaps(table, [evaluated[gap] for gap in self._query.gaps], self._ledger)
        if arrival.late is None and unusable is None:
            self._counts["rows_used"] += n
            self._add(rows)
            return self._advance(arrival.watermark)
        return self._with_rows_behind(table, rows, arrival, unusable)

    def _arrival_numbers(self, n: int) -> Array:
        if self._query.needs_arrival:
            return np.arange(self._seq, self._seq + n)
        # nobody looks at them: numbers without a start cost nothing
        if len(self._ramp) < n:
            self._ramp = np.arange(n)
        return self._ramp[:n]

    def _with_rows_behind(
        self, table: pa.Table, rows: RowBatch, arrival: BatchArrival, unusable: Array | None
    ) -> list[Results]:
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
        found = [lane.take(batch) for lane in self._query.lanes]
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
        lanes = zip(self._query.lanes, found)
        given = [self._query.laid_out(lane, results) for lane, each in lanes for results in each.results]
        return given + self._advance(arrival.watermark)

    def _miss(self, number: int, rows: int) -> None:
        if rows:
            self._journal.keep_container(self._missed)
            self._missed[number] = self._missed.get(number, 0) + rows

    def _add(self, rows: RowBatch) -> None:
        for lane in self._query.lanes:
            lane.add(rows)

    def _advance(self, watermark: int) -> list[Results]:
        step = watermark - self.watermark
        self.watermark = max(self.watermark, watermark)
        query = self._query
        parts = [query.laid_out(lane, lane.advance(self.watermark)) for lane in query.lanes]
        for lane in self._query.lanes:
            self._collect_rejected(lane)
        if self.watermark >= self._calm_until and not self._query.fails_on_rows:
            self._calm_until = min(lane.calm_until(step) for lane in self._query.lanes)
            if self.spec.early is not None:
                self._calm_until = min(self._calm_until, self._next_early())
        self._buffer.forget_due()
        return parts

    def _collect_rejected(self, lane: Lane) -> None:
        """Rows that broke the rule of a measure: used by windows on time alone, or nowhere."""
        for seq, reason in lane.take_rejected():
            for each in lane.queries:
                self._miss(each.number, len(seq))
            used = [(since <= seq) & (seq < until) for since, until in self._query.on_time]
            nowhere = seq[~np.any(used, axis=0)] if used else seq
            if len(nowhere):
                self._ledger.put(self._raw.find(nowhere), reason)
                self._counts["rows_used"] -= len(nowhere)

    def add(self, label: str, window: Window, /, **aggregates: str | Aggregate) -> None:
        """Give this window too from now on.

        With aggregates of its own, written as in `agg`, or else with those of the query. It starts with the first
        window whose rows are all still there. Of an aggregate that no other window gives nothing is there, so with such
        a one it starts with the first window whose rows all come after this call.
        `result[label]` has the columns of this window, and only its rows.
        """
        with self._calls.turn:
            self._open("add")
            self._settle()
            self._calls.all_or_nothing(self._change, self._query.add, label, window, aggregates, self.watermark)

    def remove(self, label: str) -> None:
        """Stop giving this window; what only it computed is kept no longer."""
        with self._calls.turn:
            self._open("remove")
            self._settle()
            self._calls.all_or_nothing(self._change, self._query.remove, label)

    def add_window(self, label: str, window: Window) -> None:
        """The old name of `add`, without aggregates."""
        warnings.warn("add_window(label, window) is called add(label, window) now", DeprecationWarning, stacklevel=2)
        self.add(label, window)

    def remove_window(self, label: str) -> None:
        """The old name of `remove`."""
        warnings.warn("remove_window(label) is called remove(label) now", DeprecationWarning, stacklevel=2)
        self.remove(label)

    def _change(self, change: Callable[..., None], *arguments: object) -> None:
        """A query comes or goes. Results that are due and not given yet become a table before."""
        self._begin()
        self._journal.keep_attributes(self._query)
        due = [*self._due, self._builder.build(self._held).table] if self._held else self._due
        change(*arguments, self._seq)
        self._journal.changed.note_all()
        self._windows_changed()
        self._held, self._due = [], [self._builder.conformed(table) for table in due]

    def snapshot(self, *, key_groups: range | None = None, epoch: int | None = None, since: int | None = None) -> bytes:
        """The whole state as bytes, or the part of some key groups (a range within 0..128).

        Of an operator that was restored from parts, the whole is the part of the key groups that it holds.

        - `epoch`: the number of the epoch that ends here, above all before it. From then on the operator notes which
          keys change.
        - `since`: only what has changed since this epoch ended, to be restored after the snapshot that ended it:
          `query.operator(restore=[whole, changes, more_changes])`. Where changes can't be told key by key (central
          policies, what follows the clock, windows that have come or gone, keys that were forgotten) it is the whole
          state, which takes the place of what came before.
        """
        with self._calls.turn:
            self._settle()
            return snapshot(self, key_groups, epoch=epoch, since=since)

    def restore(self, blobs: bytes | Sequence[bytes], *, trusted: bool = False) -> SliceOperator:
        """Take over the state of a snapshot, or of parts, each followed by its changes; for an operator that has seen
        nothing yet.

        `trusted`: see `query.operator`. If the bytes are refused, the operator is as before.
        """
        restore(self, [blobs] if isinstance(blobs, bytes) else list(blobs), trusted=trusted)
        return self

    def key_group(self, *key: object, **named: object) -> int:
        """The key group, 0..127, of a key: its values in the order of the key columns, or by their names."""
        return key_group(self._key_types(), key, named)

    def _key_types(self) -> dict[str, pa.DataType]:
        return {name: self.spec.schema.field(name).type for name in self.spec.keys}

    def peek(self, *key: Any, **named: Any) -> Result:
        """The open windows of one key as they stand: what `finish()` would give of it, if the stream ended now, and
        windows that wait for more rows.

        The key is given as for `key_group`; of a key that was not seen there are none. Nothing changes: the windows are
        given when they close, as if nobody had looked. `revision` is 0 and `final`, of a query with `early`, false.
        """
        with self._calls.turn:
            self._settle()
            self._open("peek")
            found = key_of("peek", self._key_types(), key, named)
            if self._groups is not None and key_group(self._key_types(), key, named) not in self._groups:
                raise QueryError(f"peek(): this operator, restored from parts, holds the key groups {self._groups}")
            slot = 0 if self._keys is None else self._keys.find(found)
            if slot < 0:
                return self._builder.empty()
            self._journal.begin()  # user code that this runs can't call the operator
            try:
                query = self._query
                return self._builder.build([query.laid_out(lane, lane.peek(slot)) for lane in query.lanes])
            finally:
                self._calls.take_back()

    @property
    def late(self) -> pa.Table:
        """Rows that no result uses, with the reason: the newest `keep_late` of the stream."""
        with self._calls.turn:
            self._settle()
            return self._ledger.table()

    @property
    def metrics(self) -> dict[str, Any]:
        """Rows in, used and late (by reason), results, keys, watermark, bytes of state (filled: without room for more).

        `late_by_window`: by label, how many rows some window of it had to miss, used by others or not.

        Of slices: how many there are, how often one was cut in two (`splits`), joined to another (`merges`) or took
        more rows in a call (`updates`), and how many partials were put together (`combines`). Sessions count too.
        """
        with self._calls.turn:
            return self._metrics()

    def _metrics(self) -> dict[str, Any]:
        self._settle()
        lanes: dict[str, Any] = {}
        for lane in self._query.lanes:
            for name, value in lane.metrics().items():
                known = lanes.get(name)
                lanes[name] = value if known is None or isinstance(value, str) else known + value
        return {
            **self._counts,
            "rows_late": len(self._ledger),
            "late_by_reason": dict(self._ledger.counts),
            "late_by_window": {
                each.label: missed for each in self._query.running if (missed := self._missed.get(each.number))
            },
            "keys": 1 if self._keys is None else len(self._keys),
            "watermark": None if self.watermark == ALWAYS else self.spec.domain.shown(self.watermark),
            **lanes,
        }
