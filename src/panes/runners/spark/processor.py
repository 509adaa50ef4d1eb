"""The stateful step of a query: Spark calls it once per key group and micro-batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from panes.runners.spark.event_time import EventTime
from panes.runners.spark.group_operator import Given, GroupQuery, reach, take
from panes.runners.spark.group_state import GroupState, Head
from panes.runners.spark.packing import in_order, to_bytes, unpacked
from panes.slicing.operator import SliceOperator
from panes.windows.base import ALWAYS, NEVER

if TYPE_CHECKING:
    import pandas as pd

#: Results and late rows of a call, packed, and what it did: summed up, these are the metrics of the batch.
GIVEN = "results binary, late binary, rows long, rows_late long, results_given long, state_bytes long, written long"
#: A timer that is due as soon as the watermark has begun.
_FIRST = 1


class GroupProcessor(StatefulProcessor):
    """Runs the operator of a key group on the rows of each micro-batch."""

    def __init__(self, query: GroupQuery, time: EventTime, groups: int, *, keep_late: bool) -> None:
        self._query = query
        self._time = time
        self._facts = query.facts(groups)
        self._keep_late = keep_late

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._state = GroupState(handle, self._query, self._facts)

    def handleInputRows(  # type: ignore[override]
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        parts, chunks, packed = [], [], []
        for frame in rows:
            parts += frame["panes_part"].tolist()
            chunks += frame["panes_chunk"].tolist()
            packed += frame["panes_rows"].tolist()
        yield self._step(self._state.head(), timerValues, in_order(parts, chunks, packed))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        yield self._step(self._state.head(), timerValues, [])

    def handleInitialState(  # type: ignore[override]
        self, key: Any, initialState: pd.DataFrame, timerValues: Any
    ) -> None:
        self._handle.registerTimer(_FIRST)
        self._state.start_from(bytes(initialState["panes_snapshot"].iloc[0]), _FIRST)

    def close(self) -> None:
        """Nothing is open: operators stay for the next micro-batch."""

    def _step(self, head: Head, timer_values: Any, packed: list[bytes]) -> pd.DataFrame:
        watermark = self._time.watermark(int(timer_values.getCurrentWatermarkInMs()))
        op = self._state.operator(head)
        results = reach(op, watermark)
        before = self._state.before_rows(head, op, packed)
        rows = unpacked(packed)
        results += take(op, rows)
        given = Given(results, op.take_late())
        self._set_timer(head, op, watermark)
        written = self._state.written
        self._state.save(head, op, watermark, packed, before)
        return self._given(given, 0 if rows is None else rows.num_rows, op, self._state.written - written)

    def _set_timer(self, head: Head, op: SliceOperator, watermark: int) -> None:
        """Have the group called when the watermark makes something due, whether rows come or not."""
        due = op.next_due()
        wanted = None
        if due < NEVER and watermark > ALWAYS:
            wanted = self._time.millis(max(due, watermark + 1))
        elif watermark == ALWAYS:
            wanted = _FIRST
        if wanted == head.timer:
            return
        if head.timer is not None:
            self._handle.deleteTimer(head.timer)
        if wanted is not None:
            self._handle.registerTimer(wanted)
        head.timer = wanted

    def _given(self, given: Given, rows: int, op: SliceOperator, written: int) -> pd.DataFrame:
        import pandas as pd

        results = pa.concat_tables(given.results) if given.results else None
        late = given.late if self._keep_late and given.late.num_rows else None
        facts = {
            "results": [None if results is None else to_bytes(results)],
            "late": [None if late is None else to_bytes(late)],
            "rows": [rows],
            "rows_late": [given.late.num_rows],
            "results_given": [0 if results is None else results.num_rows],
            "state_bytes": [int(op.metrics["bytes"])],
            "written": [written],
        }
        return pd.DataFrame(facts)
