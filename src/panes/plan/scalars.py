"""Row expressions over a batch: one DuckDB projection per batch, nothing at all for plain columns.

In: a batch as an Arrow table. Out: one Arrow column per expression, under the text it was asked for.
DuckDB gets generated SQL (see `duckdb_sql`) over columns named c0, c1, ...; it can't reach files, the network
or extensions, and its settings are locked.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from panes.errors import DataError, ExpressionError
from panes.plan.duckdb_sql import duckdb_sql
from panes.plan.expressions import Expression, Scope

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_CONFIG: dict[str, Any] = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "threads": 1,
}
_local = threading.local()


def connection() -> DuckDBPyConnection:
    """This thread's closed-off DuckDB: no files, no extensions, one thread, UTC."""
    found = getattr(_local, "connection", None)
    if found is None:
        import duckdb

        found = duckdb.connect(":memory:", config=_CONFIG)
        found.execute("SET TimeZone = 'UTC'")
        found.execute("SET lock_configuration = true")
        _local.connection = found
    return found


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
        for text, expression in self._wanted.items():
            if expression.column is not None:
                self._plain[text] = expression.column
                self.types[text] = scope.schema.field(expression.column).type
                continue
            try:
                self._computed[expression.text], self.types[text] = _compiled(scope.schema, expression)
            except duckdb_errors() as error:
                raise ExpressionError(f"the expression {text!r} can't be computed: {reason(error)}") from error
        computed = [e for e in self._wanted.values() if e.column is None]
        self._used = tuple(dict.fromkeys(column for e in computed for column in e.columns))

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
        found = {text: table.column(name) for text, name in self._plain.items()}
        if self._computed:
            computed = self._project(table)
            found |= {text: computed[e.text] for text, e in self._wanted.items() if text not in found}
        return found

    def _project(self, table: pa.Table) -> dict[str, pa.ChunkedArray]:
        visible = _visible(table, self._used, self.scope.schema)
        try:
            return dict(zip(self._computed, _run(visible, list(self._computed.values())), strict=True))
        except duckdb_errors() as error:
            text = next((t for t, sql in self._computed.items() if _fails(visible, sql)), "")
            raise DataError(f"the expression {text!r} failed: {reason(error)}") from error


@lru_cache(maxsize=4096)
def _compiled(schema: pa.Schema, expression: Expression) -> tuple[str, pa.DataType]:
    """The DuckDB SQL of an expression, and the type that it has, found on no rows."""
    names = {name: f"c{i}" for i, name in enumerate(schema.names)}
    empty = _visible(schema.empty_table(), expression.columns, schema)

    def type_of(sql: str) -> str:
        return str(connection().from_arrow(empty).project(f"{sql} AS e").types[0])

    sql = duckdb_sql(expression.tree, names, type_of)
    return sql, _run(empty, [sql])[0].type


def _visible(table: pa.Table, used: Sequence[str], schema: pa.Schema) -> pa.Table:
    """Only the columns that expressions read, named by position: DuckDB ignores case."""
    if used:
        return table.select(used).rename_columns([f"c{schema.get_field_index(name)}" for name in used])
    # an expression of constants alone still needs as many rows as the batch
    return pa.table({"c": pa.nulls(table.num_rows, pa.bool_())})


def _run(table: pa.Table, sqls: Sequence[str]) -> list[pa.ChunkedArray]:
    projection = ", ".join(f"{sql} AS e{i}" for i, sql in enumerate(sqls))
    return list(connection().from_arrow(table).project(projection).to_arrow_table().columns)


def _fails(table: pa.Table, sql: str) -> bool:
    try:
        _run(table, [sql])
    except duckdb_errors():
        return True
    return False


def duckdb_errors() -> type[Exception]:
    import duckdb

    return duckdb.Error


def reason(error: Exception) -> str:
    """What DuckDB says is wrong, without its error class, candidates and advice."""
    first = str(error).strip().splitlines()[0].split(" when casting from source column")[0]
    head, _, rest = first.partition(": ")
    return rest if head.endswith("Error") and rest else first
