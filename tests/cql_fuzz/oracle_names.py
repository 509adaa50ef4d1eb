"""What names in a select mean to the oracle, which windows move out of a subquery, and types of columns."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from panes.cql.tree import Join, Name, Select, SelectItem, SubqueryRef
from panes.cql.windows.clause import WindowClause
from tests.cql_fuzz.evaluate import EPOCH, Scope
from tests.cql_fuzz.feeds import Feed, time_of
from tests.cql_fuzz.renaming import by_names
from tests.cql_fuzz.terms import Term, col, subterms

#: how columns that * stands for are qualified
STAR = "#star"


def scopes_of(feed: Feed, prefixes: list[str]) -> list[Scope]:
    found = []
    for number, row in enumerate(feed.rows):
        scope: Scope = {"#number": number}
        for name, value in zip(feed.names, row, strict=True):
            scope[name.lower()] = value
            for prefix in (*prefixes, STAR):
                scope[f"{prefix}.{name.lower()}"] = value
        found.append(scope)
    return found


def expanded(entries: tuple[SelectItem, ...], names: list[str]) -> list[SelectItem]:
    """Entries with * written out."""
    found: list[SelectItem] = []
    for entry in entries:
        if entry.expression.op == "star":
            found += [SelectItem(col(n, STAR)) for n in names]
        else:
            found.append(entry)
    return found


def unique(names: list[str]) -> list[str]:
    """Names of columns; what is there already gets a number."""
    found: list[str] = []
    for name in names:
        made, number = name, 1
        while made and made.lower() in {f.lower() for f in found}:
            number += 1
            made = f"{name}_{number}"
        found.append(made)
    return found


def name_of(entry: SelectItem) -> str:
    if entry.alias is not None:
        return entry.alias.text
    term: Any = entry.expression
    return term.args[1] if term.op == "col" else ""


def named(term: Any, query: Select, names: list[str]) -> Term:
    """A term with the names of entries written out; columns come first."""
    known = {n.lower() for n in names}
    aliases = {e.alias.text.lower(): e.expression for e in query.entries if e.alias is not None}

    def change(t: Any) -> Any:
        if not isinstance(t, Term):
            return t
        if t.op == "col" and t.args[0] is None and t.args[1].lower() not in known:
            return aliases.get(t.args[1].lower(), t)
        return Term(t.op, tuple(change(a) for a in t.args))

    return change(term)


def ordered_by(term: Any, query: Select) -> Term:
    """What ORDER BY means: names of entries come before columns, but not inside of aggregates."""
    aliases = {e.alias.text.lower(): e.expression for e in query.entries if e.alias is not None}

    def change(t: Any) -> Any:
        if not isinstance(t, Term) or t.op == "agg":
            return t
        if t.op == "col" and t.args[0] is None:
            return aliases.get(t.args[1].lower(), t)
        return Term(t.op, tuple(change(a) for a in t.args))

    return change(term)


def is_pseudo(term: Term, feed: Feed) -> bool:
    names = ("window", "window_start", "window_end")
    return term.op == "col" and is_bare(term) and term.args[1].lower() in names


def is_bare(term: Any) -> bool:
    """Whether a column is written without a qualifier."""
    return term.args[0] is None


def under(about: Scope, row: Scope) -> Scope:
    """What is said about a window, and what its rows say under the same names, for aggregates."""
    return {**about, **{f"#row.{name}": row[name] for name in about if name in row}}


def is_aggregated(query: Select) -> bool:
    terms: list[Any] = [e.expression for e in query.entries] + [i.expression for i in query.order_by]
    if query.having is not None:
        terms.append(query.having)
    return any(s.op == "agg" for t in terms for s in subterms(t))


def liftable(query: Select) -> tuple[WindowClause, ...]:
    """The windows of a subquery that does nothing with them, from any depth (SPEC Q-22)."""
    computes = query.group_by or query.order_by or query.distinct or query.limit is not None
    if computes or is_aggregated(query) or isinstance(query.source, Join):
        return ()
    if query.source.windows:
        return query.source.windows
    if isinstance(query.source, SubqueryRef):
        return tuple(renamed(w, query.source.query) for w in liftable(query.source.query))
    return ()


def without_windows(query: Select) -> Select:
    """A subquery whose windows have moved out of it."""
    source: Any = query.source
    if isinstance(source, SubqueryRef) and not source.windows:
        return replace(query, source=replace(source, query=without_windows(source.query)))
    return replace(query, source=replace(source, windows=()))


def renamed(window: WindowClause, query: Select) -> WindowClause:
    """A window by the names that the subquery gives its columns."""
    shown = {}
    for e in query.entries:
        term: Any = e.expression
        if term.op == "star":
            return window
        if term.op == "col":
            shown.setdefault(term.args[1].lower(), name_of(e))

    made = by_names(window, shown)
    return replace(made, partitioned=tuple(Name(shown[p.text.lower()]) for p in window.partitioned))


def as_datetime(value: Any) -> Any:
    return None if value is None else EPOCH + timedelta(microseconds=value)


def is_column(term: Any, name: str | None) -> bool:
    return name is not None and term.op == "col" and term.args[1].lower() == name.lower()


def typed(entries: list[SelectItem], rows: Any, feed: Feed, windows: Any = ()) -> tuple[tuple[str, str], ...]:
    """Columns of an answer; of types only those count that may be a time."""
    found = []
    for e in entries:
        term: Any = e.expression
        kind = "long"
        if term.op == "col":
            bound = windows and is_bare(term) and term.args[1].lower() in ("window_start", "window_end")
            known = {n.lower(): k for n, k in feed.columns}
            kind = "" if bound else known.get(term.args[1].lower(), "")
            if bound:
                time = time_of(feed, windows)
                kind = "long" if feed.whole(time) else "datetime"
        found.append((name_of(e), kind))
    return tuple(found)


def as_declared(feed: Feed, declared: tuple[tuple[str, str], ...]) -> Feed:
    """The same rows as columns of a declared schema, by position."""
    change = [float if kind in ("double", "float") else None for _, kind in declared]
    rows = tuple(
        tuple(float(v) if f and v is not None else v for v, f in zip(row, change, strict=True)) for row in feed.rows
    )
    places = [n.lower() for n in feed.names]
    time, *also = [declared[places.index(t)][0].lower() for t in feed.times] or [None]
    return Feed(declared, rows, time, feed.delay, tuple(also))
