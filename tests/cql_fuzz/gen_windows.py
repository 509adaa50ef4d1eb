"""Random window clauses that are valid for what they stand on."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from panes.cql.tree import Extent, Name, Quantity
from panes.cql.windows.clause import WindowClause
from panes.cql.windows.content import DeltaClause, PunctuatedClause, SessionClause, ThresholdClause
from panes.cql.windows.sized import BandClause, CumulateClause, FixedClause, LandmarkClause, SizeClause
from tests.cql_fuzz.gen_data import START
from tests.cql_fuzz.gen_terms import Terms
from tests.cql_fuzz.offers import Col, Offer
from tests.cql_fuzz.terms import Term, col, const


class Windows:
    """Windows on one stream; `time` is the column they run on, None the order of arrival."""

    def __init__(self, rng: random.Random, offer: Offer) -> None:
        self.rng, self.offer = rng, offer
        self.terms = Terms(rng, [(c, None) for c in offer.columns])
        self.system = False
        self.time_based = False
        self.time: Col | None = None
        self._choose_time()

    def _choose_time(self) -> None:
        rng, offer = self.rng, self.offer
        if offer.time is not None:
            self.time = offer.column(rng.choice((offer.time, *offer.also)))
        elif offer.can_be_time and rng.random() < 0.7:
            steady = [c for c in offer.can_be_time if c.steady]
            choose = steady if steady and rng.random() < 0.92 else offer.can_be_time
            self.time = rng.choice(choose)
        if rng.random() < 0.15 or (self.time is None and not offer.ordered):
            self.time, self.system = None, True

    def clause(self, *, time_based: bool = False) -> WindowClause:
        """One window; a predicate, groups and a label are added by others."""
        rng = self.rng
        self.time_based = time_based
        if self.system:
            return self._system(time_based)
        if self.time is None:
            return self._arrival()
        makers = [self._periodic] * 5 + [self._cumulate, self._landmark, self._fixed, self._band]
        if not time_based:
            makers += [self._session] * 2
            if self.offer.ordered:
                makers += [self._mixed, self._mixed, self._data_driven, self._data_driven]
                if self.offer.time is not None:
                    makers += [self._rows, self._rows]
        return rng.choice(makers)()

    # --- lengths ---

    def length(self, low: int = 1, high: int = 12) -> Extent:
        """A length on the time."""
        assert self.time is not None
        number = self.rng.randint(low, high)
        return Extent(self._duration(number), Name(self.time.name))

    def _duration(self, number: int) -> Quantity:
        assert self.time is not None
        if self.time.kind == "time":
            return Quantity(number, "sec") if self.rng.random() < 0.8 else Quantity(number * 1000, "ms")
        return Quantity(number, None) if self.rng.random() < 0.7 else Quantity(number, "ms")

    def count(self) -> Extent:
        return Extent(Quantity(self.rng.randint(1, 6)))

    def measures_beside(self) -> list[Col]:
        """Columns besides the time that windows may run on."""
        if self.time is not None and not self.time.steady:
            return []
        same = (self.offer.time, *self.offer.also)
        found = [c for c in self.offer.of("int", "float") if c.steady and c != self.time and self.offer.ordered]
        return [c for c in found if c.name not in same]

    def on_column(self, column: Col) -> Extent:
        return Extent(Quantity(self.rng.randint(1, 6)), Name(column.name))

    # --- kinds ---

    def _periodic(self) -> WindowClause:
        rng = self.rng
        size = self.length()
        every = self.length(1, 9) if rng.random() < 0.5 else None
        offset = self._duration(rng.randint(0, 4)) if rng.random() < 0.1 else None
        changes = not self.time_based and rng.random() < 0.05
        return SizeClause(size=size, every=every, offset=offset, align=self._align(), changes=changes)

    def _align(self) -> Any:
        return self.rng.choice((None, None, None, "start", "end"))

    def _mixed(self) -> WindowClause:
        """Two measures; the first that can be a time is the time."""
        beside = self.measures_beside()
        pairs = [(self.length(), self.count()), (self.count(), self.length())]
        if beside:
            column = self.on_column(self.rng.choice(beside))
            pairs += [(self.length(), column)]
            if self.offer.time is not None:
                pairs += [(column, self.length()), (column, self.count()), (self.count(), column), (column, column)]
        size, every = self.rng.choice(pairs)
        return SizeClause(size=size, every=every, changes=self.rng.random() < 0.3)

    def _rows(self) -> WindowClause:
        every = self.count() if self.rng.random() < 0.6 else None
        return SizeClause(size=self.count(), every=every, align=self._align())

    def _session(self) -> WindowClause:
        assert self.time is not None
        if self.rng.random() < 0.2 and self.time.kind == "int" and self.offer.of("int"):
            gap: Any = self.terms.of("int", 1)
            if gap.op != "col" and first_of(gap).op == "col":  # what begins with a number is a length
                return SessionClause(gap=gap, on=self._on())
        return SessionClause(gap=self.length(1, 6))

    def _on(self) -> Any:
        assert self.time is not None
        return col(self.time.name)

    def _cumulate(self) -> WindowClause:
        number, times = self.rng.randint(1, 5), self.rng.randint(1, 4)
        step, longest = (Extent(self._duration(n), Name(self._on().args[1])) for n in (number, number * times))
        return CumulateClause(step, longest)

    def _point(self, number: int) -> Any:
        assert self.time is not None
        if self.time.kind == "time":
            from datetime import timedelta

            return const(str(START + timedelta(seconds=number)))
        return const(number)

    def _landmark(self) -> WindowClause:
        return LandmarkClause(start=self._point(self.rng.randint(0, 12)), every=self.length())

    def _fixed(self) -> WindowClause:
        start = self.rng.randint(0, 20)
        end = start + self.rng.randint(1, 20)
        return FixedClause(start=self._point(start), end=self._point(end), on=self._on())

    def _band(self) -> WindowClause:
        return BandClause(start=self._point(self.rng.randint(0, 20)), size=self.length(1, 20))

    def _data_driven(self) -> WindowClause:
        """By what rows hold, in the order of the time; ON says which, where it is not known."""
        made = self._by_content()
        if isinstance(made, DeltaClause) and self.offer.time is None:
            return self._periodic()  # it has no ON for the time
        return made if self.offer.time is not None else replace(made, on=self._on())  # type: ignore[call-arg]

    def _by_content(self) -> WindowClause:
        rng = self.rng
        pick = rng.randrange(3)
        if pick == 0 and self.offer.of("int", "float"):
            value: Any = self.terms.of(rng.choice(self.offer.of("int", "float")).kind, 1)
            return DeltaClause(threshold=rng.choice((0.5, 1.0, 2.0, 3.0, 7.5)), on=value)
        if pick == 1:
            until: Any = self.terms.condition(1) if rng.random() < 0.5 else None
            begin: Any = self.terms.condition(1) if until is None or rng.random() < 0.6 else None
            return PunctuatedClause(begin=begin, until=until)
        least = rng.randint(1, 3) if rng.random() < 0.3 else None
        condition: Any = self.terms.condition(1)
        return ThresholdClause(condition, least)

    def _arrival(self) -> WindowClause:
        rng = self.rng
        floats = [c for c in self.offer.of("float") if c.steady]
        pick = rng.randrange(6)
        if floats and pick == 0:
            column = rng.choice(floats)
            every = self.on_column(column) if rng.random() < 0.5 else None
            return SizeClause(size=self.on_column(column), every=every, align=self._align())
        if floats and pick == 1:
            column = rng.choice(floats)
            pair = (self.on_column(column), self.count())
            size, other = pair if rng.random() < 0.5 else pair[::-1]
            return SizeClause(size=size, every=other, changes=rng.random() < 0.3)
        return self._rows() if pick < 4 else self._by_content()

    def _system(self, time_based: bool) -> WindowClause:
        rng = self.rng

        def span() -> Extent:
            return Extent(Quantity(rng.randint(1, 9), rng.choice(("sec", "sec", "min"))))

        beside = [c for c in self.offer.of("int", "float") if c.steady and self.offer.ordered]
        pick = rng.randrange(5)
        if not time_based and self.offer.ordered and pick == 0:
            return SizeClause(size=span(), every=self.count())
        if not time_based and self.offer.ordered and pick == 1:
            return SizeClause(size=self.count(), every=span(), changes=rng.random() < 0.3)
        if not time_based and beside and pick == 2:
            pair = (span(), self.on_column(rng.choice(beside)))
            size, every = pair if rng.random() < 0.5 else pair[::-1]
            return SizeClause(size=size, every=every, changes=rng.random() < 0.3)
        if not time_based and pick == 3:
            return SessionClause(gap=span())
        every = span() if rng.random() < 0.4 else None
        return SizeClause(size=span(), every=every, align=self._align())


def first_of(term: Term) -> Term:
    """What is written first."""
    return first_of(term.args[0]) if term.op in ("+", "-", "*", "/", "%", "&", "|", "^") else term
