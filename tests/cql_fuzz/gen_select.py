"""Random selects: over streams and subqueries, with and without windows, aggregates, groups and joins."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from panes.cql.clauses import Evaluate
from panes.cql.tree import Extent, Join, Name, OrderItem, Select, SelectItem, StreamRef, SubqueryRef
from panes.cql.windows.clause import WindowClause
from panes.cql.windows.content import SessionClause
from panes.cql.windows.sized import SizeClause
from tests.cql_fuzz.gen_joins import Joins
from tests.cql_fuzz.gen_terms import OverGroups, Terms
from tests.cql_fuzz.gen_windows import Windows
from tests.cql_fuzz.offers import OF_WINDOWS, Col, Made, Offer
from tests.cql_fuzz.oracle_windows import is_time_based, measures
from tests.cql_fuzz.renaming import by_names
from tests.cql_fuzz.terms import Term, agg, col, op, subterms

KINDS = ("int", "float", "str", "bool")


class Selects(Joins):
    """`streams`: what can be read by name."""

    def __init__(self, rng: random.Random, streams: dict[str, Offer]) -> None:
        self.rng = rng
        self.streams = streams
        #: whether columns may be lists: only where nothing reads them
        self.lists = False

    def select(self, depth: int = 2) -> Made:
        rng = self.rng
        if rng.random() < 0.16:
            made = self.join(depth)
            if made is not None:
                return made
        reference, offer = self.reference(depth)
        if rng.random() < 0.25:
            return self.flow(reference, offer)
        if isinstance(reference, SubqueryRef) and rng.random() < 0.15:
            made = self.lifted(reference, offer)
            if made is not None:
                return made
        return self.windowed(reference, offer)

    # --- what is read ---

    def reference(self, depth: int) -> tuple[StreamRef | SubqueryRef, Offer]:
        rng = self.rng
        if depth > 0 and rng.random() < 0.25:
            lists, self.lists = self.lists, False
            made = self.select(depth - 1) if rng.random() < 0.5 else self.flow(*self.reference(depth - 1))
            self.lists = lists
            if not is_windowed_stream(made.select) and len({c.name.lower() for c in made.offer.columns}) > 0:
                alias = Name("q") if rng.random() < 0.8 else None
                return SubqueryRef(made.select, (), alias), replace(made.offer, base=False)
        name = rng.choice(list(self.streams))
        alias = Name(rng.choice(("t", "u", name))) if rng.random() < 0.3 else None
        return StreamRef(Name(name), (), alias), self.streams[name]

    def qualified(self, reference: Any, offer: Offer, *, windowed: bool = False) -> list[tuple[Col, str | None]]:
        """Columns, here and there with the name of what they are from; always where windows have the bare name."""
        known = reference.alias or getattr(reference, "name", None)
        chosen = known.text if known is not None and self.rng.random() < 0.2 else None
        alike = [c for c in offer.columns if windowed and c.name.lower() in OF_WINDOWS]
        named = [(c, known.text) for c in alike if known is not None]
        return [*((c, chosen) for c in offer.columns if c not in alike), *named]

    # --- row by row ---

    def flow(self, reference: Any, offer: Offer) -> Made:
        terms = Terms(self.rng, self.qualified(reference, offer))
        where: Any = terms.condition() if self.rng.random() < 0.5 else None
        entries, columns = self.entries(terms, offer)
        both = list(zip(entries, columns, strict=True))
        times = [c.name for e, c in both if any(is_col(e, t) for t in (offer.time, *offer.also))]
        if len(entries) == len(offer.columns) and self.rng.random() < 0.15:
            entries, columns = (SelectItem(op("star", None)),), offer.columns
            times = [] if offer.time is None else [offer.time, *offer.also]
        made = replace(offer, columns=tuple(columns), time=next(iter(times), None), base=False, also=tuple(times[1:]))
        return Made(Select(tuple(entries), reference, where), made)

    def entries(self, terms: Terms, offer: Offer) -> tuple[Any, list[Col]]:
        """Entries of single rows; the time is most often among them, for those who read on."""
        rng = self.rng
        plain = [c for c in offer.columns if (c.steady or rng.random() < 0.6) and any(c == k for k, _ in terms.columns)]
        entries: list[SelectItem] = []
        columns: list[Col] = []
        for number, column in enumerate(plain):
            if any(column.name.lower() == c.name.lower() for c in columns):
                continue
            taken = {c.name.lower() for c in (*columns, *plain)}
            alias = f"c{number}" if rng.random() < 0.15 and f"c{number}" not in taken else None
            qualifier = next((q for c, q in terms.columns if c == column), None)
            entries.append(SelectItem(terms.written(column, qualifier), None if alias is None else Name(alias)))
            columns.append(replace(column, name=alias or column.name))
        for number in range(rng.randint(0, 2) or (not plain)):
            kind = rng.choice(KINDS)
            name = next(n for n in (f"e{number + i}" for i in range(9)) if n not in {c.name.lower() for c in columns})
            if rng.random() < 0.1 and offer.columns:
                # the name of a column that is not shown
                taken = {c.name.lower() for c in columns}
                name = next((c.name for c in offer.columns if c.name.lower() not in taken), name)
            entries.append(SelectItem(terms.of(kind), Name(name)))
            columns.append(Col(name, kind))
        return tuple(entries), columns

    # --- windows ---

    def lifted(self, reference: SubqueryRef, offer: Offer) -> Made | None:
        """A window that is written inside of the subquery and means the same outside (SPEC Q-22)."""
        inner = reference.query
        if (
            isinstance(inner.source, Join)
            or is_windowed(inner)
            or any(e.expression.op == "star" for e in inner.entries)
        ):
            return None
        made = self.windowed(reference, offer)
        source: Any = made.select.source
        if len(source.windows) != 1 or source.windows[0].partitioned:
            return None
        shown = {}
        for entry in inner.entries:
            term: Any = entry.expression
            if term.op == "col":
                if term.args[1].lower() in {k.lower() for k in shown.values()}:
                    return None
                shown[(entry.alias or Name(term.args[1])).text.lower()] = term.args[1]
        window = under(source.windows[0], shown)
        if window is None or not isinstance(inner.source, StreamRef):
            return None
        below = replace(inner, source=replace(inner.source, windows=(window,)))
        return replace(made, select=replace(made.select, source=replace(reference, query=below, windows=())))

    def windowed(self, reference: Any, offer: Offer) -> Made:
        rng = self.rng
        windows = Windows(rng, offer)
        first = windows.clause()
        clauses = [first]
        if rng.random() < 0.12:
            clauses += [windows.clause() for _ in range(rng.randint(1, 2))]
            clauses = [replace(c, label=Name(f"l{i}")) for i, c in enumerate(clauses)]
        elif rng.random() < 0.05:
            clauses = [replace(first, label=Name("only"))]
        terms = Terms(rng, self.qualified(reference, offer, windowed=True), ordered=offer.ordered)
        clauses = self._with_predicates(clauses, windows)
        parts: tuple[Name, ...] = ()
        groups = [c for c in offer.columns if c.kind in ("str", "int", "bool") and not c.name.startswith("window")]
        aggregated = rng.random() < 0.75
        if groups and aggregated and rng.random() < 0.25:
            parts = tuple(Name(c.name) for c in rng.sample(groups, min(len(groups), rng.choice((1, 1, 2)))))
            clauses = [replace(c, partitioned=parts) for c in clauses]
        keys: list[tuple[Any, Col, str | None]] = []
        if groups and rng.random() < 0.4:
            keys = [self._key(terms, c) for c in rng.sample(groups, min(len(groups), rng.choice((1, 1, 2))))]
        # rows are looked at before there are windows
        of_rows = terms if rng.random() < 0.5 else Terms(rng, [(c, None) for c in offer.columns])
        where: Any = of_rows.condition() if rng.random() < 0.3 else None
        source = replace(reference, windows=tuple(clauses))
        bare = Select(
            (), source, where, group_by=tuple(k for k, _, _ in keys), clauses=self._evaluate(clauses, windows)
        )
        if aggregated:
            select, columns = self._aggregated(bare, terms, offer, keys, parts, windows)
        else:
            select, columns = self._rows_of_windows(bare, terms, offer, windows)
        both = zip(select.entries, columns, strict=True)
        # a column of the stream with that name is not the end of a window
        ends = [c.name for e, c in both if is_col(e, "window_end") and e.expression.args[0] is None]
        known = ends[0] if ends else None
        alone = (
            len(clauses) == 1 and not keys and not parts and aggregated and getattr(clauses[0], "until", None) is None
        )
        made = Offer(
            tuple(columns), known, ordered=alone and offer.ordered, factors=offer.factors, also=tuple(ends[1:])
        )
        # windows that see different rows are queries of their own, each with its own arrivals
        steps = offer.base and isinstance(reference, StreamRef) and len({c.where for c in clauses}) == 1
        return Made(select, made, steps)

    def _evaluate(self, clauses: list[WindowClause], windows: Windows) -> tuple[Evaluate, ...]:
        """When windows are evaluated; only for those that models are said for."""
        sized = [c for c in clauses if isinstance(c, SizeClause)]
        if self.rng.random() > 0.06 or windows.time is None or len(sized) < len(clauses):
            return ()
        lengths = [m for c in sized for m in (c.size, c.every or c.size)]
        if any(c.align == "start" and c.size.kind == "rows" for c in sized):
            return ()
        if any(m.on is not None and m.on.text != windows.time.name for m in lengths):
            return ()
        if any(c.every is not None and c.size.kind == "rows" and c.every.kind != "rows" for c in sized):
            return ()
        return (Evaluate(self.rng.choice(("tuple", "time", "time", "batch"))),)

    def _with_predicates(self, clauses: list[WindowClause], windows: Windows) -> list[WindowClause]:
        rng = self.rng
        if rng.random() < 0.75:
            return clauses
        if len(clauses) == 1 or rng.random() < 0.5:
            shared: Any = windows.terms.condition(1)
            return [replace(c, where=shared) for c in clauses]
        return [replace(c, where=windows.terms.condition(1)) if rng.random() < 0.6 else c for c in clauses]

    def _key(self, terms: Terms, column: Col) -> tuple[Any, Col, str | None]:
        qualifier = next((q for c, q in terms.columns if c == column), None)
        written = terms.written(column, qualifier)
        if self.rng.random() < 0.15 and column.kind in ("int", "str"):
            made = op("%", written, op("int", 3)) if column.kind == "int" else op("call", "upper", written)
            return made, column, qualifier
        return written, column, qualifier

    def bounds(self, source: Any, windows: Windows) -> list[SelectItem]:
        """Columns that windows have, as entries."""
        rng = self.rng
        found: list[Any] = []
        clauses = source.windows
        if any(c.label for c in clauses) and rng.random() < 0.6:
            found.append(SelectItem(col("window")))
        if all(is_time_based(c) or isinstance(c, SessionClause) for c in clauses) and (windows.time or windows.system):
            plain = not any(beside(m, windows) for c in clauses for m in measures(c))
            if plain:
                found += [SelectItem(col(n), Name(a) if a else None) for n, a in rng.choice(BOUNDS)]
        return found

    def _aggregated(
        self, bare: Select, terms: Terms, offer: Offer, keys: Any, parts: tuple[Name, ...], windows: Windows
    ) -> tuple[Select, list[Col]]:
        rng = self.rng
        entries = self.bounds(bare.source, windows)
        columns = [bound_column(e, windows) for e in entries]
        groups: list[tuple[Col, str | None]] = [(c, q) for k, c, q in keys if k.op == "col"]
        groups += [(offer.column(p.text), None) for p in parts]
        over = OverGroups(rng, terms, groups)
        taken = {c.name.lower() for c in columns}
        for key, column, _ in keys:
            alias = None if key.op == "col" else Name(f"{column.name}_key")
            name = column.name if alias is None else alias.text
            if rng.random() < 0.7 and not {column.name.lower(), name.lower()} & taken:
                entries.append(SelectItem(key, alias))
                columns.append(Col(name, column.kind))
                taken.add(name.lower())
        for part in parts:
            if rng.random() < 0.8 and part.text.lower() not in taken:
                entries.append(SelectItem(col(part.text)))
                columns.append(replace(offer.column(part.text), steady=False))
                taken.add(part.text.lower())
        for number in range(rng.randint(1, 3)):
            kind = rng.choice(("int", "int", "float", "float", "str", "bool"))
            value = terms.aggregate(kind) if rng.random() < 0.6 else over.of(kind, rng.choice((1, 1, 2)))
            if number == 0 and not any(t.op == "agg" for t in subterms(value)):
                value = terms.aggregate(kind)
            name = next(n for n in (f"a{number + i}" for i in range(9)) if n not in taken)
            entries.append(SelectItem(value, Name(name)))
            columns.append(Col(name, kind))
            taken.add(name)
        if self.lists and offer.ordered and rng.random() < 0.1:
            kind = rng.choice(("int", "float", "str"))
            entries.append(SelectItem(agg("collect_list", terms.of(kind, 1)), Name("held")))
            columns.append(Col("held", "list"))
        having: Any = over.condition() if rng.random() < 0.2 else None
        if having is not None and rng.random() < 0.3:
            having = self._by_alias(having, entries, offer)
        select = replace(bare, entries=tuple(entries), having=having)
        return self.finished(select, columns, bool(keys)), columns

    def _rows_of_windows(self, bare: Select, terms: Terms, offer: Offer, windows: Windows) -> tuple[Select, list[Col]]:
        entries = self.bounds(bare.source, windows)
        columns = [bound_column(e, windows) for e in entries]
        more, of_more = self.entries(terms, offer)
        taken = {c.name.lower() for c in columns}
        for entry, column in zip(more, of_more, strict=True):
            if column.name.lower() not in taken:
                entries.append(entry)
                columns.append(replace(column, steady=False))
        select = replace(bare, entries=tuple(entries), distinct=self.rng.random() < 0.15)
        return self.finished(select, columns, bool(bare.group_by)), columns

    def finished(self, select: Select, columns: list[Col], keyed: bool) -> Select:
        """ORDER BY over all columns, so that there is one right order; LIMIT only with it."""
        rng = self.rng
        if rng.random() > 0.15:
            return select
        used = {t.args[1].lower() for e in select.entries for t in subterms(e.expression) if t.op == "col"}
        # a name of an entry that hides a column: ORDER BY means the entry
        shadowed = any(e.alias is not None and e.alias.text.lower() in used for e in select.entries)
        order = []
        for entry in select.entries:
            if entry.alias is not None and entry.alias.text == "held":
                continue
            if not any(t.op in ("col", "agg") for t in subterms(entry.expression)):
                continue  # a constant is no order
            first = rng.choice((None, None, True, False))
            by: Any = entry.expression
            if entry.alias is not None and (shadowed or rng.random() < 0.3):
                by = col(entry.alias.text)
            order.append(OrderItem(by, rng.random() < 0.4, first))
        rng.shuffle(order)
        if not order:
            return select
        limit = rng.randint(0, 4) if rng.random() < 0.4 and not keyed else None
        return replace(select, order_by=tuple(order), limit=limit)

    def _by_alias(self, condition: Term, entries: list[SelectItem], offer: Offer) -> Term:
        """A condition on the name of an entry that computes a number."""
        known = {c.name.lower() for c in offer.columns}
        named = [e.alias.text for e in entries if e.alias is not None and e.alias.text.lower() not in known]
        numbers = [n for n in named if n.startswith("a") and self._is_number(n, entries)]
        if not numbers:
            return condition
        name = col(self.rng.choice(numbers))
        return op("or", op(">", op("*", name, op("int", 2)), op("int", self.rng.randint(0, 9))), condition)

    def _is_number(self, name: str, entries: list[SelectItem]) -> bool:
        term: Any = next(e.expression for e in entries if e.alias is not None and e.alias.text == name)
        return term.op in ("+", "-", "*", "/", "%", "&", "|", "^") or (
            term.op == "agg" and term.args[0] in ("count", "avg")
        )


#: how the bounds of windows are selected: (column, alias)
BOUNDS: list[list[tuple[str, str | None]]] = [
    [], [], [("window_end", None)], [("window_end", "t_end")], [("window_start", None), ("window_end", None)],
    [("window_start", "t0")], [("window_end", "t_end"), ("window_end", None)],
    [("window_end", None), ("window_end", "e")],
]  # fmt: skip


def bound_column(entry: SelectItem, windows: Windows) -> Col:
    term: Any = entry.expression
    name = term.args[1] if entry.alias is None else entry.alias.text
    if term.args[1] == "window":
        return Col(name, "str")
    kind = "time" if windows.time is None else windows.time.kind
    return Col(name, kind, steady=term.args[1] == "window_end")


def beside(measure: Any, windows: Windows) -> bool:
    """Whether a length is on a column that is not the time."""
    if not isinstance(measure, Extent) or measure.on is None:
        return isinstance(measure, Extent) and measure.kind == "rows"
    return windows.time is None or measure.on.text != windows.time.name


def is_col(entry: SelectItem, name: str | None) -> bool:
    term: Any = entry.expression
    return name is not None and term.op == "col" and term.args[1].lower() == name.lower()


def is_windowed(select: Select) -> bool:
    return isinstance(select.source, Join) or bool(select.source.windows) or (
        isinstance(select.source, SubqueryRef) and is_windowed(select.source.query)
    )  # fmt: skip


def is_windowed_stream(select: Select) -> bool:
    """Whether it only puts windows on a stream: its windows would move out of it."""
    from tests.cql_fuzz.oracle_names import liftable

    return bool(liftable(select))


def under(window: WindowClause, shown: dict[str, str]) -> WindowClause | None:
    """A window by the names below a subquery; None if it looks at what is computed there."""
    try:
        return by_names(window, shown)
    except KeyError:
        return None
