"""Shifts of whole numbers, through a session, against Python's."""

from __future__ import annotations

import pytest

from panes.cql.errors import CqlError
from panes.cql.session import Session

VALUES = [5, -6, 0, 1, -1, 1000, None]


@pytest.mark.parametrize(
    "text",
    [
        "a << 2",
        "a >> 1",
        "(a + 1) >> 2",
        "1 << abs(a) % 3",
        "a << 2 >> 1",
        "a << 3 & 12 | 1",
        "a >> abs(a) % 4",
        "-a >> 3",
    ],
)
def test_shifts_are_those_of_python(text: str) -> None:
    session = Session({"t": [{"a": value} for value in VALUES]})
    (*_, rows) = session.run(f"select {text} as b from t")
    wanted = [None if a is None else eval(text, {"a": a, "abs": abs}) for a in VALUES]
    assert rows.query.to_arrow().column("b").to_pylist() == wanted


@pytest.mark.parametrize("text", ["<< a", ">> a", "a > << 3", "a ><< 3", "max(>> a)", "| a", "|| a"])
def test_an_operator_without_a_value_before_it_is_shown(text: str) -> None:
    session = Session({"t": [{"a": 1}]})
    with pytest.raises(CqlError, match="expected an expression"):
        list(session.run(f"select {text} as b from t"))
