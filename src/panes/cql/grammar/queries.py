"""SELECT and MERGE: entries, references with their windows and joins, and the clauses behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp
from sqlglot.tokens import TokenType

from panes.cql.clauses import QUERY_CLAUSES, STREAM_CLAUSES
from panes.cql.errors import CqlError
from panes.cql.grammar.functions import FunctionReader, desugar
from panes.cql.grammar.words import Stop
from panes.cql.tree import (
    Join,
    JoinKind,
    Merge,
    Name,
    OrderItem,
    Reference,
    Select,
    SelectItem,
    StreamRef,
    SubqueryRef,
)

#: Words that may follow a stream and are no alias of it.
_NOT_ALIAS = frozenset({*STREAM_CLAUSES, *QUERY_CLAUSES, *"GROUP ORDER UNION INTERSECT EXCEPT WINDOW".split()})
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


class QueryReader(FunctionReader):
    #: the clauses that could come where a statement has ended
    could_follow: tuple[str, ...] = ()

    def query(self) -> Select | Merge:
        """A SELECT or MERGE; parentheses around it mean nothing."""
        if self.at_sign(TokenType.L_PAREN):
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

    def entries(self) -> tuple[SelectItem, ...]:
        return self.listing(self._entry)

    def _entry(self) -> SelectItem:
        tree = self.expression_here("a column, an expression or *")
        alias = self.name("a name for the result") if self.take("AS") else None
        return SelectItem(tree, alias)

    def _fail_behind_entry(self) -> None:
        if self.at_name() and self._next.token_type in (TokenType.FROM, TokenType.COMMA):
            self.fail(f"expected FROM, found {self.found()}", f"to name a result, write AS {self._curr.text}")
        self.fail_expecting("FROM", "','")

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
                wrapped = self.at_sign(TokenType.L_PAREN)
                using = self.in_parentheses(self.names) if wrapped else (self.name("a column"),)
            else:
                self.fail_expecting("ON", "USING")
        return Join(left, right, kind, on, using, self.span(first))

    def _reference(self) -> Reference:
        """A stream or a query in parentheses, its windows and its alias."""
        self._bare_alias = None
        first = self._curr
        if self.at_sign(TokenType.L_PAREN):
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

    def _clauses(self) -> dict[str, Any]:
        """WHERE, GROUP BY and so on, in their order, each at most once; by the fields that they fill."""
        found: dict[str, Any] = {}
        words = list(CLAUSES)
        while (word := self.word) in CLAUSES:
            self._bare_alias = None
            field, read = CLAUSES[word]
            if field in found:
                self.fail(f"{word} is there already")
            later = [w for w in words[words.index(word) :] if CLAUSES[w][0] in found]
            if later:
                self.fail(f"{word} must stand before {later[0]}")
            self.take(word)
            found[field] = read(self)
        last = max((i + 1 for i, word in enumerate(words) if CLAUSES[word][0] in found), default=0)
        self.could_follow = tuple(words[last:])
        found["clauses"] = tuple(found.pop(word) for word in QUERY_CLAUSES if word in found)
        return found

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


#: The clauses behind FROM, in order: the field that each fills, or the word of one that has a class; how it is read.
CLAUSES: Mapping[str, tuple[str, Callable[[QueryReader], Any]]] = {
    "WHERE": ("where", QueryReader.condition),
    "GROUP BY": ("group_by", lambda reader: reader.listing(reader.expression_here)),
    "HAVING": ("having", QueryReader.condition),
    "ORDER BY": ("order_by", lambda reader: reader.listing(reader._order_item)),
    "LIMIT": ("limit", lambda reader: reader.integer("a number of rows")),
    **{word: (word, kind.read) for word, kind in QUERY_CLAUSES.items()},
}
