"""Streams and queries as CQL text: the way back of `compile`.

What is read becomes CREATE STREAM statements; the query is the last statement. Under the names in the text the
data is given anew: `pn.sql(query.to_cql(), streams={"data": frame})` gives the same results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlglot import exp

from panes.cql.clauses import Watermark, clauses_of, clauses_of_query
from panes.cql.tree import (
    ColumnDefinition,
    CreateStream,
    Join,
    Merge,
    Model,
    Name,
    OrderItem,
    Select,
    SelectItem,
    SourceStream,
    Statement,
    StreamRef,
    SubqueryRef,
)
from panes.cql.types import type_named, type_of
from panes.cql.windows import clause_of
from panes.cql.windows.clause import WindowClause
from panes.errors import QueryError
from panes.plan import graph
from panes.plan.aggregate_calls import is_aggregate, is_aggregate_call
from panes.plan.arrival import ARRIVAL_TIME
from panes.plan.clauses import Reader, Tree, several
from panes.plan.expressions import Scope, column_node, parse
from panes.plan.names import AsWritten
from panes.plan.query import QueryPlan, StreamPlan
from panes.plan.relation import ROWS, WindowRelation
from panes.plan.relation_query import WrittenRelation
from panes.plan.steps import WINDOW_COLUMNS, Having, OrderStep, SelectStep
from panes.plan.trees import copied, rebuilt


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
        return ";\n".join(statement.cql() for statement in (*self._made, last))

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
        own = tuple(clause for clause in clauses_of(plan, _time(plan)) if not clause.of_sources)
        says = any(clause.length.number or not isinstance(clause, Watermark) for clause in own)
        if not apart and not (says and _time(plan) is not None):
            return SubqueryRef(select, alias=name)
        self._made.append(CreateStream(name, None, query=select, clauses=own if says else ()))
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
        clauses = clauses_of(plan, _time(plan))
        place = (node, clauses, plan.silence)
        if place in self._known:
            return self._known[place]
        name = self._known[place] = Name(self._new(self._name))
        own = [field for field in node.schema if field.name != ARRIVAL_TIME or plan.time != ARRIVAL_TIME]
        attributes = tuple(ColumnDefinition(Name(field.name), Name(type_of(field.type).name)) for field in own)
        for attribute in attributes:
            if type_named(attribute.type.text) is None:
                raise QueryError(
                    f"to_cql(): the column {attribute.name} is {attribute.type}, which CQL has no type for"
                )
        self._made.append(CreateStream(name, attributes, SourceStream(name.text), clauses=clauses))
        return name

    def _new(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self._used:
            number += 1
            name = f"{wanted}_{number}"
        self._used.add(name)
        return name

    def query(self, query: graph.WindowsNode) -> Select:
        plan, node = query.plan, query.source
        stream = plan.stream
        if plan.emit_empty:
            raise QueryError("to_cql(): emit_empty has no clause in CQL")
        if plan.own:
            raise QueryError(
                f"to_cql(): the window {plan.own[0][0]!r} has aggregates of its own, and all windows of a SELECT give "
                "the same in CQL; write it as a query of its own"
            )
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
        select = replace(select, group_by=keys, clauses=clauses_of_query(plan, model))
        return _written_out(_with_steps(plan, select, trees), stream.scope, in_aggregates=said is not None)

    def _join(self, plan: QueryPlan, node: graph.Node, said: WrittenRelation) -> Select:
        """Streams under their aliases, each with the window that they share."""
        if not isinstance(node, graph.MergeNode):
            raise QueryError("to_cql(): a join of streams that have no data yet can't be written; give them data")
        joined: Any = None
        model = None
        names = AsWritten.of(said.names)
        for place, (side, named) in enumerate(zip(node.inputs, said.names.sides, strict=True)):
            assert isinstance(side, graph.TagNode)
            stream = side.stream
            clauses, model = _clauses(plan, stream)
            reference = self._side(stream, side.source.source)
            reference = replace(reference, windows=clauses, alias=Name(str(named.alias)))
            if place:
                clause = said.clauses[place - 1]
                on = None if clause.on is None else names.tree(clause.on)[0]
                kind: Any = clause.how
                joined = Join(joined, reference, kind, on, tuple(map(Name, clause.using)))
            else:
                joined = reference
        return Select((), joined, clauses=clauses_of_query(plan, model))

    def _side(self, stream: StreamPlan, node: graph.Node) -> StreamRef | SubqueryRef:
        """One stream of a join: by itself, or as a subquery if it is filtered or has columns of its own."""
        if not stream.where and set(stream.scope.names) <= set(stream.schema.names):
            return self._reference(stream, node)
        columns = dict.fromkeys((*stream.columns, *(() if _time(stream) is None else (stream.time,))))
        return SubqueryRef(self.flow(stream, node, tuple(columns)))


def _clauses(plan: QueryPlan, stream: StreamPlan) -> tuple[tuple[WindowClause, ...], Model | None]:
    """The windows of a query on the time of a stream, and the model that they are evaluated by."""
    clauses, model = [], None
    for label, window in plan.windows:
        clause, model = clause_of(window, _time(stream), stream.domain)
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
            select, entries = _with_relation(select, step.said, plan.stream.keys)
            trees = {**trees, **entries}
            shown = list(step.after.names)
        else:
            raise QueryError(f"to_cql(): CQL has no words for {step}")
    return replace(select, entries=tuple(_entry(name, trees[name]) for name in shown))


def _with_relation(select: Select, said: WrittenRelation, keys: tuple[str, ...]) -> tuple[Select, dict[str, exp.Expr]]:
    """A select over windows with the clauses of a relation; and what its columns are."""
    asked, joined = said.asked, bool(said.clauses)
    names = AsWritten.of(said.names)
    reader = Reader(names)
    entries = {entry.name: entry.tree for entry in reader.entries(asked.entries)}
    groups = tuple(reader.condition(item).tree for item in several(asked.group_by))
    if joined and keys:
        raise QueryError("to_cql(): CQL has no word for joins key by key; join by the key with using=")
    if not joined and asked.where is not None:
        raise QueryError(
            "to_cql(): where= of a relation chooses among rows of a window; WHERE in CQL comes before windows"
        )
    if joined:
        where = None if asked.where is None else names.tree(asked.where)[0]
        select = replace(select, where=where, group_by=groups)
    else:
        select = replace(select, source=_partitioned(select.source, groups, keys))
    having = None if asked.having is None else reader.condition(asked.having).tree
    order = tuple(_item(*reader.order(item)) for item in several(asked.order_by))
    return replace(select, having=having, order_by=order, limit=asked.limit, distinct=asked.distinct), entries


def _item(what: Tree, direction: str) -> OrderItem:
    return OrderItem(what.tree, direction.startswith("DESC"), direction.endswith("FIRST"))


def _partitioned(source: Any, groups: tuple[exp.Expr, ...], keys: tuple[str, ...]) -> Any:
    """Groups inside of windows, which CQL writes into their clauses."""
    parts = [tree.unnest() for tree in groups]
    odd = next((tree for tree in parts if not isinstance(tree, exp.Column)), None)
    if odd is not None:
        raise QueryError(f"to_cql(): PARTITIONED BY takes columns, and rows are grouped by {odd.sql()}")
    inner = tuple(Name(tree.name) for tree in parts if tree.name not in keys)
    windows: tuple[WindowClause, ...] = tuple(replace(w, partitioned=inner) for w in source.windows)
    return replace(source, windows=windows)


def _written_out(select: Select, scope: Scope, *, in_aggregates: bool) -> Select:
    """The same without columns that only the stream's own steps have made: what computes them takes their place.

    `in_aggregates`: in these, too; otherwise they are written so already.
    """
    source: Any = select.source
    known = source.alias or source.name

    def of_row(node: exp.Expr) -> exp.Expr | None:
        if isinstance(node, exp.Column) and node.name.lower() in WINDOW_COLUMNS:
            return exp.column(exp.to_identifier(node.name, quoted=True), table=exp.to_identifier(str(known)))
        return None

    def change(node: exp.Expr) -> exp.Expr | None:
        if not in_aggregates and is_aggregate_call(node):
            return copied(node)
        if not isinstance(node, exp.Column) or node.table or node.name not in scope.derived:
            return None
        made = rebuilt(scope.derived[node.name].tree, of_row)
        return made if isinstance(made, exp.Column) else exp.Paren(this=made)

    def part(name: Name) -> Name:
        made = scope.derived[name.text].tree if name.text in scope.derived else column_node(name.text)
        if not isinstance(made, exp.Column):
            raise QueryError(f"to_cql(): PARTITIONED BY takes columns, and rows are grouped by {made.sql()}")
        return Name(made.name)

    if not scope.derived:
        return select
    windows = tuple(replace(w, partitioned=tuple(map(part, w.partitioned))) for w in source.windows)
    return replace(
        select,
        entries=tuple(_renamed(e, rebuilt(e.expression, change)) for e in select.entries),
        source=replace(source, windows=windows),
        group_by=tuple(rebuilt(tree, change) for tree in select.group_by),
        having=None if select.having is None else rebuilt(select.having, change),
        order_by=tuple(replace(item, expression=rebuilt(item.expression, change)) for item in select.order_by),
    )


def _renamed(entry: SelectItem, made: exp.Expr) -> SelectItem:
    """An entry that keeps the name of its column."""
    old = entry.expression
    name = entry.alias or (Name(old.name) if isinstance(old, exp.Column) and made != old else None)
    return SelectItem(made, name)


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


def _entry(name: str, tree: exp.Expr) -> SelectItem:
    written = _exact(tree)
    same = isinstance(tree, exp.Column) and tree.name == name
    return SelectItem(written, None if same else Name(name))


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


def _time(plan: StreamPlan) -> str | None:
    """The column that is the event time; None: the stream runs by arrival."""
    return None if plan.time == ARRIVAL_TIME else plan.time
