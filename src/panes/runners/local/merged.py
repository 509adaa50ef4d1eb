"""Several sources as one: a multiset union in the order of arrival.

What is all there, or read from files, has no order of arrival between sources. Rows are then merged by the
largest time that their own source has reached: sources that are in order give one that is in order, and a row
is late among the others only if it was late in its own source. Sources that are live (sockets) are read side by
side, and their batches taken as they come. Where a run goes by a clock, a source that is silent for as long as its
stream says (`idle`) is not waited for (`rounds.py`).
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from panes.clock import HEARING
from panes.errors import QueryError
from panes.plan.query import StreamPlan
from panes.runners.local.derived import DerivedSource
from panes.runners.local.listening import Beat, Ear
from panes.runners.local.rejects import Rejects
from panes.runners.local.rounds import Side, rounds
from panes.runners.local.source import Source
from panes.slicing.spec import MANUAL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOWEST = np.iinfo(np.int64).min
#: Batches of live sources that may wait.
_WAITING = 16


class MergedSource(DerivedSource):
    """The rows of several sources with the same columns."""

    def __init__(self, sources: Sequence[DerivedSource], time: str) -> None:
        super().__init__(sources[0].schema, sources)
        self._sources = tuple(sources)
        self.time = time
        counts = [source.rows for source in sources]
        self.rows = None if None in counts else sum(c for c in counts if c is not None)

    def derive(self, rejects: Rejects) -> Iterator[pa.Table | Beat]:
        ear = self.ear
        if self.live and ear is None:
            return as_they_come([_reader(source, rejects) for source in self._sources])
        names = self.schema.names
        return by_time(
            [
                _Side(source.batches(rejects), names, self.time, 0 if self.live else source.silence.patience, ear)
                for source in self._sources
            ]
        )

    def explain(self) -> tuple[str, ...]:
        return tuple(text for source in self._sources for text in source.explain())

    def to_spark(self) -> DataFrame:
        return self._union()

    def marked(self, windows: StreamPlan) -> DataFrame | None:
        return self._union(windows)

    def _union(self, windows: StreamPlan | None = None) -> DataFrame:
        from panes.runners.spark.event_time import EVENT_TIME, EventTime
        from panes.runners.spark.frame_columns import Numbered

        frames = [source.to_spark() for source in self._sources]
        streaming = [frame.isStreaming for frame in frames]
        if any(streaming) and not all(streaming):
            raise QueryError(
                "to_spark(): some of the streams that are merged or joined are streaming and some are static, which "
                "Spark can't have in one query; give it all as streams, or all as static frames"
            )
        if windows is not None and all(streaming) and any(source.windowed for source in self._sources):
            raise QueryError(
                "to_spark(): windows and joins over streams of window results that are put together can't be one "
                "streaming query: Spark has one watermark for all of it, which would be past these results when they "
                "come. Write the results of the inner windows to a table, and read it as a stream of its own"
            )
        names = self.schema.names
        numbered = [Numbered(frame) for frame in frames]
        rows = [each.frame.select(*map(each.column, names)) for each in numbered]
        if windows is not None and all(streaming) and windows.watermark != MANUAL:
            time, at = EventTime.of(windows), windows.time
            rows = [
                time.with_watermark(each, windows, of.column(at)).drop(EVENT_TIME) for each, of in zip(rows, numbered)
            ]
        return reduce(lambda first, other: first.union(other), rows).toDF(*names)

    def __str__(self) -> str:
        return f"{len(self._sources)} streams merged"


class _Side(Side):
    """One source while it is merged: rows that wait, and the largest time up to each of them."""

    def __init__(
        self, batches: Iterator[Any], names: Sequence[str], time: str, patience: int | None, ear: Ear | None
    ) -> None:
        super().__init__(batches, patience, ear)
        self._names = names
        self._time = time
        self._top = _LOWEST
        self.table: pa.Table | None = None
        self.tops = np.empty(0, np.int64)

    @property
    def holds(self) -> bool:
        return len(self.tops) > 0

    def put(self, table: pa.Table) -> None:
        if table.num_rows:
            self.table = table.select(self._names)
            times = self.table.column(self._time).cast(pa.int64()).fill_null(int(_LOWEST)).to_numpy()
            self.tops = np.maximum.accumulate(np.maximum(times, self._top))
            self._top = self.tops[-1]

    def take(self, limit: int) -> tuple[pa.Table, np.ndarray] | None:
        """Rows up to which no more than `limit` was reached."""
        n = int(np.searchsorted(self.tops, limit, side="right"))
        if self.table is None or not n:
            return None
        taken = self.table.slice(0, n), self.tops[:n]
        self.table, self.tops = self.table.slice(n), self.tops[n:]
        return taken


def by_time(sides: Sequence[_Side]) -> Iterator[pa.Table | Beat]:
    """Batches of all sides, merged by the largest time that each side has reached; ties by the order of sides."""
    for ready in rounds(sides):
        if isinstance(ready, Beat):
            yield ready
            continue
        limit = min(int(side.tops[-1]) for side in ready)
        taken = [part for side in ready if (part := side.take(limit)) is not None]
        table = pa.concat_tables([part for part, _ in taken])
        if len(taken) > 1:
            order = np.argsort(np.concatenate([tops for _, tops in taken]), kind="stable")
            table = table.take(pa.array(order))
        yield table


def _reader(source: Source, rejects: Rejects) -> Callable[[], Iterator[pa.Table]]:
    return lambda: source.batches(rejects)


def as_they_come(readers: Sequence[Callable[[], Iterator[pa.Table]]]) -> Iterator[pa.Table]:
    """Batches of all readers in the order in which they come, each reader in a thread of its own."""
    came: queue.Queue[Any] = queue.Queue(_WAITING)
    stop = threading.Event()

    def give(item: Any) -> bool:
        while not stop.is_set():
            try:
                came.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def run(read: Callable[[], Iterator[pa.Table]]) -> None:
        try:
            for table in read():
                if not give(table):
                    return
            give(None)
        except BaseException as error:  # raised where the batches are read
            give(error)

    for reader in readers:
        threading.Thread(target=run, args=(reader,), daemon=True).start()
    open_readers = len(readers)
    try:
        while open_readers:
            try:
                item = came.get(timeout=HEARING)
            except queue.Empty:
                continue
            if item is None:
                open_readers -= 1
            elif isinstance(item, BaseException):
                raise item
            else:
                yield item
    finally:
        stop.set()
