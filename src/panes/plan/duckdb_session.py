"""This thread's DuckDB, closed off, and what is asked of it: the types of expressions, and their values.

A type is found by binding an expression to columns without rows, which runs nothing. A statement is bound once and
kept, so that further batches only run it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from panes.plan.duckdb_macros import MARK, macros

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

_CONFIG: dict[str, Any] = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "threads": 1,
}
#: How many statements a thread keeps; then it starts anew.
_MOST = 256
#: Text in quotes, in which a quote is doubled, or a word.
_WORDS = re.compile(r"'(?:[^']|'')*'|\w+")
_local = threading.local()


def connection() -> DuckDBPyConnection:
    """This thread's closed-off DuckDB: no files, no extensions, one thread, UTC, silent."""
    found = getattr(_local, "connection", None)
    if found is None:
        import duckdb

        found = duckdb.connect(":memory:", config=_CONFIG)
        found.execute("SET TimeZone = 'UTC'")
        found.execute("SET enable_progress_bar = false")  # it would write into the user's output, file or terminal
        found.execute("SET lock_configuration = true")
        _local.connection = found
    return found


def _ready(sql: str) -> str:
    """The statement, once this thread's DuckDB has the functions that it calls."""
    if MARK in sql:
        there = _local.__dict__.setdefault("macros", set())
        for name, statement in macros(sql).items():
            if name not in there:
                connection().execute(statement)
                there.add(name)
    return sql


def duckdb_errors() -> type[Exception]:
    import duckdb

    return duckdb.Error


def duckdb_type(columns: Mapping[str, pa.DataType], sql: str) -> str:
    """The type that DuckDB gives an expression over these columns, as it writes it."""
    return _bound(columns, [sql])[0]


def arrow_types(columns: Mapping[str, pa.DataType], sqls: Sequence[str]) -> list[pa.DataType]:
    """The Arrow types of the values of expressions over these columns."""
    return [arrow_type(kind) for kind in _bound(columns, sqls)]


def _bound(columns: Mapping[str, pa.DataType], sqls: Sequence[str]) -> list[str]:
    source = f" FROM {_typed(tuple(columns.values()))} AS t({', '.join(columns)})" if columns else ""
    asked = ", ".join(f"{sql} AS e{i}" for i, sql in enumerate(sqls))
    return [str(kind) for kind in connection().sql(_ready(f"SELECT {asked}{source}")).types]


def _typed(kinds: tuple[pa.DataType, ...]) -> str:
    """The name of an empty table with columns of these types; it is quicker to bind than anything else."""
    found = _kept.types.get(kinds)
    if found is None:
        if len(_kept.types) >= _MOST:
            _kept.types.clear()
        found = f"panes_types_{len(_kept.types)}"
        columns = ", ".join(f"c{i} {_written(kind)}" for i, kind in enumerate(kinds))
        connection().execute(f"CREATE OR REPLACE TEMP TABLE {found} ({columns})")
        _kept.types[kinds] = found
    return found


@lru_cache(maxsize=1024)
def _written(kind: pa.DataType) -> str:
    """An Arrow type as DuckDB reads it."""
    return str(connection().from_arrow(pa.schema([("c", kind)]).empty_table()).types[0])


@lru_cache(maxsize=1024)
def arrow_type(kind: str) -> pa.DataType:
    """The Arrow type in which DuckDB gives values of a type of its own."""
    return connection().sql(f"SELECT CAST(NULL AS {kind}) AS e").to_arrow_table().schema.field(0).type


class _Batch:
    """A table to read for statements that are kept longer than any table; all its tables have columns of one type."""

    def __init__(self, name: str, types: Sequence[pa.DataType]) -> None:
        self.name = name
        self.schema = pa.schema([(f"c{i}", kind) for i, kind in enumerate(types)])
        self.table: pa.Table | None = None

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        assert self.table is not None  # set for as long as a statement runs
        return self.table.rename_columns(self.schema.names).__arrow_c_stream__(requested_schema)


@dataclass(frozen=True)
class _Statement:
    """A statement that is bound to batches."""

    batches: tuple[_Batch, ...]
    relation: DuckDBPyRelation

    def run(self, tables: Iterable[pa.Table]) -> pa.Table:
        for batch, table in zip(self.batches, tables, strict=True):
            batch.table = table
        try:
            return self.relation.to_arrow_table()
        finally:
            for batch in self.batches:
                batch.table = None


class _Kept(threading.local):
    """What a thread keeps: bound statements, and the batches that they read, by the types of their columns."""

    def __init__(self) -> None:
        self.statements: dict[Hashable, _Statement] = {}
        self.batches: dict[Hashable, _Batch] = {}
        #: empty tables, by the types of their columns
        self.types: dict[Hashable, str] = {}

    def statement(self, sql: str, tables: Mapping[str, pa.Table]) -> _Statement:
        key = (sql, *((name, table.schema) for name, table in tables.items()))
        found = self.statements.get(key)
        if found is None:
            if len(self.statements) >= _MOST:
                self.statements.clear()
            if len(self.batches) + len(tables) > _MOST:
                self.forget()
            found = self.statements[key] = self._bound(sql, tables)
        return found

    def _bound(self, sql: str, tables: Mapping[str, pa.Table]) -> _Statement:
        batches = tuple(self._batch(place, table.schema.types) for place, table in enumerate(tables.values()))
        given = {
            name: f"{batch.name} AS {name}({', '.join(table.column_names)})"
            for batch, (name, table) in zip(batches, tables.items(), strict=True)
        }
        # in the place of the name, outside of text: a common table expression would take as long as all the rest
        sql = _WORDS.sub(lambda word: given.get(word[0], word[0]), sql)
        return _Statement(batches, connection().sql(_ready(sql)))

    def _batch(self, place: int, types: Sequence[pa.DataType]) -> _Batch:
        key = (place, *types)
        found = self.batches.get(key)
        if found is None:
            found = _Batch(f"panes_batch_{len(self.batches)}", types)
            connection().register(found.name, found)
            self.batches[key] = found
        return found

    def forget(self) -> None:
        for batch in self.batches.values():
            connection().unregister(batch.name)
        self.statements.clear()
        self.batches.clear()


_kept = _Kept()


def run(sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    """What a statement over tables by name gives.

    Names of tables and columns must be plain and in small letters; those of tables stand nowhere but in FROM.
    """
    return _kept.statement(sql, tables).run(tables.values())
