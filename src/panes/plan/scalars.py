"""Row expressions over a batch: one DuckDB projection per batch, nothing at all for plain columns.

In: a batch as an Arrow table. Out: one Arrow column per expression, under the text it was asked for.
DuckDB gets generated SQL (see `duckdb_sql`) over columns named c0, c1, ...; it can't reach files, the network
or extensions, and its settings are locked.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
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
        self._computed = self._compile()
        self.types: Mapping[str, pa.DataType] = self._types()

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
        computed = self._project(table, self._computed)
        return {
            text: computed[e.text] if e.column is None else table.column(e.column)
            for text, e in self._wanted.items()
        }

    def _compile(self) -> dict[str, str]:
        """SQL of each distinct expression that DuckDB must compute, by normal text."""
        computed: dict[str, str] = {}
        for text, expression in self._wanted.items():
            if expression.column is None and expression.text not in computed:
                try:
                    computed[expression.text] = duckdb_sql(expression.tree, self._names(), self._type_of)
                except DataError as error:
                    raise ExpressionError(f"the expression {text!r} can't be computed: {error}") from error
        return computed

    def _names(self) -> Mapping[str, str]:
        return {name: f"c{i}" for i, name in enumerate(self.scope.schema.names)}

    def _type_of(self, sql: str) -> str:
        """DuckDB's name for the type of a fragment, found on no rows."""
        try:
            relation = connection().from_arrow(self._visible(self.scope.schema.empty_table()))
            return str(relation.project(f"{sql} AS e").types[0])
        except _duckdb_errors() as error:
            raise DataError(_reason(error)) from error

    def _types(self) -> dict[str, pa.DataType]:
        empty = self.scope.schema.empty_table()
        types = {}
        for text, expression in self._wanted.items():
            if expression.column is not None:
                types[text] = self.scope.schema.field(expression.column).type
                continue
            try:
                types[text] = _run(self._visible(empty), [self._computed[expression.text]], [text])[text].type
            except _duckdb_errors() as error:
                raise ExpressionError(
                    f"the expression {text!r} can't be computed: {_reason(error)}"
                ) from error
        return types

    def _visible(self, table: pa.Table) -> pa.Table:
        """Only the columns that expressions read, named by position: DuckDB ignores case."""
        names = self._names()
        used = list(dict.fromkeys(c for e in self._wanted.values() if e.column is None for c in e.columns))
        if used:
            return table.select(used).rename_columns([names[c] for c in used])
        # an expression of constants alone still needs as many rows as the batch
        return pa.table({"c": pa.nulls(table.num_rows, pa.bool_())})

    def _project(self, table: pa.Table, computed: Mapping[str, str]) -> dict[str, pa.ChunkedArray]:
        if not computed:
            return {}
        try:
            return _run(self._visible(table), list(computed.values()), list(computed))
        except _duckdb_errors() as error:
            text = next((t for t, sql in computed.items() if self._fails(table, sql)), next(iter(computed)))
            raise DataError(f"the expression {text!r} failed: {_reason(error)}") from error

    def _fails(self, table: pa.Table, sql: str) -> bool:
        try:
            _run(self._visible(table), [sql], ["e"])
        except _duckdb_errors():
            return True
        return False


def _run(table: pa.Table, sqls: list[str], names: list[str]) -> dict[str, pa.ChunkedArray]:
    projection = ", ".join(f"{sql} AS e{i}" for i, sql in enumerate(sqls))
    result = connection().from_arrow(table).project(projection).to_arrow_table()
    return dict(zip(names, result.columns, strict=True))


def _duckdb_errors() -> type[Exception]:
    import duckdb

    return duckdb.Error


def _reason(error: Exception) -> str:
    """What DuckDB says is wrong, without its error class, candidates and advice."""
    first = str(error).strip().splitlines()[0].split(" when casting from source column")[0]
    head, _, rest = first.partition(": ")
    return rest if head.endswith("Error") and rest else first
