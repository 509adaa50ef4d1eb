"""What CREATE STREAM says of the time and the silence of a stream, and a SELECT, last of all, of how its windows are
evaluated and given: one class per clause, and two tables of them.

    WATERMARK 2 sec ON ts      LATENESS 1 hour      IDLE 10 sec      TIMEOUT 1 min
    EVALUATE TIME DRIVEN       EMIT EARLY EVERY 10 sec BY CLOCK

Each clause of a stream is an option of `pn.stream` of the same name. A new clause is a class here and a row of
STREAM_CLAUSES or QUERY_CLAUSES.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar, get_args

import pyarrow as pa

from panes.cql.dialect import joined, worded
from panes.cql.lengths import duration, in_units_of, length_of_micros, length_of_ticks
from panes.cql.tree import Model, Name, Quantity
from panes.errors import QueryError
from panes.plan.query import BATCH
from panes.plan.silence import silent_for, span
from panes.slicing.spec import MANUAL

if TYPE_CHECKING:
    from panes.api.stream import Query
    from panes.cql.catalog import ResolvedSelect
    from panes.cql.grammar.queries import QueryReader
    from panes.cql.grammar.statements import StatementReader
    from panes.plan.query import QueryPlan, StreamPlan

Q = TypeVar("Q", bound="QueryClause")
S = TypeVar("S", bound="StreamClause")
#: Raises an error with a message and a hint.
Refuse = Callable[[str, str], NoReturn]


@dataclass(frozen=True)
class StreamClause(ABC):
    """A clause, which is a length of time."""

    word: ClassVar[str]
    #: whether only streams with a SOURCE have it, not those that a query derives
    of_sources: ClassVar[bool] = False

    length: Quantity

    @classmethod
    def read(cls: type[S], reader: StatementReader) -> S:
        return cls(reader.duration("a length such as 2 sec"))

    def resolved(self: S, time: pa.DataType | None, refuse: Refuse) -> S:
        """The clause where the event time is of a type, or is not known; refused where it means nothing."""
        return self if time is None else replace(self, length=in_units_of(self.length, time))

    def holds_on(self, time: str | None) -> bool:
        """Whether it holds where rows run on this column; None: by their arrival."""
        return time is not None

    def cql(self) -> str:
        return f"{self.word} {self.length.cql()}"

    @property
    def option(self) -> dict[str, Any]:
        """As `pn.stream` and `with_time` take it."""
        return {self.word.lower(): duration(self.length)}

    @classmethod
    @abstractmethod
    def of(cls: type[S], plan: StreamPlan, time: str | None) -> S | None:
        """The clause of a stream of the Python API, if it has one; `time` None: arrival."""


@dataclass(frozen=True)
class Watermark(StreamClause):
    """`WATERMARK 2 sec ON ts`: which attribute is the event time, and how much disorder to wait for."""

    word = "WATERMARK"
    on: Name | None = None

    @classmethod
    def read(cls, reader: StatementReader) -> Watermark:
        return replace(super().read(reader), on=reader.name("a column") if reader.take("ON") else None)

    def cql(self) -> str:
        return joined(super().cql(), worded("ON", self.on))

    def holds_on(self, time: str | None) -> bool:
        return time is not None and (self.on is None or self.on.text == time)

    @classmethod
    def of(cls, plan: StreamPlan, time: str | None) -> Watermark | None:
        if time is None:
            return None
        if plan.watermark == MANUAL:
            raise QueryError("to_cql(): watermark='manual' is moved by the program, which CQL can't say")
        return cls(length_of_ticks(int(plan.watermark or 0), plan.domain), Name(time))


class Lateness(StreamClause):
    """`LATENESS 1 hour`: how long late rows correct results."""

    word = "LATENESS"

    @classmethod
    def of(cls, plan: StreamPlan, time: str | None) -> Lateness | None:
        return None if plan.lateness is None else cls(length_of_ticks(plan.lateness, plan.domain))


class _Silence(StreamClause):
    """A span of the clock in which no row comes."""

    of_sources = True

    def resolved(self: S, time: pa.DataType | None, refuse: Refuse) -> S:
        number, unit = self.length.number, self.length.unit
        if unit is None:
            refuse(f"{self.word} {number} has no unit", f"write {self.word} {number} sec")
        try:
            silent_for(f"{number} {unit}", self.word)
        except QueryError as error:
            refuse(str(error), "")
        return self


class Idle(_Silence):
    """`IDLE 10 sec`: after so long the clock moves the watermark."""

    word = "IDLE"

    @classmethod
    def of(cls, plan: StreamPlan, time: str | None) -> Idle | None:
        return None if plan.silence.idle is None else cls(length_of_micros(plan.silence.idle))


class Timeout(_Silence):
    """`TIMEOUT 1 min`: after so long the stream has ended."""

    word = "TIMEOUT"

    def holds_on(self, time: str | None) -> bool:
        return True

    @classmethod
    def of(cls, plan: StreamPlan, time: str | None) -> Timeout | None:
        return None if plan.silence.timeout is None else cls(length_of_micros(plan.silence.timeout))


#: Every clause by its word, in the order in which they are written.
STREAM_CLAUSES: Mapping[str, type[StreamClause]] = {kind.word: kind for kind in (Watermark, Lateness, Idle, Timeout)}


def clauses_of(plan: StreamPlan, time: str | None) -> tuple[StreamClause, ...]:
    """The clauses that a stream of the Python API has; `time` None: arrival."""
    found = (kind.of(plan, time) for kind in STREAM_CLAUSES.values())
    return tuple(clause for clause in found if clause is not None)


def options_of(plan: StreamPlan) -> dict[str, Any]:
    """What a stream of the Python API says of its time, as `pn.stream` takes it."""
    unit = plan.domain.unit
    options: dict[str, Any] = {"time_unit": unit} if plan.domain.integer else {}
    options["keep_late"] = plan.keep_late
    if plan.silence.idle is not None:
        options["idle"] = span(plan.silence.idle)
    if plan.silence.clock is not None:
        options["clock"] = plan.silence.clock
    for name, ticks in (("watermark", plan.watermark), ("lateness", plan.lateness)):
        if isinstance(ticks, int):
            options[name] = ticks if plan.domain.integer else f"{ticks} {unit}"
    return options


@dataclass(frozen=True)
class QueryClause(ABC):
    """A clause of a select over windows."""

    word: ClassVar[str]
    #: what it is about, which is missing where there is no window
    about: ClassVar[str]
    #: columns that results have by this clause alone, with what to say where it is not there
    columns: ClassVar[Mapping[str, str]] = {}
    #: whether results are given again
    revises: ClassVar[bool] = False
    #: why it can't be where windows with conditions of their own are queries of their own; "": it can
    apart: ClassVar[str] = ""

    @classmethod
    @abstractmethod
    def read(cls: type[Q], reader: QueryReader) -> Q:
        """Read it behind its word."""

    @abstractmethod
    def cql(self) -> str: ...

    def said(self) -> str:
        """The clause in words, for EXPLAIN."""
        return self.cql().lower()

    def refused(self, query: ResolvedSelect) -> tuple[str, str] | None:
        """Why a select over windows can't have it, and what to write instead."""
        return None

    def refused_in_relation(self) -> str:
        """Why it can't be where windows give rows and groups of their own, or ""."""
        return ""

    def applied(self, query: Query) -> Query:
        """Aggregates of windows as the clause gives them."""
        return query

    @classmethod
    @abstractmethod
    def of(cls: type[Q], plan: QueryPlan, model: Model | None) -> Q | None:
        """The clause of a query of the Python API, if it has one; `model`: by which its windows are evaluated."""


@dataclass(frozen=True)
class Evaluate(QueryClause):
    """`EVALUATE TIME DRIVEN`: by which model of other engines windows are evaluated (SPEC Q-40)."""

    word = "EVALUATE"
    about = "when windows are evaluated"
    model: Model

    @classmethod
    def read(cls, reader: QueryReader) -> Evaluate:
        models: tuple[Model, ...] = get_args(Model)
        model = next((model for model in models if reader.take(model.upper())), None)
        if model is None:
            reader.fail_expecting(*(model.upper() for model in models))
        reader.expect("DRIVEN")
        return cls(model)

    def cql(self) -> str:
        return f"EVALUATE {self.model.upper()} DRIVEN"

    def said(self) -> str:
        return f"evaluated {self.model} driven"

    @classmethod
    def of(cls, plan: QueryPlan, model: Model | None) -> Evaluate | None:
        return None if model is None else cls(model)


@dataclass(frozen=True)
class EmitEarly(QueryClause):
    """`EMIT EARLY EVERY d [BY CLOCK]`, or `EVERY BATCH`: no length."""

    word = "EMIT"
    about = "when open windows are given"
    columns: ClassVar[Mapping[str, str]] = {
        "final": "all results are final, unless windows are given before they close: EMIT EARLY EVERY 10 sec"
    }
    revises = True
    apart = "EMIT EARLY is for windows that see the same rows; these have conditions of their own"
    every: Quantity | None
    clock: bool = False

    @classmethod
    def read(cls, reader: QueryReader) -> EmitEarly:
        reader.expect("EARLY")
        reader.expect("EVERY")
        if reader.take("BATCH"):
            return cls(None)
        every = reader.duration("how often, such as 10 sec")
        clock = reader.take("BY")
        if clock:
            reader.expect("CLOCK")
        return cls(every, clock)

    def cql(self) -> str:
        every = "BATCH" if self.every is None else self.every.cql()
        return f"EMIT EARLY EVERY {every}{' BY CLOCK' if self.clock else ''}"

    def refused(self, query: ResolvedSelect) -> tuple[str, str] | None:
        if query.joined or not query.aggregated or query.distinct or query.limit is not None:
            instead = "select aggregates, without DISTINCT, LIMIT or JOIN, or leave EMIT out"
            return "EMIT EARLY is for aggregates of windows, not for their rows", instead
        return None

    def refused_in_relation(self) -> str:
        return "EMIT EARLY is for aggregates per key and window, not for groups inside of a window"

    def applied(self, query: Query) -> Query:
        return query.early(BATCH if self.every is None else duration(self.every), clock=self.clock)

    @classmethod
    def of(cls, plan: QueryPlan, model: Model | None) -> EmitEarly | None:
        early = plan.early
        if early is None:
            return None
        if early.clock is not None:
            return cls(length_of_micros(early.clock), clock=True)
        return cls(None if early.every is None else length_of_ticks(early.every, plan.stream.domain))


#: Every clause by its word, in the order in which they are written.
QUERY_CLAUSES: Mapping[str, type[QueryClause]] = {kind.word: kind for kind in (Evaluate, EmitEarly)}


def absent_without(clauses: Iterable[QueryClause]) -> dict[str, str]:
    """Columns that results have not, since no clause gives them, and what to say of them."""
    given = {name for clause in clauses for name in clause.columns}
    known = {name: why for kind in QUERY_CLAUSES.values() for name, why in kind.columns.items()}
    return {name: why for name, why in known.items() if name not in given}


def model_of(clauses: Iterable[QueryClause]) -> Model | None:
    """The model by which windows are evaluated, if a clause names one."""
    return next((clause.model for clause in clauses if isinstance(clause, Evaluate)), None)


def clauses_of_query(plan: QueryPlan, model: Model | None) -> tuple[QueryClause, ...]:
    """The clauses that a query of the Python API has."""
    found = (kind.of(plan, model) for kind in QUERY_CLAUSES.values())
    return tuple(clause for clause in found if clause is not None)
