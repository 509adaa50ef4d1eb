"""Windows of an input: their attributes found, and checked to be something that windows can run on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NoReturn

import pyarrow as pa
from sqlglot import exp

from panes.cql.catalog import Catalog, ResolvedInput, StreamColumn, column_named
from panes.cql.errors import CqlError, did_you_mean, span_of
from panes.cql.expressions import ExpressionResolver, SelectNames
from panes.cql.lengths import in_units_of
from panes.cql.timing import can_be_time
from panes.cql.tree import Extent, Name, Span
from panes.cql.windows.clause import ClausePart, WindowClause
from panes.errors import QueryError
from panes.plan.types import is_numeric

_ONE_LABEL_EACH = "several windows on a stream need a label each: AS name"


class WindowResolver:
    """Resolves the clauses in brackets, of statements in `text`."""

    def __init__(self, catalog: Catalog, text: str) -> None:
        self.catalog = catalog
        self.text = text

    def fail(self, message: str | QueryError, at: object, hint: str = "") -> NoReturn:
        """Raise a CqlError that underlines what it is about."""
        span = at if isinstance(at, Span) else getattr(at, "span", None)
        if isinstance(at, exp.Expr):
            span = span_of(at, self.text)
        if isinstance(message, QueryError):
            raise CqlError.of(message, self.text or None, span) from message
        raise CqlError(message, text=self.text or None, span=span, hints=[hint])

    def windowed(self, source: ResolvedInput, clauses: tuple[WindowClause, ...]) -> ResolvedInput:
        """The input with its windows, which may name its columns only."""
        if not clauses:
            return source
        made = tuple(self._clause(clause, source) for clause in clauses)
        seen: set[str] = set()
        for clause in made:
            label = "" if clause.label is None else clause.label.text.lower()
            if label in seen:
                what = f"two windows have the label {label!r}" if label else "two windows have no label"
                self.fail(what, clause.label or clause.span, _ONE_LABEL_EACH)
            seen.add(label)
        if len(made) > 1 and "" in seen:
            self.fail("one of several windows has no label", made[0].span, _ONE_LABEL_EACH)
        if len({clause.partitioned for clause in made}) > 1:
            self.fail("all windows of a stream must be PARTITIONED BY the same columns", made[-1].span)
        return replace(source, windows=made)

    def check_time(self, column: StreamColumn, at: object, clause: str) -> None:
        if not can_be_time(column):
            self.fail(f"{clause} {column.name}: an event time is a Datetime or a whole number, not {column.type}", at)

    def _clause(self, clause: WindowClause, source: ResolvedInput) -> WindowClause:
        refused = clause.refused()
        if refused is not None:
            self.fail(refused[0], clause.span, refused[1])
        expressions = ExpressionResolver(SelectNames.of(source), self.fail)
        on = next((length.on for length in clause.extents()), None)

        def change(part: ClausePart, value: Any) -> Any:
            if isinstance(value, Extent):
                return self._length(value, source, part.called, clause)
            if part.role == "offset":
                return value if on is None else in_units_of(value, self._column(on, source, "SIZE").type.arrow)
            if part.role == "columns":
                return tuple(self._single_value(name, source, part.called) for name in value)
            return self._expression(part, value, expressions)

        return clause.changed(change)

    def _expression(self, part: ClausePart, tree: exp.Expr, expressions: ExpressionResolver) -> exp.Expr:
        made = expressions.row(tree, part.called)
        kind = expressions.type(made, tree)
        if part.role == "column":
            return made
        if part.role == "condition":
            if not pa.types.is_boolean(kind.arrow):
                self.fail(f"{part.called} of a window must be a condition, true or false; this is {kind}", tree)
            return made
        times = part.role == "number or time"
        if not (is_numeric(kind.arrow) or (times and pa.types.is_temporal(kind.arrow))):
            self.fail(f"{part.called} of a window takes a number{' or a time' if times else ''}; this is {kind}", tree)
        return made

    def _column(self, name: Name, source: ResolvedInput, clause: str) -> StreamColumn:
        found = column_named(source.columns, name.text)
        if found is None:
            known = [c.name for c in source.columns]
            shown = source.alias or "the subquery"
            hint = did_you_mean(name.text, known) or f"it has: {', '.join(known[:12])}"
            self.fail(f"{clause} {name.text}: {shown} has no column {name.text!r}", name, hint)
        return found

    def _single_value(self, name: Name, source: ResolvedInput, clause: str) -> Name:
        column = self._column(name, source, clause)
        if pa.types.is_nested(column.type.arrow):
            self.fail(f"{clause} takes single values; {column.name} is {column.type}", name)
        return Name(column.name, name.span)

    def _length(self, given: Extent, source: ResolvedInput, what: str, clause: WindowClause) -> Extent:
        if given.length.number <= 0:
            self.fail(f"{what} must be positive: a window can't be empty or run backwards", clause.span)
        if given.kind == "rows" and given.length.number != int(given.length.number):
            self.fail(f"{what} {given.length.number} counts rows, so it must be a whole number", clause.span)
        if given.on is None:
            return given
        column = self._column(given.on, source, f"{what} ... ON")
        kind = column.type.arrow
        if not (pa.types.is_timestamp(kind) or is_numeric(kind)):
            self.fail(f"{what} ... ON {column.name}: windows run on times and numbers, not on {column.type}", given.on)
        if given.length.unit is not None and not can_be_time(column):
            self.fail(f"{what} ... ON {column.name}: a length of time needs a Datetime or whole numbers", given.on)
        return Extent(in_units_of(given.length, kind), Name(column.name, given.on.span))
