"""Why an expression can't be computed, in users' words: the smallest piece that does not fit, and the types in it.

DuckDB says what is wrong with the SQL that was made for it, which users never see. So its message is not read: pieces
are tried until one is found that fails although all that it is made of can be computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from sqlglot import exp

from panes.errors import ExpressionError, QueryError, WrongType
from panes.plan.compiled import compiled
from panes.plan.duckdb_session import duckdb_errors
from panes.plan.duckdb_words import in_words, is_about_types
from panes.plan.expressions import Expression
from panes.plan.types import arrow_type
from panes.plan.written import as_written, is_stand_in

#: How many pieces are tried; then the smallest so far has to do.
_MOST_TRIED = 200
_CAST = "; CAST(... AS ...) changes a type"
_SIGNS: dict[type[exp.Expr], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Neg: "-", exp.Mul: "*", exp.Div: "/", exp.IntDiv: "DIV", exp.Mod: "%",
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.NullSafeEQ: "<=>",
    exp.NullSafeNEQ: "IS DISTINCT FROM", exp.DPipe: "||", exp.BitwiseAnd: "&", exp.BitwiseOr: "|",
    exp.BitwiseXor: "^", exp.BitwiseNot: "~", exp.Like: "LIKE", exp.ILike: "ILIKE", exp.Escape: "LIKE",
    exp.RegexpLike: "RLIKE", exp.Is: "IS",
}  # fmt: skip
_OF_CONDITIONS: dict[type[exp.Expr], str] = {exp.And: "AND", exp.Or: "OR", exp.Not: "NOT"}
_OF_ONE_TYPE: dict[type[exp.Expr], str] = {exp.Between: "BETWEEN", exp.In: "IN"}


def typed(schema: pa.Schema, expression: Expression) -> tuple[str, pa.DataType]:
    """The SQL of an expression for DuckDB, and its type; raises WrongType where it has none."""
    try:
        return compiled(schema, expression)
    except (ExpressionError, duckdb_errors()) as error:
        raise _Search(schema).refusal(expression.tree, error) from error


class _Search:
    """Tries pieces of an expression over columns of a schema."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._tried = 0

    def refusal(self, tree: exp.Expr, error: Exception) -> WrongType:
        piece, error = self._smallest(tree, error)
        if isinstance(error, ExpressionError):
            return WrongType(*getattr(error, "said", (str(error),)), piece=piece)
        whole, part = as_written(tree), as_written(piece)
        return WrongType(
            *(self._why(piece) if is_about_types(error) else (in_words(error),)),
            piece=piece,
            before=f"the expression {whole!r} can't be computed: ",
            after="" if part == whole else f", in {part!r}",
        )

    def _smallest(self, tree: exp.Expr, error: Exception) -> tuple[exp.Expr, Exception]:
        whole = is_stand_in(tree) or tree.meta_get("rule")
        for part in () if whole else _operands(tree):
            found = self._error(part)
            if found is not None:
                return self._smallest(part, found)
        return tree, error

    def _error(self, tree: exp.Expr) -> Exception | None:
        self._tried += 1
        if isinstance(tree, exp.Literal) or self._tried > _MOST_TRIED:
            return None
        try:
            compiled(self._schema, Expression.of(tree))
        except (ExpressionError, duckdb_errors()) as error:
            return error
        return None

    def _type(self, tree: exp.Expr) -> pa.DataType | str:
        """A type, or what it is called in every language."""
        tree = tree.unnest()
        if isinstance(tree, exp.Null):
            return "null"
        if isinstance(tree, exp.Column):
            return self._schema.field(tree.name).type
        found = compiled(self._schema, Expression.of(tree))[1]
        return "interval" if pa.types.is_interval(found) else found

    def _why(self, node: exp.Expr) -> Sequence[object]:
        if node.meta_get("rule"):
            return (node.meta["rule"],)
        node = node.unnest()
        if isinstance(node, exp.Column):
            return "values of type ", self._type(node), " can't be computed with"
        kinds = [self._type(part) for part in _operands(node)]
        called = node.meta_get("called")
        if isinstance(node, exp.Dot):
            return _without_field(node, kinds[0])
        if isinstance(node, exp.Cast):
            return *(*_listed(kinds), " can't be turned into "), _wanted(node)
        if isinstance(node, exp.Case):
            return self._why_case(node)
        if called is None and type(node) in _OF_CONDITIONS:
            return f"{_OF_CONDITIONS[type(node)]} takes conditions, true or false; got ", *_listed(kinds)
        if called is None and type(node) in _OF_ONE_TYPE:
            return f"the values of {_OF_ONE_TYPE[type(node)]} must be of one type; got ", *_listed(kinds), _CAST
        if called is None and type(node) in _SIGNS:
            return f"there is no operator {_SIGNS[type(node)]} for ", *_listed(kinds), _CAST
        return f"there is no function {called or _name(node)} for ", *_listed(kinds), _CAST

    def _why_case(self, node: exp.Case) -> Sequence[object]:
        ifs, default = node.args["ifs"], node.args.get("default")
        conditions = [self._type(one.this) for one in ifs]
        if node.args.get("this") is None:
            wrong = [kind for kind in conditions if kind != "null" and not pa.types.is_boolean(kind)]
            if wrong:
                return "WHEN takes a condition, true or false; got ", *_listed(wrong)
        results = [self._type(one) for one in (*(i.args["true"] for i in ifs), *([default] if default else []))]
        if node.args.get("this") is not None and len({*results} - {"null"}) < 2:
            compared = [self._type(node.args["this"]), *conditions]
            return "CASE compares values of one type; got ", *_listed(compared), _CAST
        return "the results of CASE must be of one type; got ", *_listed(results), _CAST


def _operands(node: exp.Expr) -> Iterator[exp.Expr]:
    """The values that a node is computed from."""
    for child in node.iter_expressions():
        if isinstance(child, exp.Identifier | exp.DataType | exp.Var) or isinstance(node, exp.Interval):
            continue
        if (isinstance(child, exp.If) and isinstance(node, exp.Case)) or isinstance(node, exp.Escape):
            yield from _operands(child) if not isinstance(child, exp.Literal) else (child,)
        else:
            yield child


def _listed(kinds: Sequence[object]) -> list[object]:
    """Types with words between them: a, b and c."""
    if not kinds:
        return ["nothing"]
    said: list[object] = [kinds[0]]
    for place, kind in enumerate(kinds[1:], start=2):
        said += [" and " if place == len(kinds) else ", ", kind]
    return said


def _name(node: exp.Expr) -> str:
    return (node.name if isinstance(node, exp.Anonymous) else as_written(node).partition("(")[0]).lower()


def _wanted(cast: exp.Cast) -> object:
    """The type that a cast asks for."""
    written = cast.args["to"].sql(dialect="spark")
    try:
        return arrow_type(written, column="")
    except QueryError:
        return written


def _without_field(node: exp.Dot, kind: object) -> Sequence[object]:
    owner, field = as_written(node.this), node.expression.name
    if isinstance(kind, pa.DataType) and pa.types.is_struct(kind):
        return (f"{owner} has no field {field!r}; it has: {', '.join(f.name for f in kind)}",)
    return f"{owner} has no field {field!r}: it is ", kind, ", which has none"
