"""What CREATE STREAM says of the time and the silence of a stream: one class per clause, and the table of them.

    WATERMARK 2 sec ON ts      LATENESS 1 hour      IDLE 10 sec      TIMEOUT 1 min

Each is an option of `pn.stream` of the same name. A new clause is a class here and a row of STREAM_CLAUSES.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar

import pyarrow as pa

from panes.cql.dialect import joined, worded
from panes.cql.lengths import duration, in_units_of, length_of_micros, length_of_ticks
from panes.cql.tree import Name, Quantity
from panes.errors import QueryError
from panes.plan.silence import silent_for, span
from panes.slicing.spec import MANUAL

if TYPE_CHECKING:
    from panes.cql.grammar.statements import StatementReader
    from panes.plan.query import StreamPlan

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
