"""The stateful step of a query, as Spark sees it: called once per key group and micro-batch.

Spark also starts a Python of its own for every stream, before the first micro-batch, only to ask which state
variables there are. Nothing of the engine is loaded until there is work, so that answer comes in half the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from panes.runners.spark.shipping import packed, unpacked
from panes.runners.spark.stored import state_map
from panes.runners.spark.workers import errors_first, tune_worker

if TYPE_CHECKING:
    import pandas as pd

    from panes.runners.spark.event_time import EventTime
    from panes.runners.spark.group_operator import Runnable
    from panes.runners.spark.group_work import GroupWork

#: Results and late rows of a call, packed, and what it did: summed up, these are the metrics of the batch.
GIVEN = "results binary, late binary, rows long, rows_late long, results_given long, state_bytes long, written long"


class GroupProcessor(StatefulProcessor):
    """Hands the rows of each micro-batch to the work of their key group."""

    def __init__(self, query: Runnable, time: EventTime, groups: int, *, keep_late: bool) -> None:
        self._packed = packed((query, time, query.facts(groups), keep_late))
        self._work: GroupWork | None = None

    def init(self, handle: Any) -> None:
        tune_worker()
        self._handle = handle
        self._map = state_map(handle)
        self._work = None

    def handleInputRows(  # type: ignore[override]
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        with errors_first():
            yield from self._given(self._group().take(rows, timerValues))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        with errors_first():
            yield from self._given(self._group().take([], timerValues))

    def handleInitialState(  # type: ignore[override]
        self, key: Any, initialState: pd.DataFrame, timerValues: Any
    ) -> None:
        with errors_first():
            self._group().start_from(bytes(initialState["panes_snapshot"].iloc[0]))

    def close(self) -> None:
        """Nothing is open: operators stay for the next micro-batch."""

    @staticmethod
    def _given(frame: pd.DataFrame | None) -> tuple[pd.DataFrame, ...]:
        return () if frame is None else (frame,)

    def _group(self) -> GroupWork:
        if self._work is None:
            from panes.runners.spark.group_work import GroupWork

            query, time, facts, keep_late = unpacked(self._packed)
            self._work = GroupWork(self._handle, self._map, query, time, facts, keep_late=keep_late)
        return self._work
