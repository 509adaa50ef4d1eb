"""Kinds of windows as a table: what every row of it says, and that one more row is all that a new kind takes."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

import pytest

import panes as pn
from panes.cql.errors import CqlError
from panes.cql.grammar.windows import OPTIONS
from panes.cql.parse import parse_one
from panes.cql.tree import Extent, Quantity
from panes.cql.windows import KINDS
from panes.cql.windows.clause import ClauseWriter, WindowClause, built_extent, held
from panes.windows.base import Window


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.word)
def test_every_field_of_a_window_says_what_it_is(kind: type[WindowClause]) -> None:
    unsaid = {field.name for field in fields(kind) if "part" not in field.metadata}
    assert unsaid == {"label", "span"}


def test_every_option_of_a_window_is_one_that_can_be_read() -> None:
    known = {option.field for option in OPTIONS}
    assert all(kind.options <= known for kind in KINDS.values())


@dataclass(frozen=True)
class DoubleClause(WindowClause):
    """`[DOUBLE 5 ON ts]`: windows side by side, twice as long as it says"""

    word = "DOUBLE"
    windows = ()

    half: Extent = field(metadata=held("length", called="DOUBLE"))

    def window(self, time: str | None) -> Window:
        whole = Quantity(2 * self.half.length.number, self.half.length.unit)
        size, on = built_extent(replace(self.half, length=whole), time)
        return pn.tumbling(size, on=on)

    @classmethod
    def of(cls, window: Any, writer: ClauseWriter) -> DoubleClause:
        raise AssertionError("never asked for: `windows` names no window that this is written for")


@pytest.fixture
def one_more_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, DoubleClause.word, DoubleClause)  # type: ignore[arg-type]


DATA = {"s": [{"v": v, "ts": ts} for v, ts in ((1, 1), (2, 8), (3, 12))]}


@pytest.mark.usefixtures("one_more_kind")
def test_a_new_kind_is_read_and_written() -> None:
    text = "SELECT sum(v) AS v FROM s [DOUBLE 5 ON ts WHERE v > 0 AS w]"
    assert parse_one(text.lower()).cql() == text


@pytest.mark.usefixtures("one_more_kind")
def test_a_new_kind_is_run() -> None:
    query = pn.sql("SELECT window_end, sum(v) AS v FROM s [DOUBLE 5 ON TS]", DATA)
    assert list(query.rows()) == [{"window_end": 10, "v": 3}, {"window_end": 20, "v": 3}]


@pytest.mark.usefixtures("one_more_kind")
def test_a_new_kind_moves_out_of_a_subquery_by_the_names_outside() -> None:
    query = pn.sql("SELECT sum(v) AS v FROM (SELECT v, ts AS at FROM s [DOUBLE 5 ON ts]) AS q", DATA)
    assert [row["v"] for row in query.rows()] == [3, 3]


@pytest.mark.usefixtures("one_more_kind")
def test_a_new_kind_is_refused_by_its_place() -> None:
    with pytest.raises(CqlError, match=r"(?s)DOUBLE \.\.\. ON nope: s has no column 'nope'.*\^\^\^\^"):
        pn.sql("SELECT sum(v) AS v FROM s [DOUBLE 5 ON nope]", DATA)
    with pytest.raises(CqlError, match="a window of kind DOUBLE has no EVERY"):
        pn.sql("SELECT sum(v) AS v FROM s [DOUBLE 5 ON ts EVERY 3 ON ts]", DATA)
