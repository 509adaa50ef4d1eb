"""Windows in brackets behind a stream: `[SIZE 10 min EVERY 5 sec ON ts]`.

The kind reads what is behind its first word (see `panes.cql.windows`). Behind that stand options, in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from sqlglot import exp
from sqlglot.tokens import TokenType

from panes.cql.grammar.expressions import ExpressionReader
from panes.cql.tree import Extent, Name
from panes.cql.windows import KINDS
from panes.cql.windows.clause import Fields, Role, WindowClause


class WindowReader(ExpressionReader):
    def windows(self) -> tuple[WindowClause, ...]:
        """All window clauses that follow."""
        found = []
        while self._match(TokenType.L_BRACKET):
            found.append(self._window())
        return tuple(found)

    def _window(self) -> WindowClause:
        first = self._prev
        kind = KINDS.get(self.word)
        if kind is None:
            self.fail_expecting(*KINDS)
        self._advance()
        fields = kind.read(self)
        self._options(kind, fields)
        if not self._match(TokenType.R_BRACKET):
            possible = [o.spellings[0] for o in reversed(OPTIONS) if o.is_for(kind) and o.field not in fields]
            self.fail_expecting("']'", *possible)
        return kind(span=self.span(first), **kind.with_one_time(fields, self))

    def _options(self, kind: type[WindowClause], fields: Fields) -> None:
        """Read the parts behind the first one, each at most once."""
        while self.word in _FIRST_WORDS:
            found = ((o, text) for o in OPTIONS for text in o.spellings if self.at(*text.split()))
            option, words = next(found, (None, ""))
            if option is None:
                return
            if not option.is_for(kind):
                hint = "a column called CHANGE stands in backquotes" if option.field == "changes" else ""
                self.fail(f"a window of kind {kind.word} has no {words}", hint)
            if option.field in fields:
                self.fail(f"{words} is there already")
            self.take(*words.split())
            fields[option.field] = self.part(option.role)

    def extent(self) -> Extent:
        """`100`, `3 sec`, `10 min ON ts`"""
        length = self.duration()
        # a column that is called so stands in backquotes
        column = not self.at("ON", "CHANGE") and self.take("ON")
        return Extent(length, self.name("a column") if column else None)

    def at_length(self) -> bool:
        return self.at_number() or self.at("INTERVAL") or self.at_sign(TokenType.STRING)

    def distance(self) -> float:
        return float(self.number("how far values may be apart, a number"))

    def row_count(self) -> int:
        count = self.integer("a number of rows")
        self.expect("ROWS")
        return count

    def point(self) -> exp.Expr:
        """Where a window begins or ends: a number, or a date and time in quotes."""
        if self._curr.token_type == TokenType.STRING or self._next.token_type == TokenType.STRING:
            self.take("TIMESTAMP") or self.take("DATE") or self.take("DATETIME")
            return exp.Literal.string(self.text("a date and time"))
        negative = self._match(TokenType.DASH)
        number = exp.Literal.number(self.number("a number, or a date and time in quotes"))
        return exp.Neg(this=number) if negative else number

    def column(self) -> exp.Column:
        token = self._curr
        name = self.name("a column")
        node = exp.Identifier(this=name.text, quoted=token.token_type == TokenType.IDENTIFIER)
        return exp.Column(this=node.update_positions(token))

    def align(self) -> Literal["start", "end"]:
        if self.take("START"):
            return "start"
        if not self.take("END"):
            self.fail_expecting("START", "END")
        return "end"

    def part(self, role: Role) -> Any:
        """A part of a window, by what it is."""
        return _PARTS[role](self)

    def with_one_on(self, fields: Fields) -> Fields:
        """Fields whose lengths in units of time have the ON at the end, where they have none of their own."""
        lengths = {name: value for name, value in fields.items() if isinstance(value, Extent)}
        timed = [name for name, m in lengths.items() if m.on is None and m.length.unit is not None]
        last = fields.get("on")
        if lengths and last is not None:
            name = Name(last.name, self.lines.span(last.this.meta["start"], last.this.meta["end"] + 1))
            if not timed:
                self.fail("ON stands right behind the length it belongs to: SIZE 60 ON ts")
            rest = {field: value for field, value in fields.items() if field != "on"}
            return {**rest, **{field: replace(lengths[field], on=name) for field in timed}}
        if lengths:
            *_, final = lengths.values()
            if final.on is not None and final.length.unit is not None:
                return {**fields, **{field: replace(lengths[field], on=final.on) for field in timed}}
        return fields


_PARTS: Mapping[Role, Callable[[WindowReader], Any]] = {
    "length": WindowReader.extent,
    "offset": WindowReader.signed_duration,
    "columns": lambda reader: reader.names("a column"),
    "condition": WindowReader.condition,
    "number or time": WindowReader.expression_here,
    "column": WindowReader.column,
    "point": WindowReader.point,
    "distance": WindowReader.distance,
    "row count": WindowReader.row_count,
    "zone": lambda reader: reader.text("a time zone such as 'Europe/Berlin'"),
    "align": WindowReader.align,
    "flag": lambda reader: True,
    "label": lambda reader: reader.name("a label"),
}


@dataclass(frozen=True)
class WindowOption:
    """What may stand behind the first part of a window: how it is spelled, the field that it fills, what it is."""

    spellings: tuple[str, ...]
    field: str
    role: Role
    of_all: bool = False

    def is_for(self, kind: type[WindowClause]) -> bool:
        return self.of_all or self.field in kind.options


#: What begins like another one comes before it, and so does the usual spelling.
OPTIONS = (
    WindowOption(("EVERY",), "every", "length"),
    WindowOption(("ON CHANGE",), "changes", "flag"),
    WindowOption(("ON",), "on", "column"),
    WindowOption(("OFFSET",), "offset", "offset"),
    WindowOption(("AT TIME ZONE",), "time_zone", "zone"),
    WindowOption(("ALIGN",), "align", "align"),
    WindowOption(("PARTITIONED BY", "PARTITIONED ON", "PARTITION BY"), "partitioned", "columns", of_all=True),
    WindowOption(("WHERE",), "where", "condition", of_all=True),
    WindowOption(("AS",), "label", "label", of_all=True),
)
_FIRST_WORDS = frozenset(text.split()[0] for option in OPTIONS for text in option.spellings)
