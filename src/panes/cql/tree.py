"""What CQL text says, as small frozen values: one class per statement and clause.

Scalar expressions are sqlglot trees; everything that is CQL's own is here. Names keep their place in the
text, which does not count when trees are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from sqlglot import exp


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


# --- definitions ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Attribute:
    """`price DOUBLE`"""

    name: Name
    type: Name


Attributes = tuple[Attribute, ...]


@dataclass(frozen=True)
class CreateSchema:
    """`CREATE SCHEMA name (a INT, ...) [EXTENDS parent]`, or a copy: `CREATE SCHEMA name other`."""

    name: Name
    definition: Name | Attributes
    extends: Name | None = None


@dataclass(frozen=True)
class FileSource:
    """`SOURCE FILE ('path' [, 'delimiter'])`"""

    path: str
    delimiter: str | None = None


@dataclass(frozen=True)
class SocketSource:
    """`SOURCE SOCKET ('host', port [, 'delimiter'])`"""

    host: str
    port: int
    delimiter: str | None = None


@dataclass(frozen=True)
class NamedSource:
    """`SOURCE STREAM ('name')`: data that the program gave under that name."""

    name: str


RawSource = FileSource | SocketSource | NamedSource


@dataclass(frozen=True)
class Duration:
    """`5 min`, `1 month`, or a bare number in the units of an attribute."""

    number: int | float
    unit: str | None = None


@dataclass(frozen=True)
class CreateStream:
    """`CREATE STREAM name schema [SOURCE ... | AS ...] [WATERMARK d [ON ts]] [LATENESS d] [IDLE d] [TIMEOUT d]`

    `schema` is None only where it follows from `AS SELECT`.
    """

    name: Name
    schema: Name | Attributes | None
    source: RawSource | None = None
    query: Select | Merge | None = None
    watermark: Watermark | None = None
    lateness: Duration | None = None
    idle: Duration | None = None
    timeout: Duration | None = None


@dataclass(frozen=True)
class Watermark:
    """`WATERMARK 2 sec ON ts`: which attribute is the event time, and how much disorder to wait for."""

    delay: Duration
    on: Name | None = None


# --- queries ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Merge:
    """`MERGE a, b, c`"""

    streams: tuple[Name, ...]


@dataclass(frozen=True)
class Measure:
    """A length in a window: `100` rows, `3 sec` of system time, `60 ON ts` or `10 min ON ts` of an attribute."""

    length: Duration
    on: Name | None = None

    @property
    def kind(self) -> Literal["rows", "system", "attribute"]:
        if self.on is not None:
            return "attribute"
        return "rows" if self.length.unit is None else "system"


@dataclass(frozen=True)
class Policy:
    """One policy of a POLICY window: `100 ROWS` or `10 min ON ts`, `DELTA 5 ON price`, `WHEN (kind = 'end')`."""

    measure: Measure | None = None
    #: DELTA: how far values may be apart
    threshold: float | None = None
    #: DELTA: by which expression; WHEN and UNTIL: the condition
    value: exp.Expr | None = None


@dataclass(frozen=True)
class Policies:
    """Several policies as one: `100 ROWS AND 10 min ON ts`."""

    rule: Literal["AND", "OR"]
    parts: tuple[Policy | Policies, ...]


def policy_leaves(given: Policy | Policies | None) -> Iterator[Policy]:
    """The policies that are not made of others, as they are written."""
    if isinstance(given, Policies):
        for part in given.parts:
            yield from policy_leaves(part)
    elif given is not None:
        yield given


def each_policy(given: Policy | Policies | None, change: Callable[[Policy], Policy]) -> Policy | Policies | None:
    """The same combination of changed policies."""
    if isinstance(given, Policies):
        made = tuple(each_policy(part, change) for part in given.parts)
        return Policies(given.rule, tuple(part for part in made if part is not None))
    return None if given is None else change(given)


#: What may stand first in the brackets.
WindowKind = Literal[
    "size", "session", "landmark", "fixed", "delta", "punctuated", "cumulate", "threshold", "band", "policy"
]


@dataclass(frozen=True)
class WindowClause:
    """`[SIZE 3 hours EVERY 1 hour PARTITIONED BY exchange WHERE quantity > 100000 AS fast]`

    One value for all kinds; which fields a kind uses is said at `WINDOW_FIELDS`. Two clauses that differ only
    in their label are the same window.
    """

    kind: WindowKind
    size: Measure | None = None
    every: Measure | None = None
    partitioned: tuple[Name, ...] = ()
    where: exp.Expr | None = None
    label: Name | None = None
    #: session: the gap, a length or an expression of the row
    gap: Measure | exp.Expr | None = None
    #: landmark, fixed, band: literals (a number or a datetime)
    start: exp.Expr | None = None
    end: exp.Expr | None = None
    #: delta: how far values may be apart, and by which expression; punctuated and threshold: conditions
    threshold: float | None = None
    on: exp.Expr | None = None
    begin: exp.Expr | None = None
    until: exp.Expr | None = None
    #: threshold: only runs of that many rows
    min_rows: int | None = None
    #: cumulate: the longest window; `size` is the step
    longest: Measure | None = None
    offset: Duration | None = None
    time_zone: str | None = None
    #: size: whether windows start or end at every slide; None: it is not said, so they end there
    align: Literal["start", "end"] | None = None
    #: size: a window is given only if its rows are others than those of the one before it
    changes: bool = False
    #: policy: which rows are kept (None: those since the last result), and when they are a result
    keep: Policy | Policies | None = None
    due: Policy | Policies | None = None
    span: Span | None = field(default=None, compare=False)


_ALL = frozenset({"partitioned", "where", "label"})
#: Which fields each kind of window uses. `on` is the column of the time where no length has one, but for
#: delta it is the value. The condition of a threshold window is its `begin`.
WINDOW_FIELDS: Mapping[WindowKind, frozenset[str]] = {
    "size": _ALL | {"size", "every", "on", "offset", "time_zone", "align", "changes"},
    "session": _ALL | {"gap", "on"},
    "landmark": _ALL | {"start", "every", "on"},
    "fixed": _ALL | {"start", "end", "on"},
    "band": _ALL | {"start", "size", "on"},
    "delta": _ALL | {"threshold", "on"},
    "punctuated": _ALL | {"begin", "until", "on"},
    "threshold": _ALL | {"begin", "min_rows", "on"},
    "cumulate": _ALL | {"size", "longest", "on", "offset"},
    "policy": _ALL | {"keep", "due", "on"},
}


@dataclass(frozen=True)
class StreamRef:
    """`trades [SIZE 10] [SIZE 20 AS slow] AS t`: a stream by name, with any number of windows."""

    name: Name
    windows: tuple[WindowClause, ...] = ()
    alias: Name | None = None


@dataclass(frozen=True)
class SubqueryRef:
    """`(SELECT ...) [SIZE 10] AS t`"""

    query: Select
    windows: tuple[WindowClause, ...] = ()
    alias: Name | None = None
    span: Span | None = field(default=None, compare=False)


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


Reference = StreamRef | SubqueryRef | Join


@dataclass(frozen=True)
class Entry:
    """`price * 2 AS double`; the expression of `*` is an exp.Star, of `t.*` an exp.Column of a star."""

    expression: exp.Expr
    alias: Name | None = None


@dataclass(frozen=True)
class OrderItem:
    expression: exp.Expr
    descending: bool = False
    nulls_first: bool | None = None


#: When windows are evaluated (SPEC Q-40): at every arrival, once per instant, or per batch of equal times.
Model = Literal["tuple", "time", "batch"]


@dataclass(frozen=True)
class EmitEarly:
    """`EMIT EARLY EVERY d [BY CLOCK]`, or `EVERY BATCH`: no length."""

    every: Duration | None
    clock: bool = False


@dataclass(frozen=True)
class Select:
    """`SELECT entries FROM reference [WHERE] [GROUP BY] [HAVING] [ORDER BY] [LIMIT] [EVALUATE model DRIVEN]
    [EMIT EARLY EVERY d]`"""

    entries: tuple[Entry, ...]
    source: Reference
    where: exp.Expr | None = None
    group_by: tuple[exp.Expr, ...] = ()
    having: exp.Expr | None = None
    order_by: tuple[OrderItem, ...] = ()
    limit: int | None = None
    distinct: bool = False
    model: Model | None = None
    early: EmitEarly | None = None
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Insert:
    """`INSERT INTO stream [AS] SELECT ... | MERGE ...`"""

    target: Name
    query: Select | Merge


@dataclass(frozen=True)
class InsertSink:
    """`INSERT INTO FILE ('path') | CONSOLE [AS] SELECT ...`: results that leave the session."""

    sink: Literal["file", "console"]
    path: str | None
    query: Select | Merge


@dataclass(frozen=True)
class SplitClause:
    """One target of a split; `stream` is what its own FROM says, if it has one."""

    target: Name
    entries: tuple[Entry, ...]
    where: exp.Expr | None
    stream: Name | None = None


@dataclass(frozen=True)
class Split:
    """`ON stream INSERT INTO a SELECT ... WHERE ...; INSERT INTO b ...`"""

    source: Name
    clauses: tuple[SplitClause, ...]


# --- questions about the session --------------------------------------------------------------------------


@dataclass(frozen=True)
class Explain:
    """`EXPLAIN [phase] statement`; `phase` is parse, rewrite, resolve or compile, None: the plan."""

    statement: Statement
    phase: str | None = None


@dataclass(frozen=True)
class Show:
    what: Literal["streams", "schemas", "queries"]


@dataclass(frozen=True)
class Describe:
    name: Name


@dataclass(frozen=True)
class Drop:
    what: Literal["stream", "schema", "query"]
    name: Name


Query = Select | Merge
Statement = (
    CreateSchema | CreateStream | Select | Merge | Insert | InsertSink | Split | Explain | Show | Describe | Drop
)
