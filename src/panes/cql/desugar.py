"""Window functions that Spark users know, as window clauses: `GROUP BY window(ts, '10 s')`.

`window(ts, size [, slide [, offset]])` and `session_window(ts, gap)` in GROUP BY become the window of the
stream; `window.start` and `window.end` become the columns window_start and window_end.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, NoReturn

from sqlglot import exp

from panes.cql.errors import CqlError, span_of
from panes.cql.tree import Duration, Entry, Join, Measure, Name, Select, WindowClause
from panes.cql.units import length_of, number_of, unit_of

_ARGUMENTS = {"window": (2, 4), "session_window": (2, 2)}


def desugar(select: Select, text: str) -> Select:
    """`select` without window functions in GROUP BY."""
    calls = [tree for tree in select.group_by if _is_window(tree)]
    if not calls:
        return select
    call = calls[0]
    if len(calls) > 1:
        _fail("there can be one window in GROUP BY", calls[1], text)
    source = select.source
    if isinstance(source, Join) or source.windows:
        _fail(f"{call.name} in GROUP BY stands for the window of a stream that has none in brackets", call, text)
    return replace(
        select,
        source=replace(source, windows=(_clause(call, text),)),
        group_by=tuple(tree for tree in select.group_by if tree is not call),
        entries=tuple(_entry(entry, call, text) for entry in select.entries),
        having=select.having and _columns(select.having, call, text),
        order_by=tuple(replace(item, expression=_columns(item.expression, call, text)) for item in select.order_by),
    )


def _is_window(tree: exp.Expr) -> bool:
    return isinstance(tree, exp.Anonymous) and tree.name.lower() in _ARGUMENTS


def _clause(call: exp.Expr, text: str) -> WindowClause:
    name = call.name.lower()
    fewest, most = _ARGUMENTS[name]
    if not fewest <= len(call.expressions) <= most:
        _fail(f"{name} takes a column and {fewest - 1} to {most - 1} lengths", call, text)
    column, *lengths = call.expressions
    if not isinstance(column, exp.Column) or isinstance(column.this, exp.Star):
        _fail(f"the first argument of {name} must be a column", call, text)
    on = Name(column.name, span_of(column, text))
    size, *more = [_length(tree, text) for tree in lengths]
    if name == "session_window":
        return WindowClause("session", gap=Measure(size, on))
    every = Measure(more[0], on) if more and more[0] != size else None
    offset = more[1] if len(more) > 1 else None
    # as in Spark, windows start at every slide
    align: Literal["start"] | None = None if every is None else "start"
    return WindowClause("size", size=Measure(size, on), every=every, offset=offset, align=align)


def _length(tree: exp.Expr, text: str) -> Duration:
    length: Duration | None = None
    if isinstance(tree, exp.Literal) and tree.is_string:
        length = length_of(tree.name)
    elif isinstance(tree, exp.Interval) and isinstance(tree.this, exp.Literal):
        number, unit = number_of(tree.this.name), unit_of(tree.text("unit"))
        length = Duration(number, unit) if number is not None and unit else None
    if length is None:
        _fail("expected a length such as '10 minutes'", tree, text)
    return length


def _entry(entry: Entry, call: exp.Expr, text: str) -> Entry:
    bound = _bound_of(entry.expression, call)
    alias = entry.alias or (Name(bound) if bound else None)
    return Entry(_columns(entry.expression, call, text), alias)


def _bound_of(tree: exp.Expr, call: exp.Expr) -> str | None:
    """`start` or `end` for `window.start` and `window(ts, '10 s').start`."""
    of_column = isinstance(tree, exp.Column) and tree.table.lower() == call.name.lower()
    of_call = isinstance(tree, exp.Dot) and tree.this == call
    name = (tree.name if of_column else tree.expression.name if of_call else "").lower()
    return name if name in ("start", "end") else None


def _columns(tree: exp.Expr, call: exp.Expr, text: str) -> exp.Expr:
    """A tree in which the window and its bounds are the columns that results have."""

    def change(node: Any) -> Any:
        bound = _bound_of(node, call)
        if bound:
            return exp.column(f"window_{bound}")
        if isinstance(node, exp.Dot) and node.this == call:
            _fail(f"{call.name} has a start and an end, and no {node.expression.name!r}", node, text)
        return exp.column("window") if node == call else node

    changed: exp.Expr = tree.transform(change)
    return changed


def _fail(short: str, tree: exp.Expr, text: str) -> NoReturn:
    raise CqlError(short, text=text, span=span_of(tree, text))
