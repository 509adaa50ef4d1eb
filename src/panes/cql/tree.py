"""What CQL text says, as small frozen values: one class per statement and clause, which writes itself on one line.

Parsing that line gives the value again. Scalar expressions are sqlglot trees. Kinds of windows are in `windows`, what a
stream says of its time in `stream_clauses`. Names keep their place in the text, which does not count when trees are
compared.

>>> from panes.cql.parse import parse_one
>>> parse_one("select avg(p) from s[size 10 minutes on ts every 5sec on ts] t group by k").cql()
'SELECT avg(p) FROM s [SIZE 10 min ON ts EVERY 5 sec ON ts] AS t GROUP BY k'
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from sqlglot import exp

from panes.cql.dialect import joined, listed, name_text, part_text, quoted, worded

if TYPE_CHECKING:
    from panes.cql.clauses import QueryClause, StreamClause
    from panes.cql.windows.clause import WindowClause

_TYPE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\(\d+(, \d+)*\)|\[\w+\])?\Z")


@dataclass(frozen=True)
class Span:
    """A piece of the text: character offsets [start, end), and where it begins as people count, from 1."""

    start: int
    end: int
    line: int
    column: int


@dataclass(frozen=True)
class Name:
    """An identifier as written; names are compared without case where they are looked up."""

    text: str
    span: Span | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return self.text

    def cql(self) -> str:
        return name_text(self.text)


@dataclass(frozen=True)
class ColumnDefinition:
    """`price DOUBLE`"""

    name: Name
    type: Name

    def cql(self) -> str:
        kind = self.type.text
        return f"{self.name.cql()} {kind if _TYPE.match(kind) else self.type.cql()}"


ColumnDefinitions = tuple[ColumnDefinition, ...]


def _schema(definition: Name | ColumnDefinitions) -> str:
    return definition.cql() if isinstance(definition, Name) else f"({listed(definition)})"


@dataclass(frozen=True)
class CreateSchema:
    """`CREATE SCHEMA name (a INT, ...) [EXTENDS parent]`, or a copy: `CREATE SCHEMA name other`."""

    name: Name
    definition: Name | ColumnDefinitions
    extends: Name | None = None

    def cql(self) -> str:
        return joined("CREATE SCHEMA", self.name.cql(), _schema(self.definition), worded("EXTENDS", self.extends))


@dataclass(frozen=True)
class SourceFile:
    """`SOURCE FILE ('path' [, 'delimiter'])`"""

    path: str
    delimiter: str | None = None

    def cql(self) -> str:
        return f"FILE ({quoted(self.path, self.delimiter)})"


@dataclass(frozen=True)
class SourceSocket:
    """`SOURCE SOCKET ('host', port [, 'delimiter'])`"""

    host: str
    port: int
    delimiter: str | None = None

    def cql(self) -> str:
        delimiter = "" if self.delimiter is None else f", {quoted(self.delimiter)}"
        return f"SOCKET ({quoted(self.host)}, {self.port}{delimiter})"


@dataclass(frozen=True)
class SourceStream:
    """`SOURCE STREAM ('name')`: data that the program gave under that name."""

    name: str

    def cql(self) -> str:
        return f"STREAM ({quoted(self.name)})"


RawSource = SourceFile | SourceSocket | SourceStream


@dataclass(frozen=True)
class Quantity:
    """`5 min`, `1 month`, or a bare number in the units of an attribute."""

    number: int | float
    unit: str | None = None

    def cql(self) -> str:
        number = repr(self.number) if isinstance(self.number, float) else str(self.number)
        return number if self.unit is None else f"{number} {self.unit}"


@dataclass(frozen=True)
class CreateStream:
    """`CREATE STREAM name schema [SOURCE ... | AS ...]` and clauses in the order of `clauses.STREAM_CLAUSES`.

    `schema` is None only where it follows from `AS SELECT`.
    """

    name: Name
    schema: Name | ColumnDefinitions | None
    source: RawSource | None = None
    query: Select | Merge | None = None
    clauses: tuple[StreamClause, ...] = ()

    def cql(self) -> str:
        schema = "" if self.schema is None else _schema(self.schema)
        origin = worded("SOURCE", self.source), worded("AS", self.query)
        return joined("CREATE STREAM", self.name.cql(), schema, *origin, *map(part_text, self.clauses))


@dataclass(frozen=True)
class Merge:
    """`MERGE a, b, c`"""

    streams: tuple[Name, ...]

    def cql(self) -> str:
        return worded("MERGE", self.streams)


@dataclass(frozen=True)
class Extent:
    """A length in a window: `100` rows, `3 sec` of system time, `60 ON ts` or `10 min ON ts` of an attribute."""

    length: Quantity
    on: Name | None = None

    @property
    def kind(self) -> Literal["rows", "system", "attribute"]:
        if self.on is not None:
            return "attribute"
        return "rows" if self.length.unit is None else "system"

    def cql(self) -> str:
        if self.on is not None and self.on.text.upper() == "CHANGE":  # without quotes it would be ON CHANGE
            return f"{self.length.cql()} ON `{self.on.text}`"
        return joined(self.length.cql(), worded("ON", self.on))


@dataclass(frozen=True)
class StreamRef:
    """`trades [SIZE 10] [SIZE 20 AS slow] AS t`: a stream by name, with any number of windows."""

    name: Name
    windows: tuple[WindowClause, ...] = ()
    alias: Name | None = None

    def cql(self) -> str:
        return joined(self.name.cql(), *map(part_text, self.windows), worded("AS", self.alias))


@dataclass(frozen=True)
class SubqueryRef:
    """`(SELECT ...) [SIZE 10] AS t`"""

    query: Select
    windows: tuple[WindowClause, ...] = ()
    alias: Name | None = None
    span: Span | None = field(default=None, compare=False)

    def cql(self) -> str:
        return joined(f"({self.query.cql()})", *map(part_text, self.windows), worded("AS", self.alias))


JoinKind = Literal["cross", "inner", "left", "right", "full"]


@dataclass(frozen=True)
class Join:
    """`left JOIN right ON ... | USING (a, b)`; joins nest to the left."""

    left: Reference
    right: Reference
    kind: JoinKind
    on: exp.Expr | None = None
    using: tuple[Name, ...] = ()
    span: Span | None = field(default=None, compare=False)

    def cql(self) -> str:
        using = f"USING ({listed(self.using)})" if self.using else ""
        return joined(self.left.cql(), f"{self.kind.upper()} JOIN", self.right.cql(), worded("ON", self.on), using)


Reference = StreamRef | SubqueryRef | Join


@dataclass(frozen=True)
class SelectItem:
    """`price * 2 AS double`; the expression of `*` is an exp.Star, of `t.*` an exp.Column of a star."""

    expression: exp.Expr
    alias: Name | None = None

    def cql(self) -> str:
        return joined(part_text(self.expression), worded("AS", self.alias))


@dataclass(frozen=True)
class OrderItem:
    expression: exp.Expr
    descending: bool = False
    nulls_first: bool | None = None

    def cql(self) -> str:
        nulls = "" if self.nulls_first is None else f"NULLS {'FIRST' if self.nulls_first else 'LAST'}"
        return joined(part_text(self.expression), "DESC" if self.descending else "", nulls)


#: When windows are evaluated (SPEC Q-40): at every arrival, once per instant, or per batch of equal times.
Model = Literal["tuple", "time", "batch"]


@dataclass(frozen=True)
class Select:
    """`SELECT entries FROM reference [WHERE] [GROUP BY] [HAVING] [ORDER BY] [LIMIT]`, and clauses in the order of
    `clauses.QUERY_CLAUSES`."""

    entries: tuple[SelectItem, ...]
    source: Reference
    where: exp.Expr | None = None
    group_by: tuple[exp.Expr, ...] = ()
    having: exp.Expr | None = None
    order_by: tuple[OrderItem, ...] = ()
    limit: int | None = None
    distinct: bool = False
    clauses: tuple[QueryClause, ...] = ()
    span: Span | None = field(default=None, compare=False)

    def cql(self) -> str:
        return joined(
            "SELECT DISTINCT" if self.distinct else "SELECT",
            listed(self.entries),
            worded("FROM", self.source),
            worded("WHERE", self.where),
            worded("GROUP BY", self.group_by),
            worded("HAVING", self.having),
            worded("ORDER BY", self.order_by),
            "" if self.limit is None else f"LIMIT {self.limit}",
            *map(part_text, self.clauses),
        )


@dataclass(frozen=True)
class Insert:
    """`INSERT INTO stream [AS] SELECT ... | MERGE ...`"""

    target: Name
    query: Select | Merge

    def cql(self) -> str:
        target = self.target.cql()
        if target.upper() == "CONSOLE":  # without quotes it would be the sink
            target = f"`{target}`"
        return f"INSERT INTO {target} AS {self.query.cql()}"


@dataclass(frozen=True)
class InsertSink:
    """`INSERT INTO FILE ('path') | CONSOLE [AS] SELECT ...`: results that leave the session."""

    sink: Literal["file", "console"]
    path: str | None
    query: Select | Merge

    def cql(self) -> str:
        sink = "CONSOLE" if self.path is None else f"FILE ({quoted(self.path)})"
        return f"INSERT INTO {sink} AS {self.query.cql()}"


@dataclass(frozen=True)
class SplitClause:
    """One target of a split; `stream` is what its own FROM says, if it has one."""

    target: Name
    entries: tuple[SelectItem, ...]
    where: exp.Expr | None
    stream: Name | None = None

    def cql(self) -> str:
        insert = f"INSERT INTO {self.target.cql()} AS SELECT {listed(self.entries)}"
        return joined(insert, worded("FROM", self.stream), worded("WHERE", self.where))


@dataclass(frozen=True)
class Split:
    """`ON stream INSERT INTO a SELECT ... WHERE ...; INSERT INTO b ...`"""

    source: Name
    clauses: tuple[SplitClause, ...]

    def cql(self) -> str:
        return f"ON {self.source.cql()} {' '.join(map(part_text, self.clauses))}"


#: What a statement goes through, in order.
Phase = Literal["parse", "rewrite", "resolve", "compile"]
PHASES: tuple[Phase, ...] = get_args(Phase)


@dataclass(frozen=True)
class Explain:
    """`EXPLAIN [phase] statement`; `phase` None: the plan."""

    statement: Statement
    phase: Phase | None = None

    def cql(self) -> str:
        return joined("EXPLAIN", (self.phase or "").upper(), self.statement.cql())


@dataclass(frozen=True)
class Show:
    what: Literal["streams", "schemas", "queries"]

    def cql(self) -> str:
        return f"SHOW {self.what.upper()}"


@dataclass(frozen=True)
class Describe:
    name: Name

    def cql(self) -> str:
        return f"DESCRIBE {self.name.cql()}"


@dataclass(frozen=True)
class Drop:
    what: Literal["stream", "schema", "query"]
    name: Name

    def cql(self) -> str:
        return f"DROP {self.what.upper()} {self.name.cql()}"


Statement = (
    CreateSchema | CreateStream | Select | Merge | Insert | InsertSink | Split | Explain | Show | Describe | Drop
)
