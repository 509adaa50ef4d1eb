"""Trees are written as sqlglot writes them, and are the same afterwards: nobody copies them before."""

from __future__ import annotations

import pytest
from sqlglot import exp

from panes.cql.dialect import Cql, expression_text
from panes.cql.parse import parse as parse_cql
from panes.plan.dialect import PanesSQL
from panes.plan.expressions import parse, text_of
from panes.plan.functions import ARITY, SCALAR_FUNCTIONS
from panes.plan.trees import copied, rebuilt
from tests.plan.test_scalars import VALUES

#: Every function with as few and as many arguments as it takes.
CALLS = [
    f"{name}({', '.join(['i'] * count)})"
    for name, (fewest, most) in ARITY.items()
    if name in SCALAR_FUNCTIONS
    for count in {fewest, min(most, 4)}
    if (name, count) != ("position", 1)  # which is position(a IN b)
]
TYPES = "boolean tinyint smallint int bigint float float(20) double decimal(5,2) string varchar(3) char(2) date"
CASTS = [f"cast(i as {kind})" for kind in [*TYPES.split(), "timestamp", "binary"]]
TEXTS = [*(text for text, _ in VALUES if text != "my col"), *CALLS, *CASTS]


def test_every_function_is_among_the_texts() -> None:
    used = " ".join(TEXTS)
    assert [name for name in SCALAR_FUNCTIONS if f"{name}(" not in used] == []


@pytest.mark.parametrize("text", TEXTS)
def test_trees_are_not_changed(text: str) -> None:
    tree = parse(text)
    before = tree.copy()
    assert text_of(tree) == before.sql(dialect=PanesSQL, comments=False)
    assert tree == before
    assert repr(tree) == repr(before)


@pytest.mark.parametrize("text", [*TEXTS, "cast(S as char)", "char 'x'"])
def test_trees_of_cql_are_not_changed(text: str) -> None:
    try:
        (found,) = parse_cql(f"SELECT {text} FROM t")
    except ValueError:
        pytest.skip("not in CQL")
    tree = found.statement.entries[0].expression  # type: ignore[union-attr]
    before = tree.copy()
    assert expression_text(tree) == before.sql(dialect=Cql, comments=False, normalize_functions="lower")
    assert repr(tree) == repr(before)


def test_a_node_is_written_as_if_it_stood_alone() -> None:
    tree = parse("not (i = 1 or d > 2) and coalesce(i, 2) in (1, 2)")
    for node in tree.walk():
        if isinstance(node, exp.Condition):
            assert text_of(node) == node.copy().sql(dialect=PanesSQL, comments=False)
            assert node.parent is None or node in node.parent.iter_expressions()


@pytest.mark.parametrize("text", TEXTS)
def test_copies_are_equal_and_apart(text: str) -> None:
    tree = parse(text)
    for made in (copied(tree), rebuilt(tree, lambda node: None)):
        assert made == tree
        assert [node.meta for node in made.walk()] == [node.meta for node in tree.walk()]
        assert not {id(node) for node in made.walk()} & {id(node) for node in tree.walk()}
