"""Expressions compiled for DuckDB: their SQL over columns with names of our own, and their types. Each only once.

The SQL has the meaning that Spark gives the expression: each node takes its form for DuckDB, see `functions`.

Types are asked of DuckDB, and a question costs as much as everything else together: `prepare` asks for many at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import pyarrow as pa
from sqlglot import exp

from panes.plan.duckdb_session import arrow_types, duckdb_errors, duckdb_type
from panes.plan.expressions import Expression
from panes.plan.functions import function_of
from panes.plan.functions.forms import Types, sql
from panes.plan.trees import copied

#: The columns that an expression reads with their types, and its text.
Key = tuple[tuple[tuple[str, pa.DataType], ...], str]

_LOWER_NAME = re.compile(r"[a-z_][a-z0-9_]*\Z")
#: What an expression that makes decimals has in its text.
_MAY_BE_DECIMAL = re.compile(r"\.\d|\d\.|DECIMAL|SECOND")
#: How many expressions are kept; then it starts anew.
_MOST = 4096
_known: dict[Key, tuple[str, pa.DataType]] = {}


def column_id(name: str) -> str:
    """The name of a column for DuckDB, which ignores case."""
    return f"c_{name}" if _LOWER_NAME.match(name) else f"x_{name.encode().hex()}"


def compiled(schema: pa.Schema, expression: Expression) -> tuple[str, pa.DataType]:
    """The SQL of an expression, and its type; raises DuckDB's error where it can't be computed."""
    key = _key(schema, expression)
    found = _known.get(key)
    if found is None:
        text = _sql(key, expression)
        found = text, arrow_types(_types(key), [text])[0]
        _keep(key, found)
    return found


def prepare(schema: pa.Schema, expressions: Iterable[Expression]) -> None:
    """Compile several expressions. What can't be computed is left for those who ask for it, and are told why."""
    missing = {_key(schema, e): e for e in expressions if e.column is None}
    missing = {key: e for key, e in missing.items() if key not in _known}
    if len(missing) < 2:
        return
    types = {name: kind for key in missing for name, kind in _types(key).items()}
    try:
        sqls = {key: _sql(key, e) for key, e in missing.items()}
        found = arrow_types(types, list(sqls.values()))
    except duckdb_errors():
        return
    for (key, text), kind in zip(sqls.items(), found, strict=True):
        _keep(key, (text, kind))


def _key(schema: pa.Schema, expression: Expression) -> Key:
    return tuple((name, schema.field(name).type) for name in expression.columns), expression.text


def _types(key: Key) -> dict[str, pa.DataType]:
    return {column_id(name): kind for name, kind in key[0]}


def _sql(key: Key, expression: Expression) -> str:
    types = _types(key)
    names = {name: column_id(name) for name, _ in key[0]}
    narrow = any(_is_narrow(kind) for kind in types.values()) or "INT)" in expression.text  # of a cast
    decimals = any(pa.types.is_decimal(kind) for kind in types.values()) or _MAY_BE_DECIMAL.search(expression.text)
    asked = Types(lambda part: duckdb_type(types, part), narrow=narrow, decimals=bool(decimals))
    return sql(_in_duckdb(copied(expression.tree), names, asked))


def _in_duckdb(node: exp.Expr, columns: Mapping[str, str], types: Types) -> exp.Expr:
    """The tree, which is used up, for DuckDB; `columns` gives each column its name in the table that it will see."""
    if isinstance(node, exp.Column):
        return exp.column(exp.to_identifier(columns[node.name], quoted=True))
    for child in list(node.iter_expressions()):
        if not isinstance(child, exp.DataType):
            child.replace(_in_duckdb(child, columns, types))
    function = function_of(node)
    return node if function is None else function.in_duckdb(node, types)


def _is_narrow(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind)) and kind.bit_width < 32


def _keep(key: Key, found: tuple[str, pa.DataType]) -> None:
    if len(_known) >= _MOST:
        _known.clear()
    _known[key] = found
