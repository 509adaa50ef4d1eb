"""Windows of an input: their attributes found, and checked to be something that windows can run on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import NoReturn

import pyarrow as pa
from sqlglot import exp

from panes.cql.catalog import Column
from panes.cql.errors import did_you_mean
from panes.cql.expressions import Expressions
from panes.cql.names import Names
from panes.cql.resolved import Input
from panes.cql.timing import can_be_time, is_mixed
from panes.cql.tree import Duration, Measure, Name, Policy, WindowClause, each_policy


class WindowResolver(ABC):
    """Resolves the clauses in brackets."""

    @abstractmethod
    def fail(self, message: str, at: object, hint: str = "") -> NoReturn:
        """Raise a CqlError that underlines what it is about."""

    def windowed(self, source: Input, clauses: tuple[WindowClause, ...]) -> Input:
        """The input with its windows, which may name its columns only."""
        if not clauses:
            return source
        made = tuple(self._clause(clause, source) for clause in clauses)
        seen: set[str] = set()
        for clause in made:
            label = "" if clause.label is None else clause.label.text.lower()
            if label in seen:
                what = f"two windows have the label {label!r}" if label else "two windows have no label"
                self.fail(what, clause.label or clause.span, "several windows on a stream need a label each: AS name")
            seen.add(label)
        if len(made) > 1 and "" in seen:
            self.fail(
                "one of several windows has no label",
                made[0].span,
                "several windows on a stream need a label each: AS name",
            )
        if len({clause.partitioned for clause in made}) > 1:
            self.fail("all windows of a stream must be PARTITIONED BY the same columns", made[-1].span)
        return replace(source, windows=made)

    def check_time(self, column: Column, at: object, clause: str) -> None:
        if not can_be_time(column):
            self.fail(f"{clause} {column.name}: an event time is a Datetime or a whole number, not {column.type}", at)

    def _clause(self, clause: WindowClause, source: Input) -> WindowClause:
        expressions = Expressions(Names.of(replace(source, windows=())), self.fail)

        def condition(tree: exp.Expr | None, what: str) -> exp.Expr | None:
            if tree is None:
                return None
            made = expressions.row(tree, what)
            kind = expressions.type(made, tree)
            if not pa.types.is_boolean(kind.arrow):
                self.fail(f"{what} of a window must be a condition, true or false; this is {kind}", tree)
            return made

        def value(tree: exp.Expr | None, what: str) -> exp.Expr | None:
            made = None if tree is None else expressions.row(tree, what)
            if made is not None:
                expressions.type(made, tree)
            return made

        def number(tree: exp.Expr | None, what: str, *, times: bool = False) -> exp.Expr | None:
            made = value(tree, what)
            if made is None or tree is None:
                return None
            kind = expressions.type(made, tree)
            if not (_is_number(kind.arrow) or (times and pa.types.is_temporal(kind.arrow))):
                self.fail(f"{what} of a window takes a number{' or a time' if times else ''}; this is {kind}", tree)
            return made

        def measure(given: Measure | None, what: str) -> Measure | None:
            return None if given is None else self._measure(given, source, what, clause)

        def part(name: Name) -> Name:
            column = self._column(name, source, "PARTITIONED BY")
            if pa.types.is_nested(column.type.arrow):
                self.fail(f"PARTITIONED BY takes single values; {column.name} is {column.type}", name)
            return Name(column.name, name.span)

        def policy(given: Policy) -> Policy:
            if given.threshold is None:
                made = condition(given.value, "WHEN")
            else:
                made = number(given.value, "DELTA ... ON", times=True)
            return replace(given, measure=measure(given.measure, "POLICY"), value=made)

        def offset(given: Duration | None) -> Duration | None:
            on = None if clause.size is None else clause.size.on
            if given is None or on is None:
                return given
            return in_units_of(given, self._column(on, source, "SIZE ... ON"))

        if clause.align == "start" and is_mixed(clause):
            self.fail(
                "ALIGN START needs a size and a slide of one kind: otherwise windows end at the slide",
                clause.span,
                "leave ALIGN START out",
            )
        gap = clause.gap
        begin, until, on = clause.begin, clause.until, clause.on
        return replace(
            clause,
            size=measure(clause.size, "SIZE"),
            every=measure(clause.every, "EVERY"),
            longest=measure(clause.longest, "the longest window"),
            offset=offset(clause.offset),
            gap=measure(gap, "SESSION") if isinstance(gap, Measure) else number(gap, "SESSION"),
            partitioned=tuple(part(name) for name in clause.partitioned),
            where=condition(clause.where, "WHERE"),
            begin=condition(begin, "the beginning"),
            until=condition(until, "the end"),
            on=number(on, "DELTA ... ON", times=True) if clause.kind == "delta" else value(on, "ON"),
            keep=each_policy(clause.keep, policy),
            due=each_policy(clause.due, policy),
        )

    def _column(self, name: Name, source: Input, clause: str) -> Column:
        wanted = name.text.lower()
        found = next((c for c in source.columns if c.name.lower() == wanted), None)
        if found is None:
            known = [c.name for c in source.columns]
            shown = source.alias or "the subquery"
            hint = did_you_mean(name.text, known) or f"it has: {', '.join(known[:12])}"
            self.fail(f"{clause} {name.text}: {shown} has no column {name.text!r}", name, hint)
        return found

    def _measure(self, given: Measure, source: Input, what: str, clause: WindowClause) -> Measure:
        if given.length.number <= 0:
            self.fail(f"{what} must be positive: a window can't be empty or run backwards", clause.span)
        if given.kind == "rows" and given.length.number != int(given.length.number):
            self.fail(f"{what} {given.length.number} counts rows, so it must be a whole number", clause.span)
        if given.on is None:
            return given
        column = self._column(given.on, source, f"{what} ... ON")
        kind = column.type.arrow
        timestamp = pa.types.is_timestamp(kind)
        if not (timestamp or _is_number(kind)):
            self.fail(f"{what} ... ON {column.name}: windows run on times and numbers, not on {column.type}", given.on)
        if timestamp and given.length.unit is None:
            length = in_units_of(given.length, column)
            return Measure(length, Name(column.name, given.on.span))
        if given.length.unit is not None and not can_be_time(column):
            self.fail(f"{what} ... ON {column.name}: a length of time needs a Datetime or whole numbers", given.on)
        return replace(given, on=Name(column.name, given.on.span))


def in_units_of(length: Duration, column: Column) -> Duration:
    """A length on a column: a bare number on a Datetime is in seconds, to which these are told (SPEC Q-01, Q-15)."""
    if length.unit is None and pa.types.is_timestamp(column.type.arrow):
        return replace(length, unit="sec")
    return length


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
