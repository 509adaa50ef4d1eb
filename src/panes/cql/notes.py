"""What is right but may not be what was meant: notes on statements, beside their errors.

Brackets with a slide end at every slide. Windows that start there are others wherever the size is no multiple of
the slide, so a clause that does not say which of both it means gets a note.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from panes.cql import tree
from panes.cql.timing import is_mixed
from panes.cql.tree import Duration, Join, Reference, Select, Span, Statement, SubqueryRef, WindowClause
from panes.units import Duration as Exact
from panes.units import parse_duration


@dataclass(frozen=True)
class Note:
    """Something to know about a piece of a text."""

    short: str
    hint: str
    span: Span | None


def notes_on(statement: Statement) -> Iterator[Note]:
    """The notes on a statement as it is written."""
    if isinstance(statement, tree.Explain):
        yield from notes_on(statement.statement)
    query = statement if isinstance(statement, Select) else getattr(statement, "query", None)
    if isinstance(query, Select):
        yield from (note for window in _windows(query.source) if (note := _on_align(window)) is not None)


def _windows(source: Reference) -> Iterator[WindowClause]:
    if isinstance(source, Join):
        yield from _windows(source.left)
        yield from _windows(source.right)
        return
    yield from source.windows
    if isinstance(source, SubqueryRef):
        yield from _windows(source.query.source)


def _on_align(window: WindowClause) -> Note | None:
    if window.kind != "size" or window.size is None or window.every is None or window.align is not None:
        return None
    if is_mixed(window) or _is_multiple(window.size.length, window.every.length):
        return None
    size, every = _written(window.size.length), _written(window.every.length)
    return Note(
        f"windows of {size} every {every} end at every slide, and {size} is no multiple of {every}",
        "write ALIGN START for windows that start there, as HOP and GROUP BY window(...) have them, or ALIGN END",
        window.span,
    )


def _is_multiple(size: Duration, every: Duration) -> bool:
    if size.unit is None or every.unit is None:
        # a bare number is in units of the attribute, which are seconds if it is a Datetime
        return size.unit == every.unit and _exact(size.number) % _exact(every.number) == 0
    months = [{"month": 1, "year": 12}.get(d.unit or "", 0) * _exact(d.number) for d in (size, every)]
    if all(months):
        return months[0] % months[1] == 0
    if any(months):
        return False
    lengths = [parse_duration(f"{d.number} {d.unit}") for d in (size, every)]
    nanos = [length.nanos for length in lengths if isinstance(length, Exact)]
    return len(nanos) == 2 and bool(nanos[1]) and nanos[0] % nanos[1] == 0


def _written(length: Duration) -> str:
    return str(length.number) if length.unit is None else f"{length.number} {length.unit}"


def _exact(number: int | float) -> Fraction:
    return Fraction(str(number))
