"""Joins by definition (SPEC Q-18): per window, all pairs of rows of both sides for which the condition is true."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from panes.cql.tree import Join, Select, SelectItem
from tests.cql_fuzz.evaluate import Scope, known_by, value_of
from tests.cql_fuzz.feeds import Answer, Feed, time_of, timed
from tests.cql_fuzz.oracle import World, computed_rows
from tests.cql_fuzz.oracle_names import (
    as_datetime,
    is_aggregated,
    is_bare,
    is_column,
    name_of,
    named,
    under,
    unique,
)
from tests.cql_fuzz.oracle_windows import spec_of
from tests.cql_fuzz.terms import col
from tests.oracle.windows import INFINITY, due_windows

#: how columns of USING are qualified that * stands for
USED = "#using"


def join(world: World, query: Select) -> Answer:
    references, joins = flat(query.source)
    sides = [Side(world, reference) for reference in references]
    entries = expanded(query, sides, joins)
    found = []
    for start, end in sorted({bounds for side in sides for bounds in side.windows}):
        rows = sides[0].windows.get((start, end), [])
        for number, (one, right) in enumerate(zip(joins, sides[1:], strict=True), 1):
            rows = joined(one, rows, right.windows.get((start, end), []), sides[:number], right)
        whole = sides[0].feed.whole(sides[0].time)
        label = references[0].windows[0].label
        about = {
            "window": "window" if label is None else label.text,
            "window_start": start if whole else as_datetime(start),
            "window_end": end if whole else as_datetime(end),
        }
        scopes = [{**r, **under(about, r)} for r in rows]
        scopes = [s for s in scopes if query.where is None or value_of(query.where, s) is True]
        names = [n for side in sides for n in side.feed.names]
        found += [(end, row) for _, row in computed_rows(query, entries, names, parts(query, scopes, names))]
    rows_found = tuple(row for _, row in found)
    names = unique([name_of(e) for e in entries])
    columns = tuple((n, kind(e, sides)) for n, e in zip(names, entries, strict=True))
    ends = [name_of(e).lower() for e in entries if is_column(e.expression, "window_end") and is_bare(e.expression)]
    made = Answer(columns, rows_found, next(iter(ends), None), exact=bool(query.order_by))
    return replace(made, also=tuple(ends[1:]))


def kind(entry: Any, sides: list[Side]) -> str:
    term = entry.expression
    if term.op != "col":
        return "long"
    if is_bare(term) and term.args[1].lower() in ("window_start", "window_end"):
        return "long" if sides[0].feed.whole(sides[0].time) else "datetime"
    return next((k for s in sides for n, k in s.feed.columns if n.lower() == term.args[1].lower()), "")


class Side:
    """One side of a join: its rows per window, as scopes, and a row of nulls."""

    def __init__(self, world: World, reference: Any) -> None:
        self.feed, clauses, scopes = world.read(reference)
        (window,) = clauses
        kept = [s for s in scopes if window.where is None or value_of(window.where, s) is True]
        self.alias = (reference.alias or reference.name).text.lower()
        self.time = time_of(self.feed, clauses)
        rows = timed(self.feed, clauses, kept, self.time, world.ticks)
        due = due_windows(spec_of(replace(window, where=None), self.time, self.feed.whole(self.time)), rows, INFINITY)
        self.windows = {bounds[:2]: [r.data for r in held] for bounds, held in due.items()}
        empty = scopes[0] if scopes else _scope(self.feed, self.alias)
        self.nulls: Scope = dict.fromkeys(empty)


def _scope(feed: Feed, alias: str) -> Scope:
    names = [n.lower() for n in feed.names]
    return dict.fromkeys([*names, *(f"{alias}.{n}" for n in names)])


def joined(one: Join, left: list[Scope], right: list[Scope], before: list[Side], other: Side) -> list[Scope]:
    found = []
    left_nulls: Scope = {}
    for side in before:
        left_nulls |= side.nulls
    matched = set()
    for a in left:
        alone = True
        for number, b in enumerate(right):
            if one.kind == "cross" or matches(one, a, b):
                alone = False
                matched.add(number)
                found.append(merged(one, a, b))
        if alone and one.kind in ("left", "full"):
            found.append(merged(one, a, other.nulls))
    if one.kind in ("right", "full"):
        found += [merged(one, left_nulls, b) for number, b in enumerate(right) if number not in matched]
    return found


def matches(one: Join, a: Scope, b: Scope) -> bool:
    if one.on is not None:
        return value_of(one.on, {**a, **b}) is True
    return all(a[n.text.lower()] is not None and a[n.text.lower()] == b[n.text.lower()] for n in one.using)


def merged(one: Join, a: Scope, b: Scope) -> Scope:
    both = {**a, **b}
    for name in one.using:
        x, y = a[name.text.lower()], b[name.text.lower()]
        both[name.text.lower()] = both[f"{USED}.{name.text.lower()}"] = y if x is None else x
    return both


def parts(query: Select, scopes: list[Scope], names: list[str]) -> list[Any]:
    if not is_aggregated(query):
        return [(s, None) for s in scopes]
    groups: dict[Any, list[Scope]] = {}
    for s in scopes:
        key = tuple(known_by(value_of(named(k, query, names), s)) for k in query.group_by)
        groups.setdefault(key, []).append(s)
    return [(rows[0], rows) for rows in groups.values()]


def flat(source: Any) -> tuple[list[Any], list[Join]]:
    if not isinstance(source, Join):
        return [source], []
    references, joins = flat(source.left)
    return [*references, source.right], [*joins, source]


def expanded(query: Select, sides: list[Side], joins: list[Join]) -> list[SelectItem]:
    """Entries with * written out: the columns of all sides, those of USING once."""
    used = {n.text.lower() for one in joins for n in one.using}
    found: list[Any] = []
    for entry in query.entries:
        term: Any = entry.expression
        if term.op != "star":
            found.append(entry)
            continue
        for place, side in enumerate(sides):
            if term.args[0] not in (None, side.alias):
                continue
            for name in side.feed.names:
                if name.lower() in used and term.args[0] is None:
                    if not place:
                        found.append(SelectItem(col(name, USED)))
                else:
                    found.append(SelectItem(col(name, side.alias)))
    return found
