"""SELECT and MERGE: entries, references with their windows and joins, and the clauses behind them."""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.tokens import TokenType

from panes.cql.desugar import desugar
from panes.cql.errors import CqlError
from panes.cql.grammar.functions import TableFunctions
from panes.cql.grammar.words import Stop
from panes.cql.tree import (
    EmitEarly,
    Entry,
    Join,
    JoinKind,
    Merge,
    Model,
    Name,
    OrderItem,
    Reference,
    Select,
    StreamRef,
    SubqueryRef,
)

#: Words that may follow a stream and are no alias of it.
_NOT_ALIAS = frozenset(
    "EMIT EVALUATE WATERMARK LATENESS IDLE TIMEOUT GROUP ORDER UNION INTERSECT EXCEPT WINDOW".split()
)
_MODELS: dict[str, Model] = {"TUPLE": "tuple", "TIME": "time", "BATCH": "batch"}
_JOINS: dict[tuple[str, ...], JoinKind] = {
    ("CROSS", "JOIN"): "cross",
    ("INNER", "JOIN"): "inner",
    ("JOIN",): "inner",
    ("LEFT", "OUTER", "JOIN"): "left",
    ("LEFT", "JOIN"): "left",
    ("RIGHT", "OUTER", "JOIN"): "right",
    ("RIGHT", "JOIN"): "right",
    ("FULL", "OUTER", "JOIN"): "full",
    ("FULL", "JOIN"): "full",
}
_JOIN_WORDS = frozenset(words[0] for words in _JOINS)
#: The clauses behind FROM, in order: the field they fill.
_CLAUSES = {
    "WHERE": "where",
    "GROUP BY": "group_by",
    "HAVING": "having",
    "ORDER BY": "order_by",
    "LIMIT": "limit",
    "EVALUATE": "model",
    "EMIT": "early",
}


class Queries(TableFunctions):
    #: the clauses that could come where a statement has ended
    could_follow: tuple[str, ...] = ()

    def query(self) -> Select | Merge:
        """A SELECT or MERGE; parentheses around it mean nothing."""
        if self._curr.token_type == TokenType.L_PAREN:
            return self.in_parentheses(self.query)
        if self.at("SELECT"):
            return self.select()
        if self.at("MERGE"):
            return self.merge()
        return self.fail_expecting("SELECT", "MERGE")

    def merge(self) -> Merge:
        """`MERGE a, b, c`"""
        self.expect("MERGE")
        return Merge(self.names("a stream"))

    def select(self) -> Select:
        first = self._curr
        self.expect("SELECT")
        distinct = self.take("DISTINCT")
        entries = self.entries()
        if not self.take("FROM"):
            self._fail_behind_entry()
        source = self._references()
        clauses = self._clauses()
        self._check_session_keys(clauses.get("group_by", ()))
        select = Select(entries, source, distinct=distinct, span=self.span(first), **clauses)
        try:
            return desugar(select, self._whole)
        except CqlError as error:
            raise Stop(error) from error

    def _check_session_keys(self, group_by: tuple[exp.Expr, ...]) -> None:
        """Sessions per key are what GROUP BY makes; that a table function names the key adds nothing to it."""
        keys = {tree.name.lower() for tree in group_by}
        for name in self.session_keys:
            if name.text.lower() not in keys:
                hint = f"add {name} to GROUP BY: it makes a window of its own for each {name}"
                raise Stop(CqlError("PARTITION BY needs GROUP BY", text=self._whole, span=name.span, hints=[hint]))
        self.session_keys = ()

    def entries(self) -> tuple[Entry, ...]:
        return self.listing(self._entry)

    def _entry(self) -> Entry:
        tree = self.expression_here("a column, an expression or *")
        alias = self.name("a name for the result") if self.take("AS") else None
        return Entry(tree, alias)

    def _fail_behind_entry(self) -> None:
        if self.at_name() and self._next.token_type in (TokenType.FROM, TokenType.COMMA):
            self.fail(f"expected FROM, found {self.found()}", f"to name a result, write AS {self._curr.text}")
        self.fail_expecting("FROM", "','")

    # --- FROM ---------------------------------------------------------------------------------------------

    def _references(self) -> Reference:
        left = self._reference()
        while True:
            first = self._curr
            possible = _JOINS.items() if self.word in _JOIN_WORDS else ()
            kind = next((kind for words, kind in possible if self.take(*words)), None)
            if kind is None:
                if self.take_sign(TokenType.COMMA):
                    self.fail(
                        "streams are joined by JOIN, not by a comma", "for all pairs, write CROSS JOIN", token=first
                    )
                return left
            left = self._join(left, kind, first)

    def _join(self, left: Reference, kind: JoinKind, first: Any) -> Join:
        right = self._reference()
        on: exp.Expr | None = None
        using: tuple[Name, ...] = ()
        if kind != "cross":
            if self.take("ON"):
                on = self.condition()
            elif self.take("USING"):
                wrapped = self._curr.token_type == TokenType.L_PAREN
                using = self.in_parentheses(self.names) if wrapped else (self.name("a column"),)
            else:
                self.fail_expecting("ON", "USING")
        return Join(left, right, kind, on, using, self.span(first))

    def _reference(self) -> Reference:
        """A stream or a query in parentheses, its windows and its alias."""
        self._bare_alias = None
        first = self._curr
        if self._curr.token_type == TokenType.L_PAREN:
            query = self.in_parentheses(self.select)
            windows = self.windows()
            alias = self.alias()
            return SubqueryRef(query, windows or self.windows(), alias, self.span(first))
        if self.at_table_function():
            return self.table_function()
        name = self.name("a stream, or a query in parentheses")
        windows = self.windows()
        alias = self.alias()
        return StreamRef(name, windows or self.windows(), alias)

    def alias(self) -> Name | None:
        if self.take("AS"):
            return self.name("an alias")
        if not self.at_name() or (self._curr.text.upper() in _NOT_ALIAS and self._curr.token_type == TokenType.VAR):
            return None
        self._bare_alias = self._curr
        return self.name()

    # --- clauses ------------------------------------------------------------------------------------------

    def _clauses(self) -> dict[str, Any]:
        """WHERE, GROUP BY and so on, in their order, each at most once."""
        found: dict[str, Any] = {}
        words = list(_CLAUSES)
        while True:
            word = self.word
            if word not in _CLAUSES:
                self.could_follow = tuple(w for w in words if words.index(w) >= self._next_clause(found))
                return found
            self._bare_alias = None
            field = _CLAUSES[word]
            if field in found:
                self.fail(f"{word} is there already")
            later = [w for w in words[words.index(word) :] if _CLAUSES[w] in found]
            if later:
                self.fail(f"{word} must stand before {later[0]}")
            self.take(word)
            found[field] = self._clause(field)

    def _next_clause(self, found: dict[str, Any]) -> int:
        return max((i + 1 for i, field in enumerate(_CLAUSES.values()) if field in found), default=0)

    def _clause(self, field: str) -> Any:
        if field in ("where", "having"):
            return self.condition()
        if field == "group_by":
            return self.listing(self.expression_here)
        if field == "order_by":
            return self.listing(self._order_item)
        if field == "limit":
            return self.integer("a number of rows")
        if field == "early":
            return self._early()
        model = next((model for word, model in _MODELS.items() if self.take(word)), None)
        if model is None:
            self.fail_expecting(*_MODELS)
        self.expect("DRIVEN")
        return model

    def _early(self) -> EmitEarly:
        """`EMIT EARLY EVERY 10 sec [BY CLOCK]` or `EMIT EARLY EVERY BATCH`"""
        self.expect("EARLY")
        self.expect("EVERY")
        if self.take("BATCH"):
            return EmitEarly(None)
        every = self.duration("how often, such as 10 sec")
        clock = self.take("BY")
        if clock:
            self.expect("CLOCK")
        return EmitEarly(every, clock)

    def _order_item(self) -> OrderItem:
        tree = self.expression_here()
        descending = self.take("DESC")
        if not descending:
            self.take("ASC")
        nulls_first = None
        if self.take("NULLS"):
            nulls_first = self.take("FIRST")
            if not nulls_first:
                self.expect("LAST")
        return OrderItem(tree, descending, nulls_first)
