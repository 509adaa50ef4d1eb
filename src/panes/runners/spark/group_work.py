"""The work of a key group in one micro-batch: its operator is fetched, does a step, and is saved."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from panes.runners.spark.beats import Heard, Packed, heard
from panes.runners.spark.event_time import EventTime
from panes.runners.spark.group_operator import GroupOperator, Runnable, StepOutput
from panes.runners.spark.group_state import GroupState, Head
from panes.runners.spark.packing import in_order, to_bytes
from panes.windows.base import ALWAYS, NEVER

if TYPE_CHECKING:
    import pandas as pd

#: A timer that is due as soon as the watermark has begun.
_FIRST = 1


class GroupWork:
    """Runs the operators of key groups; `handle` and `state` are those of the group that Spark is at."""

    def __init__(
        self, handle: Any, state: Any, query: Runnable, time: EventTime, facts: dict[str, Any], *, keep_late: bool
    ) -> None:
        self._handle = handle
        self._time = time
        self._keep_late = keep_late
        self._query = query
        self._state = GroupState(state, query, facts)

    def take(self, frames: Iterable[pd.DataFrame], timer_values: Any) -> pd.DataFrame | None:
        """The step of a micro-batch with the packed rows of these frames; none if a timer is due.

        What it gives, and None where nothing could happen.
        """
        found = Packed([], [], [])
        for frame in frames:
            found.parts.extend(frame["panes_part"].tolist())
            found.chunks.extend(frame["panes_chunk"].tolist())
            found.rows.extend(frame["panes_rows"].tolist())
        said, found = heard(found)
        head, now = self._state.head(), int(timer_values.getCurrentWatermarkInMs())
        if self._query.follows and self._query.clock is None and not found.rows and now < head.due:
            self._hear(head, now)
            return None
        return self._step(head, now, in_order(*found), said)

    def start_from(self, snapshot: bytes) -> None:
        """Begin with a snapshot that was taken elsewhere."""
        self._handle.registerTimer(_FIRST)
        self._state.start_from(snapshot, _FIRST)

    def _hear(self, head: Head, now: int) -> None:
        """The watermark has moved, and nothing else: rows of the next micro-batch are judged by it."""
        head.reached = max(head.reached, self._time.watermark(now))
        self._set_timer(head, now)
        self._state.note(head)

    def _step(self, head: Head, now: int, packed: list[bytes], said: Heard) -> pd.DataFrame:
        watermark = self._time.watermark(now)
        op = self._state.operator(head)
        rows = self._query.rows(packed)
        passed = self._query.passed(watermark, rows, max(head.reached, self._time.beginning))
        clock = self._query.clock
        if clock is not None:
            head.clocked, tick = head.clocked.hear(said, clock, max(watermark, op.watermark))
            passed = passed._replace(before=max(passed.before, tick))
            if said.now is not None and rows is None and max(passed) <= op.watermark and head.stamp:
                self._state.keep(head, op)
                return self._given(StepOutput([], op.take_late()), 0, 0)
        given, before = self._state.step(head, op, passed, packed, rows)
        head.reached, head.due = max(head.reached, watermark), self._next_due(op, watermark)
        self._set_timer(head, now)
        written = self._state.written
        self._state.save(head, op, passed, packed, before)
        return self._given(given, 0 if rows is None else rows.num_rows, self._state.written - written)

    def _next_due(self, op: GroupOperator, watermark: int) -> int:
        """When the watermark makes something due, in milliseconds, if no rows come; NEVER: not at all."""
        due, reached = op.next_due(), max(op.watermark, watermark)
        if reached == ALWAYS:
            return _FIRST
        return max(_FIRST, self._time.millis(max(due, reached + 1))) if due < NEVER else NEVER

    def _set_timer(self, head: Head, now: int) -> None:
        """Have the group called when something is due, whether rows come or not, or when the watermark moves."""
        wanted = now + 1 if self._query.follows else None if head.due == NEVER else head.due
        if wanted == head.timer:
            return
        if head.timer is not None:
            self._handle.deleteTimer(head.timer)
        if wanted is not None:
            self._handle.registerTimer(wanted)
        head.timer = wanted

    def _given(self, given: StepOutput, rows: int, written: int) -> pd.DataFrame:
        import pandas as pd

        results = self._query.given(given.results)
        late = given.late if self._keep_late and given.late.num_rows else None
        facts = {
            "results": [None if results is None else to_bytes(results)],
            "late": [None if late is None else to_bytes(late)],
            "rows": [rows],
            "rows_late": [given.late.num_rows],
            "results_given": [0 if results is None else results.num_rows],
            "state_bytes": [self._state.held],
            "written": [written],
        }
        return pd.DataFrame(facts)
