"""What a function or an operator is: the names that users know it by, and its form for each engine.

sqlglot reads a call as a node. The DuckDB form is SQL, or another node made of it, with the meaning that Spark gives
the call; the Spark form makes a Column. No engine is imported here: `SparkColumns` hands over the functions of pyspark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from panes.errors import ExpressionError, QueryError
from panes.plan.trees import copied, writer

if TYPE_CHECKING:
    from pyspark.sql import Column

#: The fewest and the most arguments.
Arity = tuple[int, int]
DuckdbForm = Callable[[exp.Expr, "Types"], exp.Expr]
SparkForm = Callable[["SparkColumns", exp.Expr], "Column"]
#: The most arguments of functions that take any number of them.
ANY_NUMBER = 10_000

sql = writer(DuckDB)  # of trees of our own, which it may change


@dataclass(frozen=True)
class Function:
    """A function or an operator. Functions that share a node are one: `trim`, `ltrim` and `rtrim`."""

    #: what users call it, and how many arguments it then takes; None: it is read by a grammar of its own
    names: Mapping[str, Arity | None]
    #: what sqlglot reads it as; None: it stays a call by its name
    node: type[exp.Expr] | None
    #: how an operator is written, for messages
    sign: str = ""
    #: SQL in which {0}, {1}, ... are its operands, or what makes a tree; None: DuckDB means the same by it
    duckdb: DuckdbForm | str | None = None
    #: None: there is no Column that means the same
    spark: SparkForm | None = None
    #: the kind of value that it has for every row, by the kinds of its operands; None: it may fail
    never_fails: Callable[[Sequence[str]], str | None] | None = None
    #: what is wrong with a call, if that shows in the text already
    problem: Callable[[exp.Expr], str | None] | None = None

    def in_duckdb(self, node: exp.Expr, types: Types) -> exp.Expr:
        """A node, whose operands are for DuckDB already, for DuckDB."""
        if self.duckdb is None:
            return node
        if isinstance(self.duckdb, str):
            return written(self.duckdb.format(*map(sql, node.iter_expressions())))
        return self.duckdb(node, types)


def takes(names: str, fewest: int, most: int | None = None) -> dict[str, Arity | None]:
    """Names of functions that take so many arguments."""
    return dict.fromkeys(names.split(), (fewest, fewest if most is None else most))


def whole_number(node: exp.Expr | None) -> int | None:
    """A whole number that is written in the expression; None: it is something else."""
    sign = 1
    while isinstance(node, exp.Paren | exp.Neg):
        sign = -sign if isinstance(node, exp.Neg) else sign
        node = node.this
    return sign * int(node.this) if isinstance(node, exp.Literal) and node.is_int else None


def text_in(node: exp.Expr | None, what: str) -> str:
    """Text that is written in the expression."""
    if isinstance(node, exp.Literal) and node.is_string:
        return str(node.this)
    raise ExpressionError(f"{what} must be written as text in the expression")


class Types:
    """The types that DuckDB gives to trees. To ask for one takes time, so it is only done where it matters."""

    def __init__(self, ask: Callable[[str], str], *, narrow: bool, decimals: bool) -> None:
        self._ask = ask
        #: whether there may be integers of less than 32 bits
        self.narrow = narrow
        #: whether there may be decimals
        self.decimals = decimals

    def of(self, node: exp.Expr) -> str:
        return self._ask(sql(node.copy()))


def is_text(kind: str) -> bool:
    return kind.startswith("VARCHAR") or kind in ("STRING_LITERAL", "CHAR")


def written(text: str) -> exp.Expr:
    """A tree that is written as this SQL."""
    return exp.Var(this=text)


def call(name: str, *args: exp.Expr | str | int) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=[exp.convert(a) if isinstance(a, int) else a for a in args])


def paren(node: exp.Expr) -> exp.Expr:
    return exp.Paren(this=node.copy())


def cast(node: exp.Expr, kind: str) -> exp.Expr:
    return exp.Cast(this=node, to=copied(_type(kind)))


@lru_cache(maxsize=64)
def _type(kind: str) -> exp.DataType:
    return exp.DataType.build(kind, dialect="duckdb")


class NoColumn(QueryError):
    """An expression that no Spark Column has the meaning of."""


class SparkFunctions(Protocol):
    """`pyspark.sql.functions`."""

    def __getattr__(self, name: str) -> Callable[..., Column]: ...


class SparkColumns(Protocol):
    """Makes Columns of nodes, see `runners.spark.columns`."""

    @property
    def F(self) -> SparkFunctions: ...

    def call(self, name: str, *arguments: Column | str | int) -> Column:
        """A function of pyspark, by its name."""
        ...

    def of(self, node: exp.Expr) -> Column:
        """The Column of a node, in its type."""
        ...

    def type(self, node: exp.Expr) -> pa.DataType:
        """The type that the embedded engine gives a node."""
        ...

    def cast(self, column: Column, kind: pa.DataType) -> Column: ...

    def try_cast(self, column: Column, kind: pa.DataType) -> Column: ...

    def as_type_of(self, node: exp.Expr, *parts: exp.Expr) -> list[Column]:
        """Parts of a node, cast to the node's own type."""
        ...

    def text(self, node: exp.Expr) -> Column:
        """A value as text; only where both engines write it alike."""
        ...

    def instant(self, node: exp.Expr) -> Column:
        """A time with a zone."""
        ...


def literal_int(node: exp.Expr | None, what: str, least: int) -> int:
    """A whole number written in the expression; what it means below `least` differs between engines."""
    number = whole_number(node)
    if number is None or number < least:
        raise NoColumn(f"{what} must be written as a number that is at least {least}")
    return number


def literal_text(node: exp.Expr | None, what: str) -> str:
    if isinstance(node, exp.Literal) and node.is_string:
        return str(node.this)
    raise NoColumn(f"{what} must be written as text")


def shown(node: exp.Expr) -> str:
    """A node as Spark would write it, for messages."""
    return node.sql(dialect="spark")


def spark_call(name: str, *kinds: str) -> SparkForm:
    """A function of pyspark of the same operands, cast to `kinds`: one type for all of them, or one for each."""

    def form(b: SparkColumns, node: exp.Expr) -> Column:
        columns = [b.of(part) for part in node.iter_expressions()]
        if kinds:
            wanted = kinds if len(kinds) > 1 else kinds * len(columns)
            columns = [column.cast(kind) for column, kind in zip(columns, wanted, strict=True)]
        return b.call(name, *columns)

    return form
