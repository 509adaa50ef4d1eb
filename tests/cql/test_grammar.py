"""Text to trees and back, on the statements of `grammar/*.txt`; and the shape of trees where text can't show it."""

from __future__ import annotations

import doctest
import importlib

import pytest
from sqlglot import exp

from panes.cql.errors import CqlError, span_of
from panes.cql.parse import parse, parse_all, parse_one
from panes.cql.tree import (
    Extent,
    Join,
    Name,
    Quantity,
    Select,
    SelectItem,
    StreamRef,
    SubqueryRef,
)
from panes.cql.windows.sized import SizeClause
from tests.cql.fixtures import Fixture, fixtures

FIXTURES = list(fixtures())
VALID = [f for f in FIXTURES if f.valid]
MODULES = ("arithmetic", "errors", "layout", "lengths", "lexing", "parse", "tree", "types")


def test_the_fixtures_are_not_lost() -> None:
    assert len(VALID) > 90
    assert len(FIXTURES) - len(VALID) > 60


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda f: f.place)
def test_text_parses_to_its_tree_or_is_refused(fixture: Fixture) -> None:
    if not fixture.valid:
        with pytest.raises(CqlError) as raised:
            parse(fixture.text)
        assert fixture.expected in str(raised.value)
        return
    assert "; ".join(found.statement.cql() for found in parse(fixture.text)) == fixture.expected


@pytest.mark.parametrize("fixture", VALID, ids=lambda f: f.place)
def test_text_of_a_tree_reads_as_that_tree(fixture: Fixture) -> None:
    for found in parse(fixture.text):
        text = found.statement.cql()
        again = parse_one(text)
        assert again == found.statement
        assert again.cql() == text


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str) -> None:
    outcome = doctest.testmod(importlib.import_module(f"panes.cql.{name}"))
    assert outcome.attempted
    assert not outcome.failed


def test_tree_of_a_join_of_windows() -> None:
    ts = Name("ts")
    window = SizeClause(Extent(Quantity(10, "min"), ts), Extent(Quantity(5, "sec"), ts))
    inner = Select((SelectItem(exp.Star()),), StreamRef(Name("b")))
    left = Join(
        StreamRef(Name("a"), (window,), Name("x")),
        SubqueryRef(inner, (window,), Name("y")),
        "inner",
        None,
        (Name("k"),),
    )
    tree = Select((SelectItem(exp.column("k", "x"), Name("z")),), Join(left, StreamRef(Name("c")), "cross"))
    text = """
        select x.k as z from a [size 10 min every 5 sec on ts] x
        join (select * from b) [size 10 min on ts every 5 sec on ts] y using k cross join c
    """
    assert parse_one(text) == tree


def test_operators_on_bits_bind_as_in_spark() -> None:
    (entry,) = parse_one("select a | b & c << 1 from t").entries
    assert isinstance(entry.expression, exp.BitwiseOr)
    inner = entry.expression.expression.this
    assert isinstance(inner, exp.BitwiseAnd)
    assert isinstance(inner.expression.this, exp.BitwiseLeftShift)


def test_every_piece_knows_its_place_in_the_text() -> None:
    text = "select a from t;\n  select b,\n  foo(c + d) from Üser [size 3]"
    second = parse(text)[1]
    assert second.source == "select b,\n  foo(c + d) from Üser [size 3]"
    select = second.statement
    assert (select.source.name.span.line, select.source.name.span.column) == (3, 19)
    assert text[select.source.name.span.start : select.source.name.span.end] == "Üser"
    window = select.source.windows[0].span
    assert text[window.start : window.end] == "[size 3]"
    place = span_of(select.entries[1].expression, text)
    assert (place.line, place.column) == (3, 3)
    assert text[place.start : place.end] == "foo(c + d)"


def test_an_error_shows_its_place() -> None:
    with pytest.raises(CqlError) as raised:
        parse("select a\nfrom\tt\nwhere b = ;")
    error = raised.value
    assert str(error).split("\n") == [
        "line 3, column 10: expected an expression, found the end of the statement",
        "  where b = ;",
        "           ^",
    ]
    assert error.short == "expected an expression, found the end of the statement"
    assert error.span.line == 3


def test_an_error_in_a_long_line_shows_a_piece_of_it() -> None:
    with pytest.raises(CqlError) as raised:
        parse(f"select {'a, ' * 200} !! from t")
    _, shown, marks = str(raised.value).split("\n")
    assert len(shown) < 120
    assert shown.startswith("  ...")
    assert shown[marks.index("^")] == "!" or "from" in shown[marks.index("^") :]


def test_all_errors_of_a_text() -> None:
    text = "select a from t; selec b from t; select c frm t; create schema s (a int; show streams; select 'x"
    found, errors = parse_all(text)
    assert [f.statement.cql() for f in found] == ["SELECT a FROM t", "SHOW STREAMS"]
    assert [e.span.start for e in errors] == [text.index(piece) for piece in ("selec b", "frm", "(a int", "'x")]


def test_a_text_of_errors_has_an_end() -> None:
    found, errors = parse_all("nonsense;" * 5000)
    assert not found
    assert len(errors) == 100


def test_text_without_statements_parses_to_none() -> None:
    assert parse("") == parse(" \n ; ; -- only a comment\n") == ()


def test_what_is_not_text_is_refused() -> None:
    with pytest.raises(CqlError, match="must be text; got int"):
        parse(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("depth", [1, 20, 60])
def test_queries_nest_deeply(depth: int) -> None:
    text = "SELECT a FROM " + "(SELECT a FROM " * depth + "t" + ")" * depth
    assert parse_one(text).cql() == text


@pytest.mark.parametrize(
    ("before", "after"), [("(", ")"), ("f(", ")"), ("-(", ")"), ("CASE WHEN ", " THEN 1 END"), ("NOT ", "")]
)
def test_expressions_nest_deeply(before: str, after: str) -> None:
    text = f"SELECT {before * 25}a{after * 25} FROM t"
    assert parse_one(text).cql() == text
