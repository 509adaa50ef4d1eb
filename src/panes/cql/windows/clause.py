"""Windows in brackets: what all kinds of them share, and what each kind says of itself.

A kind is a subclass of `WindowClause`. Its fields say by `held` what they are, and from that the phases know what to do
with them: how to read and to write them, to give their columns other names (rewrite), to find and to check them
(resolve), which lengths and columns there are (`timing`). How a kind is built as a window of the Python API, and found
again in one, are its methods.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeVar

from sqlglot import exp

from panes.cql.dialect import joined, part_text, quoted, worded
from panes.cql.lengths import duration, length_of
from panes.cql.tree import Extent, Model, Name, Quantity, Span
from panes.errors import QueryError
from panes.plan.expressions import column_node, text_of
from panes.units import Rows, TimeDomain, is_number, rows
from panes.windows.base import Window

if TYPE_CHECKING:
    from panes.cql.grammar.windows import WindowReader

C = TypeVar("C", bound="WindowClause")
#: What was read of a clause: its fields.
Fields = dict[str, Any]
#: What a field of a clause is. A `length` may be an expression of the row, too; a `column` is one, of a single name;
#: `policies` hold lengths and expressions themselves.
Role = Literal[
    "length", "offset", "columns", "condition", "number or time", "column", "policies",
    "point", "distance", "row count", "zone", "align", "flag", "label",
]  # fmt: skip


#: Roles of what is the same for every stream.
_ALONE = frozenset({"point", "distance", "row count", "zone", "align", "flag"})


class ClausePart(NamedTuple):
    """What a field is, the words before it, how messages call it, and whether constants in it are computed."""

    role: Role
    words: str
    called: str
    folded: bool = False


#: Makes of a part and what a clause holds there what another clause is to hold.
Change = Callable[[ClausePart, Any], Any]


def held(role: Role, words: str = "", *, called: str = "") -> dict[str, ClausePart]:
    """What a field of a clause is, as its metadata."""
    return {"part": ClausePart(role, words, called or words, role == "condition")}


@cache
def _parts_of(kind: type[WindowClause]) -> tuple[tuple[str, ClausePart], ...]:
    """What the fields of a kind are, as they are written."""
    return tuple((f.name, f.metadata["part"]) for f in fields(kind) if "part" in f.metadata)


@cache
def _of_rows(kind: type[WindowClause]) -> tuple[tuple[str, ClausePart], ...]:
    """The fields of a kind that are about rows of the stream: lengths, columns and expressions, lengths first."""
    found = [(name, part) for name, part in _parts_of(kind) if part.role not in _ALONE]
    return tuple(sorted(found, key=lambda item: item[1].role != "length"))


@dataclass(frozen=True)
class WindowClause(ABC):
    """`[SIZE 3 hours EVERY 1 hour PARTITIONED BY exchange WHERE quantity > 100000 AS fast]`

    The fields here are those that all kinds have. Two clauses that differ only in their label are the same window.
    """

    #: the word that it begins with, words besides those of its parts, and those that begin a line in a long clause
    word: ClassVar[str]
    words: ClassVar[tuple[str, ...]] = ()
    breaks: ClassVar[tuple[str, ...]] = ()
    #: options that may follow, besides those of all kinds: see `grammar.windows.OPTIONS`
    options: ClassVar[frozenset[str]] = frozenset({"on"})
    #: the windows of the Python API that it is written for
    windows: ClassVar[tuple[type[Window], ...]]
    #: whether its bounds lie on what its lengths and columns are on, and whether they are known without any row
    has_bounds: ClassVar[bool] = True
    knows_bounds: ClassVar[bool] = True

    partitioned: tuple[Name, ...] = field(default=(), kw_only=True, metadata=held("columns", "PARTITIONED BY"))
    where: exp.Expr | None = field(default=None, kw_only=True, metadata=held("condition", "WHERE"))
    label: Name | None = field(default=None, kw_only=True)
    span: Span | None = field(default=None, compare=False, kw_only=True)

    @classmethod
    def keywords(cls) -> set[str]:
        """The words that it is written with."""
        return {cls.word, *cls.words, *(word for _, part in _parts_of(cls) for word in part.words.split())}

    @classmethod
    def read(cls, reader: WindowReader) -> Fields:
        """What stands behind the first word, up to the options: fields in their order, each behind its words."""
        read = {}
        if "FROM" in cls.words:
            reader.take("FROM")
        for own in fields(cls):
            needed = own.default is MISSING
            if own.kw_only or (own.name in cls.options and not needed):
                continue
            part: ClausePart = own.metadata["part"]
            if needed and part.words:
                reader.expect(part.words)
            if needed or reader.take(*part.words.split()):
                read[own.name] = reader.part(part.role)
        return read

    @classmethod
    def with_one_time(cls, fields: Fields, reader: WindowReader) -> Fields:
        """Let an ON at the end hold for all lengths in units of time that have none of their own."""
        return reader.with_one_on(fields)

    def cql(self) -> str:
        shared = worded("PARTITIONED BY", self.partitioned), worded("WHERE", self.where), worded("AS", self.label)
        return f"[{joined(self.word, *self.pieces(), *shared)}]"

    def pieces(self) -> Iterator[str]:
        """What stands behind the first word, up to PARTITIONED BY."""
        for own in fields(self):
            value = getattr(self, own.name)
            if not own.kw_only and value is not None:
                yield _written(own.metadata["part"], value)

    @abstractmethod
    def window(self, time: str | None) -> Window:
        """The window of the Python API; `time` is the column that the stream's time is (None: arrival)."""

    @classmethod
    @abstractmethod
    def of(cls: type[C], window: Any, writer: ClauseWriter) -> C:
        """The clause of a window of the Python API, which is one of `windows`."""

    def evaluated(self, time: str | None, model: Model | None, domain: TimeDomain) -> Window:
        """The window as a model of other engines evaluates it."""
        if model in (None, "tuple"):
            return self.window(time)
        raise QueryError(f"EVALUATE {model.upper()} DRIVEN is for windows with a SIZE, not for {self.word}")

    def contents(self) -> Iterator[tuple[ClausePart, Any]]:
        """What it says of rows: lengths, columns and expressions, lengths first."""
        for name, part in _of_rows(type(self)):
            value = getattr(self, name)
            if value is not None:
                yield from value.contents() if part.role == "policies" else ((part, value),)

    def changed(self: C, change: Change) -> C:
        """The same with other lengths, columns and expressions; lengths are changed first."""
        made: Fields = {}
        for name, part in _of_rows(type(self)):
            value = getattr(self, name)
            if value is not None:
                made[name] = value.changed(change) if part.role == "policies" else change(part, value)
        return replace(self, **made)

    def extents(self) -> Iterator[Extent]:
        """The lengths that it has."""
        return (value for _, value in self.contents() if isinstance(value, Extent))

    def attributes(self) -> Iterator[str]:
        """The attributes that its lengths and points are on."""
        yield from (length.on.text for length in self.extents() if length.on is not None)
        yield from (
            value.name for part, value in self.contents() if part.role == "column" and isinstance(value, exp.Column)
        )

    @property
    def is_time_based(self) -> bool:
        """Whether its edges lie on time or an attribute alone, whatever rows there are."""
        return self.knows_bounds and all(length.kind != "rows" for length in self.extents())

    def on_time(self, time: str | None) -> bool:
        """Whether its bounds lie on the time that its query runs on, so that they are times."""
        lengths = all(length.kind != "rows" for length in self.extents())
        return self.has_bounds and lengths and all(name == time for name in self.attributes())

    @property
    def same_for_parts(self) -> bool:
        """Whether windows of a part of the rows are that part of the windows of all rows."""
        return self.is_time_based

    def shape(self) -> object:
        """What must be the same on both sides of a join; attributes may have other names there."""
        own = [f for f in fields(self) if not f.kw_only and f.metadata["part"].role != "column"]
        return type(self), tuple(_shaped(getattr(self, f.name)) for f in own)

    def refused(self) -> tuple[str, str] | None:
        """What is wrong with it whatever the stream, and what to do; None: nothing."""
        return None

    def refused_in_joins(self, alias: str) -> tuple[str, str] | None:
        """Why the side `alias` of a join can't have it, and what to do; None: it can."""
        if self.is_time_based:
            return None
        why = "counts rows" if self.knows_bounds else "ends where its rows say"
        return (
            f"the window of {alias} {why}, and a join needs time-based windows",
            "rows of two streams belong together by time: write [SIZE 3 sec] or [SIZE 3 sec ON ts]",
        )

    def note(self) -> tuple[str, str] | None:
        """What may not be what was meant, and what to write otherwise; None: nothing."""
        return None

    def label_text(self, place: int) -> str:
        """The name of the window, which is the one at `place` of its stream."""
        return self.label.text if self.label is not None else f"w{place + 1}" if place else "window"


def _written(part: ClausePart, value: Any) -> str:
    if part.role == "flag":
        return part.words if value else ""
    if part.role == "distance":
        return f"{value:.17g}"
    if part.role == "row count":
        return f"{part.words} {value} ROWS"
    if part.role == "zone":
        return f"{part.words} {quoted(value)}"
    if part.role == "align":
        return f"{part.words} {value.upper()}"
    return worded(part.words, value) if part.words else part_text(value)


def _shaped(value: object) -> object:
    if isinstance(value, Extent):
        return value.length, value.kind
    return text_of(value) if isinstance(value, exp.Expr) else value


def built_extent(extent: Extent, time: str | None) -> tuple[Any, str | None]:
    """A length as the Python API takes it, and the column it is on if that is not the time."""
    size = duration(extent.length)
    if extent.on is None:
        return (rows(int(extent.length.number)), None) if extent.kind == "rows" else (size, None)
    return (size, None) if extent.on.text == time else (size, extent.on.text)


def built_point(tree: exp.Expr) -> Any:
    """A literal: a date and time as text, or a number."""
    if isinstance(tree, exp.Neg):
        return -built_point(tree.this)
    if isinstance(tree, exp.Literal) and tree.is_string:
        return tree.this
    number = float(tree.name)
    return int(number) if number.is_integer() else number


@dataclass(frozen=True)
class ClauseWriter:
    """Lengths and columns of windows of the Python API as clauses have them; `time` None: arrival."""

    time: str | None
    domain: TimeDomain

    def extent(self, size: Any, on: str | None) -> Extent:
        """A length on a column, or on the time of the stream."""
        if isinstance(size, Rows):
            return Extent(Quantity(size.count))
        on = self.time if on is None else on
        return Extent(self.length(size), None if on is None else Name(on))

    def length(self, size: Any) -> Quantity:
        if is_number(size):
            return Quantity(size)
        found = length_of(size)
        if found is None or (self.domain.integer and found.unit not in ("month", "year")):
            return Quantity(self.domain.ticks(size), None if self.domain.integer else self.domain.unit)
        return found

    def offset(self, offset: Any) -> Quantity | None:
        if offset == "first row":
            raise QueryError('to_cql(): offset="first row" is part of EVALUATE TIME DRIVEN in CQL')
        return None if offset is None else self.length(offset)

    def column(self, on: str | None) -> exp.Expr | None:
        on = self.time if on is None else on
        return None if on is None else column_node(on)

    def point(self, value: Any) -> exp.Expr:
        if isinstance(value, str):
            return exp.Literal.string(value)
        number = exp.Literal.number(abs(value))
        return exp.Neg(this=number) if value < 0 else number


def cannot_write(window: Window, why: str) -> QueryError:
    return QueryError(f"to_cql(): {window!r} can't be written as CQL: {why}")
