"""Sources that are made of streams and queries: what one gives is what the next one reads.

A run of the outer stream runs those inside. Rows that a query inside does not use are not lost: they come out
as rejects of the outer run, each with its reason and the row as text.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from panes.plan.batches import conform
from panes.plan.explain import explain
from panes.plan.flow import Flow, explain_flow
from panes.plan.query import QueryPlan, StreamPlan
from panes.plan.silence import BY_ROWS
from panes.plan.types import canonical_schema
from panes.runners.local.by_clock import ByClock, moved
from panes.runners.local.listening import Beat, Ear, until_silent
from panes.runners.local.rejects import Rejects
from panes.runners.local.runner import make_operator
from panes.runners.local.source import Source
from panes.slicing.operator import SliceOperator
from panes.windows.base import TIME, Bound, ContextFree
from panes.windows.session import SessionScan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


#: The end of a window, as results have it.
END = "window_end"


class DerivedSource(Source):
    """A source that reads other sources."""

    #: what the stream whose rows it gives does when nothing comes
    silence = BY_ROWS

    def __init__(self, schema: pa.Schema, inputs: Sequence[Source]) -> None:
        self.schema = canonical_schema(schema)
        self.inputs = tuple(inputs)
        self.repeatable = all(source.repeatable for source in inputs)
        self.live = any(source.live for source in inputs)
        self.on_spark = any(source.on_spark for source in inputs)
        self.windowed = any(source.windowed for source in inputs)
        self.waits = any(source.waits for source in inputs)
        self.silences = tuple(silence for source in inputs for silence in source.silences)

    def hand_out(self, *, promptly: bool, ear: Ear | None = None) -> None:
        super().hand_out(promptly=promptly, ear=ear)
        for source in self.inputs:
            source.hand_out(promptly=promptly, ear=ear)

    def read(self, rejects: Rejects) -> Iterator[pa.Table | Beat]:
        for item in self.derive(rejects):
            if isinstance(item, Beat):
                yield item
            elif item.num_rows:
                yield conform(item, self.schema)

    def _heard(self, items: Iterator[Any]) -> Iterator[Any]:
        return items  # beats are those of the inputs

    @abstractmethod
    def derive(self, rejects: Rejects) -> Iterator[pa.Table | Beat]:
        """What is made of the inputs; their beats pass."""

    @abstractmethod
    def explain(self) -> tuple[str, ...]:
        """What happens inside, one text per input."""

    @abstractmethod
    def to_spark(self) -> DataFrame:
        """The same on Spark."""

    def marked(self, windows: StreamPlan) -> DataFrame | None:
        """The same for windows on the time of a stream, if it is merged of several: on a streaming frame each of
        these has a watermark of its own, and Spark goes by the slowest. None: it is not."""
        return None

    def passed(self, time: str) -> StreamPlan | str:
        """The stream that windows inside are on, if the column `time` is the end of these, and each is given as soon as
        event time there reaches it; else why not."""
        return "they are put together from several streams, or changed, on their way to the outer windows"


def through(made: Callable[[Any], Any], items: Iterator[Any]) -> Iterator[Any]:
    """What is made of each item; beats pass."""
    for item in items:
        yield item if isinstance(item, Beat) else made(item)


def explain_inputs(source: Source | None) -> tuple[str, ...]:
    """The explanations of the streams and queries that a source is made of."""
    return source.explain() if isinstance(source, DerivedSource) else ()


class FlowSource(DerivedSource):
    """The rows of a stream without windows."""

    def __init__(self, flow: Flow, source: Source) -> None:
        super().__init__(flow.schema, [source])
        self.flow = flow
        self._source = source
        self.rows = None if flow.stream.where else source.rows
        self.silence = flow.stream.silence
        self.silences += (self.silence,)

    def derive(self, rejects: Rejects) -> Iterator[pa.Table | Beat]:
        items = until_silent(self._source.batches(rejects), self.flow.stream.silence.timeout, self.ear)
        return through(self.flow.apply, items)

    def explain(self) -> tuple[str, ...]:
        return (str(explain_flow(self.flow, str(self._source), explain_inputs(self._source))),)

    def to_spark(self) -> DataFrame:
        from panes.runners.spark.flows import flow_frame
        from panes.runners.spark.source import frame_of

        return flow_frame(self.flow, frame_of(self._source))

    def marked(self, windows: StreamPlan) -> DataFrame | None:
        from panes.runners.spark.flows import flow_frame

        time = self.flow.scalars.wanted.get(windows.time)
        if time is None or time.column != windows.time or not isinstance(self._source, DerivedSource):
            return None
        frame = self._source.marked(windows)
        return None if frame is None else flow_frame(self.flow, frame)

    def passed(self, time: str) -> StreamPlan | str:
        read = self.flow.scalars.wanted.get(time)
        if read is None or read.column is None or not isinstance(self._source, DerivedSource):
            return "the time of the outer windows is computed"
        return self._source.passed(read.column)

    def __str__(self) -> str:
        return f"a stream of {self._source}"


class QuerySource(DerivedSource):
    """The results of a query."""

    def __init__(self, plan: QueryPlan, source: Source) -> None:
        super().__init__(plan.shape.schema, [source])
        self.windowed = True
        self.plan = plan
        self._source = source
        self.silences += (plan.stream.silence,)

    def derive(self, rejects: Rejects) -> Iterator[pa.Table | Beat]:
        op = make_operator(self.plan)
        stream, ear = self.plan.stream, self.ear
        clock = None if ear is None else ByClock(stream.silence, stream.domain, ear)
        for item in until_silent(self._source.arrivals(rejects), stream.silence.timeout, ear):
            if isinstance(item, Beat):
                assert clock is not None
                result, passed = moved(clock, item, op)
                if result is not None:
                    yield result.table
                yield passed  # after the results: windows over them may close by it, too
                continue
            if clock is not None:
                clock.row()
            yield op.push(item).table
            pass_on(op, rejects)
        yield op.finish().table
        pass_on(op, rejects)

    def explain(self) -> tuple[str, ...]:
        silence = self.plan.stream.silence
        explained = explain(make_operator(self.plan), self.plan.steps, explain_inputs(self._source), silence)
        return (str(explained),)

    def to_spark(self) -> DataFrame:
        from panes.runners.spark.runner import to_spark

        return to_spark(self.plan, self._source, inside=True)

    def passed(self, time: str) -> StreamPlan | str:
        column: str | None = time
        for step in reversed(self.plan.steps):
            column = None if column is None else step.origin(column)
        if column != END:
            return "the time of the outer windows is not the end of the windows inside"
        odd = [label for label, bound in self.plan.bound if not _given_at_end(bound)]
        if odd:
            return f"the window {odd[0]!r} inside is not given just when event time reaches its end"
        return self.plan.stream

    def __str__(self) -> str:
        return f"a query over {self._source}"


def _given_at_end(window: Bound) -> bool:
    return isinstance(window, ContextFree | SessionScan) and window.measure == TIME


def pass_on(op: SliceOperator, rejects: Rejects) -> None:
    """What the query has not used, to whoever runs it."""
    for row in op.take_late().to_pylist():
        reason = row.pop("reason")
        rejects.add(f"{reason} in a query inside", str(row))
