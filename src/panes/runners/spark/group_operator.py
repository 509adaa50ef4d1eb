"""The engine's operator for the keys of one key group, as a Spark task drives it.

Each micro-batch is one step, as Spark's own windows take it: its rows are judged by the watermark of the micro-batch
before, then event time reaches that of this one, and windows are given. The order of rows within a batch decides
nothing but ties.

Whoever asks for windows at once has them with the rows that close them. Event time then reaches Spark's watermark
before the rows come, and after them what the rows of this key group alone make of it: Spark's next watermark, that of
all rows so far, is no earlier.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from panes.plan.identity import told_apart
from panes.plan.query import QueryPlan, StreamPlan
from panes.runners.spark.event_time import EventTime
from panes.runners.spark.packing import unpacked
from panes.slicing.identity import by_end, newest, voids_first
from panes.slicing.operator import SliceOperator
from panes.slicing.results import Result
from panes.slicing.spec import MANUAL, OperatorSpec
from panes.state.checked import columns_of
from panes.windows.base import ALWAYS, NEVER


class GroupOperator(Protocol):
    """An operator of a key group: a deterministic state machine over rows and watermarks."""

    watermark: int

    def push(self, rows: Any, /) -> Result: ...

    def advance(self, watermark: Any, /) -> Result: ...

    def take_late(self) -> pa.Table: ...

    def micro_batch(self, before: int, rows: Any, after: int, /) -> Result: ...

    def next_due(self) -> int: ...

    def snapshot(self) -> bytes: ...

    @property
    def metrics(self) -> Mapping[str, Any]: ...


class Passed(NamedTuple):
    """How far event time has passed when the rows of a micro-batch come, and once they are there."""

    before: int
    after: int


class Runnable(Protocol):
    """What is run in key groups: a query with windows, or a graph of operators."""

    @property
    def result_schema(self) -> pa.Schema: ...

    @property
    def late_schema(self) -> pa.Schema: ...

    @property
    def clock(self) -> StreamPlan | None:
        """The stream, if the clock moves its watermark."""

    @property
    def follows(self) -> bool:
        """Whether rows are judged by the watermark of the micro-batch before, which a group must have heard of then."""

    def facts(self, groups: int) -> dict[str, Any]: ...

    def rows(self, packed: Sequence[bytes]) -> Any: ...

    def checked(self, rows: Any) -> Any: ...

    def passed(self, watermark: int, rows: Any, reached: int = ALWAYS) -> Passed: ...

    def operator(self, restore: Sequence[bytes] = ()) -> GroupOperator: ...

    def given(self, tables: Sequence[pa.Table]) -> pa.Table | None: ...


@dataclass(frozen=True)
class GroupQuery:
    """A query as its workers see it: rows come read and filtered, with only the columns it looks at."""

    plan: QueryPlan
    columns: tuple[str, ...]  # of the rows that are sent to workers
    sequence: str | None = None  # a column that gives rows of a micro-batch their order
    #: windows are given with the rows that close them, and not when Spark's own would be
    at_once: bool = False
    #: how the rows of a key group let event time pass then; None: they don't, as where other streams make the watermark
    early: EventTime | None = None
    #: of what a micro-batch gives, only the newest revision of each identity
    latest: bool = False
    #: the stream, if the clock moves its watermark when no rows come
    clock: StreamPlan | None = None

    @cached_property
    def spec(self) -> OperatorSpec:
        full = self.plan.operator_spec()
        schema = pa.schema([full.schema.field(name) for name in self.columns])
        read = _as_is if self.sequence is None else partial(_by, self.sequence)
        return replace(full, schema=schema, watermark=MANUAL, read=read, reads_as_is=self.sequence is None)

    @cached_property
    def result_schema(self) -> pa.Schema:
        return SliceOperator(self.spec).finish().table.schema

    @cached_property
    def late_schema(self) -> pa.Schema:
        return SliceOperator(self.spec).late.schema

    def facts(self, groups: int) -> dict[str, Any]:
        """What must stay the same for a checkpoint to be of use."""
        order = {} if self.sequence is None else {"sequence": self.sequence}
        if self.clock is not None:
            order["clock"] = "arrival" if self.clock.silence.arrives else "idle"
        return {"identity": self.spec.whole_identity, "columns": list(self.columns), "key_groups": groups, **order}

    def rows(self, packed: Sequence[bytes]) -> pa.Table | None:
        """The rows of packed values."""
        return unpacked(packed)

    def checked(self, rows: pa.Table | None) -> pa.Table | None:
        """The rows of a step that was stored, if they can be rows of this query."""
        if rows is not None:
            rows.validate(full=True)
            columns_of(rows, "rows", {f.name: f.type for f in self.spec.schema})
        return rows

    @property
    def follows(self) -> bool:
        return not self.at_once

    def passed(self, watermark: int, rows: pa.Table | None, reached: int = ALWAYS) -> Passed:
        """Where event time is in a micro-batch with this watermark and these rows, if it was at `reached` before."""
        if not self.at_once:
            # rows that are not behind it may as well come after it: what waits for it has left the state by then
            # (early results are of what is there when it moves)
            ahead = rows is None or _earliest(rows[self.plan.stream.time]) >= watermark
            ahead = ahead and self.plan.early is None
            return Passed(max(reached, watermark), ALWAYS) if ahead else Passed(reached, watermark)
        if self.early is None or rows is None:
            return Passed(watermark, ALWAYS)
        return Passed(watermark, self.early.watermark_after(rows[self.plan.stream.time]))

    def given(self, tables: Sequence[pa.Table]) -> pa.Table | None:
        """What a micro-batch gives, of what the calls in it gave."""
        return at_once(self.plan, tables, latest=self.latest)

    def operator(self, restore: Sequence[bytes] = (), *, trusted: bool | None = None) -> SliceOperator:
        """An operator, perhaps of a state: one in a checkpoint is trusted as the code beside it, if there is any."""
        op = SliceOperator(self.spec)
        trusted = self.spec.user_code if trusted is None else trusted
        return op.restore(list(restore), trusted=trusted) if restore else op


class PassedQuery(GroupQuery):
    """A query over rows that come once the watermark has passed them, as those of `PassedTime` do: they are never late,
    and windows are given when all rows of a micro-batch are there."""

    @property
    def follows(self) -> bool:
        return False

    def passed(self, watermark: int, rows: pa.Table | None, reached: int = ALWAYS) -> Passed:
        return Passed(ALWAYS, watermark)


def at_once(plan: QueryPlan, tables: Sequence[pa.Table], *, latest: bool) -> pa.Table | None:
    """Results of windows that several calls gave, in the order of one; if asked only the newest of each."""
    if not tables:
        return None
    table = tables[0] if len(tables) == 1 else by_end(pa.concat_tables(tables), "window_end")
    if not plan.given_again:
        return table
    identity = told_apart(plan, "latest=True")
    return voids_first(newest(table, identity) if latest else table, identity.void)


def _earliest(times: pa.ChunkedArray) -> int:
    """The first tick of some times; NEVER if there is none."""
    found = pc.min(times)
    if not found.is_valid:
        return NEVER
    return int(found.value if pa.types.is_timestamp(times.type) else found.as_py())


def _as_is(table: pa.Table) -> pa.Table:
    return table


def _by(sequence: str, table: pa.Table) -> pa.Table:
    """The rows in the order of a column; those without a value last, as they came."""
    return table.take(pc.sort_indices(table.column(sequence)))


def used_columns(plan: QueryPlan, sequence: str | None = None) -> tuple[str, ...]:
    """Columns of the stream that its windows, aggregates, keys and order look at (`where` is done with before)."""
    stream = plan.stream
    used = {sequence, stream.time, *stream.keys, *(c for e in plan.scalars.wanted.values() for c in e.columns)}
    used |= {e.column for e in plan.scalars.wanted.values() if e.column is not None}
    return tuple(name for name in stream.schema.names if name in used)


@dataclass(frozen=True)
class StepOutput:
    """What a step yields."""

    results: list[pa.Table]
    late: pa.Table


def run(op: GroupOperator, passed: Passed, rows: Any = None) -> StepOutput:
    """What one micro-batch does to a key group: event time passes and `rows` come, as the query reads packed ones. The
    same steps from the same state always give the same results and the same state."""
    return StepOutput(_some(op.micro_batch(passed.before, rows, passed.after).table), op.take_late())


def reach(op: GroupOperator, watermark: int) -> list[pa.Table]:
    """A part of a step: event time passes."""
    return _some(op.advance(watermark).table) if watermark > max(op.watermark, ALWAYS) else []


def take(op: GroupOperator, rows: Any) -> list[pa.Table]:
    """A part of a step: its rows come."""
    return [] if rows is None else _some(op.push(rows).table)


def _some(table: pa.Table) -> list[pa.Table]:
    return [table] if table.num_rows else []
