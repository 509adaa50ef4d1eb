"""A query, resolved: what the operator is built from, and what tells it from another query.

In: a stream's columns, time and keys, with windows and outputs as the user wrote them. Out: a frozen
`QueryPlan` in which every name, type and unit is known; `operator_spec()` is what `slicing` takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial

import pyarrow as pa

from panes.aggregates.base import Aggregate
from panes.aggregates.totals import Count
from panes.errors import QueryError, WrongType
from panes.plan.aggregation import Aggregation, compile_aggregates
from panes.plan.batches import conform
from panes.plan.expressions import Scope
from panes.plan.hints import check_outputs
from panes.plan.identity import told_apart
from panes.plan.scalars import Scalars, never_fail
from panes.plan.silence import BY_ROWS, Silence, silent_for
from panes.plan.steps import FINAL, RESERVED, Having, OrderStep, SelectStep, Shape, Step, apply_steps
from panes.plan.types import check_name
from panes.slicing.lane import Agg
from panes.slicing.ledger import KEEP_LATE
from panes.slicing.outputs import QueryOutputs, check_types, every_field
from panes.slicing.results import dimensions, positions, result_schema
from panes.slicing.rows.measures import measure_dtype
from panes.slicing.spec import NOT_EARLY, Early, OperatorSpec, bind_window, said_of_window
from panes.slicing.workload import order_free
from panes.units import Size, TimeDomain
from panes.windows.base import Bound, Window

#: What `early` may be told on Spark: at the end of every micro-batch.
BATCH = "batch"
#: How many rows a window holds, by which early results know whether it has changed.
_ROWS = Agg("panes.rows", (), Count(()).bind(()))


@dataclass(frozen=True)
class Condition:
    """Rows for which an expression is true; null is not true."""

    text: str
    scalars: Scalars

    def filter(self, table: pa.Table) -> pa.Table:
        return table.filter(self.scalars.evaluate(table)[self.text])


@dataclass(frozen=True)
class StreamPlan:
    """The rows a query sees: columns, time, keys, order, and which rows are left out."""

    scope: Scope
    time: str
    domain: TimeDomain
    keys: tuple[str, ...] = ()
    watermark: int | str | None = None  # ticks, "manual", or None: declared in order
    lateness: int | None = None
    #: what happens when no rows come
    silence: Silence = BY_ROWS
    #: how many rows that no result uses are held by operators that users have; None: all
    keep_late: int | None = KEEP_LATE
    where: tuple[Condition, ...] = ()
    #: the columns that were selected, in order; None: all that can be named
    shown: tuple[str, ...] | None = None

    @cached_property
    def schema(self) -> pa.Schema:
        return self.scope.schema

    @property
    def columns(self) -> tuple[str, ...]:
        """What a run without windows gives."""
        return self.scope.names if self.shown is None else self.shown

    def read(self, data: object) -> pa.Table:
        """Any batch to a table of the schema, without the rows that `where` leaves out."""
        table = conform(data, self.schema)
        # one after the other, as written: a later one need not cope with rows that an earlier one leaves out
        for condition in self.where:
            table = condition.filter(table)
        return table


@dataclass(frozen=True)
class QueryPlan:
    """A stream, the windows over it, what is computed per window, and what is done to the results."""

    stream: StreamPlan
    windows: tuple[tuple[str, Window], ...]
    bound: tuple[tuple[str, Bound], ...]
    aggregation: Aggregation
    scalars: Scalars
    emit_empty: bool = False
    early: Early | None = None
    steps: tuple[Step, ...] = ()
    #: by label, what is computed of windows that have aggregates of their own
    own: tuple[tuple[str, Aggregation], ...] = ()

    @cached_property
    def given(self) -> Shape:
        """What the windows give, before any step."""
        stream, early = self.stream, self.early is not None
        outputs = every_field([*self.outputs_by_window().values()]) if self.own else self.aggregation.fields
        kinds = dimensions(self.bound, self.scalars.types).values()
        found = positions([window for _, window in self.bound], kinds)
        schema = result_schema(
            stream.schema, stream.time, stream.keys, outputs, positions=found, early=early, again=self.given_again
        )
        known = {*RESERVED, *stream.keys, *((FINAL,) if early else ())}
        return Shape(schema, tuple([name for name in schema.names if name in known]))

    @property
    def shape(self) -> Shape:
        """What the query gives, after all steps."""
        return self.steps[-1].after if self.steps else self.given

    @property
    def outputs(self) -> tuple[str, ...]:
        """What is computed per window, by the names that users know."""
        names = tuple(f.name for f in every_field([*self.outputs_by_window().values()]))
        for step in self.steps:
            names = step.computed(names)
        return names

    @property
    def aggregations(self) -> tuple[Aggregation, ...]:
        """What is computed of any window."""
        return (self.aggregation, *(own for _, own in self.own))

    def outputs_by_window(self) -> dict[str, QueryOutputs]:
        """What each window gives, by its label."""
        own = {label: self._outputs_of(aggregation) for label, aggregation in self.own}
        return {label: own.get(label, self._shared) for label, _ in self.windows}

    @cached_property
    def _shared(self) -> QueryOutputs:
        """What windows give that have nothing of their own."""
        return self._outputs_of(self.aggregation)

    def _outputs_of(self, aggregation: Aggregation) -> QueryOutputs:
        steady = not any(a.bound.may_fail for a in aggregation.aggs)
        return QueryOutputs(
            aggregation.aggs,
            aggregation.fields,
            None if aggregation.direct else aggregation.finish,
            aggregation.computed,
            aggregation.forms,
            steady and never_fail(aggregation.inputs.values(), self.stream.schema),
        )

    def _outputs_for(self, label: str, outputs: Mapping[str, str | Aggregate]) -> QueryOutputs:
        """What a window that is added gives."""
        return self._outputs_of(self._aggregation_for(label, outputs))

    def _aggregation_for(self, label: str, outputs: Mapping[str, str | Aggregate]) -> Aggregation:
        check_outputs(outputs)
        where = f"add({label!r})"
        check_names(outputs, (*self.stream.keys, *(() if self.early is None else (FINAL,))), where)
        try:
            return compile_aggregates(outputs, self.stream.scope)
        except QueryError as error:
            raise type(error)(f"{where}: {error}") from error

    def added(self, label: str, window: Window, outputs: Mapping[str, str | Aggregate]) -> QueryPlan:
        """The query with one more window, which gives these outputs, or, if there are none, what others give."""
        if not self._plain:
            raise QueryError(
                f"add({label!r}): this query gives relations or rows of its windows, and no aggregates; say all of its "
                "windows in window(), or add them to its operator, where they give the same"
            )
        if self.steps:
            raise QueryError("add() comes right after agg() or early(), before where, select and order_by")
        if label in dict(self.windows):
            raise QueryError(f"add({label!r}): there is a window of that label already; choose another")
        bound, scalars = bound_window(self.stream, label, window, self.scalars)
        if self.early is not None and not order_free(bound):
            raise QueryError(f"window {label!r}: {NOT_EARLY}")
        own = self.own
        if outputs:
            aggregation = self._aggregation_for(label, outputs)
            check_types(label, self._outputs_of(aggregation), self.outputs_by_window())
            own = (*own, (label, aggregation))
            scalars = Scalars(self.stream.scope, {**scalars.wanted, **aggregation.inputs})
        return replace(
            self,
            windows=(*self.windows, (label, window)),
            bound=(*self.bound, (label, bound)),
            scalars=scalars,
            own=own,
        )

    @property
    def _plain(self) -> bool:
        """Whether results are aggregates of windows, and no relations or rows."""
        return all(isinstance(step, Having | OrderStep | SelectStep) for step in self.steps)

    def computing(self, aggregation: Aggregation) -> QueryPlan:
        """The same windows, of which this is computed."""
        scalars = Scalars(self.stream.scope, {**self.scalars.wanted, **aggregation.inputs})
        return replace(self, aggregation=aggregation, scalars=scalars)

    def then(self, step: Step) -> QueryPlan:
        """The same query with one more step."""
        return replace(self, steps=(*self.steps, step))

    def operator_spec(self, *, store: str = "auto", keep_late: int | None = None) -> OperatorSpec:
        """What `slicing` builds an operator from."""
        stream = self.stream
        plain = self._plain
        return OperatorSpec(
            schema=stream.schema,
            time=stream.time,
            domain=stream.domain,
            aggs=self.aggregation.aggs if self.early is None else (*self.aggregation.aggs, _ROWS),
            windows=self.windows,
            in_ticks=self.bound,
            expressions=self.scalars,
            read=stream.read,
            reads_as_is=not stream.where,
            keys=stream.keys,
            watermark=stream.watermark,
            lateness=stream.lateness,
            emit_empty=self.emit_empty,
            early=self.early,
            keep_late=keep_late,
            store=store,
            finalize=None if self.aggregation.direct and not self.steps else self._finish,
            rows_can_wait=self._rows_can_wait(),
            identity=self.identity,
            told_apart=partial(told_apart, self, "latest()"),
            void=self._void,
            outputs=self.outputs,
            shared=self._shared if plain else None,
            own={label: self._outputs_of(own) for label, own in self.own},
            outputs_for=self._outputs_for if plain else None,
            steps=partial(apply_steps, self.steps) if self.steps else None,
            label=self.steps[-1].after.called("window") if self.steps else "window",
            selects=not plain or any(isinstance(step, SelectStep) for step in self.steps),
        )

    @property
    def given_again(self) -> bool:
        """Whether a result may be given again, or withdrawn."""
        return self.stream.lateness is not None or self.early is not None

    @property
    def _void(self) -> str | None:
        """What the column that says whether a result is withdrawn is called after all steps, if it is there."""
        given = "void" if self.given_again else None
        return self.steps[-1].after.called("void") if self.steps else given

    def _rows_can_wait(self) -> bool:
        """Whether nothing can be wrong with a row that is not seen when it is read; outputs of single windows aside."""
        if not self._shared.rows_can_wait or any(bound.may_fail for _, bound in self.bound):
            return False
        others = [e for condition in self.stream.where for e in condition.scalars.wanted.values()]
        others += [e for text, e in self.scalars.wanted.items() if text not in self.aggregation.inputs]
        return never_fail(others, self.stream.schema)

    def _finish(self, table: pa.Table) -> pa.Table:
        """Aggregates to outputs, then the steps."""
        return apply_steps(self.steps, table if self.aggregation.direct else self.aggregation.finish(table))

    @property
    def identity(self) -> Mapping[str, object]:
        """Everything that must be the same for a snapshot to be of this query, apart from its windows.

        Steps are not in it: they hold no state, so a snapshot can go on under others.
        """
        stream = self.stream
        return {
            "columns": [f"{f.name} {f.type}" for f in stream.schema],
            "time": f"{stream.time} ({stream.domain.unit}{', integer' if stream.domain.integer else ''})",
            "keys": list(stream.keys),
            "watermark": stream.watermark,
            "lateness": stream.lateness,
            "where": [e.text for e in stream.where],
            "aggregates": dict(self.aggregation.computed),
            "emit_empty": self.emit_empty,
            **({} if self.early is None else {"early": asdict(self.early)}),
        }


def plan_query(
    stream: StreamPlan,
    windows: Mapping[str, Window],
    outputs: Mapping[str, str | Aggregate],
    *,
    emit_empty: bool = False,
) -> QueryPlan:
    """Resolve a query; raises QueryError naming the argument for anything that can't be."""
    if windows:
        if not outputs:
            raise QueryError("agg() needs at least one aggregate, for instance n='count(*)'")
        check_names(outputs, stream.keys, "agg")
    plan = plan_windows(stream, windows, emit_empty=emit_empty)
    return plan.computing(compile_aggregates(outputs, stream.scope))


def plan_windows(stream: StreamPlan, windows: Mapping[str, Window], *, emit_empty: bool = False) -> QueryPlan:
    """Windows of which nothing is computed yet."""
    if not windows:
        raise QueryError("window() needs at least one window, for instance pn.tumbling('1 min')")
    bound = []
    nothing = scalars = Scalars(stream.scope, {})
    for label, window in windows.items():
        found, scalars = bound_window(stream, label, window, scalars)
        bound.append((label, found))
    aggregation = Aggregation((), {}, {}, nothing)
    return QueryPlan(stream, tuple(windows.items()), tuple(bound), aggregation, scalars, emit_empty)


def bound_window(stream: StreamPlan, label: str, window: Window, scalars: Scalars) -> tuple[Bound, Scalars]:
    """A window in ticks of the stream, and the expressions with those that it reads."""
    found = bind_window(label, window, stream.domain, stream.lateness)
    with said_of_window(label):
        scalars = scalars.including(found.columns)
    for column in (m.column for m in found.measures if m.column is not None):
        measure_dtype(label, column, scalars.types[column])
    return found, scalars


def early_plan(plan: QueryPlan, every: Size, *, clock: bool = False) -> QueryPlan:
    """The query with results of windows that have not closed, too."""
    if plan.early is not None:
        raise QueryError("early(): the query gives early results already; say it once")
    if plan.steps:
        raise QueryError("early() comes right after agg(), before where, select and order_by")
    for label, bound in plan.bound:
        if not order_free(bound):
            raise QueryError(f"window {label!r}: {NOT_EARLY}")
    if FINAL in (*plan.outputs, *plan.stream.keys):
        raise QueryError(f"early(): {FINAL!r} is the column that says whether a window has closed; choose another name")
    if every == BATCH:
        if clock:
            raise QueryError(f"early({BATCH!r}): micro-batches come when Spark's trigger says so; leave clock out")
        return replace(plan, early=Early(by_batch=True))
    if clock:
        return replace(plan, early=Early(clock=silent_for(every, "early")))
    ticks = plan.stream.domain.ticks(every, argument="early", positive=True)
    return replace(plan, early=Early(every=ticks))


def check_names(names: Mapping[str, object], keys: Sequence[str], where: str) -> None:
    """Refuse output names that a result column has already."""
    for name in names:
        check_name(name, where)
        if name in RESERVED:
            raise QueryError(f"{where}: {name!r} is a column of every result; choose another name")
        if name in keys:
            raise QueryError(f"{where}: {name!r} is a key column already; choose another name")


def condition(scope: Scope, text: str) -> Condition:
    """A `where` condition: an expression that is true, false or null for each row."""
    expression = scope.scalar(text)
    scalars = Scalars(scope, {expression.text: expression})
    kind = scalars.types[expression.text]
    if not pa.types.is_boolean(kind):
        raise WrongType(f"where({text!r}) must be a condition, true or false for each row; it is ", kind)
    return Condition(expression.text, scalars)
