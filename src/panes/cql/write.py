"""Streams and queries as CQL text: the way back of `compile`.

What is read becomes CREATE STREAM statements; the query is the last statement. Under the names in the text the
data is given anew: `pn.sql(query.to_cql(), streams={"data": frame})` gives the same results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlglot import exp

from panes.cql.printing import to_text
from panes.cql.tree import (
    Attribute,
    CreateStream,
    Duration,
    EmitEarly,
    Entry,
    Join,
    Merge,
    Model,
    Name,
    NamedSource,
    OrderItem,
    Select,
    Statement,
    StreamRef,
    SubqueryRef,
    Watermark,
    WindowClause,
)
from panes.cql.types import type_named, type_of
from panes.cql.write_relations import with_relation, written_out
from panes.cql.write_windows import clause_of
from panes.errors import QueryError
from panes.plan import graph
from panes.plan.aggregation import is_aggregate
from panes.plan.arrival import ARRIVAL_TIME
from panes.plan.expressions import Scope, column_node, parse
from panes.plan.query import QueryPlan, StreamPlan
from panes.plan.relation import ROWS, WindowRelation
from panes.plan.relation_query import WrittenRelation
from panes.plan.steps import Having, OrderStep, SelectStep
from panes.plan.trees import rebuilt
from panes.slicing.spec import MANUAL


def stream_text(plan: StreamPlan, node: graph.Node, name: str = "data") -> str:
    """A stream without windows as a CQL program."""
    writer = _Writer(name)
    return writer.program(writer.flow(plan, node, plan.columns))


def query_text(query: graph.WindowsNode, name: str = "data") -> str:
    """A query as a CQL program."""
    writer = _Writer(name)
    return writer.program(writer.query(query))


class _Writer:
    def __init__(self, name: str) -> None:
        self._name = name
        self._made: list[Statement] = []
        self._used: set[str] = set()
        #: streams that were created, by what they read
        self._known: dict[object, Name] = {}

    def program(self, last: Select) -> str:
        return ";\n".join(to_text(statement) for statement in (*self._made, last))

    # --- row by row ---

    def flow(self, plan: StreamPlan, node: graph.Node, columns: Any) -> Select:
        entries = tuple(_entry(name, plan.scope.named(name).tree) for name in columns)
        return Select(entries, self._reference(plan, node), _where(plan))

    def _reference(self, plan: StreamPlan, node: graph.Node) -> StreamRef | SubqueryRef:
        """What a stream reads, before its own conditions and columns."""
        match node:
            case graph.StampNode():
                return self._reference(plan, node.source)
            case graph.SelectNode():
                return self._derived(plan, self._rows(node))
            case graph.WindowsNode():
                rows_of_windows = any(isinstance(step, WindowRelation) for step in node.plan.steps)
                return self._derived(plan, self.query(node), apart=rows_of_windows)
            case graph.MergeNode():
                return self._merged(node)
            case _:
                return StreamRef(self._base(plan, node))

    def _rows(self, node: graph.SelectNode) -> Select:
        return self.flow(node.flow.stream, node.source, tuple(node.flow.scalars.wanted))

    def _derived(self, plan: StreamPlan, select: Select, *, apart: bool = False) -> StreamRef | SubqueryRef:
        """What a select gives: a subquery, or a stream of its own where it must be said how much disorder there is.

        `apart`: a stream of its own in any case, since windows move out of subqueries that give their rows.
        """
        name = Name(self._new("rows"))
        waits = _arrival(plan) is None and (plan.watermark or plan.lateness is not None)
        if not waits and not apart:
            return SubqueryRef(select, alias=name)
        lateness = None if plan.lateness is None else _ticks(plan, plan.lateness)
        watermark = _watermark(plan) if waits else None
        self._made.append(CreateStream(name, None, query=select, watermark=watermark, lateness=lateness))
        return StreamRef(name)

    def _merged(self, node: graph.MergeNode) -> StreamRef:
        sides = []
        for side in node.inputs:
            assert isinstance(side, graph.SelectNode)  # merge() makes no others; joins are written by _join
            name = Name(self._new("side"))
            self._made.append(CreateStream(name, None, query=self._rows(side)))
            sides.append(name)
        merged = Name(self._new("merged"))
        self._made.append(CreateStream(merged, None, query=Merge(tuple(sides))))
        return StreamRef(merged)

    def _base(self, plan: StreamPlan, node: graph.Node) -> Name:
        place = (node, _watermark(plan), plan.lateness, plan.silence)
        if place in self._known:
            return self._known[place]
        name = self._known[place] = Name(self._new(self._name))
        stamp = _arrival(plan)
        attributes = tuple(Attribute(Name(f.name), Name(type_of(f.type).name)) for f in node.schema if f.name != stamp)
        for attribute in attributes:
            if type_named(attribute.type.text) is None:
                raise QueryError(
                    f"to_cql(): the column {attribute.name} is {attribute.type}, which CQL has no type for"
                )
        self._made.append(
            CreateStream(
                name,
                attributes,
                NamedSource(name.text),
                watermark=_watermark(plan),
                lateness=None if plan.lateness is None else _ticks(plan, plan.lateness),
                idle=_span(plan.silence.idle),
                timeout=_span(plan.silence.timeout),
            )
        )
        return name

    def _new(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self._used:
            number += 1
            name = f"{wanted}_{number}"
        self._used.add(name)
        return name

    # --- windows ---

    def query(self, query: graph.WindowsNode) -> Select:
        plan, node = query.plan, query.source
        stream = plan.stream
        if plan.emit_empty:
            raise QueryError("to_cql(): emit_empty has no clause in CQL")
        said = next((s.said for s in plan.steps if isinstance(s, WindowRelation)), None)
        if said is not None and said.clauses:
            return _with_steps(plan, self._join(plan, node, said), _given(plan))
        reference = self._reference(stream, node)
        clauses, model = _clauses(plan, stream)
        trees = _given(plan) | {k: column_node(k) for k in stream.keys}
        if said is None:
            trees |= {n: _aggregate(text, stream.scope) for n, text in plan.aggregation.written.items()}
        select = Select((), replace(reference, windows=clauses), _where(stream))
        keys = tuple(column_node(k) for k in stream.keys)
        select = replace(select, group_by=keys, model=model, early=_early(plan))
        return written_out(_with_steps(plan, select, trees), stream.scope, in_aggregates=said is not None)

    def _join(self, plan: QueryPlan, node: graph.Node, said: WrittenRelation) -> Select:
        """Streams under their aliases, each with the window that they share."""
        if not isinstance(node, graph.MergeNode):
            raise QueryError("to_cql(): a join of streams that have no data yet can't be written; give them data")
        joined: Any = None
        model = None
        for place, (side, named) in enumerate(zip(node.inputs, said.names.sides, strict=True)):
            assert isinstance(side, graph.TagNode)
            stream = side.stream
            clauses, model = _clauses(plan, stream)
            reference = self._side(stream, side.source.source)
            reference = replace(reference, windows=clauses, alias=Name(str(named.alias)))
            if place:
                clause = said.clauses[place - 1]
                on = None if clause.on is None else said.names.read(clause.on)[0]
                kind: Any = clause.how
                joined = Join(joined, reference, kind, on, tuple(map(Name, clause.using)))
            else:
                joined = reference
        return Select((), joined, model=model)

    def _side(self, stream: StreamPlan, node: graph.Node) -> StreamRef | SubqueryRef:
        """One stream of a join: by itself, or as a subquery if it is filtered or has columns of its own."""
        if not stream.where and set(stream.scope.names) <= set(stream.schema.names):
            return self._reference(stream, node)
        columns = dict.fromkeys((*stream.columns, *(() if _arrival(stream) else (stream.time,))))
        return SubqueryRef(self.flow(stream, node, tuple(columns)))


def _clauses(plan: QueryPlan, stream: StreamPlan) -> tuple[tuple[WindowClause, ...], Model | None]:
    """The windows of a query on the time of a stream, and the model that they are evaluated by."""
    time = None if _arrival(stream) is not None else stream.time
    clauses, model = [], None
    for label, window in plan.windows:
        clause, model = clause_of(window, time, stream.domain)
        clauses.append(replace(clause, label=Name(label)))
    return tuple(clauses), model


def _given(plan: QueryPlan) -> dict[str, exp.Expr]:
    """Columns that results have anyway."""
    return {n: column_node(n) for n in plan.given.names if n != ROWS}


def _with_steps(plan: QueryPlan, select: Select, trees: dict[str, exp.Expr]) -> Select:
    shown = list(plan.given.names)
    for step in plan.steps:
        if isinstance(step, Having):
            made = _over(step.condition.tree, trees)
            select = replace(select, having=made if select.having is None else exp.and_(select.having, made))
        elif isinstance(step, OrderStep):
            items = [
                OrderItem(_over(e.tree, trees), d.startswith("DESC"), d.endswith("FIRST"))
                for e, d in step.keys
                if e.column not in ("window_end", "revision")
            ]
            # a relation is ordered once more, across keys, by columns of its own
            written = {_what(item) for item in items}
            more = [item for item in select.order_by if _what(item) not in written]
            select = replace(select, order_by=(*items, *more))
        elif isinstance(step, SelectStep):
            trees = {name: _over(e.tree, trees) for name, e in step.scalars.wanted.items()}
            shown = list(trees)
        elif isinstance(step, WindowRelation):
            select, entries = with_relation(select, step.said, plan.stream.keys)
            trees = {**trees, **entries}
            shown = list(step.after.names)
        else:
            raise QueryError(f"to_cql(): CQL has no words for {step}")
    return replace(select, entries=tuple(_entry(name, trees[name]) for name in shown))


def _what(item: OrderItem) -> str:
    return item.expression.unnest().sql()


def _over(tree: exp.Expr, trees: Mapping[str, exp.Expr]) -> exp.Expr:
    """An expression over results, with what computes them in their place."""

    def change(node: exp.Expr) -> exp.Expr | None:
        if not isinstance(node, exp.Column):
            return None
        found = trees[node.name]
        return found.copy() if isinstance(found, exp.Column | exp.Anonymous) else exp.Paren(this=found.copy())

    return rebuilt(tree, change)


def _aggregate(text: str, scope: Scope) -> exp.Expr:
    """An aggregate as it was written, with derived columns written out and options by position."""

    def change(node: exp.Expr) -> exp.Expr | None:
        in_call = isinstance(node.parent, exp.Anonymous) and is_aggregate(node.parent.name)
        if in_call and isinstance(node, exp.EQ) and node.this.name not in scope.names:
            return node.expression.copy()  # quantile(price, p=0.9)
        if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
            found = scope.resolve(node.copy(), text).tree.copy()
            return found if isinstance(found, exp.Column) else exp.Paren(this=found)
        return None

    return rebuilt(parse(text), change)


def _entry(name: str, tree: exp.Expr) -> Entry:
    written = _exact(tree)
    same = isinstance(tree, exp.Column) and tree.name == name
    return Entry(written, None if same else Name(name))


def _exact(tree: exp.Expr) -> exp.Expr:
    """Numbers with a point are exact in the Python API, and Doubles in CQL unless they are cast."""

    def change(node: exp.Expr) -> exp.Expr | None:
        if not isinstance(node, exp.Literal) or node.is_string or "." not in node.this or "e" in node.this.lower():
            return None
        if isinstance(node.parent, exp.Anonymous | exp.Cast):
            return node.copy()
        whole, _, fraction = node.this.partition(".")
        digits = max(len(whole.lstrip("0")) + len(fraction), 1)
        kind = exp.DataType.build(f"DECIMAL({digits}, {len(fraction)})", dialect="spark")
        return exp.TryCast(this=node.copy(), to=kind)

    return rebuilt(tree, change)


def _where(plan: StreamPlan) -> exp.Expr | None:
    conditions = [_exact(parse(condition.text)) for condition in plan.where]
    return exp.and_(*conditions) if conditions else None


def _arrival(plan: StreamPlan) -> str | None:
    """The column of arrival times, if that is what the stream runs on."""
    return ARRIVAL_TIME if plan.time == ARRIVAL_TIME else None


def _watermark(plan: StreamPlan) -> Watermark | None:
    if _arrival(plan) is not None:
        return None
    if plan.watermark == MANUAL:
        raise QueryError("to_cql(): watermark='manual' is moved by the program, which CQL can't say")
    return Watermark(_ticks(plan, int(plan.watermark or 0)), Name(plan.time))


def _span(micros: int | None) -> Duration | None:
    """A span of the clock, in the largest unit that it is a whole number of."""
    if micros is None:
        return None
    size, unit = next((size, unit) for size, unit in ((1_000_000, "sec"), (1000, "ms"), (1, "us")) if not micros % size)
    return Duration(micros // size, unit)


def _early(plan: QueryPlan) -> EmitEarly | None:
    early = plan.early
    if early is None:
        return None
    if early.clock is not None:
        seconds, rest = divmod(early.clock, 1_000_000)
        return EmitEarly(Duration(early.clock / 1_000_000 if rest else seconds, "sec"), clock=True)
    return EmitEarly(None if early.every is None else _ticks(plan.stream, early.every))


def _ticks(plan: StreamPlan, ticks: int) -> Duration:
    if plan.domain.integer:
        return Duration(ticks, "ms" if plan.domain.unit == "ms" else None)
    return Duration(ticks, {"s": "sec"}.get(plan.domain.unit, plan.domain.unit))
