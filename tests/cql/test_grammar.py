"""Text to trees and back, on the statements of `grammar/*.txt`; and the shape of trees where text can't show it."""

from __future__ import annotations

import doctest
import importlib

import pytest
from sqlglot import exp

from panes.cql.errors import CqlError, span_of
from panes.cql.parse import parse, parse_all, parse_one
from panes.cql.printing import to_text
from panes.cql.tree import (
    WINDOW_FIELDS,
    Duration,
    Entry,
    Join,
    Measure,
    Name,
    Select,
    StreamRef,
    SubqueryRef,
    WindowClause,
)
from tests.cql.fixtures import Fixture, fixtures

FIXTURES = list(fixtures())
VALID = [f for f in FIXTURES if f.valid]
MODULES = ("errors", "layout", "lexing", "parse", "printing", "shifts", "spoken", "units")


def test_fixtures_are_there() -> None:
    assert len(VALID) > 90
    assert len(FIXTURES) - len(VALID) > 60


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda f: f.place)
def test_fixture(fixture: Fixture) -> None:
    if not fixture.valid:
        with pytest.raises(CqlError) as raised:
            parse(fixture.text)
        assert fixture.expected in str(raised.value)
        return
    assert "; ".join(to_text(found.statement) for found in parse(fixture.text)) == fixture.expected


@pytest.mark.parametrize("fixture", VALID, ids=lambda f: f.place)
def test_text_of_a_tree_reads_as_that_tree(fixture: Fixture) -> None:
    for found in parse(fixture.text):
        text = to_text(found.statement)
        again = parse_one(text)
        assert again == found.statement
        assert to_text(again) == text


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str) -> None:
    outcome = doctest.testmod(importlib.import_module(f"panes.cql.{name}"))
    assert outcome.attempted
    assert not outcome.failed


def test_tree_of_a_join_of_windows() -> None:
    ts = Name("ts")
    window = WindowClause("size", size=Measure(Duration(10, "min"), ts), every=Measure(Duration(5, "sec"), ts))
    inner = Select((Entry(exp.Star()),), StreamRef(Name("b")))
    left = Join(
        StreamRef(Name("a"), (window,), Name("x")),
        SubqueryRef(inner, (window,), Name("y")),
        "inner",
        None,
        (Name("k"),),
    )
    tree = Select((Entry(exp.column("k", "x"), Name("z")),), Join(left, StreamRef(Name("c")), "cross"))
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


def test_every_field_of_a_window_is_said_to_be_used() -> None:
    fields = set(WindowClause.__dataclass_fields__) - {"kind", "span"}
    assert set().union(*WINDOW_FIELDS.values()) == fields


def test_places() -> None:
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
    assert [to_text(f.statement) for f in found] == ["SELECT a FROM t", "SHOW STREAMS"]
    assert [e.span.start for e in errors] == [text.index(piece) for piece in ("selec b", "frm", "(a int", "'x")]


def test_a_text_of_errors_has_an_end() -> None:
    found, errors = parse_all("nonsense;" * 5000)
    assert not found
    assert len(errors) == 100


def test_nothing_is_nothing() -> None:
    assert parse("") == parse(" \n ; ; -- only a comment\n") == ()


def test_no_text() -> None:
    with pytest.raises(CqlError, match="must be text; got int"):
        parse(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("depth", [1, 20, 60])
def test_queries_in_queries(depth: int) -> None:
    text = "SELECT a FROM " + "(SELECT a FROM " * depth + "t" + ")" * depth
    assert to_text(parse_one(text)) == text


@pytest.mark.parametrize(
    ("before", "after"), [("(", ")"), ("f(", ")"), ("-(", ")"), ("CASE WHEN ", " THEN 1 END"), ("NOT ", "")]
)
def test_expressions_in_expressions(before: str, after: str) -> None:
    text = f"SELECT {before * 25}a{after * 25} FROM t"
    assert to_text(parse_one(text)) == text
