"""SQL text of one expression to a checked, resolved tree. No engine ever sees the text.

In: text in Spark SQL, and the `Scope` of names it may use. Out: an `Expression`, whose tree holds only
what `functions` lists and whose columns all exist. `scalars` evaluates such trees; `aggregation` splits off
aggregate calls first.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from panes.aggregates.registry import names as aggregate_names
from panes.errors import ExpressionError
from panes.plan.aggregate_calls import is_aggregate, is_list_of_options
from panes.plan.dialect import PanesSQL
from panes.plan.functions import ALLOWED_NODES, PLAIN_CALLS, SCALAR_FUNCTIONS, arity_problem, call_problem
from panes.plan.hints import (
    NO_HINT,
    OVER,
    Hint,
    check_no_columns,
    for_column,
    for_function,
    is_spark_column,
    position,
    spark_text,
)
from panes.plan.trees import copied, writer
from panes.plan.written import in_place_of, is_stand_in, named

MAX_LENGTH = 20_000
_AROUND_AGGREGATES = (
    exp.Star, exp.Distinct, exp.Filter, exp.Where, exp.IgnoreNulls, exp.WithinGroup, exp.Order, exp.Ordered
)  # fmt: skip
_OF_STARS = "* stands for all columns of a SELECT, or in count(*)"
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
#: A tree as text, in the one form that equal expressions have.
text_of = writer(PanesSQL)


@dataclass(frozen=True)
class Expression:
    """A resolved scalar expression: its tree over columns that exist, and its text in one normal form."""

    tree: exp.Expr = field(compare=False)
    text: str

    @cached_property
    def column(self) -> str | None:
        """The name of the column, if the expression is nothing but a column."""
        return self.tree.name if isinstance(self.tree, exp.Column) else None

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of all columns the expression reads, each once."""
        return tuple(dict.fromkeys(c.name for c in columns_of(self.tree)))

    @classmethod
    def of(cls, tree: exp.Expr) -> Expression:
        bare = tree.unnest()
        return cls(bare, text_of(bare))


@dataclass(frozen=True)
class Scope:
    """The names an expression may use: the columns of the input, and columns derived from them."""

    schema: pa.Schema
    derived: Mapping[str, Expression] = field(default_factory=dict)
    #: names that may be used; None: all of the schema and all derived ones
    visible: tuple[str, ...] | None = None

    @cached_property
    def names(self) -> tuple[str, ...]:
        if self.visible is not None:
            return self.visible
        return tuple(dict.fromkeys((*self.schema.names, *self.derived)))

    def scalar(self, text: str) -> Expression:
        """Resolve a row expression. Text that is exactly the name of a column is that column."""
        if isinstance(text, str) and text in self.names:
            return self.named(text)
        return self.resolve(parse(text), text)

    def named(self, name: str) -> Expression:
        if name in self.derived:
            return self.derived[name]
        return _plain(name)

    def resolve(self, tree: exp.Expr, text: str) -> Expression:
        """Check a parsed tree, which is used up, against the allow-list and the names.

        Derived columns are written out.
        """
        if isinstance(tree, exp.Column) and len(tree.parts) == 1:
            name = self._known(tree, text)
            return Expression.of(self._column(tree, text)) if is_stand_in(tree) else self.named(name)
        check_nodes(tree, text)
        root = exp.Paren(this=tree)
        for column in list(columns_of(root)):
            column.replace(self._column(column, text))
        return Expression.of(root.this)

    def _column(self, column: exp.Column, text: str) -> exp.Expr:
        name = self._known(column, text)
        tree: exp.Expr = copied(self.derived[name].tree) if name in self.derived else column_node(name)
        if not isinstance(tree, exp.Column | exp.Literal | exp.Func | exp.Paren):
            tree = exp.Paren(this=tree)
        shown = named(column.parts[0].name) if name in self.derived else None
        tree = in_place_of(tree, column, column.meta_get("written") or shown)
        for part in column.parts[1:]:
            tree = exp.Dot(this=tree, expression=exp.to_identifier(part.name, quoted=True))
        return tree

    def _known(self, column: exp.Column, text: str) -> str:
        """The name of the column that the first part of a reference means."""
        parts = [identifier.name for identifier in column.parts]
        found = find_name(parts[0], self.names)
        if found is None:
            raise no_column(".".join(parts), column, text, for_column(parts[0], self.names))
        return found


def parse(text: str) -> exp.Expr:
    """Parse SQL text into a tree of the caller's own; it is not checked yet."""
    if not isinstance(text, str):
        if is_spark_column(text):
            likely = spark_text(text)
            perhaps = f", here perhaps {likely!r}" if likely else ""
            raise ExpressionError(f"an expression must be SQL text{perhaps}; got a Column of Spark")
        raise ExpressionError(f"an expression must be SQL text; got {text!r}")
    return copied(_parsed(text))


def parse_order(text: str) -> tuple[exp.Expr, str]:
    """`total DESC NULLS LAST` to the tree of the expression, not checked yet, and the direction in full.

    Without a word on nulls they are the smallest values, as in Spark.
    """
    check_no_columns("order_by", [text])
    if not isinstance(text, str):
        raise ExpressionError(f"what to order by must be SQL text; got {text!r}")
    ordered = _parsed(text, exp.Ordered)
    direction = "DESC" if ordered.args.get("desc") else "ASC"
    return copied(ordered.this), f"{direction} NULLS {'FIRST' if ordered.args.get('nulls_first') else 'LAST'}"


@lru_cache(maxsize=4096)
def _parsed(text: str, into: type[exp.Expr] = exp.Condition) -> exp.Expr:
    if not text.strip():
        raise ExpressionError("an expression must not be empty")
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"an expression may have {MAX_LENGTH:,} characters; this one has {len(text):,}")
    try:
        return sqlglot.parse_one(text, dialect=PanesSQL, into=into)
    except ExpressionError as error:  # of a function with too many arguments, or too few
        raise ExpressionError(f"{error}, {position(text, None)}") from error
    except ParseError as error:
        raise ExpressionError(_parse_message(error, text)) from error
    except SqlglotError as error:
        raise ExpressionError(
            f"{text!r} can't be read as SQL: a quote is not closed, or a sign is not known"
        ) from error
    except RecursionError as error:
        raise ExpressionError(f"the expression {text[:80]!r}... is nested too deeply") from error


def check_nodes(tree: exp.Expr, text: str, *, aggregates: bool = False) -> None:
    """Raise ExpressionError for anything that is not on the allow-list; `aggregates`: calls of these may be there."""
    around = _AROUND_AGGREGATES if aggregates else ()
    for node in tree.walk():
        if isinstance(node, exp.Anonymous):
            _check_call(node, text, aggregates)
        elif isinstance(node, around) and (not isinstance(node, exp.Star) or _takes_star(node.parent)):
            continue
        elif type(node) not in ALLOWED_NODES or (isinstance(node, exp.In) and not node.expressions):
            hint = Hint(_OF_STARS) if isinstance(node, exp.Star) else NO_HINT
            raise refusal(f"{_describe(node)} can't be used here", node, text, hint)
        elif (problem := call_problem(node)) is not None:
            raise refusal(problem, node, text)


def refusal(what: str, node: exp.Expr, text: str, hint: Hint = NO_HINT, *, then: str = ", ") -> ExpressionError:
    """What is wrong with a node: with the place in the text, and what would be right, as Python's users read them."""
    return ExpressionError(
        what, piece=node, after=f"{then}{position(text, start_of(node))}{hint.python}", hint=hint.cql
    )


def no_column(name: str, column: exp.Column, text: str, hint: Hint) -> ExpressionError:
    return refusal(f"there is no column {name!r}", column, text, hint, then=" ")


def find_name(name: str, names: Collection[str]) -> str | None:
    """The column that `name` means: the exact one, or the only one that differs in case."""
    if name in names:
        return name
    alike = [n for n in names if n.lower() == name.lower()]
    if len(alike) > 1:
        shown = ", ".join(map(repr, alike))
        raise ExpressionError(f"column {name!r} is ambiguous: {shown} differ only in case; write the name exactly")
    return alike[0] if alike else None


@lru_cache(maxsize=4096)
def _plain(name: str) -> Expression:
    return Expression.of(column_node(name))


def columns_of(tree: exp.Expr) -> Iterator[exp.Column]:
    return tree.find_all(exp.Column)


def column_node(name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=not _PLAIN_NAME.match(name)))


def start_of(node: exp.Expr) -> int | None:
    """The offset in the text of the first sign of `node` that the parser has kept."""
    starts = [n.meta["start"] for n in node.walk() if "start" in n.meta]
    return min(starts) if starts else None


def _check_call(node: exp.Anonymous, text: str, aggregates: bool) -> None:
    name = node.name.lower()
    if name in PLAIN_CALLS:
        problem = arity_problem(name, len(node.expressions))
        if problem is not None:
            raise refusal(problem, node, text)
    elif not is_aggregate(name):
        if not (aggregates and is_list_of_options(node)):
            known = SCALAR_FUNCTIONS.union(aggregate_names()) if aggregates else SCALAR_FUNCTIONS
            what = f"there is no function {(node.name if aggregates else name)!r}"
            raise refusal(what, node, text, for_function(name, known), then=" ")
    elif not aggregates:
        raise refusal(f"{name} is an aggregate and can't be used in an expression over single rows", node, text)
    else:
        check_not_nested(node, text)


def check_not_nested(call: exp.Anonymous, text: str) -> None:
    """Refuse aggregates inside of one."""
    for inner in call.find_all(exp.Anonymous):
        if inner is not call and is_aggregate(inner.name):
            hint = Hint("aggregates can't be nested; use a subquery", ": aggregates can't be nested")
            raise refusal(f"{inner.name} is inside {call.name}", inner, text, hint)


def _takes_star(node: exp.Expr | None) -> bool:
    """Whether a star is where aggregates say what it means: count(*), or sum(DISTINCT *), which is refused."""
    return isinstance(node, exp.Distinct) or (isinstance(node, exp.Anonymous) and node.name.lower() == "count")


def _describe(node: exp.Expr) -> str:
    if isinstance(node, exp.Subquery | exp.Select | exp.Exists | exp.In):
        return "a subquery"
    if isinstance(node, exp.Window):
        return f"OVER ({OVER})"
    names: dict[type[exp.Expr], str] = {
        exp.Star: "*",
        exp.Distinct: "DISTINCT",
        exp.Filter: "FILTER (WHERE ...)",
        exp.Where: "WHERE",
        exp.Placeholder: "a placeholder",
        exp.Parameter: "a parameter",
        exp.HexString: "a hexadecimal literal",
    }
    return names.get(type(node), f"{type(node).__name__} syntax")


def _parse_message(error: ParseError, text: str) -> str:
    if not error.errors:
        return f"{text!r} can't be read as an SQL expression"
    first = error.errors[0]
    rule = str(first["description"])
    near = str(first.get("highlight") or "")
    if "Required keyword" in rule or "No expression" in rule:
        rule = "something is missing"
    elif "Unexpected token" in rule:
        rule = "this is not expected here"
    at = f" at {near!r} (character {first['col']})" if near else ""
    return f"{text!r} can't be read as an SQL expression: {rule}{at}"
