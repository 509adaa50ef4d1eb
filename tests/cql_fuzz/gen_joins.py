"""Random joins: two or three streams or subqueries that have the same window."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

from panes.cql.tree import Extent, Join, Name, Quantity, Select, SelectItem, StreamRef, SubqueryRef
from panes.cql.windows.sized import SizeClause
from tests.cql_fuzz.gen_terms import OverGroups, Terms
from tests.cql_fuzz.offers import OF_WINDOWS, Col, Made, Offer
from tests.cql_fuzz.oracle_names import unique
from tests.cql_fuzz.terms import col, op

#: Streams have up to some twenty rows: this many of them give 200,000 combinations.
_MOST_FACTORS = 4


class Joins(ABC):
    """Selects over joins."""

    rng: random.Random

    @abstractmethod
    def reference(self, depth: int) -> tuple[StreamRef | SubqueryRef, Offer]:
        """Something to read."""

    @abstractmethod
    def finished(self, select: Select, columns: list[Col], keyed: bool) -> Select:
        """The select with ORDER BY and LIMIT, here and there."""

    def join(self, depth: int) -> Made | None:
        rng = self.rng
        number = 2 if rng.random() < 0.9 else 3
        sides = []
        for place in range(number):
            reference, offer = self.reference(depth - 1)
            sides.append((replace(reference, alias=Name("abc"[place])), offer))
        kind = self._common_time(sides)
        factors = sum(offer.factors for _, offer in sides)
        if kind is None or factors > _MOST_FACTORS:
            return None
        size, every, offset = rng.randint(1, 9), rng.randint(1, 9) if rng.random() < 0.3 else None, None
        align: Any = rng.choice((None, None, "start", "end"))
        source: Any = None
        columns: list[tuple[Col, str | None]] = []
        steps = False
        for reference, offer in sides:
            time = self._side_time(offer, kind)
            window = SizeClause(measure(size, time, kind), measure(every, time, kind), offset, align=align)
            if rng.random() < 0.1:
                window = replace(window, where=Terms(rng, [(c, None) for c in offer.columns]).condition(1))
            side: Any = replace(reference, windows=(window,))
            mine = [(c, side.alias.text) for c in offer.columns]
            source = side if source is None else self._joined(source, side, columns, mine, len(sides))
            columns += mine
        shared = {n.text.lower() for n in source.using}
        stars = [(c, q) for c, q in columns if c.name.lower() not in shared or q == "a"]
        columns = [(c, None if c.name.lower() in shared and c.name.lower() not in OF_WINDOWS else q) for c, q in stars]
        terms = Terms(rng, columns, ordered=False)
        where: Any = terms.condition() if rng.random() < 0.25 else None
        end: list[Any] = [SelectItem(col("window_end"), Name("end_"))] if rng.random() < 0.4 else []
        of_end = [Col("end_", "int" if kind == "int" else "time", steady=True)] if end else []
        if rng.random() < 0.5:
            if rng.random() < 0.15:
                return self._all_of_join(Select((SelectItem(op("star", None)),), source, where), stars, factors)
            names = rng.sample(columns, rng.randint(1, min(4, len(columns))))
            entries = [*end, *(SelectItem(col(c.name, q), Name(f"o{i}")) for i, (c, q) in enumerate(names))]
            made = [*of_end, *(Col(f"o{i}", c.kind) for i, (c, _) in enumerate(names))]
            select = self.finished(Select(tuple(entries), source, where, distinct=rng.random() < 0.1), made, False)
        else:
            select, made = self._aggregated_join(Select((), source, where), terms, columns, end, of_end)
        known = "end_" if end else None
        return Made(select, Offer(tuple(made), known, ordered=False, factors=factors), steps)

    def _all_of_join(self, select: Select, columns: Any, factors: int) -> Made:
        """`SELECT *` of a join."""
        names = unique([c.name for c, _ in columns])
        made = tuple(Col(n, c.kind) for n, (c, _) in zip(names, columns, strict=True))
        return Made(select, Offer(made, None, ordered=False, factors=factors))

    def _aggregated_join(
        self, bare: Select, terms: Terms, columns: Any, end: list[SelectItem], of_end: list[Col]
    ) -> tuple[Select, list[Col]]:
        rng = self.rng
        groups = [(c, q) for c, q in columns if c.kind in ("str", "int", "bool")]
        keys = rng.sample(groups, 1) if groups and rng.random() < 0.5 else []
        over = OverGroups(rng, terms, keys)
        entries: list[Any] = [*end, *(SelectItem(col(c.name, q), Name("key_")) for c, q in keys)]
        made = [*of_end, *(Col("key_", c.kind) for c, _ in keys)]
        for number in range(rng.randint(1, 2)):
            kind = rng.choice(("int", "float", "str"))
            entries.append(SelectItem(terms.aggregate(kind), Name(f"a{number}")))
            made.append(Col(f"a{number}", kind))
        having: Any = over.condition() if rng.random() < 0.2 else None
        by: Any = tuple(col(c.name, q) for c, q in keys)
        return self.finished(replace(bare, entries=tuple(entries), group_by=by, having=having), made, False), made

    def _common_time(self, sides: Any) -> str | None:
        """What the windows of all sides can run on: int, time, or the clock."""
        rng = self.rng
        if rng.random() < 0.15:
            return "system"
        for kind in rng.sample(("int", "time"), 2):
            if all(self._side_time(offer, kind) is not None for _, offer in sides):
                return kind
        return None

    def _side_time(self, offer: Offer, kind: str) -> Col | None:
        if kind == "system":
            return None
        if offer.time is not None:
            known = offer.column(offer.time)
            return known if known.kind == kind and known.steady else None
        found = [c for c in offer.of(kind) if c.steady]
        return found[0] if found else None

    def _joined(self, left: Any, right: Any, columns: Any, mine: Any, sides: int) -> Join:
        rng = self.rng
        if sides == 2 and rng.random() < 0.2:
            names = {c.name.lower(): c for c, _ in columns if c.kind in ("int", "str", "bool")}
            shared = [c for c, _ in mine if c.name in names and names[c.name].kind == c.kind]
            if shared:
                using = tuple(Name(c.name) for c in rng.sample(shared, rng.randint(1, min(2, len(shared)))))
                return Join(left, right, rng.choice(("inner", "left", "right", "full")), using=using)
        kind = rng.choice(("cross", "inner", "inner", "left", "right", "full"))
        if kind == "cross":
            return Join(left, right, "cross")
        pairs = [
            (a, b) for a in columns for b in mine if a[0].kind == b[0].kind and a[0].kind in ("int", "str", "bool")
        ]
        if not pairs:
            return Join(left, right, "cross")
        (a, qa), (b, qb) = rng.choice(pairs)
        on: Any = op("=", col(a.name, qa), col(b.name, qb))
        if rng.random() < 0.15 and kind == "inner":
            on = op("and", on, Terms(rng, [*columns, *mine]).condition(0))
        return Join(left, right, kind, on)


def measure(number: int | None, time: Col | None, kind: str) -> Extent | None:
    if number is None:
        return None
    unit = None if kind == "int" else "sec"
    return Extent(Quantity(number, unit), None if time is None else Name(time.name))
