"""What a SELECT says, last of all, of how its windows are evaluated and given: one class per clause, and their table.

    EVALUATE TIME DRIVEN      EMIT EARLY EVERY 10 sec BY CLOCK

A new clause is a class here and a row of QUERY_CLAUSES.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar, get_args

from panes.cql.lengths import duration, length_of_micros, length_of_ticks
from panes.cql.tree import Model, Quantity
from panes.plan.query import BATCH

if TYPE_CHECKING:
    from panes.api.stream import Query
    from panes.cql.catalog import ResolvedSelect
    from panes.cql.grammar.queries import QueryReader
    from panes.plan.query import QueryPlan

Q = TypeVar("Q", bound="QueryClause")


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
