"""Groups in windows: trees over rows to trees over groups, where aggregates and group expressions become columns; and
the rows of windows by group, which a statement reads when there is a GROUP BY, or an aggregate without one.

Aggregates of the engine are those of DuckDB where both mean exactly the same: the table of aggregates has the form of
most, the rules below are for those whose form depends on types or options. What has neither is computed by the engine's
own aggregate from the rows of each group: DuckDB's are for speed only. Values that are null are skipped, NaN is one
value above all others, and order is that of the rows in the window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from panes.aggregates.base import Aggregate, BoundAggregate, Inputs
from panes.aggregates.columns import column_from_arrow
from panes.aggregates.moments import StdDev, Variance
from panes.aggregates.registry import entry_of
from panes.aggregates.rows import StringAgg
from panes.aggregates.segments import offsets_of
from panes.aggregates.totals import Avg, Count, Sum
from panes.aggregates.types import kind_of
from panes.errors import ExpressionError, QueryError, WrongType
from panes.plan.aggregate_calls import is_aggregate_call
from panes.plan.aggregation import AggregateCompiler
from panes.plan.compiled import column_id, prepare
from panes.plan.expressions import Expression, check_nodes, column_node, refusal
from panes.plan.hints import Hint
from panes.plan.names import Names
from panes.plan.tagged import GROUPS, WINDOWS, FirstStatement, Layout
from panes.plan.trees import bare, copied
from panes.plan.written import as_written, in_place_of


def has_aggregate(tree: exp.Expr) -> bool:
    return any(is_aggregate_call(node) for node in tree.walk())


class GroupCompiler(AggregateCompiler):
    """Finds the aggregates of a relation. Columns of groups are panes.g0, ..., of aggregates panes.a0, ..."""

    def __init__(self, names: Names, groups: Sequence[Expression]) -> None:
        super().__init__(names.scope)
        self._names_inside = names
        self.groups = tuple(groups)
        self._columns = {bare(e.tree): f"panes.g{i}" for i, e in enumerate(groups)}

    @property
    def found(self) -> list[tuple[Aggregate, tuple[str, ...]]]:
        """The distinct aggregates, and the texts of their arguments."""
        return list(self._found)

    @property
    def inputs(self) -> list[Expression]:
        """The distinct arguments of aggregates."""
        return list(self._inputs.values())

    @property
    def conditions(self) -> list[Expression]:
        """The distinct conditions in FILTER clauses."""
        return list(self._conditions.values())

    def split(self, tree: exp.Expr, text: str) -> exp.Expr:
        """The tree over columns of groups, aggregates and windows."""
        self._text = text
        root = exp.Paren(this=copied(tree))
        check_nodes(root, text, aggregates=True)
        self._replace(root)
        found: exp.Expr = root.this
        return found

    def _replace(self, node: exp.Expr) -> bool:
        for child in list(node.iter_expressions()):
            if is_aggregate_call(child):
                written = as_written(child)
                child.replace(in_place_of(self._call(child), child, written))
            elif (group := self._group_of(child)) is not None:
                child.replace(in_place_of(column_node(group), child, as_written(child)))
            elif isinstance(child, exp.Column):
                rule = f"a group has many rows; write for instance max({child.name})"
                what = f"{child.name} must be in group_by or inside an aggregate"
                raise refusal(what, child, self._text, Hint(rule, f": {rule}"))
            else:
                self._replace(child)
        return True

    def _group_of(self, node: exp.Expr) -> str | None:
        """The column that holds the value of `node` for a whole group, if there is one."""
        if isinstance(node, exp.Identifier | exp.Literal | exp.DataType) or has_aggregate(node):
            return None
        try:
            found = self._scope.resolve(copied(node), self._text)
        except ExpressionError:
            if isinstance(node, exp.Column):
                raise
            return None
        group = self._columns.get(bare(found.tree))
        if group is not None:
            return group
        return found.column if self._names_inside.of_window(found.column) else None

    def _reference(self, place: int) -> exp.Expr:
        return column_node(f"panes.a{place}")


@dataclass(frozen=True)
class Collected:
    """An aggregate that DuckDB does not have: it lists the rows of each group, and the aggregate is computed here."""

    bound: BoundAggregate
    types: tuple[pa.DataType, ...]

    def __call__(self, rows: pa.ChunkedArray) -> pa.Array:
        lists = pa.concat_arrays(rows.chunks) if rows.num_chunks else pa.array([], rows.type)
        offsets = offsets_of(lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False))
        flat = lists.flatten()
        columns = [flat.field(f"c{j}") for j in range(len(self.types))]
        columns = [column if column.type == type else column.cast(type) for column, type in zip(columns, self.types)]
        order = np.arange(len(flat))
        inputs = Inputs(tuple(column_from_arrow(column) for column in columns), order, order, len(flat))
        return self.bound.lower(self.bound.lift(inputs, offsets))


class GroupLayout(Layout):
    """One row per window and group. Columns of groups are panes.g0, ..., of aggregates panes.a0, ...

    `every_window`: without groups, windows that have no rows are there too, with what aggregates give for none.
    """

    def __init__(
        self,
        rows: Layout,
        groups: Sequence[Expression],
        aggregates: Sequence[tuple[Aggregate, tuple[str, ...]]],
        inputs: Sequence[Expression],
        windows: pa.Schema,
        *,
        bind: Callable[[int, Mapping[str, pa.DataType]], BoundAggregate],
        where: Expression | None,
        every_window: bool,
    ) -> None:
        prepare(rows.schema, [*inputs, *groups, *([] if where is None else [where])])
        values = {e.text: rows.compile(e) for e in inputs}
        keys = [rows.compile(e) for e in groups]
        for expression, (_, kind) in zip(groups, keys):
            if pa.types.is_nested(kind):
                raise WrongType(f"group_by: {as_written(expression.tree)!r} must be a single value; it is ", kind)
        names = {text: f"x{i}" for i, text in enumerate(values)}
        places = [f"i{s}" for s in range(len(rows.sides))]
        order = ", ".join(f"{place} NULLS LAST" for place in places)
        fields = [pa.field(f"panes.g{i}", kind) for i, (_, kind) in enumerate(keys)]
        found = []
        collected = {}
        for i, (aggregate, texts) in enumerate(aggregates):
            types = [values[t][1] for t in texts]
            bound = bind(i, {t: kind for t, (_, kind) in values.items()})
            fields.append(pa.field(f"panes.a{i}", bound.out_type))
            sql = aggregate_sql(aggregate, [names[t] for t in texts], types, order)
            if sql is None:
                if pa.types.is_duration(bound.out_type):
                    rule = "durations are not there in relations and joins, only in agg()"
                    raise QueryError(f"{aggregate!r} gives a duration; {rule}")
                collected[column_id(f"panes.a{i}")] = Collected(bound, tuple(types))
                row = ", ".join(f"c{j} := {names[t]}" for j, t in enumerate(texts))
                sql = f"list(struct_pack({row}) ORDER BY {order})"
            found.append(sql)
        super().__init__((pa.schema(fields),), windows)
        self.base = rows
        self.described = tuple(repr(aggregate) for aggregate, _ in aggregates)
        reading = [*groups, *inputs, *([] if where is None else [where])]
        self.reads = rows.reads | {name for e in reading for name in e.columns}
        source = rows.with_windows(rows.source) if any(n in self.reads for n in rows.windows.names) else rows.source
        shown = [f"{rows.number} AS w", *places, *(f"{sql} AS k{i}" for i, (sql, _) in enumerate(keys))]
        shown += [f"{sql} AS {names[text]}" for text, (sql, _) in values.items()]
        condition = "" if where is None else f" WHERE {rows.compile(where)[0]}"
        inner = f"SELECT {', '.join(shown)} FROM {source}{condition}"
        # pairs of a join come in no order of their own, so there is no first one
        first = "min(i0)" if len(places) == 1 else "0"
        columns = [*(f"k{i}" for i in range(len(keys))), *found]
        outputs = ", ".join(f"{sql} AS {column_id(f.name)}" for sql, f in zip(columns, fields, strict=True))
        by = ", ".join(["w", *(f"k{i}" for i in range(len(keys)))])
        text = f"SELECT w AS w0, {first} AS i0, {outputs} FROM ({inner}) GROUP BY {by}"
        if every_window and not keys:
            none = f"SELECT {outputs} FROM ({inner} LIMIT 0)"
            missing = f"SELECT p AS w0, 0 AS i0, n.* FROM {WINDOWS}, ({none}) AS n WHERE p NOT IN (SELECT w0 FROM g)"
            text = f"WITH g AS MATERIALIZED ({text}) SELECT * FROM g UNION ALL {missing}"
        self.source = f"({text}) AS {GROUPS}"
        if collected:
            self.first, self.source = FirstStatement(text, collected), GROUPS


def aggregate_sql(
    aggregate: Aggregate, arguments: Sequence[str], types: Sequence[pa.DataType], order: str
) -> str | None:
    """The SQL of an aggregate over columns named `arguments`; `order` is the order of rows, for ORDER BY.

    None: DuckDB has none that means the same.
    """
    if rule := RULES.get(type(aggregate)):
        return rule(aggregate, arguments, types, order)
    entry = entry_of(aggregate)
    if entry is None or entry.duckdb is None:
        return None
    return entry.duckdb.format(order=order, **dict(zip("xy", arguments, strict=False)))


Rule = Callable[[Any, Sequence[str], Sequence[pa.DataType], str], str | None]


def _count(aggregate: Count, args: Sequence[str], types: Sequence[pa.DataType], order: str) -> str:
    if len(args) > 1:
        there = " AND ".join(f"{arg} IS NOT NULL" for arg in args)
        return f"count(*) FILTER (WHERE {there})"
    return f"count({args[0] if args else '*'})"


def _sum(aggregate: Sum, args: Sequence[str], types: Sequence[pa.DataType], order: str) -> str:
    # DuckDB adds integers in 128 bits, so only a result beyond 64 is an error, whatever the order
    kind = kind_of(types[0])
    return f"CAST(sum({args[0]}) AS BIGINT)" if kind == "integer" else f"sum({args[0]})"


def _avg(aggregate: Avg, args: Sequence[str], types: Sequence[pa.DataType], order: str) -> str | None:
    return None if kind_of(types[0]) == "decimal" else f"avg({args[0]})"


def _moment(aggregate: Variance, args: Sequence[str], types: Sequence[pa.DataType], order: str) -> str:
    name = "stddev" if aggregate.root else "var"
    return f"{name}_{'pop' if aggregate.population else 'samp'}(CAST({args[0]} AS DOUBLE))"


def _string_agg(aggregate: StringAgg, args: Sequence[str], types: Sequence[pa.DataType], order: str) -> str:
    separator = aggregate.separator.replace("'", "''")
    return f"string_agg({args[0]}, '{separator}' ORDER BY {order})"


RULES: Mapping[type[Any], Rule] = {
    Count: _count,
    Sum: _sum,
    Avg: _avg,
    Variance: _moment,
    StdDev: _moment,
    StringAgg: _string_agg,
}
