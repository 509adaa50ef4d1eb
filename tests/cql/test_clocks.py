"""IDLE, TIMEOUT and system time in CQL, by a fake clock: see tests/runners/test_clocks.py."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import panes as pn
from panes.cql.errors import CqlError
from panes.cql.session import Session
from panes.testing import FakeClock

SECOND = 1_000_000


def quiet(clock: FakeClock, seconds: int, seen: threading.Event) -> Iterator[dict[str, Any]]:
    """Two rows, then a silence that lasts until the result was seen."""
    yield {"ts": 1, "v": 1}
    yield {"ts": 4, "v": 2}
    clock.advance(seconds * SECOND)
    assert seen.wait(30)


def first(text: str, seconds: int) -> dict[str, Any]:
    """The first result of a query over `s`, which comes although nothing more does."""
    clock, seen = FakeClock(), threading.Event()
    given = pn.sql(text, {"data": quiet(clock, seconds, seen), "nothing": []}, clock=clock).rows()
    found = next(given)
    seen.set()
    list(given)
    return found


STREAM = "CREATE STREAM s (ts Long, v Int) SOURCE STREAM ('data') WATERMARK 0 ms ON ts"


def test_idle_closes_windows() -> None:
    assert first(f"{STREAM} IDLE 30 sec; SELECT sum(v) AS n FROM s [SIZE 10 ms ON ts]", 30) == {"n": 3}


def test_idle_passes_through_streams_and_merges() -> None:
    text = f"""{STREAM} IDLE 30 sec;
        CREATE STREAM none (ts Long, v Int) SOURCE STREAM ('nothing') WATERMARK 0 ms ON ts IDLE 20 sec;
        CREATE STREAM doubled AS SELECT ts, 2 * v AS v FROM s;
        CREATE STREAM both AS MERGE doubled, none;
        SELECT sum(v) AS n FROM both [SIZE 10 ms ON ts]"""
    assert first(text, 40) == {"n": 6}


def test_timeout_ends_a_stream() -> None:
    assert first(f"{STREAM} TIMEOUT 30 sec; SELECT sum(v) AS n FROM s [SIZE 10 ms ON ts]", 30) == {"n": 3}
    assert first(f"{STREAM} TIMEOUT 30 sec; SELECT sum(v) AS n FROM s [SIZE 10 min]", 30) == {"n": 3}


def test_system_time_closes_windows() -> None:
    assert first(f"{STREAM}; SELECT sum(v) AS n FROM s [SIZE 10 sec]", 11) == {"n": 3}
    assert first(f"{STREAM}; SELECT sum(v) AS n FROM s [SIZE 10 EVERY 5 sec]", 6) == {"n": 3}
    assert first(f"{STREAM}; SELECT sum(v) AS n FROM s [SESSION 5 sec]", 6) == {"n": 3}


def test_streams_of_the_program_keep_their_clock() -> None:
    clock, seen = FakeClock(), threading.Event()
    rows = quiet(clock, 30, seen)
    data = pn.stream(rows, time="ts", schema={"ts": "bigint", "v": "bigint"}, idle="30 s", clock=clock)
    given = pn.sql("SELECT sum(v) AS n FROM data [SIZE 10 ms ON ts]", {"data": data}).rows()
    assert next(given) == {"n": 3}
    seen.set()
    assert list(given) == []


def test_queries_are_written_with_it() -> None:
    rows = [{"ts": 1, "v": 1}]
    made = pn.stream(rows, time="ts", idle="1.5 s", timeout="2 min").window(pn.tumbling(10)).agg(n="count(*)")
    text = made.to_cql()
    assert "IDLE 1500 ms TIMEOUT 120 sec" in text
    again = pn.sql(text, {"data": rows})
    assert again._plan.stream.silence == made._plan.stream.silence
    assert again.to_cql() == text


@pytest.mark.parametrize(
    ("clause", "message"),
    [
        ("IDLE 30", "IDLE 30 has no unit"),
        ("IDLE 0 sec", "must be positive"),
        ("TIMEOUT 1 month", "a clock can't count them"),
    ],
)
def test_wrong_clauses_of_silence_are_refused(clause: str, message: str) -> None:
    with pytest.raises(CqlError, match=message):
        list(Session().run(f"{STREAM} {clause}"))


def test_derived_streams_go_by_those_they_read() -> None:
    with pytest.raises(CqlError, match="streams with a SOURCE"):
        list(Session().run(f"{STREAM}; CREATE STREAM t AS SELECT * FROM s IDLE 30 sec"))
    late = "CREATE STREAM t (ts Long, v Int) IDLE 30 sec; INSERT INTO t SELECT ts, v FROM s; SELECT v FROM t"
    with pytest.raises(CqlError, match="streams with a SOURCE"):
        list(Session({"data": []}).run(f"{STREAM}; {late}"))


def test_explain_says_how_long_silence_may_last() -> None:
    (table,) = Session().run(f"EXPLAIN RESOLVE {STREAM} IDLE 30 sec")
    assert ("  idle 30 sec",) in table.rows  # type: ignore[union-attr]
