"""Statements made simpler before names are looked up: windows lifted out of subqueries, constants folded.

A subquery that only puts a window on a stream would give windows, not a stream. Its window moves to the
enclosing reference, level by level, until it meets the top or a level that aggregates (SPEC Q-22):

    (SELECT symbol, price FROM ticks [SIZE 3]) AS s   ->   (SELECT symbol, price FROM ticks) [SIZE 3] AS s
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NoReturn, TypeVar

from sqlglot import exp

from panes.cql import tree
from panes.cql.arithmetic import folded
from panes.cql.errors import CqlError
from panes.cql.expressions import has_aggregates
from panes.cql.tree import Join, Name, Reference, Select, StreamRef, SubqueryRef
from panes.cql.windows.clause import ClausePart, WindowClause

_S = TypeVar("_S")


def rewrite(statement: _S, text: str = "") -> _S:
    """The statement with its selects rewritten; statements without one stay as they are."""
    made: _S = _Rewriter(text).statement(statement)
    return made


class _Rewriter:
    def __init__(self, text: str) -> None:
        self._text = text

    def statement(self, node: Any) -> Any:
        if isinstance(node, Select):
            return self._select(node)
        if isinstance(node, tree.CreateStream | tree.Insert | tree.InsertSink) and isinstance(node.query, Select):
            return replace(node, query=self._select(node.query))
        if isinstance(node, tree.Split):
            clauses = tuple(replace(c, where=folded(c.where), entries=_entries(c.entries)) for c in node.clauses)
            return replace(node, clauses=clauses)
        if isinstance(node, tree.Explain):
            return replace(node, statement=self.statement(node.statement))
        return node

    def _select(self, node: Select) -> Select:
        where = folded(node.where)
        if isinstance(where, exp.Boolean) and where.this:
            where = None
        return replace(
            node,
            entries=_entries(node.entries),
            source=self._reference(node.source),
            where=where,
            group_by=tuple(folded(key) for key in node.group_by),
            having=folded(node.having),
            order_by=tuple(replace(item, expression=folded(item.expression)) for item in node.order_by),
        )

    def _reference(self, node: Reference) -> Reference:
        if isinstance(node, Join):
            return replace(node, left=self._reference(node.left), right=self._reference(node.right), on=folded(node.on))
        if isinstance(node, StreamRef):
            return replace(node, windows=tuple(map(_window, node.windows)))
        inner = self._select(node.query)
        own = tuple(map(_window, node.windows))
        windows = _liftable(inner)
        if not windows:
            return replace(node, query=inner, windows=own)
        if own:
            self._fail("both the subquery and this reference have a window", node)
        return replace(node, query=_without_windows(inner), windows=self._renamed(windows, inner, node))

    def _renamed(self, windows: tuple[WindowClause, ...], inner: Select, node: SubqueryRef) -> tuple[WindowClause, ...]:
        """The windows as the level above must write them: by the names that the subquery gives its columns."""
        shown = _shown(inner)
        if shown is None:
            return windows

        def name(given: Name) -> Name:
            found = shown.get(given.text.lower())
            if found is None:
                self._fail(
                    f"the window of this subquery moves out of it, and {given.text!r} is not among its columns",
                    given if given.span is not None else node,
                    f"add {given.text} to the SELECT of the subquery",
                )
            return Name(found, given.span)

        def change(part: ClausePart, held: Any) -> Any:
            if part.role == "columns":
                return tuple(map(name, held))
            if isinstance(held, tree.Extent):
                return held if held.on is None else replace(held, on=name(held.on))
            return expression(held) if isinstance(held, exp.Expr) else held

        def expression(given: exp.Expr) -> exp.Expr:
            made = given.copy()
            for column in made.find_all(exp.Column):
                column.set("table", None)
                column.set("this", exp.to_identifier(str(name(Name(column.name)))))
            return made

        return tuple(window.changed(change) for window in windows)

    def _fail(self, message: str, at: object, hint: str = "") -> NoReturn:
        raise CqlError(message, text=self._text or None, span=getattr(at, "span", None), hints=[hint])


def _liftable(select: Select) -> tuple[WindowClause, ...]:
    """The windows of a subquery that does nothing with them."""
    computes = (
        select.group_by
        or select.having is not None
        or select.order_by
        or select.distinct
        or select.limit is not None
        or any(has_aggregates(e.expression) for e in select.entries)
    )
    return () if computes or isinstance(select.source, Join) else select.source.windows


def _without_windows(select: Select) -> Select:
    assert not isinstance(select.source, Join)
    return replace(select, source=replace(select.source, windows=()))


def _shown(select: Select) -> dict[str, str] | None:
    """Column inside -> its name outside, for plain columns; None if all are shown as they are."""
    found: dict[str, str] = {}
    for entry in select.entries:
        tree_ = entry.expression
        if isinstance(tree_, exp.Star):
            return None
        if isinstance(tree_, exp.Column):
            if isinstance(tree_.this, exp.Star):
                return None
            found.setdefault(tree_.name.lower(), entry.alias.text if entry.alias is not None else tree_.name)
    return found


def _window(clause: WindowClause) -> WindowClause:
    return clause.changed(lambda part, held: folded(held) if part.folded else held)


def _entries(entries: tuple[tree.SelectItem, ...]) -> tuple[tree.SelectItem, ...]:
    """Entries folded; one without a name keeps the name of what was written."""
    made = []
    for entry in entries:
        simpler = folded(entry.expression)
        assert simpler is not None
        if entry.alias is None and simpler != entry.expression and not isinstance(simpler, exp.Column):
            from panes.cql.resolve_select import generated_name

            made.append(replace(entry, expression=simpler, alias=Name(generated_name(entry.expression))))
        else:
            made.append(replace(entry, expression=simpler))
    return tuple(made)
