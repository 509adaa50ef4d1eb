"""The table of functions: every name and node stands in it once, with a form for each engine."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from sqlglot import exp

from panes.errors import ExpressionError
from panes.plan.dialect import PanesSQL
from panes.plan.expressions import Scope
from panes.plan.functions import ALLOWED_NODES, ARITY, FUNCTIONS, SCALAR_FUNCTIONS, function_of
from panes.plan.functions.forms import ANY_NUMBER
from panes.plan.scalars import Scalars, never_fail

#: These have a grammar of their own, which says what is missing.
WITH_WORDS = ("if", *(name.lower() for name in PanesSQL.Parser.FUNCTION_PARSERS))
SCOPE = Scope(pa.schema({"i": pa.int64(), "d": pa.float64(), "s": pa.string(), "yes": pa.bool_()}))


def test_a_name_or_node_means_one_function() -> None:
    names = Counter(name for function in FUNCTIONS for name in function.names)
    nodes = Counter(function.node for function in FUNCTIONS if function.node is not None)
    assert [twice for counted in (names, nodes) for twice, times in counted.items() if times > 1] == []


def test_every_function_has_a_form_for_spark() -> None:
    assert [function for function in FUNCTIONS if function.spark is None] == []


def test_names_are_in_small_letters_and_nodes_are_allowed() -> None:
    assert all(name == name.lower() for name in SCALAR_FUNCTIONS)
    assert {function.node for function in FUNCTIONS if function.node is not None} <= ALLOWED_NODES


@pytest.mark.parametrize("name", sorted({*ARITY} - {*WITH_WORDS}))
def test_a_call_is_read_as_its_function_and_refused_with_other_numbers_of_arguments(name: str) -> None:
    fewest, most = ARITY[name]
    tree = SCOPE.scalar(f"{name}({', '.join(['i'] * max(fewest, 1 if most else 0))})").tree
    assert function_of(tree) is not None
    for count in {fewest - 1, most + 1} - {-1, ANY_NUMBER + 1}:
        with pytest.raises(ExpressionError, match=f"{name} takes"):
            SCOPE.scalar(f"{name}({', '.join(['i'] * count)})")


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("d * i + 1", True), ("-d", True), ("i + 1", False), ("-i", False), ("d / 2", False), ("d > i", True),
        ("s = 'a'", True), ("s > d", False), ("yes and not d < 1", True), ("yes and s", False), ("i is null", True),
        ("i is not null or yes", True), ("(d)", True), ("cast(s as int)", False), ("abs(d)", False),
    ],
)  # fmt: skip
def test_what_never_fails(text: str, safe: bool) -> None:
    assert never_fail([SCOPE.scalar(text)], SCOPE.schema) is safe


def test_operands_of_a_form_are_written_where_they_belong() -> None:
    assert Scalars.of(SCOPE, ["i % 3"]).sql == {"i % 3": '(("c_i") % NULLIF(3, 0))'}
    assert isinstance(SCOPE.scalar("i % 3").tree, exp.Mod)
