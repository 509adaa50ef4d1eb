"""Windows of the Python API as window clauses: the way back of `compile_windows`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from panes.cql.timing import is_mixed
from panes.cql.tree import Duration, Measure, Model, Name, WindowClause
from panes.cql.units import length_of
from panes.cql.write_policies import policy_clause
from panes.errors import QueryError
from panes.plan.expressions import column_node, parse
from panes.policies.policy import PolicyWindow
from panes.units import Rows, TimeDomain, is_number
from panes.windows.base import Window
from panes.windows.cumulate import Cumulate
from panes.windows.delta import Delta
from panes.windows.landmark import Fixed, FixedBand, Landmark
from panes.windows.models import OncePerInstant, OnChange
from panes.windows.periodic import Sliding, Tumbling
from panes.windows.punctuated import Punctuated
from panes.windows.session import Session
from panes.windows.threshold import Threshold


def clause_of(window: Window, time: str | None, domain: TimeDomain) -> tuple[WindowClause, Model | None]:
    """The clause of a window, and the model of execution that it stands for; `time` None: arrival."""
    return _Writer(time, domain).window(window)


class _Writer:
    def __init__(self, time: str | None, domain: TimeDomain) -> None:
        self._time = None if time is None else Name(time)
        self._domain = domain

    def window(self, window: Window) -> tuple[WindowClause, Model | None]:
        if isinstance(window, OncePerInstant):
            return self._plain(window.window), "time"
        if isinstance(window, OnChange):
            inner = window.window
            if isinstance(inner, Tumbling) and inner.offset == "first row":
                return self._plain(replace(inner, offset=None)), "time"
            if not isinstance(inner, Tumbling | Sliding):
                raise _cannot(window, "ON CHANGE is for windows with a size there")
            return replace(self._plain(inner), changes=True), None
        return self._plain(window), None

    def _plain(self, window: Window) -> WindowClause:
        if isinstance(window, Tumbling | Sliding):
            return self._periodic(window)
        if isinstance(window, Session):
            gap = window.gap
            if isinstance(gap, str) and length_of(gap) is None:
                return WindowClause("session", gap=parse(gap), on=self._on(window.on))
            return WindowClause("session", gap=self._measure(gap, window.on))
        if isinstance(window, Landmark):
            return WindowClause("landmark", start=_point(window.start), every=self._measure(window.every, window.on))
        if isinstance(window, Fixed):
            return WindowClause("fixed", start=_point(window.start), end=_point(window.end), on=self._on(window.on))
        if isinstance(window, FixedBand):
            return WindowClause("band", start=_point(window.start), size=self._measure(window.size, window.on))
        if isinstance(window, Delta) and window.function is None:
            return WindowClause("delta", threshold=float(window.threshold), on=parse(window.on))
        if isinstance(window, Punctuated):
            begin, until = (None if text is None else parse(text) for text in (window.begin, window.end))
            return WindowClause("punctuated", begin=begin, until=until)
        if isinstance(window, Threshold):
            rows = None if window.min_rows == 1 else window.min_rows
            return WindowClause("threshold", begin=parse(window.predicate), min_rows=rows)
        if isinstance(window, Cumulate):
            step, longest = self._measure(window.step, window.on), self._measure(window.max, window.on)
            return WindowClause("cumulate", size=step, longest=longest, offset=self._offset(window.offset))
        if isinstance(window, PolicyWindow):
            return policy_clause(window, self._measure)
        raise _cannot(window, "it has no clause for windows of the program")

    def _periodic(self, window: Tumbling | Sliding) -> WindowClause:
        size = self._measure(window.size, window.on)
        clause = WindowClause("size", size, offset=self._offset(window.offset), time_zone=window.tz)
        if isinstance(window, Sliding):
            return self._sliding(window, replace(clause, every=self._slide(window)))
        if isinstance(window.size, Rows) and not window.partial:
            raise _cannot(window, "windows on rows have partial=True there")
        return clause

    def _slide(self, window: Sliding) -> Measure:
        on = window.every_on
        if on is None and (is_number(window.every) or isinstance(window.size, Rows)):
            on = window.on
        return self._measure(window.every, None if isinstance(window.every, Rows) else on)

    def _sliding(self, window: Sliding, clause: WindowClause) -> WindowClause:
        """A clause with what says where windows lie, and whether unchanged ones are given."""
        if isinstance(window.every, Rows):
            if isinstance(window.size, Rows) and window.align == "start":
                return replace(clause, align="start")
            if not window.partial:
                raise _cannot(window, "windows that end after so many rows have partial=True there")
            return clause
        if is_mixed(clause):
            return replace(clause, changes=not window.unchanged)
        return clause if window.align == "end" else replace(clause, align="start")

    def _measure(self, size: Any, on: str | None) -> Measure:
        if isinstance(size, Rows):
            return Measure(Duration(size.count))
        return Measure(self._length(size), self._time if on is None else Name(on))

    def _length(self, size: Any) -> Duration:
        if is_number(size):
            return Duration(size)
        found = length_of(size)
        if found is None or (self._domain.integer and found.unit not in ("month", "year")):
            return Duration(self._domain.ticks(size), None if self._domain.integer else self._domain.unit)
        return found

    def _offset(self, offset: Any) -> Duration | None:
        if offset == "first row":
            raise QueryError('to_cql(): offset="first row" is part of EVALUATE TIME DRIVEN in CQL')
        return None if offset is None else self._length(offset)

    def _on(self, on: str | None) -> exp.Expr | None:
        if on is not None:
            return column_node(on)
        return None if self._time is None else column_node(self._time.text)


def _point(value: Any) -> exp.Expr:
    if isinstance(value, str):
        return exp.Literal.string(value)
    number = exp.Literal.number(abs(value))
    return exp.Neg(this=number) if value < 0 else number


def _cannot(window: Window, why: str) -> QueryError:
    return QueryError(f"to_cql(): {window!r} can't be written as CQL: {why}")
