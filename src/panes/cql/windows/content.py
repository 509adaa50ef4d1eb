"""Windows that end where their rows say, by gaps, values or conditions.

    [SESSION 30 min ON ts]                   [DELTA 10 ON price]
    [PUNCTUATED BEGIN a = 1 UNTIL a = 2]     [PUNCTUATED UNTIL a = 2]     [THRESHOLD t > 90 AT LEAST 3 ROWS]

Only sessions have bounds that lie on the time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.tokens import TokenType

from panes import windows as pn
from panes.cql.lengths import length_of
from panes.cql.tree import Extent
from panes.cql.windows.clause import ClauseWriter, Fields, WindowClause, built_extent, cannot_write, held
from panes.plan.expressions import parse, text_of
from panes.windows.base import Window
from panes.windows.conditions import Punctuated, Threshold
from panes.windows.delta import Delta
from panes.windows.session import Session

if TYPE_CHECKING:
    from panes.cql.grammar.windows import WindowReader


@dataclass(frozen=True)
class SessionClause(WindowClause):
    """`[SESSION 30 min ON ts]`, or with a gap that each row says"""

    word = "SESSION"
    knows_bounds = False
    windows = (Session,)

    gap: Extent | exp.Expr = field(metadata=held("length", called="SESSION"))
    on: exp.Expr | None = field(default=None, metadata=held("column", "ON"))

    @classmethod
    def read(cls, reader: WindowReader) -> Fields:
        if reader.at_length():
            return {"gap": reader.extent()}
        if reader.at_sign(TokenType.PLUS):  # which is not kept: what is behind it may be read as a length
            reader.fail("a gap has no sign: write 30 min, or an expression of the row")
        return {"gap": reader.expression_here("a gap such as 30 min, or an expression")}

    def window(self, time: str | None) -> Window:
        if isinstance(self.gap, Extent):
            gap, on = built_extent(self.gap, time)
            return pn.session(gap, on=on)
        return pn.session(text_of(self.gap))

    @classmethod
    def of(cls, window: Session, writer: ClauseWriter) -> SessionClause:
        if isinstance(window.gap, str) and length_of(window.gap) is None:
            return cls(parse(window.gap), writer.column(window.on))
        return cls(writer.extent(window.gap, window.on))


@dataclass(frozen=True)
class DeltaClause(WindowClause):
    """`[DELTA 10 ON price]`: how far values may be apart, and by which expression"""

    word = "DELTA"
    has_bounds = knows_bounds = False
    windows = (Delta,)

    threshold: float = field(metadata=held("distance"))
    on: exp.Expr = field(metadata=held("number or time", "ON", called="DELTA ... ON"))

    def window(self, time: str | None) -> Window:
        return pn.delta(self.threshold, on=text_of(self.on))

    @classmethod
    def of(cls, window: Delta, writer: ClauseWriter) -> DeltaClause:
        if window.function is not None:
            raise cannot_write(window, "it has no clause for windows of the program")
        return cls(float(window.threshold), parse(window.on))


@dataclass(frozen=True)
class PunctuatedClause(WindowClause):
    """`[PUNCTUATED BEGIN a = 1 UNTIL a = 2]`"""

    word = "PUNCTUATED"
    words = ("END",)
    breaks = ("UNTIL",)
    has_bounds = knows_bounds = False
    windows = (Punctuated,)

    begin: exp.Expr | None = field(default=None, metadata=held("condition", "BEGIN", called="the beginning"))
    until: exp.Expr | None = field(default=None, metadata=held("condition", "UNTIL", called="the end"))
    on: exp.Expr | None = field(default=None, metadata=held("column", "ON"))

    @classmethod
    def read(cls, reader: WindowReader) -> Fields:
        read: Fields = {}
        if not (reader.at("UNTIL") or reader.at("END")):
            reader.take("BEGIN")
            read["begin"] = reader.condition()
        if reader.take("UNTIL") or reader.take("END"):
            read["until"] = reader.condition()
        return read

    def window(self, time: str | None) -> Window:
        begin, end = (None if given is None else text_of(given) for given in (self.begin, self.until))
        return pn.punctuated(begin=begin, end=end)

    @classmethod
    def of(cls, window: Punctuated, writer: ClauseWriter) -> PunctuatedClause:
        return cls(*(None if text is None else parse(text) for text in (window.begin, window.end)))


@dataclass(frozen=True)
class ThresholdClause(WindowClause):
    """`[THRESHOLD t > 90 AT LEAST 3 ROWS]`: runs of rows that a condition holds for, of so many rows or more"""

    word = "THRESHOLD"
    words = ("ROWS",)
    has_bounds = knows_bounds = False
    windows = (Threshold,)

    condition: exp.Expr = field(metadata=held("condition", called="the beginning"))
    min_rows: int | None = field(default=None, metadata=held("row count", "AT LEAST"))
    on: exp.Expr | None = field(default=None, metadata=held("column", "ON"))

    def window(self, time: str | None) -> Window:
        return pn.threshold(text_of(self.condition), min_rows=self.min_rows or 1)

    @classmethod
    def of(cls, window: Threshold, writer: ClauseWriter) -> ThresholdClause:
        return cls(parse(window.predicate), None if window.min_rows == 1 else window.min_rows)
