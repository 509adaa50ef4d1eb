"""The same as in rivals.py, as Spark's own documentation teaches it: `transformWithState`, a row at a time.

Plain Python with the state of a key in its variables; rows that are held are packed into bytes, as there.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from bench.spark.rivals import WATERMARK

_BY_TIME = itemgetter(0)


def _middle(values: Iterable[float]) -> float:
    ordered = sorted(values)
    return 0.5 * (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2])


class CountWindows(StatefulProcessor):
    """Median and count of every `size` rows of a key, in the order of each micro-batch."""

    output = "k long, window long, m double, n long"
    time_mode = "None"

    def __init__(self, size: int) -> None:
        self._size = size

    def init(self, handle: Any) -> None:
        self._state = handle.getValueState("rows", "number long, held binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        number, held = self._state.get() if self._state.exists() else (0, b"")
        values = array("d", bytes(held))
        values.extend(v for _, v in sorted(((row.t, row.v) for row in rows), key=_BY_TIME))
        size, begin = self._size, 0
        while begin + size <= len(values):
            yield Row(k=key[0], window=number, m=_middle(values[begin : begin + size]), n=size)
            begin += size
            number += 1
        self._state.update((number, values[begin:].tobytes()))

    def close(self) -> None:
        """Nothing is open."""


class Sessions(StatefulProcessor):
    """Median and count of each session of a key, given when the watermark has passed its end."""

    output = "k long, start long, m double, n long"
    time_mode = "EventTime"

    def __init__(self, gap_ms: int) -> None:
        self._gap = gap_ms * 1000

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._state = handle.getValueState("rows", "times binary, vals binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        held = [*self._held(), *((row.t, row.v) for row in rows)]
        held.sort(key=_BY_TIME)
        yield from self._closed(key, held, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        yield from self._closed(key, list(self._held()), timerValues)

    def close(self) -> None:
        """Nothing is open."""

    def _held(self) -> Iterable[tuple[int, float]]:
        if not self._state.exists():
            return ()
        times, values = self._state.get()
        return zip(array("q", bytes(times)), array("d", bytes(values)))

    def _closed(self, key: Any, held: list[tuple[int, float]], timer_values: Any) -> Iterator[Row]:
        """Sessions that are over; the rows of the others are kept, with a timer for when the first of them ends."""
        watermark = timer_values.getCurrentWatermarkInMs() * 1000
        begin = 0
        for at, (time, _) in enumerate(held):
            is_last = at + 1 == len(held) or held[at + 1][0] - time > self._gap
            if is_last and time + self._gap > watermark:
                self._keep(held[begin:])
                self._handle.registerTimer(max(time + self._gap, watermark) // 1000 + 1)
                return
            if is_last:
                session = held[begin : at + 1]
                yield Row(k=key[0], start=session[0][0], m=_middle(v for _, v in session), n=len(session))
                begin = at + 1
        self._state.clear()

    def _keep(self, held: list[tuple[int, float]]) -> None:
        times, values = zip(*held)
        self._state.update((array("q", times).tobytes(), array("d", values).tobytes()))


def by_row(processor: Any) -> Any:
    """A streaming frame of what a processor gives; rows come to it with their time in microseconds, `t`."""

    def build(events: Any) -> Any:
        rows = events.withWatermark("ts", WATERMARK).selectExpr("k", "ts", "unix_micros(ts) AS t", "v")
        return rows.groupBy("k").transformWithState(processor, processor.output, "append", processor.time_mode)

    return build
