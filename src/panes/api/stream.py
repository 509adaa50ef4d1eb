"""What users build queries with: `pn.stream(...).window(...).agg(...)`.

In: data and the names of its time and key columns. Out: a `Query`, which runs here (`to_pandas()`, `rows()`),
explains itself, or gives an operator to push rows to. Every step returns a new value; nothing is read before
a run except what is needed to know the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from html import escape
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from panes.api.collecting import Collectable
from panes.api.results import QueryResults
from panes.api.stream_operators import StreamOperators
from panes.errors import QueryError
from panes.plan.hints import QUERY_HABITS, STREAM_HABITS, WINDOWED_HABITS, Hinted, check_no_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from panes.aggregates.base import Aggregate
    from panes.clock import Clock
    from panes.plan.arrival import Arrival
    from panes.plan.flow import FlowExplanation
    from panes.plan.graph import Node, OperateNode, SelectNode
    from panes.plan.names import Given
    from panes.plan.query import StreamPlan
    from panes.plan.steps import Shape, Step
    from panes.plan.streams import Duration
    from panes.runners.local.runner import FlowRun
    from panes.windows.base import Part, Window


def stream(
    data: Any = None,
    *,
    time: str | Arrival,
    key: str | Sequence[str] | None = None,
    watermark: Duration | None = None,
    lateness: Duration | None = None,
    idle: str | timedelta | None = None,
    timeout: str | timedelta | None = None,
    schema: Mapping[str, str | pa.DataType] | pa.Schema | None = None,
    time_unit: str | None = None,
    keep_late: int | None = 100_000,
    clock: Clock | None = None,
) -> Stream:
    """Rows with an event time.

    - `data`: pandas, Polars or Arrow; a list of dicts or a dict of columns; an iterator of those; a path or
      glob of Parquet, CSV or JSON files; a source such as `pn.socket_source(...)`. None: rows will be pushed.
    - `time`: the event-time column, a timestamp or an integer (then `time_unit` says what durations mean);
      or `pn.arrival()`: rows have no time of their own, and get the one at which they arrive.
    - `key`: the column or columns by which windows are kept apart.
    - `watermark`: how much disorder to wait for; None: rows are in order; "manual": only `advance` moves it.
    - `lateness`: how long after the watermark a late row still corrects its windows.
    - `idle`: when no row has come for so long, the clock moves the watermark on from where the last row left it, so
      that windows close on a quiet stream. Merged with others, the stream no longer holds them up.
    - `timeout`: when no row has come for so long, the stream has ended.
    - `clock`: what tells how long that is, for tests: a `pn.testing.FakeClock`. None: the clock of the machine.
    - `keep_late`: how many of the rows that no result uses `late` has, the newest ones; all are counted in `metrics`.
      None: all of them, which grow without bound.
    - `schema`: column types, for data that has none of its own, or to read some columns differently.
    """
    from panes.connectors.sources import open_data
    from panes.plan.build import stream_over
    from panes.plan.silence import plan_silence
    from panes.plan.types import arrow_schema

    declared = None if schema is None else arrow_schema(schema)
    if data is None and declared is None:
        raise QueryError("a stream without data needs schema=, for instance {'ts': 'timestamp', 'v': 'double'}")
    node = open_data(data, declared)
    silence = plan_silence(idle, timeout, clock, watermark=watermark, pushed=data is None)
    return Stream(
        *stream_over(
            node,
            time=time,
            key=key,
            watermark=watermark,
            lateness=lateness,
            time_unit=time_unit,
            keep_late=keep_late,
            silence=silence,
        )
    )


@dataclass(frozen=True, repr=False)
class Stream(Collectable, StreamOperators, Hinted):
    """Rows with an event time, and what is done to each of them. Made by `pn.stream`.

    Without windows it runs, too, and gives the columns of its last `select` for each of its rows.
    """

    _node: Node
    _plan: StreamPlan
    _runs: list[FlowRun] = field(default_factory=list, init=False, repr=False, compare=False)  # the last one
    _habits = STREAM_HABITS
    _called = "a stream"

    def where(self, condition: str) -> Stream:
        """Only the rows for which the SQL condition is true. Rows left out don't move the watermark."""
        from panes.plan.query import condition as checked

        more = checked(self._plan.scope, condition)
        return replace(self, _plan=replace(self._plan, where=(*self._plan.where, more)))

    def with_columns(self, /, **expressions: str) -> Stream:
        """Further columns, each an SQL expression of the row: `with_columns(value="price * qty")`."""
        if not expressions:
            raise QueryError("with_columns() needs at least one column, for instance value='price * qty'")
        return self._derive(expressions, None, (*self._plan.columns, *expressions))

    def select(self, /, *columns: str, **expressions: str) -> Stream:
        """Only these columns; new ones as in `with_columns`. Windows can still use the time and key columns."""
        if not columns and not expressions:
            raise QueryError("select() needs at least one column")
        check_no_columns("select", columns)
        for name in columns:
            if name not in self._plan.scope.names:
                from panes.plan.hints import did_you_mean

                raise QueryError(f"select: there is no column {name!r}{did_you_mean(name, self._plan.scope.names)}")
        shown = (*columns, *expressions)
        return self._derive(expressions, (self._plan.time, *self._plan.keys, *shown), shown)

    def key_by(self, *columns: str) -> Stream:
        """The same rows, with windows kept apart by these columns, computed ones too; by none: for all rows."""
        from panes.plan.streams import key_columns

        check_no_columns("key_by", columns, "give the name of a column, for instance key_by('symbol')")
        plan = self._plan
        computed = [name for name in columns if name in plan.scope.derived]
        flat = self._flat(f"key_by({computed[0]!r})", plan.scope.names) if computed else self
        schema = pa.schema([f for f in flat._plan.schema if f.name in plan.scope.names])
        return replace(flat, _plan=replace(flat._plan, keys=key_columns(schema, plan.time, columns)))

    def with_time(
        self,
        time: str | Arrival,
        *,
        watermark: Duration | None = None,
        lateness: Duration | None = None,
        time_unit: str | None = None,
    ) -> Stream:
        """The same rows with another event time: a column, a computed one too, or `pn.arrival()`."""
        from panes.plan.arrival import Arrival
        from panes.plan.build import stream_over
        from panes.plan.silence import same_idle

        plan = self._plan
        kept = (*plan.columns, *plan.keys, *((time,) if time in plan.scope.names else ()))  # not the time so far
        node, timed = stream_over(
            self._selected(f"with_time({time!r})", tuple(dict.fromkeys(kept))),
            time=time,
            key=plan.keys,
            watermark=watermark,
            lateness=lateness,
            time_unit=time_unit,
            keep_late=plan.keep_late,
        )
        silence = timed.silence if isinstance(time, Arrival) else same_idle(plan.silence, watermark)
        return Stream(node, replace(timed, shown=plan.columns, silence=silence))

    def window(self, /, *windows: Window | Part, emit_empty: bool = False, **named: Window | Part) -> WindowedStream:
        """Windows over the stream, one or many; all share slices. A name is the label of its results.

        A policy by itself, such as `pn.policies.count(3)`, is a window too: see `every`.
        `emit_empty`: also give windows that hold no row.
        """
        from panes.windows.base import Part

        check_no_columns("window", (*windows, *named.values()), "give a window, for instance pn.tumbling('1 min')")
        if any(isinstance(w, Part) for w in (*windows, *named.values())):
            from panes.policies.policy import as_window

            windows = tuple(as_window(w, "window") for w in windows)
            named = {label: as_window(w, f"window {label!r}") for label, w in named.items()}
        labelled: dict[str, Any] = {}
        for window in windows:
            label = str(window)
            if label in labelled:
                raise QueryError(f"window: {label} is given twice; leave one out, or give them names")
            labelled[label] = window
        for label, window in named.items():
            if label in labelled:
                raise QueryError(f"window: two windows have the label {label!r}; rename one")
            labelled[label] = window
        if not labelled:
            raise QueryError("window() needs at least one window, for instance pn.tumbling('1 min')")
        if not isinstance(emit_empty, bool):
            raise QueryError(f"emit_empty must be True or False; got {emit_empty!r}")
        return WindowedStream(self, labelled, emit_empty)

    def _derive(
        self, expressions: Mapping[str, str], visible: tuple[str, ...] | None, shown: tuple[str, ...]
    ) -> Stream:
        from panes.plan.scalars import Scalars
        from panes.plan.types import check_name

        plan = self._plan
        for name in expressions:
            check_name(name, "select")
            if name == plan.time or name in plan.keys:
                raise QueryError(
                    f"{name!r} is the time or a key of the stream and can't be replaced; choose another name"
                )
        resolved = {name: plan.scope.scalar(text) for name, text in expressions.items()}
        Scalars(plan.scope, resolved)  # refuses what can't be computed
        names = tuple(dict.fromkeys(visible or (*plan.scope.names, *expressions)))
        scope = replace(plan.scope, derived={**plan.scope.derived, **resolved}, visible=names)
        return replace(self, _plan=replace(plan, scope=scope, shown=tuple(dict.fromkeys(shown))))

    def to_spark(self, *, sequence: str | None = None, late: bool = False, key_groups: int = 16) -> DataFrame:
        """The rows as a Spark DataFrame: streaming if the data is, else static.

        Of a stream that operators give:

        - `sequence`: a column by which rows with the same time are ordered before the operators see them.
        - `late`: also give rows behind the watermark, which operators don't see any more, with `late_reason` and the
          row itself in `late_row`.
        - `key_groups`: into how many parts the state of a stream is divided; fixed for the life of a checkpoint.
        """
        from panes.runners.spark.frames import stream_frame

        stream = self._whole("to_spark()")
        return stream_frame(stream, sequence=sequence, late=late, key_groups=key_groups)

    def to_cql(self, name: str = "data") -> str:
        """The stream as CQL: `pn.sql(text, {name: data})` gives the same rows."""
        from panes.cql.write import stream_text

        return stream_text(self._plan, self._node, name)

    @property
    def late(self) -> pa.Table:
        """Lines of the last run that could not be read, and rows that queries inside did not use, as `reason`."""
        if not self._runs:
            raise QueryError("late is known after a run: call to_arrow(), to_pandas(), to_polars() or rows() first")
        return self._runs[-1].late()

    def explain(self) -> FlowExplanation:
        """What happens to each row, and what the stream is made of."""
        from panes.plan.explain import explain_stream

        return explain_stream(self._rows(self._plan.columns))

    def _start(self, progress: bool | None) -> FlowRun:
        from panes.runners.local.runner import FlowRun

        self._runs[:] = [FlowRun(self._whole("a run"), progress=progress)]
        return self._runs[-1]

    def _rows(self, names: Sequence[str]) -> SelectNode:
        """These columns of the stream, computed ones too, as a node."""
        from panes.plan.flow import Flow
        from panes.plan.graph import SelectNode

        return SelectNode.of(self._node, Flow.of(self._plan, names))

    def _whole(self, what: str) -> SelectNode:
        """What the stream shows, to be run."""
        return self._selected(what, self._plan.columns)

    def _selected(self, what: str, names: Sequence[str]) -> SelectNode:
        from panes.plan.graph import OperateNode

        if self._node.pushed:
            push = ", or push rows to stream.operator()" if isinstance(self._node, OperateNode) else ""
            raise QueryError(f"{what}: this stream has no data of its own; give pn.stream(data, ...){push}")
        return self._rows(names)

    def _flat(self, what: str, names: Sequence[str]) -> Stream:
        """The same stream where columns that are computed here come from the node."""
        from panes.plan.expressions import Scope

        node = self._selected(what, names)
        return Stream(node, replace(self._plan, scope=Scope(node.schema), where=(), shown=self._plan.columns))

    def _of_operator(self, node: OperateNode) -> Stream:
        return Stream(node, node.plan.outputs[node.port].stream)

    def __repr__(self) -> str:
        by = f", key {', '.join(self._plan.keys)}" if self._plan.keys else ""
        return f"<Stream of {self._node}: time {self._plan.time}{by}; columns {', '.join(self._plan.scope.names)}>"

    def _repr_html_(self) -> str:
        from panes.plan.flow import Flow
        from panes.slicing.showing import html_rows

        plan = self._plan
        roles = {**dict.fromkeys(plan.keys, "key"), plan.time: "time"}
        rows = [(f.name, str(f.type), roles.get(f.name, "")) for f in Flow.of(plan, plan.scope.names).schema]
        return f"<p>Stream of {escape(str(self._node))}</p>{html_rows(('column', 'type', ''), rows)}"


@dataclass(frozen=True, repr=False)
class WindowedStream(Hinted):
    """A stream with windows, waiting to hear what to compute."""

    _stream: Stream
    _windows: Mapping[str, Window]
    _emit_empty: bool
    _habits = WINDOWED_HABITS
    _called = "a stream with windows"

    def every(self, trigger: Any) -> WindowedStream:
        """Policies given to `window` say how much is kept, and this one when there is a result.

        `window(pn.policies.count(100)).every(pn.policies.time("1 min"))`: the last 100 rows each minute.
        """
        from panes.policies.policy import with_slide

        slid = {label: with_slide(window, trigger) for label, window in self._windows.items()}
        unnamed = {
            str(window) if label == str(self._windows[label]) else label: window for label, window in slid.items()
        }
        return replace(self, _windows=unnamed)

    def key_by(self, *columns: str) -> WindowedStream:
        """One set of policies over the whole stream, and a result for each of these keys whenever they trigger.

        `stream.key_by(...).window(...)` instead keeps policies, too, apart by key.
        """
        from panes.policies.policy import central

        if self._stream._plan.keys:
            raise QueryError(f"key_by{columns}: the stream has the key {', '.join(self._stream._plan.keys)} already")
        windows = {label: central(window) for label, window in self._windows.items()}
        unnamed = {str(w) if label == str(self._windows[label]) else label: w for label, w in windows.items()}
        return replace(self, _stream=self._stream.key_by(*columns), _windows=unnamed)

    def agg(self, /, *aggregates: str | Aggregate, **named: str | Aggregate) -> Query:
        """What to compute per window: SQL text or aggregate objects. A name is the column of the result."""
        from panes.plan.hints import check_outputs
        from panes.plan.query import plan_query

        outputs: dict[str, str | Aggregate] = {}
        for aggregate in aggregates:
            name = aggregate if isinstance(aggregate, str) else str(aggregate)
            if name in outputs:
                raise QueryError(f"agg: {name} is given twice")
            outputs[name] = aggregate
        for name, aggregate in named.items():
            if name in outputs:
                raise QueryError(f"agg: two aggregates have the name {name!r}; rename one")
            outputs[name] = aggregate
        check_outputs(outputs)
        plan = plan_query(self._stream._plan, self._windows, outputs, emit_empty=self._emit_empty)
        return Query.of(self._stream._node, plan)

    def relation(
        self,
        entries: Given | Sequence[Given] | Mapping[str, Given] = "*",
        *,
        group_by: Given | Sequence[Given] = (),
        where: Given | None = None,
        having: Given | None = None,
        order_by: Given | Sequence[Given] = (),
        limit: int | None = None,
        distinct: bool = False,
        alias: str | None = None,
    ) -> Query:
        """The rows of each window as a relation: any number of rows per window, as an SQL SELECT over them gives.

        - `entries`: what to select, as SQL text; several in a list, or with names of their own in a dict.
        - `where`, `group_by`, `having`, `order_by`, `limit`, `distinct`: within each window; `where` chooses among
          the rows of a window, so that rows it leaves out still count for windows of so many rows.
        - `alias`: a name by which expressions may qualify columns.

        Aggregates over no rows are given only with `emit_empty`.
        """
        from panes.plan.clauses import RelationClauses
        from panes.plan.relation_query import plan_relation

        asked = RelationClauses(entries, where, group_by, having, order_by, limit, distinct)
        plan = plan_relation(self._stream._plan, self._windows, asked, alias=alias, emit_empty=self._emit_empty)
        return Query.of(self._stream._node, plan)

    def __repr__(self) -> str:
        return f"<Windows {', '.join(self._windows)} over {self._stream!r}; agg(...) or relation(...) makes a query>"

    def _repr_html_(self) -> str:
        from panes.slicing.showing import html_rows

        rows = [(label, repr(window)) for label, window in self._windows.items()]
        more = "agg(...) or relation(...) makes a query"
        return f"{self._stream._repr_html_()}{html_rows(('window', ''), rows)}<p>{more}</p>"


class Query(QueryResults, Hinted):
    """Windows and aggregates over a stream. Made by `stream(...).window(...).agg(...)`."""

    _habits = QUERY_HABITS
    _called = "a query"

    def where(self, condition: str) -> Query:
        """Only results for which the SQL condition is true, as HAVING does: `where("total > 100")`.

        It may look at every column of the results: keys, outputs, window, window_start and so on. A correction
        that makes a result fail is given as a withdrawal (`void`), so that nobody keeps what was given before.
        """
        from panes.plan.steps import Having

        return self._then(lambda shape: Having.of(shape, condition))

    def select(self, /, *columns: str, **expressions: str) -> Query:
        """Only these columns of the results, in this order; new ones as SQL: `select("symbol", mean="total / n")`."""
        from panes.plan.steps import SelectStep

        return self._then(lambda shape: SelectStep.of(shape, columns, expressions))

    def order_by(self, *keys: str) -> Query:
        """Order results that are due at the same time, that is with the same `window_end`: `order_by("total DESC")`.

        Those due earlier stay before them, so that a stream without end can be ordered, too. Each key is SQL, with
        ASC or DESC, NULLS FIRST or NULLS LAST after it.
        """
        from panes.plan.steps import OrderStep

        return self._then(lambda shape: OrderStep.of(shape, keys))

    def add(self, label: str, window: Window, /, **aggregates: str | Aggregate) -> Query:
        """The query with one more window, which may have aggregates of its own, written as in `agg`; without any it
        gives those of the query.

        Results have the columns of all windows, null where a window does not have that one. Windows share what they
        compute: `sum(price)` of two windows is kept once. `op.add(...)` is the same for an operator that runs.

        >>> import panes as pn
        >>> rows = [{"t": t, "v": t * t} for t in range(8)]
        >>> q = pn.stream(rows, time="t").window(two=pn.tumbling(2)).agg(n="count(*)")
        >>> [(r["window"], r["n"], r["top"]) for r in q.add("four", pn.tumbling(4), top="max(v)").rows()]
        [('two', 2, None), ('two', 2, None), ('four', None, 9), ('two', 2, None), ('two', 2, None), ('four', None, 49)]
        """
        return self._over(self._plan.added(label, window, aggregates))

    def early(self, every: Duration, *, clock: bool = False) -> Query:
        """Give windows before they close, too: open ones as they stand, those that have changed since the last time.

        - `early("10 s")`: whenever the watermark passes a multiple of 10 s of event time.
        - `early("1 s", clock=True)`: every second by the clock, in a run that reads rows as they come (`rows()`). Of an
          operator, ask with `op.early()`.
        - `early("batch")`: on Spark, at the end of every micro-batch, as in Spark's update mode.

        Results get a column `final`: false as long as the window is open. `revision` counts everything that was given
        of a window, `void` withdraws a session whose bounds have changed. `latest()` has the newest of each.

        >>> import panes as pn
        >>> rows = [{"t": t, "v": 1} for t in (1, 4, 12, 14, 25)]
        >>> q = pn.stream(rows, time="t").window(pn.tumbling(20)).agg(n="count(*)").early(5)
        >>> [(r["window_start"], r["n"], r["revision"], r["final"]) for r in q.rows()]
        [(0, 3, 0, False), (0, 4, 1, True), (20, 1, 0, False), (20, 1, 1, True)]
        """
        from panes.plan.query import early_plan

        return self._over(early_plan(self._plan, every, clock=clock))

    def stream(
        self,
        *,
        time: str | Arrival = "window_end",
        key: str | Sequence[str] | None = None,
        watermark: Duration | None = None,
        lateness: Duration | None = None,
        time_unit: str | None = None,
    ) -> Stream:
        """The results as a stream, to put windows over.

        `time` may be any column of the results; `window_end` also if `select` has left it out. Results come in its
        order. Those without one, of windows still open at the end, go to `late` if there are windows over them.
        The other arguments are those of `pn.stream`. Rows that this query does not use are in `late` of the run,
        as text.
        """
        from panes.plan.build import stream_of_results

        return Stream(
            *stream_of_results(
                self._node, time=time, key=key, watermark=watermark, lateness=lateness, time_unit=time_unit
            )
        )

    def _then(self, step: Callable[[Shape], Step]) -> Query:
        return self._over(self._plan.then(step(self._plan.shape)))
