"""Window clauses: what stands in brackets behind a stream.

    [SIZE 10 min EVERY 5 sec ON ts]      [SIZE 100]                   [SESSION 30 min ON ts]
    [LANDMARK '2015-01-01' EVERY 1 hour ON ts]                        [FIXED 0 TO 100 ON ts]
    [BAND 0 SIZE 100 ON ts]              [DELTA 10 ON price]          [CUMULATE 10 min MAX 1 hour ON ts]
    [PUNCTUATED BEGIN a = 1 UNTIL a = 2] [PUNCTUATED UNTIL a = 2] [THRESHOLD t > 90 AT LEAST 3 ROWS]
    [POLICY KEEP 100 ROWS AND 10 min EVERY 1 min OR WHEN (kind = 'end') ON ts]

Behind that, in any order: ON, OFFSET, AT TIME ZONE, ALIGN START or END, ON CHANGE, PARTITIONED BY, WHERE, AS label.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from sqlglot import exp
from sqlglot.tokens import TokenType

from panes.cql.grammar.expressions import Expressions
from panes.cql.tree import (
    WINDOW_FIELDS,
    Measure,
    Name,
    Policies,
    Policy,
    WindowClause,
    WindowKind,
    each_policy,
    policy_leaves,
)

Fields = dict[str, Any]

_KINDS: dict[str, WindowKind] = {
    "SIZE": "size",
    "SESSION": "session",
    "LANDMARK": "landmark",
    "FIXED": "fixed",
    "BAND": "band",
    "DELTA": "delta",
    "PUNCTUATED": "punctuated",
    "THRESHOLD": "threshold",
    "CUMULATE": "cumulate",
    "POLICY": "policy",
}
#: Words that begin a part behind the first one, and the field that they fill.
_OPTIONS: dict[tuple[str, ...], str] = {
    ("EVERY",): "every",
    ("ON", "CHANGE"): "changes",
    ("ON",): "on",
    ("OFFSET",): "offset",
    ("AT", "TIME", "ZONE"): "time_zone",
    ("ALIGN",): "align",
    ("PARTITIONED", "BY"): "partitioned",
    ("PARTITIONED", "ON"): "partitioned",
    ("PARTITION", "BY"): "partitioned",
    ("WHERE",): "where",
    ("AS",): "label",
}
_OPTION_WORDS = frozenset(words[0] for words in _OPTIONS)
_LENGTHS = ("size", "every", "gap", "longest")


class Windows(Expressions):
    def windows(self) -> tuple[WindowClause, ...]:
        """All window clauses that follow."""
        found = []
        while self._match(TokenType.L_BRACKET):
            found.append(self._window())
        return tuple(found)

    def _window(self) -> WindowClause:
        first = self._prev
        kind = _KINDS.get(self.word)
        if kind is None:
            self.fail_expecting(*_KINDS)
        self._advance()
        read: Callable[[], Fields] = getattr(self, f"_{kind}")
        fields = read()
        self._options(kind, fields)
        if not self._match(TokenType.R_BRACKET):
            self.fail_expecting("']'", *self._possible(kind, fields))
        return WindowClause(kind=kind, span=self.span(first), **_with_one_on(self, fields))

    # --- kinds --------------------------------------------------------------------------------------------

    def _size(self) -> Fields:
        return {"size": self._measure()}

    def _session(self) -> Fields:
        if self.at_number() or self.at("INTERVAL") or self._curr.token_type == TokenType.STRING:
            return {"gap": self._measure()}
        if self._curr.token_type == TokenType.PLUS:  # which is not kept: what is behind it may be read as a length
            self.fail("a gap has no sign: write 30 min, or an expression of the row")
        return {"gap": self.expression_here("a gap such as 30 min, or an expression")}

    def _landmark(self) -> Fields:
        self.take("FROM")
        return {"start": self._point(), "every": self._after("EVERY")}

    def _fixed(self) -> Fields:
        self.take("FROM")
        start = self._point()
        self.expect("TO")
        return {"start": start, "end": self._point()}

    def _band(self) -> Fields:
        self.take("FROM")
        return {"start": self._point(), "size": self._after("SIZE")}

    def _delta(self) -> Fields:
        threshold = float(self.number("how far values may be apart, a number"))
        self.expect("ON")
        return {"threshold": threshold, "on": self.expression_here()}

    def _punctuated(self) -> Fields:
        fields: Fields = {}
        if not (self.at("UNTIL") or self.at("END")):
            self.take("BEGIN")
            fields["begin"] = self.condition()
        if self.take("UNTIL") or self.take("END"):
            fields["until"] = self.condition()
        return fields

    def _threshold(self) -> Fields:
        fields: Fields = {"begin": self.condition()}
        if self.take("AT", "LEAST"):
            fields["min_rows"] = self.integer("a number of rows")
            self.expect("ROWS")
        return fields

    def _cumulate(self) -> Fields:
        return {"size": self._measure(), "longest": self._after("MAX")}

    def _policy(self) -> Fields:
        fields: Fields = {}
        if self.take("KEEP"):
            fields["keep"] = self._policies("UNTIL")
        elif not self.at("EVERY"):
            self.fail_expecting("KEEP", "EVERY")
        self.expect("EVERY")
        return {**fields, "due": self._policies("WHEN")}

    def _policies(self, condition: str) -> Policy | Policies:
        """Policies with AND and OR between them; `condition` is the word before a condition."""

        def together() -> Policy | Policies:
            return self._combined("AND", lambda: self._one_policy(condition))

        return self._combined("OR", together)

    def _combined(self, rule: Literal["AND", "OR"], read: Callable[[], Policy | Policies]) -> Policy | Policies:
        parts = [read()]
        while self.take(rule):
            parts.append(read())
        return parts[0] if len(parts) == 1 else Policies(rule, tuple(parts))

    def _one_policy(self, condition: str) -> Policy | Policies:
        if self._curr.token_type == TokenType.L_PAREN:
            return self.in_parentheses(lambda: self._policies(condition))
        if self.take(condition):
            return Policy(value=self.in_parentheses(self.condition))
        if self.take("DELTA"):
            threshold = float(self.number("how far values may be apart, a number"))
            self.expect("ON")
            bracket = self._curr.token_type == TokenType.L_PAREN
            value = self.in_parentheses(self.expression_here) if bracket else exp.Column(this=self._identifier())
            return Policy(threshold=threshold, value=value)
        length = self.duration(f"a policy such as 100 ROWS, 5 min, DELTA 3 ON a or {condition} (a = 1)")
        if length.unit is None and self.take("ROWS"):
            return Policy(Measure(length))
        return Policy(Measure(length, self.name("a column") if self.take("ON") else None))

    # --- parts --------------------------------------------------------------------------------------------

    def _options(self, kind: WindowKind, fields: Fields) -> None:
        """Read the parts behind the first one, each at most once."""
        while True:
            possible = _OPTIONS.items() if self.word in _OPTION_WORDS else ()
            words, field = next(((w, f) for w, f in possible if self.at(*w)), ((), ""))
            if not field:
                return
            if field not in WINDOW_FIELDS[kind]:
                hint = "a column called CHANGE stands in backquotes" if field == "changes" else ""
                self.fail(f"a window of kind {kind.upper()} has no {' '.join(words)}", hint)
            if field in fields:
                self.fail(f"{' '.join(words)} is there already")
            self.take(*words)
            fields[field] = self._option(field)

    def _option(self, field: str) -> Any:
        if field == "every":
            return self._measure()
        if field == "on":
            return exp.Column(this=self._identifier())
        if field == "offset":
            return self.signed_duration()
        if field == "changes":
            return True
        if field == "align":
            if self.take("START"):
                return "start"
            if not self.take("END"):
                self.fail_expecting("START", "END")
            return "end"
        if field == "time_zone":
            return self.text("a time zone such as 'Europe/Berlin'")
        if field == "partitioned":
            return self.names("a column")
        if field == "where":
            return self.condition()
        return self.name("a label")

    def _possible(self, kind: WindowKind, fields: Fields) -> tuple[str, ...]:
        words = {f: " ".join(w) for w, f in reversed(_OPTIONS.items())}
        return tuple(w for f, w in words.items() if f in WINDOW_FIELDS[kind] and f not in fields)

    def _measure(self) -> Measure:
        length = self.duration()
        # a column that is called so stands in backquotes
        column = not self.at("ON", "CHANGE") and self.take("ON")
        return Measure(length, self.name("a column") if column else None)

    def _after(self, word: str) -> Measure:
        self.expect(word)
        return self._measure()

    def _point(self) -> exp.Expr:
        """Where a window begins or ends: a number, or a date and time in quotes."""
        if self._curr.token_type == TokenType.STRING or self._next.token_type == TokenType.STRING:
            self.take("TIMESTAMP") or self.take("DATE") or self.take("DATETIME")
            return exp.Literal.string(self.text("a date and time"))
        negative = self._match(TokenType.DASH)
        number = exp.Literal.number(self.number("a number, or a date and time in quotes"))
        return exp.Neg(this=number) if negative else number

    def _identifier(self) -> exp.Identifier:
        token = self._curr
        name = self.name("a column")
        node = exp.Identifier(this=name.text, quoted=token.token_type == TokenType.IDENTIFIER)
        return node.update_positions(token)


def _with_one_on(reader: Windows, fields: Fields) -> Fields:
    """Let an ON at the end hold for all lengths in units of time that have none of their own."""
    if "due" in fields:
        return _with_one_time(fields)
    lengths = {f: fields[f] for f in _LENGTHS if isinstance(fields.get(f), Measure)}
    last = fields.get("on")
    if lengths and "threshold" not in fields and last is not None:
        name = Name(last.name, reader.lines.span(last.this.meta["start"], last.this.meta["end"] + 1))
        del fields["on"]
        timed = [f for f, m in lengths.items() if m.on is None and m.length.unit is not None]
        if not timed:
            reader.fail("ON stands right behind the length it belongs to: SIZE 60 ON ts")
        fields.update({f: replace(lengths[f], on=name) for f in timed})
    elif lengths:
        *others, final = lengths.values()
        if final.on is not None and final.length.unit is not None:
            for field, measure in list(lengths.items())[: len(others)]:
                if measure.on is None and measure.length.unit is not None:
                    fields[field] = replace(measure, on=final.on)
    return fields


def _with_one_time(fields: Fields) -> Fields:
    """Policies by time that have no ON have the last one that is there."""
    leaves = [leaf for name in ("keep", "due") for leaf in policy_leaves(fields.get(name))]
    given = [m.on for leaf in leaves if (m := leaf.measure) is not None and m.length.unit is not None and m.on]
    named = fields.get("on")
    last = given[-1] if given else None if named is None else Name(named.name)
    if last is None:
        return fields

    def timed(leaf: Policy) -> Policy:
        measure = leaf.measure
        if measure is None or measure.on is not None or measure.length.unit is None:
            return leaf
        return replace(leaf, measure=replace(measure, on=last))

    return {**fields, **{name: each_policy(fields[name], timed) for name in ("keep", "due") if name in fields}}
