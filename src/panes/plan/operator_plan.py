"""Operators as users write them, to a checked plan: what each port reads, how to start one, what it gives.

Names, types and units are resolved here; the windows, parameters and keys are checked against the operator's model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from panes.aggregates.base import Aggregate
from panes.errors import ExpressionError, QueryError
from panes.operators.aggregate import AGGREGATE, AggregateSpec, aggregate_machine
from panes.operators.clauses import Clause, in_ticks
from panes.operators.dedupe import DEDUPE, DedupeSpec, dedupe_machine
from panes.operators.machine import Machine
from panes.operators.models import Model, Use, check_use
from panes.operators.punctuate import PUNCTUATE, PunctuateMachine, PunctuateSpec
from panes.operators.sort import SORT, SortSpec, sort_machine
from panes.plan.aggregation import compile_aggregates
from panes.plan.expressions import Expression, Scope, parse_order
from panes.plan.hints import did_you_mean
from panes.plan.operator_ports import RESULT_TIME, PortPlan
from panes.plan.query import StreamPlan
from panes.plan.query import condition as checked_condition
from panes.plan.scalars import Scalars
from panes.plan.silence import BY_ROWS, followed, inherited, merged
from panes.plan.streams import plan_stream
from panes.units import TimeDomain

_WHEN = "panes.when"


@dataclass(frozen=True)
class PortStream:
    """A stream that an operator gives: its rows, and the time and key that it has as a stream.

    `stamped`: whether the rows get a column that says when they were given.
    """

    rows: pa.Schema
    stream: StreamPlan
    stamped: bool = True


@dataclass(frozen=True)
class OperatorPlan:
    """An operator in a query, resolved."""

    use: Use
    ports: tuple[PortPlan, ...]
    start: Callable[[str], Machine]  # by mechanism, see `panes.operators.machine`
    outputs: tuple[PortStream, ...]
    text: str
    identity: Mapping[str, Any]
    #: the port whose rows come first among those of the same time; None: in the order of the ports
    first: int | None = None


def plan_aggregate(
    stream: StreamPlan,
    clause: Clause,
    outputs: Mapping[str, str | Aggregate],
    *,
    group_by: str | Sequence[str] | Mapping[str, str],
    partial: bool,
) -> OperatorPlan:
    parameters = {"outputs": outputs, "group_by": group_by, "partial": partial}
    use = checked_use(AGGREGATE, {"in": stream}, {"in": clause}, parameters)
    groups = _named_expressions(stream.scope, group_by, "group_by")
    aggregation = compile_aggregates(outputs, stream.scope)
    inputs = {text: f"panes.in.{i}" for i, text in enumerate(aggregation.inputs)}
    wanted = {name: stream.scope.named(name) for name in (*stream.keys, *clause.attributes)}
    wanted |= {f"panes.group.{name}": e for name, e in groups.items()}
    wanted |= {inputs[text]: e for text, e in aggregation.inputs.items()}
    port = PortPlan.of(stream, wanted)
    fields = [pa.field(name, port.rows.field(name).type) for name in stream.keys]
    fields += [pa.field(name, port.rows.field(f"panes.group.{name}").type) for name in groups]
    fields += aggregation.fields
    schema = _distinct_names(fields, "aggregate")
    spec = AggregateSpec(
        rows=port.rows,
        clause=_ticks(clause, stream, port, "Aggregate"),
        keys=stream.keys,
        groups=tuple(f"panes.group.{name}" for name in groups),
        aggs=tuple(replace(a, inputs=tuple(inputs[i] for i in a.inputs)) for a in aggregation.aggs),
        finish=_unchanged if aggregation.direct else aggregation.finish,
        schema=schema,
        partial=partial,
    )
    shown = ", ".join(f"{name} = {text}" for name, text in aggregation.written.items())
    by = f" by {', '.join(groups)}" if groups else ""
    return OperatorPlan(
        use,
        (port,),
        lambda mechanism: aggregate_machine(spec, mechanism),
        (stamped_output(schema, [port], keys=()),),
        f"Aggregate of {clause}: {shown}{by}",
        identity_of(use, [stream], {**aggregation.computed, "by": sorted(e.text for e in groups.values())}),
    )


def _unchanged(table: pa.Table) -> pa.Table:
    return table


def plan_sort(stream: StreamPlan, clause: Clause, by: Sequence[str]) -> OperatorPlan:
    use = checked_use(SORT, {"in": stream}, {"in": clause}, {"by": tuple(by)})
    ordered = [_order(stream.scope, text) for text in by]
    in_time = ordered[0][0].column == stream.time and ordered[0][1].startswith("ASC")
    own = own_columns(stream, stamped=not in_time)
    wanted = {**own, **{f"panes.by.{i}": e for i, (e, _) in enumerate(ordered)}}
    attributes = (*clause.attributes, *stream.keys)
    port = PortPlan.of(stream, {**wanted, **{a: stream.scope.named(a) for a in attributes}})
    schema = pa.schema([port.rows.field(name) for name in own])
    keys = tuple(
        (f"panes.by.{i}", direction.startswith("DESC"), direction.endswith("FIRST"))
        for i, (_, direction) in enumerate(ordered)
    )
    spec = SortSpec(port.rows, _ticks(clause, stream, port, "Sort"), stream.keys, keys, schema)
    if in_time:
        output = own_output(schema, stream, in_order=True)
    else:
        output = stamped_output(schema, [port], keys=stream.keys, shown=stream.columns)
    text = f"Sort of {clause} by {', '.join(by)}"
    return OperatorPlan(
        use,
        (port,),
        lambda mechanism: sort_machine(spec, mechanism),
        (output,),
        text,
        identity_of(use, [stream], {"by": list(by)}),
    )


def plan_dedupe(stream: StreamPlan, clause: Clause, on: Sequence[str]) -> OperatorPlan:
    use = checked_use(DEDUPE, {"in": stream}, {"in": clause}, {"on": tuple(on)})
    wanted = {**own_columns(stream), **{f"panes.on.{i}": _expression(stream.scope, t, "on") for i, t in enumerate(on)}}
    port = PortPlan.of(stream, {**wanted, **{a: stream.scope.named(a) for a in clause.attributes}})
    schema = pa.schema([port.rows.field(name) for name in own_columns(stream)])
    columns = tuple(f"panes.on.{i}" for i in range(len(on)))
    spec = DedupeSpec(port.rows, _ticks(clause, stream, port, "Dedupe"), stream.keys, columns, schema)
    return OperatorPlan(
        use,
        (port,),
        lambda mechanism: dedupe_machine(spec, mechanism),
        (own_output(schema, stream),),
        f"Dedupe of {clause} on {', '.join(on)}",
        identity_of(use, [stream], {"on": list(on)}),
    )


def plan_punctuate(stream: StreamPlan, when: str, before: bool) -> OperatorPlan:
    use = checked_use(PUNCTUATE, {"in": stream}, {}, {"when": when, "before": before})
    condition = checked_condition(stream.scope, when).scalars.wanted
    (expression,) = condition.values()
    port = PortPlan.of(stream, {**own_columns(stream), _WHEN: expression})
    schema = pa.schema([port.rows.field(name) for name in own_columns(stream)])
    spec = PunctuateSpec(port.rows, _WHEN, before, schema)
    return OperatorPlan(
        use,
        (port,),
        lambda mechanism: PunctuateMachine(spec),
        (own_output(schema, stream),),
        f"punctuations {'before' if before else 'after'} rows with {when}",
        identity_of(use, [stream], {"when": when, "before": before}),
    )


def checked_use(
    model: Model, streams: Mapping[str, StreamPlan], windows: Mapping[str, Clause], parameters: Mapping[str, object]
) -> Use:
    """The use of an operator on streams, checked against its model."""
    keys = {port: tuple(stream.schema.field(k).type for k in stream.keys) for port, stream in streams.items()}
    use = Use(model, dict(windows), dict(parameters), keys)
    check_use(use)
    for port, clause in windows.items():
        for attribute in clause.attributes:
            names = streams[port].scope.names
            if attribute not in names:
                hint = did_you_mean(attribute, names)
                raise QueryError(f"{model.name}, input {port!r}, {clause}: there is no column {attribute!r}{hint}")
    return use


def _ticks(clause: Clause, stream: StreamPlan, port: PortPlan, where: str) -> Clause:
    return in_ticks(clause, stream.domain, lambda name: port.rows.field(name).type, where)


def own_columns(stream: StreamPlan, *, stamped: bool = False) -> dict[str, Expression]:
    """The columns of a stream that goes on with its own rows: those shown, its time and keys.

    `stamped`: rows get a new `result_time`, so that one they have is left out unless it is shown.
    """
    names = dict.fromkeys((*stream.columns, stream.time, *stream.keys))
    hidden = stamped and RESULT_TIME not in stream.columns
    return {name: stream.scope.named(name) for name in names if not (hidden and name == RESULT_TIME)}


def own_output(schema: pa.Schema, stream: StreamPlan, *, in_order: bool = False) -> PortStream:
    """Rows of the stream itself, with its time and keys."""
    # rows that wait to be sorted come later than the clock would let them
    silence = BY_ROWS if in_order else inherited(stream.silence)
    plan = replace(stream, scope=Scope(schema), where=(), shown=stream.columns, silence=silence)
    return PortStream(schema, replace(plan, watermark=None) if in_order else plan, stamped=False)


def stamped_output(
    rows: pa.Schema,
    ports: Sequence[PortPlan],
    *,
    keys: Sequence[str],
    shown: Sequence[str] | None = None,
    domain: TimeDomain | None = None,
) -> PortStream:
    """Rows in the order in which they are given, with the time at which they are."""
    if RESULT_TIME in rows.names:
        raise QueryError(f"{RESULT_TIME!r} is the time at which results are given; choose another name for the column")
    domain = domain or ports[0].stream.domain
    schema = pa.schema([*rows, pa.field(RESULT_TIME, ports[0].time_type)])
    plan = plan_stream(schema, RESULT_TIME, tuple(keys), None, None, domain.unit if domain.integer else None)
    silence = followed(merged(port.stream.silence for port in ports))
    return PortStream(rows, replace(plan, shown=tuple(rows.names if shown is None else shown), silence=silence))


def identity_of(use: Use, streams: Sequence[StreamPlan], computed: Mapping[str, object]) -> dict[str, object]:
    """What must be the same for a snapshot to be of this operator."""
    return {
        "operator": use.model.name,
        "windows": {port: str(clause) for port, clause in use.windows.items()},
        "columns": [[f"{f.name} {f.type}" for f in s.schema] for s in streams],
        "time": [f"{s.time} ({s.domain.unit})" for s in streams],
        "keys": [list(s.keys) for s in streams],
        "where": [[c.text for c in s.where] for s in streams],
        "computed": dict(computed),
    }


def _named_expressions(
    scope: Scope, given: str | Sequence[str] | Mapping[str, str], argument: str
) -> dict[str, Expression]:
    """Columns or SQL with names: of their own in a mapping, else the text itself."""
    if isinstance(given, Mapping):
        items = list(given.items())
    else:
        items = [(text, text) for text in ([given] if isinstance(given, str) else given)]
    return {name: _expression(scope, text, argument) for name, text in items}


def _expression(scope: Scope, text: str, argument: str) -> Expression:
    try:
        found = scope.scalar(text)
        Scalars(scope, {found.text: found})
    except ExpressionError as error:
        raise ExpressionError(f"{argument}={text!r}: {error}") from error
    return found


def _order(scope: Scope, text: str) -> tuple[Expression, str]:
    if isinstance(text, str) and text in scope.names:
        return scope.named(text), "ASC NULLS FIRST"
    tree, direction = parse_order(text)
    try:
        found = scope.resolve(tree, text)
    except ExpressionError as error:
        raise ExpressionError(f"by={text!r}: {error}") from error
    if isinstance(found.tree, exp.Literal):
        raise QueryError(f"by={text!r} is the same for every row; give the name of a column")
    return found, direction


def _distinct_names(fields: Sequence[pa.Field], where: str) -> pa.Schema:
    names = [f.name for f in fields]
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice is not None:
        raise QueryError(f"{where}: two columns of the result would be named {twice!r}; choose another name")
    return pa.schema(list(fields))
