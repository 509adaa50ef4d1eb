"""No message shows a word of the engine, of Python or of the inside, whatever is wrong; and each underlines a piece."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from panes.cql.errors import CqlError
from panes.cql.parse import parse
from panes.cql.session import Session
from panes.cql.tree import Explain
from panes.errors import PanesError
from tests.cql.wrong import calls, statements, table

#: Every place has one in so many of the wrong expressions; 1 is all, which takes minutes.
STEP = 61
#: What only we write, or DuckDB, sqlglot or Python: names inside, names of types and of errors, advice.
INSIDE = re.compile(
    r"__|\?\w|_LITERAL|'it'|\w Error\b|STRUCT[_(]|HUGEINT|VARCHAR|BIGINT|INTEGER|DOUBLE|TINYINT|BLOB|VARIANT|"
    r"\b[cx]_\w|panes_|panes\.|\bpx_|\dE0\b|aaa|[Cc]andidate|No function|Cannot|Could not|explicit|[Dd]uck[Dd][Bb]|"
    r"sqlglot|month_day|Macro|argument types|positional|provided|supported between|\bkey_\d|\brow_window|\bout_\d"
)
#: Names of types that CQL has others for.
OF_ARROW = re.compile(
    r"(?<!u)int(8|16|32|64)|timestamp\[|decimal128|date32|list<|struct<|is of type (string|double|bool)"
)


def test_wrong_statements_are_shown_without_raw_errors() -> None:
    seen, shown, whole = 0, [], []
    for text in statements(STEP):
        try:
            for _ in Session({"t": table()}).run(text):
                pass
        except CqlError as error:
            seen += 1
            said = " ".join((error.short, *error.hints))
            if INSIDE.search(said) or OF_ARROW.search(said):
                shown.append((text, said))
            if error.span is None or text[error.span.start : error.span.end] == text:
                whole.append((text, said))
    assert seen > 500
    assert shown == []
    assert whole == []


def test_wrong_calls_are_shown_without_raw_errors() -> None:
    seen, shown = 0, []
    for text, call in calls(STEP):
        try:
            call(text)
        except PanesError as error:
            seen += 1
            if INSIDE.search(str(error)):
                shown.append((text, str(error)))
    assert seen > 200
    assert shown == []


def test_a_phase_that_is_not_there_has_a_place() -> None:
    (located,) = parse("EXPLAIN SELECT n FROM t")
    assert isinstance(located.statement, Explain)
    asked = replace(located, statement=replace(located.statement, phase="none"))
    with pytest.raises(CqlError, match="line 1, column 1: there is no phase 'none'") as raised:
        Session({"t": table()}).execute(asked)
    assert raised.value.span == located.span
