"""Statements as data: what goes in, and the rows, the words or the error that come out.

A case of the YAML files in `statements/` has `run` (CQL) and one of: `rows` (of the last query, in order; with
`any order` compared as a multiset), `says`, `table`, `explains` (lines among those of the answer), or `error` with
`hint`, `at` (line, column) and `piece` (what is underlined). `streams` are lists of rows by name; names of the file's
own `data` may be used for them. `clock` are the arrival times.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from panes.cql.errors import CqlError
from panes.cql.session import Notice, QueryRows, Session, Table

FOLDER = Path(__file__).parent / "statements"


def cases() -> Iterator[Any]:
    for path in sorted(FOLDER.glob("*.yaml")):
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        data = document.get("data", {})
        for name, case in document["cases"].items():
            yield pytest.param(case, data, id=f"{path.stem}: {name}")


def streams_of(case: dict[str, Any], data: dict[str, Any]) -> dict[str, list[Any]]:
    wanted = case.get("streams", {})
    named = wanted if isinstance(wanted, dict) else {name: name for name in wanted}
    return {name: [_row(r) for r in (data[rows] if isinstance(rows, str) else rows)] for name, rows in named.items()}


def session_of(case: dict[str, Any], data: dict[str, Any]) -> Session:
    streams = streams_of(case, data)
    ticks = iter(case.get("clock", []))
    clock = (lambda: next(ticks)) if "clock" in case else None
    return Session(streams, clock=clock)


def _row(row: Any) -> Any:
    return tuple(row) if isinstance(row, list) else row


@pytest.mark.parametrize(("case", "data"), list(cases()))
def test_a_statement_gives_what_is_written_down(case: dict[str, Any], data: dict[str, Any]) -> None:
    session = session_of(case, data)
    if "error" in case:
        with pytest.raises(CqlError) as raised:
            run(session, case)
        error = raised.value
        assert case["error"] in error.short
        if "hint" in case:
            assert case["hint"] in " ".join(error.hints)
        if "at" in case:
            assert error.span is not None, str(error)
            assert [error.span.line, error.span.column] == case["at"], str(error)
        if "piece" in case:
            assert error.span is not None, str(error)
            assert case["run"][error.span.start : error.span.end] == case["piece"], str(error)
        return
    last = run(session, case)
    if "says" in case:
        assert isinstance(last, Notice)
        assert last.text == case["says"]
    elif "explains" in case:
        assert isinstance(last, Table)
        assert [line for line in case["explains"] if [line] not in [list(row) for row in last.rows]] == []
    elif "table" in case:
        assert isinstance(last, Table)
        assert [list(row) for row in last.rows] == case["table"]
    elif "rows" in case:
        assert isinstance(last, QueryRows)
        table = last.query.to_arrow()
        found = [[plain(value) for value in row.values()] for row in table.to_pylist()]
        if "columns" in case:
            assert table.column_names == case["columns"]
        wanted = case["rows"]
        if case.get("any order"):
            assert Counter(map(repr, found)) == Counter(map(repr, wanted))
        else:
            assert found == wanted


def run(session: Session, case: dict[str, Any]) -> Any:
    last = None
    for answer in session.run(case["run"]):
        last = answer
    return last


def plain(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, dt.date):
        return value.isoformat()
    return value
