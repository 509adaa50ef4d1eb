"""Why an expression can't be computed, in users' words: the smallest piece that does not fit, and the types in it.

DuckDB says what is wrong with the SQL that was made for it, which users never see. So its message is not read: pieces
are tried until one is found that fails although all that it is made of can be computed. Only what it says of values
that it can't compute with is put into words that fit every language of ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa
from sqlglot import exp

from panes.errors import ExpressionError, QueryError, WrongType
from panes.plan.compiled import compiled
from panes.plan.duckdb_session import duckdb_errors
from panes.plan.expressions import Expression
from panes.plan.functions import function_of
from panes.plan.types import arrow_type
from panes.plan.written import as_written, is_stand_in

#: How many pieces are tried; then the smallest so far has to do.
_MOST_TRIED = 200
_CAST = "; CAST(... AS ...) changes a type"
_OF_CONDITIONS = (exp.And, exp.Or, exp.Not)
_OF_ONE_TYPE = (exp.Between, exp.In)


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
        function = function_of(node)
        sign = function.sign if function is not None and called is None else ""
        if not sign:
            return f"there is no function {called or _name(node)} for ", *_listed(kinds), _CAST
        if isinstance(node, _OF_CONDITIONS):
            return f"{sign} takes conditions, true or false; got ", *_listed(kinds)
        if isinstance(node, _OF_ONE_TYPE):
            return f"the values of {sign} must be of one type; got ", *_listed(kinds), _CAST
        return f"there is no operator {sign} for ", *_listed(kinds), _CAST

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


#: what casts put before text that must not be read (`duckdb_macros`): no user wrote it
_MARKED = r"(?P<quote>['\"])\??(?P<value>.*)(?P=quote)"
_TYPE_WORDS: Mapping[str, str] = {
    **dict.fromkeys(("INT8", "TINYINT"), "whole number of 8 bits"),
    **dict.fromkeys(("INT16", "SMALLINT"), "whole number of 16 bits"),
    **dict.fromkeys(("INT32", "INTEGER"), "whole number of 32 bits"),
    **dict.fromkeys(("INT64", "BIGINT"), "whole number of 64 bits"),
    **dict.fromkeys(("INT128", "HUGEINT"), "whole number of 128 bits"),
    **dict.fromkeys(("UINT8", "UTINYINT"), "whole number of 8 bits without a sign"),
    **dict.fromkeys(("UINT16", "USMALLINT"), "whole number of 16 bits without a sign"),
    **dict.fromkeys(("UINT32", "UINTEGER"), "whole number of 32 bits without a sign"),
    **dict.fromkeys(("UINT64", "UBIGINT"), "whole number of 64 bits without a sign"),
    "FLOAT": "number of 32 bits",
    "DOUBLE": "number of 64 bits",
    **dict.fromkeys(("BOOL", "BOOLEAN"), "true or false"),
    "VARCHAR": "text",
    "BLOB": "binary value",
    "DATE": "date",
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_NS", "TIMESTAMP_MS", "TIMESTAMP_S"), "time"),
    **dict.fromkeys(("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ"), "time"),
    "INTERVAL": "interval",
}
_TYPE = r"(?P<type>(?:U?INT\d+|DECIMAL\(\d+, ?\d+\)|TIMESTAMP WITH TIME ZONE|[A-Z_]+\d*))"
_TYPE_NAME = re.compile(r"\b(?:" + "|".join(sorted(_TYPE_WORDS, key=len, reverse=True)) + r")\b(?!\()")
_DECIMAL = re.compile(r"DECIMAL\((\d+), ?(\d+)\)")


def _type_word(kind: str) -> str:
    decimal = _DECIMAL.fullmatch(kind)
    if decimal:
        return f"decimal of {decimal[1]} digits, {decimal[2]} of them behind the point"
    nested = {"]": "list", "STRUCT(": "struct", "MAP(": "map"}
    for sign, word in nested.items():
        if kind.startswith(sign) or kind.endswith(sign):
            return word
    return _TYPE_WORDS.get(kind, kind.lower())


def _a(kind: str) -> str:
    word = _type_word(kind)
    return word if word in ("text", "true or false") else f"{'an' if word[0] in 'aeiou' else 'a'} {word}"


def _not_one(found: re.Match[str]) -> str:
    return f"{found['value']!r} is not {_a(found['type'].upper())}"


def _not_fitting(found: re.Match[str]) -> str:
    return f"{found['value']} does not fit into {_a(found['type'])}"


_CASTING = "(?:Failed to cast value: )?"
#: what DuckDB says, and what it means
_SENTENCES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (re.compile(rf"{_CASTING}Could not convert string {_MARKED} to {_TYPE}", re.DOTALL), _not_one),
    (re.compile(rf"(?P<type>date|timestamp) field value out of range: {_MARKED}", re.DOTALL), _not_one),
    (re.compile(rf"invalid (?P<type>date|timestamp) field format: {_MARKED}", re.DOTALL), _not_one),
    (re.compile(rf"{_CASTING}Type .+? with value (?P<value>.+?) can't be cast .*? type {_TYPE}"), _not_fitting),
    (re.compile(rf"{_CASTING}Could not cast value (?P<value>\S+) (?:from \S+ )?to {_TYPE}"), _not_fitting),
    (re.compile(rf"Failed to cast decimal value (?P<value>\S+) to type {_TYPE}"), _not_fitting),
    (re.compile(rf"Overflow in \w+ of {_TYPE} \((?P<value>.+)\)!"), _not_fitting),
    (
        re.compile(r"Unimplemented type for cast \((?P<given>.+) -> (?P<type>.+)\)"),
        lambda found: f"{_a(found['given'])} can't be turned into {_a(found['type'])}",
    ),
    (re.compile(rf'Casting value "(?P<value>.*?)" to type {_TYPE} failed'), _not_fitting),
)


def is_about_types(error: Exception) -> bool:
    """Whether an error is about the types in an expression, and not about values."""
    import duckdb

    return isinstance(error, duckdb.BinderException | duckdb.CatalogException | duckdb.NotImplementedException)


def in_words(error: Exception) -> str:
    """What is wrong with values, without DuckDB's error class, its names of types and its advice.

    >>> in_words(ValueError("Conversion Error: Could not convert string '?x' to INT32 when casting from ..."))
    "'x' is not a whole number of 32 bits"
    """
    text = str(error).strip()
    head, _, rest = text.partition(": ")
    text = rest if head.endswith("Error") and rest else text
    text = text.split(" when casting from source column")[0].split("\n\nLINE ")[0]
    for pattern, said in _SENTENCES:
        found = pattern.match(text)
        if found:
            return said(found)
    return _TYPE_NAME.sub(lambda word: _type_word(word[0]), text.splitlines()[0])
