"""Rows of many windows in tables, each row tagged with its window, and the one statement that is run over them.

In: one table per side (a relation has one, a join several), row i of side s belonging to window numbers[s][i], and
a table of the windows themselves. Out: the window number and the wanted values of each row that the statement
leaves. Rows only ever meet rows of their own window. DuckDB (see `duckdb_session`) gets generated
SQL over generated names, and computes nothing that is a plain column: those are taken by row number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panes.errors import DataError
from panes.plan.compiled import column_id, prepare
from panes.plan.duckdb_session import duckdb_errors, run
from panes.plan.expressions import Expression
from panes.plan.refused import in_words, typed
from panes.plan.written import as_written

Array = np.ndarray
#: The table of the windows, and that of groups where these are made beforehand, in SQL.
WINDOWS = "panes_windows"
GROUPS = "panes_groups"


@dataclass(frozen=True)
class Tables:
    """What a statement runs on."""

    sides: tuple[pa.Table, ...]
    numbers: tuple[Array, ...]  # per side, the window of each row; non-decreasing
    windows: pa.Table


@dataclass(frozen=True)
class Chunk:
    """Rows that a statement gives: the window of each, and one column per wanted expression."""

    numbers: Array
    columns: tuple[pa.Array | pa.ChunkedArray, ...]


@dataclass(frozen=True)
class JoinedSide:
    """How a side meets those before it: INNER, LEFT, RIGHT or FULL; `on` None: every pair of a window."""

    how: str
    on: Expression | None = None


@dataclass(frozen=True)
class FirstStatement:
    """A statement that makes the table `GROUPS`, and what some of its columns are turned into."""

    sql: str
    columns: Mapping[str, Callable[[pa.ChunkedArray], pa.Array]]

    def run(self, tables: Mapping[str, pa.Table]) -> pa.Table:
        given = run(self.sql, tables)
        made = {n: self.columns[n](c) if n in self.columns else c for n, c in zip(given.column_names, given.columns)}
        return pa.table(made)


class Layout:
    """The columns of each side and of the windows (names differ throughout), and how sides are joined."""

    #: what aggregates are computed on the way, for messages
    described: tuple[str, ...] = ()
    #: what makes the rows, if that takes a statement of its own
    first: FirstStatement | None = None

    def __init__(self, sides: Sequence[pa.Schema], windows: pa.Schema, joins: Sequence[JoinedSide] = ()) -> None:
        self.sides = tuple(sides)
        self.windows = windows
        self.joins = tuple(joins)
        self.schema = pa.schema([f for part in (*self.sides, self.windows) for f in part])
        #: the layout of the tables themselves, and those of their columns that are read on the way
        self.base: Layout = self
        self.reads = frozenset(name for join in self.joins if join.on is not None for name in join.on.columns)
        #: SQL of the rows: sides are joined within each window
        self.source = self._joined()

    @property
    def number(self) -> str:
        """SQL of the window number of a row."""
        return self._number(len(self.sides))

    def _number(self, sides: int) -> str:
        return "w0" if sides == 1 else f"coalesce({', '.join(f'w{s}' for s in range(sides))})"

    def _joined(self) -> str:
        text = "panes_0"
        for s, join in enumerate(self.joins, start=1):
            on = "" if join.on is None else f" AND ({self.compile(join.on)[0]})"
            text += f" {join.how} JOIN panes_{s} ON {self._number(s)} = w{s}{on}"
        return text

    def with_windows(self, source: str) -> str:
        """The same rows with the columns of their windows."""
        return f"{source} LEFT JOIN {WINDOWS} ON {self.number} = p"

    def compile(self, expression: Expression) -> tuple[str, pa.DataType]:
        """SQL of an expression, and its type; found on no rows."""
        if expression.column is not None:
            return column_id(expression.column), self.schema.field(expression.column).type
        return typed(self.schema, expression)


class Statement:
    """Rows of every window: filtered, projected, made distinct, ordered and limited, window by window.

    Rows come by window, then by `order`, then as they lie in the sides. Immutable and picklable.
    """

    def __init__(
        self,
        layout: Layout,
        wanted: Sequence[Expression],
        *,
        where: Expression | None = None,
        order: Sequence[tuple[Expression, str]] = (),
        limit: int | None = None,
        distinct: bool = False,
    ) -> None:
        self.layout = layout
        self.wanted = tuple(wanted)
        self.where = where
        self.order = tuple(order)
        self.limit = limit
        self.distinct = distinct
        prepare(layout.schema, [*wanted, *(e for e, _ in order), *([] if where is None else [where])])
        self.types = tuple(layout.compile(e)[1] for e in wanted)
        computed = tuple(e for e in wanted if distinct or not self._is_plain(e))
        #: what DuckDB must give, by text; the rest are plain columns
        self._computed = {e.text: f"e{i}" for i, e in enumerate({e.text: e for e in computed}.values())}
        read = [*computed, *(e for e, _ in self.order), *([] if where is None else [where])]
        self._used = frozenset(name for e in read for name in e.columns)
        self.sql = self._text({e.text: e for e in computed})

    def _is_plain(self, wanted: Expression) -> bool:
        """Whether the values lie in a table and need not be computed."""
        name = wanted.column
        return name is not None and (self.layout.base is self.layout or name in self.layout.windows.names)

    def _text(self, computed: Mapping[str, Expression]) -> str | None:
        """The SQL; None if every row is wanted as it is."""
        layout, sides = self.layout, range(len(self.layout.sides))
        with_windows = any(name in self._used for name in layout.windows.names)
        in_place = layout.source == "panes_0" and not with_windows and not self.order and not self.distinct
        if in_place and not computed and self.where is None and self.limit is None:
            return None
        rows = ", ".join(f"i{s}" for s in sides)
        values = [f"{layout.compile(e)[0]} AS {self._computed[text]}" for text, e in computed.items()]
        keys = [self._computed.get(e.text, f"o{i}") for i, (e, _) in enumerate(self.order)]
        values += [f"{layout.compile(e)[0]} AS {k}" for (e, _), k in zip(self.order, keys) if k[0] == "o"]
        source = layout.with_windows(layout.source) if with_windows else layout.source
        where = "" if self.where is None else f" WHERE {layout.compile(self.where)[0]}"
        text = f"SELECT {', '.join([f'{layout.number} AS w', rows, *values])} FROM {source}{where}"
        if self.distinct:
            same = ", ".join(["w", *self._computed.values()])
            firsts = ", ".join(f"min(i{s}) AS i{s}" for s in sides)
            text = f"SELECT {same}, {firsts} FROM ({text}) GROUP BY {same}"
        order = [f"{key} {direction}" for key, (_, direction) in zip(keys, self.order)]
        order += [f"i{s} NULLS LAST" for s in sides]
        order += self._computed.values() if self.distinct else []  # groups of a join have no place
        if self.limit is not None:
            place = f"row_number() OVER (PARTITION BY w ORDER BY {', '.join(order)})"
            text = f"SELECT * FROM ({text}) QUALIFY {place} <= {self.limit}"
        shown = ", ".join(["w", rows, *self._computed.values()])
        sort = "" if in_place and self.limit is None else f" ORDER BY w, {', '.join(order)}"
        return f"SELECT {shown} FROM ({text}){sort}"

    def run(self, tables: Tables) -> Chunk:
        """All rows that the statement gives."""
        if not tables.windows.num_rows:
            return Chunk(tables.numbers[0], tuple(pa.array([], kind) for kind in self.types))
        if self.sql is None:
            return Chunk(tables.numbers[0], tuple(self._taken(tables, e, None, None) for e in self.wanted))
        try:
            named = self._named(tables)
            if self.layout.first is not None:
                named[GROUPS] = self.layout.first.run(named)
            given = run(self.sql, named)
        except duckdb_errors() as error:
            raise self._failed(error) from error
        return self._chunk(tables, given)

    def _named(self, tables: Tables) -> dict[str, pa.Table]:
        """The tables that DuckDB sees: only columns that are used, and numbers of windows and rows."""
        base, used = self.layout.base, self._used | self.layout.reads
        named = {}
        for s, (side, numbers) in enumerate(zip(tables.sides, tables.numbers, strict=True)):
            columns = {column_id(n): side.column(n) for n in base.sides[s].names if n in used}
            columns |= {f"w{s}": pa.array(numbers), f"i{s}": pa.array(np.arange(len(numbers)))}
            named[f"panes_{s}"] = pa.table(columns)
        of_windows = [n for n in self.layout.windows.names if n in self._used]
        of_windows += [n for n in base.windows.names if n in used and n not in of_windows]
        columns = {column_id(n): tables.windows.column(n) for n in of_windows}
        if any(WINDOWS in text for text in (self.sql or "", self.layout.first.sql if self.layout.first else "")):
            named[WINDOWS] = pa.table({**columns, "p": pa.array(np.arange(tables.windows.num_rows))})
        return named

    def _chunk(self, tables: Tables, given: pa.Table) -> Chunk:
        numbers = given.column("w").to_numpy()
        return Chunk(numbers, tuple(self._taken(tables, e, given, numbers) for e in self.wanted))

    def _taken(
        self, tables: Tables, wanted: Expression, given: pa.Table | None, numbers: Array | None
    ) -> pa.ChunkedArray:
        if not self._is_plain(wanted):
            assert given is not None
            column = given.column(self._computed[wanted.text])
            declared = self.layout.compile(wanted)[1]
            return column if column.type == declared else column.cast(declared)
        name = wanted.column
        if name in self.layout.windows.names:
            return tables.windows.column(name).take(pa.array(tables.numbers[0] if numbers is None else numbers))
        side = next(s for s, schema in enumerate(self.layout.sides) if name in schema.names)
        column = tables.sides[side].column(name)
        return column if given is None else column.take(given.column(f"i{side}"))

    def _failed(self, error: Exception) -> DataError:
        conditions = [
            *(j.on for j in self.layout.base.joins if j.on is not None),
            *([self.where] if self.where else []),
        ]
        texts = [as_written(e.tree) for e in (*conditions, *self.wanted) if e.column is None]
        shown = "; ".join((*self.layout.described, *texts))
        return DataError(f"the rows of a window can't be computed ({shown}): {in_words(error)}")
