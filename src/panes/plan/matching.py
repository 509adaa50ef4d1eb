"""`stream.match(...)`, resolved: the Join operator's match predicate, taken apart, and what it gives.

The predicate is SQL over both rows, a Python function of two rows, or columns that must be equal. Of SQL, each part
`expression of left = expression of right` that all others are joined to by AND becomes an index; what is left is
computed for the pairs that the index leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from panes.errors import DataError, ExpressionError, QueryError, calling
from panes.operators.clauses import Clause, in_ticks
from panes.operators.join import JOIN, SIDES, JoinMachine, JoinSpec, SideSpec, looked_up
from panes.plan.clauses import Reader
from panes.plan.expressions import Expression, Scope, column_node
from panes.plan.hints import did_you_mean
from panes.plan.names import Given, JoinSide, Names
from panes.plan.operator_plan import OperatorPlan, PortStream, checked_use, identity_of, own_columns, stamped_output
from panes.plan.operator_ports import PortPlan
from panes.plan.query import StreamPlan
from panes.plan.scalars import Scalars
from panes.plan.together import common_time
from panes.plan.written import as_written
from panes.units import TimeDomain

Predicate = str | exp.Expr | Callable[[dict[str, Any], dict[str, Any]], Any]


@dataclass(frozen=True)
class MatchClauses:
    """What is asked of a match, as it was given."""

    on: Predicate | None
    using: tuple[str, ...]
    how: str
    outer: str
    entries: Given | Sequence[Given] | Mapping[str, Given]
    names: tuple[str, str]
    ties: str = "arrival"


@dataclass(frozen=True)
class _Parts:
    """A predicate: equal expressions by side, and what is left of it."""

    equal: tuple[tuple[Expression, ...], tuple[Expression, ...]]
    rest: Expression | None
    function: Callable[[dict[str, Any], dict[str, Any]], Any] | None

    def text(self, predicate: Predicate | None) -> str:
        equal = [f"{left.text} = {right.text}" for left, right in zip(*self.equal)]
        rest = [] if self.rest is None else [self.rest.text]
        called = [getattr(predicate, "__name__", "a function")] if self.function is not None else []
        return " and ".join((*(f"{e} (indexed)" for e in equal), *rest, *called)) or "all pairs"


def plan_match(streams: Sequence[StreamPlan], windows: Sequence[Clause], asked: MatchClauses) -> OperatorPlan:
    parameters = {"match": asked.on, "how": asked.how, "outer": asked.outer, "ties": asked.ties}
    use = checked_use(JOIN, dict(zip(SIDES, streams)), dict(zip(SIDES, windows)), parameters)
    domain, time_type = common_time(streams)
    sides = tuple(JoinSide.of(stream, name) for stream, name in zip(streams, asked.names))
    names = Names(sides, pa.schema([]))
    parts = _parts(names, asked)
    names = _merged(names, streams, asked)
    entries = _entries(names, asked)
    read = {name for e in (*entries.values(), *([parts.rest] if parts.rest else [])) for name in e.columns}
    ports = [_port(i, names, streams, windows[i], parts, read, time_type) for i in range(2)]
    specs = [_side(i, names, streams[i], windows[i], ports[i], parts, domain) for i in range(2)]
    both = _Both(names, ports, entries, parts)
    schema = both.schema
    spec = JoinSpec((specs[0], specs[1]), schema, both.project, both.matches, asked.how, asked.outer)
    outputs = [stamped_output(schema, ports, keys=(), domain=domain)]
    outputs += [_alone(stream, port) for stream, port in zip(streams, ports)]
    text = f"Join, {asked.how}, of {windows[0]} and {windows[1]} where {parts.text(asked.on)}"
    computed = {"match": parts.text(asked.on), "how": asked.how, "outer": asked.outer}
    first = None
    if asked.ties != "arrival":
        kept = looked_up(use.windows)
        assert kept is not None
        first = kept if asked.ties == "include" else 1 - kept
        text += f", ties {asked.ties}d"
        computed["ties"] = asked.ties
    computed |= {name: e.text for name, e in entries.items()}
    return OperatorPlan(
        use,
        tuple(ports),
        lambda mechanism: JoinMachine(spec, mechanism),
        tuple(outputs),
        text,
        identity_of(use, streams, computed),
        first,
    )


def _parts(names: Names, asked: MatchClauses) -> _Parts:
    equal: list[tuple[Expression, Expression]] = []
    rest: list[exp.Expr] = []
    for name in asked.using:
        pair = [_using(names, side, name) for side in range(2)]
        comparable = _comparable(names, *pair)
        if comparable is None:
            kinds = " and ".join(str(_type(names, e)) for e in pair)
            raise QueryError(f"match: using={name!r} can't be equal, it is {kinds}")
        equal.append(comparable)
    if callable(asked.on) and not isinstance(asked.on, exp.Expr):
        return _Parts(_sides(equal), None, asked.on)
    if asked.on is not None:
        try:
            condition = names.resolve(asked.on)
        except ExpressionError as error:
            raise ExpressionError(f"match, on: {error}") from error
        _check_condition(names, condition)
        for part in _conjuncts(condition.tree):
            found = _equality(names, part)
            if found is None:
                rest.append(part)
            else:
                equal.append(found)
    left = None if not rest else Expression.of(exp.and_(*(e.copy() for e in rest)) if len(rest) > 1 else rest[0].copy())
    return _Parts(_sides(equal), left, None)


def _sides(equal: list[tuple[Expression, Expression]]) -> tuple[tuple[Expression, ...], tuple[Expression, ...]]:
    return tuple(left for left, _ in equal), tuple(right for _, right in equal)


def _using(names: Names, side: int, name: str) -> Expression:
    known = names.sides[side].schema.names
    if name not in known:
        alias = names.sides[side].alias
        raise QueryError(f"match, using: {alias} has no column {name!r}{did_you_mean(str(name), known)}")
    return names.scope.named(names.inner(side, name))


def _conjuncts(tree: exp.Expr) -> list[exp.Expr]:
    tree = tree.unnest()
    if isinstance(tree, exp.And):
        return [*_conjuncts(tree.this), *_conjuncts(tree.expression)]
    return [tree]


def _equality(names: Names, part: exp.Expr) -> tuple[Expression, Expression] | None:
    """The expressions of left and right that a part says are equal, if it does."""
    if not isinstance(part, exp.EQ):
        return None
    one, other = Expression.of(part.this.copy()), Expression.of(part.expression.copy())
    read = [_reads(names, e) for e in (one, other)]
    if read == [{1}, {0}]:
        one, other = other, one
    elif read != [{0}, {1}]:
        return None
    return _comparable(names, one, other)


def _reads(names: Names, expression: Expression) -> set[int]:
    """The sides whose columns an expression looks at."""
    return {side for side in range(2) if set(expression.columns) & set(names.side_schemas[side].names)}


def _type(names: Names, expression: Expression) -> pa.DataType:
    return Scalars(names.scope, {"e": expression}).types["e"]


def _comparable(names: Names, left: Expression, right: Expression) -> tuple[Expression, Expression] | None:
    """Both in one type in which equal values are found equal, if there is one that changes no comparison."""
    kinds = [_type(names, e) for e in (left, right)]
    if kinds[0] == kinds[1]:
        return None if pa.types.is_nested(kinds[0]) else (left, right)
    whole = [pa.types.is_signed_integer(k) for k in kinds]
    numbers = [w or pa.types.is_floating(k) for w, k in zip(whole, kinds)]
    if not all(numbers):
        return None
    return _cast(left, all(whole)), _cast(right, all(whole))


def _cast(expression: Expression, whole: bool) -> Expression:
    kind = exp.DataType.build("bigint" if whole else "double")
    return Expression.of(exp.Cast(this=exp.Paren(this=expression.tree.copy()), to=kind))


def _check_condition(names: Names, condition: Expression) -> None:
    kind = _type(names, condition)
    if not pa.types.is_boolean(kind):
        text = as_written(condition.tree)
        raise QueryError(f"match: on={text!r} must be a condition, true or false for each pair; it is {kind}")


def _merged(names: Names, streams: Sequence[StreamPlan], asked: MatchClauses) -> Names:
    """Columns that are equal in both sides are one column: keys of the same name, and those of `using`."""
    keys = streams[0].keys if streams[0].keys == streams[1].keys else ()
    merged: dict[str, exp.Expr] = {}
    for name in dict.fromkeys((*keys, *asked.using)):
        left, right = (column_node(names.inner(side, name)) for side in range(2))
        either = exp.Coalesce(this=left.copy(), expressions=[right.copy()])
        merged[name] = {"right": right, "full": either}.get(asked.how, left)
    return names.merging(merged)


def _entries(names: Names, asked: MatchClauses) -> dict[str, Expression]:
    entries = Reader(names).entries(asked.entries)
    return {e.name: names.scope.resolve(e.tree.copy(), e.text) for e in entries}


def _port(
    i: int,
    names: Names,
    streams: Sequence[StreamPlan],
    clause: Clause,
    parts: _Parts,
    read: set[str],
    time_type: pa.DataType,
) -> PortPlan:
    """What is kept of the rows of a side: columns under their names inside, and values of the equality parts."""
    stream = streams[i]
    every = parts.function is not None
    own = {names.inner(i, n): n for n in names.sides[i].schema.names}
    needed = {name for name in own if name in read or every}
    needed |= {names.inner(i, n) for n in (*stream.columns, stream.time, *stream.keys)}
    wanted = {inner: stream.scope.named(name) for inner, name in own.items() if inner in needed}
    wanted |= {f"panes.key.{k}": stream.scope.named(k) for k in stream.keys}
    wanted |= {a: stream.scope.named(a) for a in clause.attributes}
    scope = {inner: stream.scope.named(name) for inner, name in own.items()}
    for number, expression in enumerate(parts.equal[i]):
        wanted[f"panes.equal.{number}"] = _outside(expression, scope)
    return PortPlan.of(stream, wanted, time_type)


def _outside(expression: Expression, columns: Mapping[str, Expression]) -> Expression:
    """An expression over names inside, over the columns of its stream."""
    root = exp.Paren(this=expression.tree.copy())
    for column in list(root.find_all(exp.Column)):
        tree = columns[column.name].tree.copy()
        column.replace(tree if isinstance(tree, exp.Column | exp.Literal) else exp.Paren(this=tree))
    return Expression.of(root.this)


def _side(
    i: int, names: Names, stream: StreamPlan, clause: Clause, port: PortPlan, parts: _Parts, domain: TimeDomain
) -> SideSpec:
    alone = tuple(names.inner(i, n) for n in own_columns(stream, stamped=True))
    return SideSpec(
        rows=port.rows,
        clause=in_ticks(clause, domain, lambda name: port.rows.field(name).type, f"Join, input {SIDES[i]!r}"),
        keys=tuple(f"panes.key.{k}" for k in stream.keys),
        equal=tuple(f"panes.equal.{n}" for n in range(len(parts.equal[i]))),
        alone=alone,
    )


def _alone(stream: StreamPlan, port: PortPlan) -> PortStream:
    """The stream of rows of one side that found no partner, with the names they came with."""
    own = own_columns(stream, stamped=True)
    types = Scalars(stream.scope, own).types
    schema = pa.schema([pa.field(name, types[name]) for name in own])
    return stamped_output(schema, [port], keys=stream.keys, shown=stream.columns)


class _Both:
    """Pairs of rows to what is asked of them. Picklable as long as the function is."""

    def __init__(
        self, names: Names, ports: Sequence[PortPlan], entries: Mapping[str, Expression], parts: _Parts
    ) -> None:
        inner = [{*side.names} for side in names.side_schemas[:2]]
        self._columns = [[f.name for f in port.rows if f.name in inner[i]] for i, port in enumerate(ports)]
        every = pa.schema([port.rows.field(n) for port, mine in zip(ports, self._columns) for n in mine])
        self._scalars = Scalars(Scope(every), entries)
        self._rest = parts.rest
        self._condition = None if parts.rest is None else Scalars(Scope(every), {"matches": parts.rest})
        self._function = parts.function
        own = [{names.inner(i, n): n for n in names.sides[i].schema.names} for i in range(2)]
        self._own_names = [[own[i][name] for name in self._columns[i]] for i in range(2)]
        self.schema = pa.schema([pa.field(name, self._scalars.types[name]) for name in entries])
        if not parts.function and parts.rest is None:
            self.matches: Any = None
        else:
            self.matches = self._matches

    def _side_by_side(self, left: pa.Table, right: pa.Table) -> pa.Table:
        left, right = left.select(self._columns[0]), right.select(self._columns[1])
        return pa.table([*left.columns, *right.columns], schema=self._scalars.scope.schema)

    def project(self, left: pa.Table, right: pa.Table) -> pa.Table:
        values = self._scalars.evaluate(self._side_by_side(left, right))
        return pa.table([values[name] for name in self.schema.names], schema=self.schema)

    def _matches(self, left: pa.Table, right: pa.Table) -> np.ndarray:
        if self._condition is not None:
            found = self._condition.evaluate(self._side_by_side(left, right))["matches"]
            return np.asarray(found.fill_null(False).to_numpy())
        assert self._function is not None
        rows = [
            table.select(columns).rename_columns(own).to_pylist()
            for table, columns, own in zip((left, right), self._columns, self._own_names)
        ]
        return np.array([self._called(one, other) for one, other in zip(*rows)], bool)

    @property
    def user_code(self) -> str:
        return "operator 'Join': match"

    def _called(self, left: dict[str, object], right: dict[str, object]) -> bool:
        assert self._function is not None
        with calling(self, getattr(self._function, "__name__", "on"), (left, right)):
            found = self._function(left, right)
        if found is None or isinstance(found, bool | np.bool_):
            return bool(found)
        raise DataError(
            f"match: the function must return True, False or None; it returned {found!r} for {left!r} and {right!r}"
        )
