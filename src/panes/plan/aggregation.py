"""Outputs of a query to aggregates and what is computed from them: "sum(a * b) / sum(b)".

In: output names with SQL text or aggregate objects. Out: an `Aggregation`: the distinct aggregates, bound to
the types of their arguments, and the `finish` step that turns their results into output columns (through
DuckDB, and only if an output is more than one aggregate).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

from panes.aggregates.base import Aggregate, BoundAggregate
from panes.aggregates.distinct import distinct as different
from panes.aggregates.registry import by_name, form_of, inputs_of
from panes.aggregates.rows import SortedStringAgg, StringAgg
from panes.errors import ExpressionError, QueryError, WrongType
from panes.plan.aggregate_calls import (
    arguments_of,
    bare_call,
    by_the_name,
    is_aggregate_call,
    made_problem,
    options_of,
    without_group,
)
from panes.plan.compiled import prepare
from panes.plan.expressions import Expression, Scope, check_nodes, column_node, no_column, parse, refusal
from panes.plan.hints import NO_HINT, Hint, for_column, is_bare_function
from panes.plan.scalars import Scalars
from panes.plan.trees import copied, rebuilt, writer
from panes.plan.written import as_written, in_place_of
from panes.slicing.lane import Agg

_read = writer(Dialect)


@dataclass(frozen=True)
class Aggregation:
    """What a query computes per window."""

    aggs: tuple[Agg, ...]
    #: every row expression that the aggregates read, by its text
    inputs: Mapping[str, Expression]
    #: output name -> expression over the names of `aggs`
    outputs: Mapping[str, Expression]
    post: Scalars
    #: output name -> how it was written, or reads
    written: Mapping[str, str] = field(default_factory=dict)
    #: output name -> what it computes, however it was written and whatever the aggregates are named
    computed: Mapping[str, str] = field(default_factory=dict)
    #: output name -> as a snapshot writes it (`slicing/outputs.py`); None: it is users' own code
    forms: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def fields(self) -> tuple[pa.Field, ...]:
        """The outputs and their types."""
        return tuple(pa.field(name, self.post.types[name]) for name in self.outputs)

    @cached_property
    def direct(self) -> bool:
        """Whether the aggregates are the output columns, in order, under their own names."""
        return [e.column for e in self.outputs.values()] == [a.name for a in self.aggs] == list(self.outputs)

    def finish(self, table: pa.Table) -> pa.Table:
        """A table of results with aggregates, to one with outputs in their place."""
        names = [a.name for a in self.aggs]
        values = self.post.evaluate(table.select(names))
        voids = table.column("void") if "void" in table.column_names else None
        columns: dict[str, pa.ChunkedArray] = {}
        for name in table.column_names:
            if name not in names:
                columns[name] = table.column(name)
            elif name == names[0]:
                for output, expression in self.outputs.items():
                    column = values[output]
                    if voids is not None and expression.column is None:
                        # a void window has no values, whatever the expression makes of nulls
                        column = pc.if_else(voids, pa.scalar(None, column.type), column)
                    columns[output] = column
        return pa.table(columns)


@dataclass(frozen=True)
class _Called:
    """An aggregate as it was called: under which name, and with which arguments before FILTER has changed them."""

    call: exp.Expr
    name: str
    make: Callable[..., Aggregate]
    inputs: tuple[Expression, ...]
    options: tuple[Any, ...]
    distinct: bool

    def refusal(self, kinds: Sequence[pa.DataType], error: WrongType) -> WrongType:
        """The same refusal, of what was called."""
        if len(kinds) != len(self.inputs):
            return WrongType(*error.said, piece=self.call)
        aggregate = self.aggregate()
        try:
            aggregate.bind(kinds)
        except WrongType as same:
            error = same
        own = repr(aggregate).partition("(")[0]
        said = [p.replace(f"{own}(", f"{self.name.lower()}(") if isinstance(p, str) else p for p in error.said]
        return WrongType(*said, piece=self.call)

    def aggregate(self) -> Aggregate:
        """The aggregate, with its arguments as they were written."""
        made = self.make(*(as_written(e.tree) for e in self.inputs), *self.options)
        return different(made) if self.distinct else made


def compile_aggregates(outputs: Mapping[str, str | Aggregate], scope: Scope) -> Aggregation:
    """Split outputs into distinct aggregates and expressions over their results."""
    return AggregateCompiler(scope).compile(outputs)


def aggregate_types(calls: Sequence[exp.Expr], scope: Scope, *, also: Sequence[Expression] = ()) -> list[pa.DataType]:
    """The types of what aggregate calls give. `also`: row expressions whose types will be asked for next."""
    return AggregateCompiler(scope).types(calls, also)


class AggregateCompiler:
    """Takes aggregate calls out of trees: each distinct one is found once."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._inputs: dict[str, Expression] = {}
        self._found: list[tuple[Aggregate, tuple[str, ...]]] = []
        #: what FILTER clauses ask for, by its text
        self._conditions: dict[str, Expression] = {}
        self._text = ""
        #: how aggregates were called, by their number
        self._called: dict[int, _Called] = {}

    def compile(self, outputs: Mapping[str, str | Aggregate]) -> Aggregation:
        trees: dict[str, exp.Expr] = {}
        written: dict[str, str] = {}
        forms: dict[str, Any] = {}
        for name, output in outputs.items():
            if isinstance(output, Aggregate):
                trees[name], written[name], forms[name] = self._object(name, output), repr(output), form_of(output)
            elif isinstance(output, str):
                trees[name], written[name], forms[name] = self._split(name, output), output, {"sql": output}
            else:
                raise QueryError(
                    f"the aggregate {name!r} must be SQL text such as 'sum(x)', or an aggregate such as "
                    f"pn.sum('x'); got {output!r}"
                )
        return dataclasses.replace(self._bound(trees, written), forms=forms)

    def types(self, calls: Sequence[exp.Expr], also: Sequence[Expression]) -> list[pa.DataType]:
        """The types of what calls give."""
        places = [int(self._call(copied(call)).name) for call in calls]
        prepare(self._scope.schema, [*also, *self._conditions.values(), *self._inputs.values()])
        inputs = self._input_types()
        return [self.bind(place, inputs).out_type for place in places]

    def bind(self, place: int, types: Mapping[str, pa.DataType]) -> BoundAggregate:
        """An aggregate for the types of its arguments, by their text; refused as users wrote it."""
        aggregate, texts = self._found[place]
        kinds = [types[text] for text in texts]
        try:
            return aggregate.bind(kinds)
        except WrongType as error:
            if place not in self._called:
                raise
            raise self._called[place].refusal(kinds, error) from error

    def _bound(self, trees: Mapping[str, exp.Expr], written: Mapping[str, str]) -> Aggregation:
        types = self._input_types()
        names = self._names(trees)
        used = [[n for n, t in trees.items() if _refers(t, number)] for number in range(len(names))]
        aggs = []
        for place, (name, outputs) in enumerate(zip(names, used, strict=True)):
            bound, (aggregate, inputs) = self.bind(place, types), self._found[place]
            bound.label = ", ".join(map(repr, outputs))
            aggs.append(Agg(name, inputs, bound, aggregate))
        scope = Scope(pa.schema([pa.field(a.name, a.bound.out_type) for a in aggs]))
        expressions, computed = {}, {}
        for output, tree in trees.items():
            computed[output] = self._reads(tree)
            for column in list(tree.find_all(exp.Column)):
                column.replace(in_place_of(column_node(names[int(column.name)]), column))
            expressions[output] = scope.resolve(tree.this, written[output])
        return Aggregation(tuple(aggs), self._inputs, expressions, Scalars(scope, expressions), written, computed)

    def _input_types(self) -> Mapping[str, pa.DataType]:
        """The types of what the aggregates read, by text, once every FILTER is known to be a condition."""
        for text, kind in Scalars(self._scope, self._conditions).types.items():
            check_filter(self._conditions[text], kind)
        return Scalars(self._scope, self._inputs).types

    def _reads(self, tree: exp.Expr) -> str:
        def described(node: exp.Expr) -> exp.Expr | None:
            return column_node(repr(self._found[int(node.name)][0])) if isinstance(node, exp.Column) else None

        return _read(rebuilt(tree.this, described)).replace('"', "")

    def _names(self, trees: Mapping[str, exp.Expr]) -> list[str]:
        """A name for each aggregate: that of its output if each output is one, else how it reads."""
        alone = [t.this.name for t in trees.values() if isinstance(t.this, exp.Column)]
        if alone == [str(i) for i in range(len(self._found))] and len(alone) == len(trees):
            return list(trees)
        names: list[str] = []
        for aggregate, _ in self._found:
            name = repr(aggregate)
            names.append(name if name not in names else f"{name} #{len(names)}")
        return names

    def _object(self, name: str, aggregate: Aggregate) -> exp.Expr:
        try:
            inputs = [self._scope.scalar(text) for text in aggregate.inputs]
        except ExpressionError as error:
            raise ExpressionError(f"{name}={aggregate!r}: {error}") from error
        return exp.Paren(this=self._reference(self._place(aggregate, inputs)))

    def _split(self, name: str, text: str) -> exp.Expr:
        """The tree of `text` in parentheses, each aggregate in it replaced by the number of the aggregate."""
        self._text = text
        root = exp.Paren(this=parse(text))
        check_nodes(root, text, aggregates=True)
        before = len(self._found)
        used = self._replace(root)
        if not used and len(self._found) == before:
            raise ExpressionError(f"{name}={text!r} holds no aggregate; write for instance max({text})")
        return exp.Paren(this=root.this.unnest())

    def _replace(self, node: exp.Expr) -> bool:
        """Replace aggregate calls below `node`; whether there were any."""
        found = False
        for child in list(node.iter_expressions()):
            if is_aggregate_call(child):
                # an output that is one aggregate is computed from nothing else, so nothing is said of it
                written = None if isinstance(node, exp.Paren) and node.parent is None else as_written(child)
                child.replace(in_place_of(self._call(child), child, written))
                found = True
            elif isinstance(child, exp.Column):
                if child.name not in self._scope.names and is_bare_function(child.name):
                    raise no_column(child.name, child, self._text, for_column(child.name, ()))
                rule = f"a window has many rows; write for instance max({child.sql()})"
                raise refusal(f"{child.sql()} must be inside an aggregate", child, self._text, Hint(rule, f": {rule}"))
            else:
                found |= self._replace(child)
        return found

    def _call(self, node: exp.Expr) -> exp.Expr:
        """An aggregate call: count(distinct x), sum(x) filter (where y), first(x) ignore nulls."""
        condition = node.expression.this if isinstance(node, exp.Filter) else None
        call = bare_call(node)
        refuse = partial(self._refusal, call)
        within = node.this if isinstance(node, exp.Filter) else node
        if isinstance(within, exp.WithinGroup):
            call = without_group(within, refuse)
        assert isinstance(call, exp.Anonymous)
        name, arguments, distinct = arguments_of(call, refuse)
        inputs, options = options_of(arguments, inputs_of(name))
        expressions = [self._scope.resolve(tree, self._text) for tree in inputs]
        called = _Called(node, call.name, by_name(name), tuple(expressions), tuple(options), distinct)
        if condition is not None:
            chosen = self._scope.resolve(condition, self._text)
            self._conditions.setdefault(chosen.text, chosen)
            expressions = [_only_where(e, chosen) for e in expressions or [_one()]]
        try:
            aggregate = by_name(name)(*(e.text for e in expressions), *options)
            self._check_written_out(name, aggregate, expressions, call)
            if distinct:
                aggregate = different(aggregate)
        except (TypeError, QueryError) as error:
            raise self._why_not(called, error) from error
        place = self._place(aggregate, expressions)
        self._called.setdefault(place, called)
        return self._reference(place)

    def _refusal(self, call: exp.Expr, what: str, hint: Hint = NO_HINT) -> ExpressionError:
        return refusal(what, call, self._text, hint)

    def _why_not(self, called: _Called, error: Exception) -> ExpressionError:
        """Why an aggregate can't be made of the arguments it was called with."""
        name = called.name.lower()
        if isinstance(error, ExpressionError):
            return error
        if isinstance(error, QueryError):
            try:
                called.aggregate()
            except QueryError as same:
                error = same
            return ExpressionError(by_the_name(name, str(error)), piece=called.call)
        problem = made_problem(name, len(called.inputs) + len(called.options), called.make)
        return self._refusal(called.call, problem or f"{name} can't take values of these types")

    def _check_written_out(
        self, name: str, aggregate: Aggregate, expressions: list[Expression], call: exp.Anonymous
    ) -> None:
        """Refuse an expression where an option stands: one value is for all rows, as the separator of listagg."""
        if isinstance(aggregate, StringAgg | SortedStringAgg) and len(expressions) > len(aggregate.inputs):
            name = name.partition(" ")[0]
            what = (
                f"the separator of {name} must be written as text, such as "
                f"{name}({as_written(expressions[0].tree)}, ', '); got {as_written(expressions[-1].tree)}"
            )
            raise refusal(what, call, self._text, then=" ")

    def _reference(self, place: int) -> exp.Expr:
        """A stand-in for the result of an aggregate: a column named by its number."""
        return column_node(str(place))

    def _place(self, aggregate: Aggregate, inputs: list[Expression]) -> int:
        """The number of an aggregate. Equal ones share it."""
        texts = tuple(e.text for e in inputs)
        aggregate = _with_inputs(aggregate, texts)
        for text, expression in zip(texts, inputs, strict=True):
            self._inputs.setdefault(text, expression)
        if (aggregate, texts) not in self._found:
            self._found.append((aggregate, texts))
        return self._found.index((aggregate, texts))


def check_filter(condition: Expression, kind: pa.DataType) -> None:
    """Raise WrongType if what FILTER asks for is not a condition: CASE would take a number for one."""
    if not pa.types.is_boolean(kind):
        text = as_written(condition.tree)
        rule = f"FILTER (WHERE {text}) must be a condition, true or false for each row; {text} is "
        raise WrongType(rule, kind, piece=condition.tree)


def _only_where(expression: Expression, where: Expression) -> Expression:
    """The expression where the condition holds, else null, which every aggregate skips."""
    return Expression.of(exp.Case(ifs=[exp.If(this=copied(where.tree), true=copied(expression.tree))], default=None))


def _one() -> Expression:
    return Expression.of(exp.Literal.number(1))


def _with_inputs(aggregate: Aggregate, texts: tuple[str, ...]) -> Aggregate:
    """The aggregate with its arguments in normal form, so that equal ones are found to be equal."""
    if dataclasses.is_dataclass(aggregate) and any(
        f.name == "inputs" and f.init for f in dataclasses.fields(aggregate)
    ):
        return aggregate if aggregate.inputs == texts else dataclasses.replace(aggregate, inputs=texts)
    return aggregate


def _refers(tree: exp.Expr, number: int) -> bool:
    return any(column.name == str(number) for column in tree.find_all(exp.Column))
