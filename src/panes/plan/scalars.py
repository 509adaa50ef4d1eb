"""Row expressions over a batch: one DuckDB projection per batch, nothing at all for plain columns.

In: a batch as an Arrow table. Out: one Arrow column per expression, under the text it was asked for.
DuckDB (see `duckdb_session`) gets generated SQL (see `compiled`) over columns with names of our own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
from sqlglot import exp

from panes.aggregates.types import kind_of
from panes.errors import DataError
from panes.plan.compiled import column_id, prepare
from panes.plan.duckdb_session import duckdb_errors, run
from panes.plan.expressions import Expression, Scope
from panes.plan.functions import function_of
from panes.plan.refused import in_words, typed
from panes.plan.written import as_written

#: the one column of a table of rows without columns
_NO_COLUMN = "c"


class Scalars:
    """A set of row expressions, compiled once and evaluated together on each batch.

    `types` gives the Arrow type of each text. Immutable and picklable; `including` makes a larger set.
    """

    def __init__(self, scope: Scope, wanted: Mapping[str, Expression]) -> None:
        self.scope = scope
        self._wanted = dict(wanted)
        #: SQL of each distinct expression that DuckDB must compute, by normal text
        self._computed: dict[str, str] = {}
        #: the column of each text that is nothing but a column
        self._plain: dict[str, str] = {}
        self.types: dict[str, pa.DataType] = {}
        computed = [e for e in self._wanted.values() if e.column is None]
        if computed:
            prepare(scope.schema, computed)
        used: dict[str, None] = {}
        for text, expression in self._wanted.items():
            if expression.column is not None:
                self._plain[text] = expression.column
                self.types[text] = scope.schema.field(expression.column).type
                continue
            self._computed[expression.text], self.types[text] = typed(scope.schema, expression)
            used |= dict.fromkeys(expression.columns)
        #: the column of each text, if all are nothing but columns
        self.columns = None if self._computed else self._plain
        self._used = tuple(used)

    @classmethod
    def of(cls, scope: Scope, texts: Iterable[str]) -> Scalars:
        """Row expressions as users write them."""
        return cls(scope, {text: scope.scalar(text) for text in texts})

    @property
    def wanted(self) -> Mapping[str, Expression]:
        """The expressions, by the text they were asked for."""
        return dict(self._wanted)

    @property
    def sql(self) -> Mapping[str, str]:
        """The DuckDB SQL of each expression that is more than a column, for the curious and for tests."""
        return {text: self._computed[e.text] for text, e in self._wanted.items() if e.text in self._computed}

    def including(self, texts: Iterable[str]) -> Scalars:
        """This set and `texts`; itself if it has them all."""
        more = [text for text in texts if text not in self._wanted]
        if not more:
            return self
        return Scalars(self.scope, {**self._wanted, **{text: self.scope.scalar(text) for text in more}})

    def evaluate(self, table: pa.Table) -> dict[str, pa.ChunkedArray]:
        """The value of every expression for every row of `table`, a table of the scope's schema."""
        if self.columns is not None:
            return {text: table.column(name) for text, name in self.columns.items()}
        computed = self._project(table)
        return {
            text: table.column(self._plain[text]) if text in self._plain else computed[e.text]
            for text, e in self._wanted.items()
        }

    def _project(self, table: pa.Table) -> dict[str, pa.ChunkedArray]:
        if not table.num_rows:
            return {e.text: pa.chunked_array([], self.types[text]) for text, e in self._wanted.items()}
        visible = _visible(table, self._used)
        try:
            return dict(zip(self._computed, _values(visible, self._computed.values()), strict=True))
        except duckdb_errors() as error:
            failed = next((t for t, sql in self._computed.items() if _fails(visible, sql)), "")
            text = next((as_written(e.tree) for e in self._wanted.values() if e.text == failed), failed)
            raise DataError(f"the expression {text!r} failed: {in_words(error)}") from error


def _visible(table: pa.Table, used: Sequence[str]) -> pa.Table:
    """Only the columns that expressions read."""
    if used:
        return table.select(used).rename_columns([column_id(name) for name in used])
    # an expression of constants alone still needs as many rows as the batch
    return pa.table({_NO_COLUMN: pa.nulls(table.num_rows, pa.bool_())})


def _values(table: pa.Table, sqls: Iterable[str]) -> list[pa.ChunkedArray]:
    """The value of each expression for each row."""
    columns = ", ".join(f"{sql} AS e{i}" for i, sql in enumerate(sqls))
    return list(run(f"SELECT {columns} FROM panes_rows", {"panes_rows": table}).columns)


def _fails(table: pa.Table, sql: str) -> bool:
    try:
        _values(table, [sql])
    except duckdb_errors():
        return True
    return False


def never_fail(expressions: Iterable[Expression], schema: pa.Schema) -> bool:
    """Whether all of them have a value for every row: those may be computed later, with other rows.

    Cautious: what is not known to be safe may fail. Arithmetic on floats is safe, arithmetic on integers may
    overflow, and a cast may meet a value that it does not fit.

    >>> scope = Scope(pa.schema({"price": pa.float64(), "qty": pa.int64(), "text": pa.string()}))
    >>> [never_fail([scope.scalar(t)], scope.schema) for t in ("price * qty", "qty * qty", "cast(text as int)")]
    [True, False, False]
    """
    return all(_kind(e.tree, schema) is not None for e in expressions)


def _kind(tree: exp.Expr, schema: pa.Schema) -> str | None:
    """What sort of value an expression has, for every row; None: it may fail, or nobody knows."""
    if isinstance(tree, exp.Column):
        return kind_of(schema.field(tree.name).type)
    if isinstance(tree, exp.Literal):
        return "text" if tree.is_string else "integer" if tree.is_int else "float"
    if isinstance(tree, exp.Boolean):
        return "boolean"
    if isinstance(tree, exp.Null):
        return "null"
    if isinstance(tree, exp.Paren):
        return _kind(tree.this, schema)
    function = function_of(tree)
    if function is None or function.never_fails is None:
        return None
    kinds = [_kind(one, schema) for one in tree.iter_expressions()]
    known = [kind for kind in kinds if kind is not None]
    return function.never_fails(known) if len(known) == len(kinds) else None
