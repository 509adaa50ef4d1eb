"""Windows that are given before they close: what each result says, and what can't be asked for."""

from __future__ import annotations

from typing import Any

import pytest

import panes as pn
from panes.clock import FakeClock
from panes.errors import QueryError

Shown = tuple[Any, ...]


def counted(window: Any, every: Any, *, watermark: Any = None, lateness: Any = None, **options: Any) -> Any:
    schema = {"t": "bigint", "k": "string"}
    stream = pn.stream(None, schema=schema, time="t", key="k", watermark=watermark, lateness=lateness)
    return stream.window(w=window).agg(n="count(*)").early(every, **options)


def shown(results: Any) -> list[Shown]:
    """(start, end, n, revision, final), with "void" for n where it is withdrawn."""
    return [
        (r["window_start"], r["window_end"], "void" if r["void"] else r["n"], r["revision"], r["final"])
        for r in results.rows()
    ]


def rows(*times: int, key: str = "a") -> list[dict[str, Any]]:
    return [{"t": t, "k": key} for t in times]


def test_open_windows_are_given_when_the_watermark_passes_a_multiple() -> None:
    op = counted(pn.tumbling(20), 5).operator()
    assert shown(op.push(rows(1, 4))) == []  # from 1 to 4 no multiple of 5 is passed
    assert shown(op.push(rows(12))) == [(0, 20, 3, 0, False)]
    assert shown(op.push(rows(14))) == []
    assert shown(op.push(rows(15))) == [(0, 20, 5, 1, False)]
    assert shown(op.push(rows(21))) == [(0, 20, 5, 2, True), (20, 40, 1, 0, False)]


def test_windows_that_have_not_changed_are_not_given_again() -> None:
    op = counted(pn.tumbling(100), 10, watermark="manual").operator()
    op.push([*rows(1), *rows(2, key="b")])
    op.advance(9)
    assert len(op.advance(10)) == 2
    assert shown(op.advance(35)) == []
    op.push(rows(50, key="b"))
    assert shown(op.advance(40)) == [(0, 100, 2, 1, False)]


def test_a_window_that_closes_is_final_though_nothing_changed_since_it_was_given_early() -> None:
    op = counted(pn.tumbling(10), 4, watermark="manual").operator()
    op.push(rows(1))
    op.advance(1)
    assert shown(op.advance(4)) == [(0, 10, 1, 0, False)]
    assert shown(op.advance(10)) == [(0, 10, 1, 1, True)]


def test_how_rows_are_put_into_batches_makes_no_difference() -> None:
    times = [3, 1, 9, 14, 2, 26, 27, 33, 31, 58, 59]
    query = counted(pn.sliding(20, every=10), 5, watermark=4)
    alone, together = query.operator(), query.operator()
    found = [row for t in times for row in shown(alone.push(rows(t)))]
    assert sorted(found) == sorted(shown(together.push(rows(*times))))
    assert any(not final for *_, final in found)


def test_a_session_that_grows_withdraws_what_was_given_of_it() -> None:
    op = counted(pn.session(5), 4).operator()
    assert shown(op.push(rows(1, 4))) == [(1, 9, 2, 0, False)]
    assert shown(op.push(rows(8))) == [(1, 9, "void", 1, False), (1, 13, 3, 0, False)]
    # it grows and closes: withdrawn, and the final one under its own bounds
    assert shown(op.push(rows(11))) == []
    found = shown(op.push(rows(30)))
    assert found == [(1, 13, "void", 1, False), (1, 16, 4, 0, True), (30, 35, 1, 0, False)]


def test_two_sessions_that_become_one_are_both_withdrawn() -> None:
    op = counted(pn.session(3), 2, watermark="manual").operator()
    op.push(rows(1, 8))
    op.advance(1)
    assert shown(op.advance(2)) == [(1, 4, 1, 0, False), (8, 11, 1, 0, False)]
    op.push(rows(4, 6))
    found = shown(op.advance(4))
    assert found == [(1, 4, "void", 1, False), (8, 11, "void", 1, False), (1, 11, 4, 0, False)]


def test_corrections_count_on_and_stay_final() -> None:
    op = counted(pn.tumbling(10), 4, watermark="manual", lateness=20).operator()
    op.push(rows(1))
    op.advance(1)
    assert shown(op.advance(5)) == [(0, 10, 1, 0, False)]
    assert shown(op.advance(11)) == [(0, 10, 1, 1, True)]
    assert shown(op.push(rows(2))) == [(0, 10, 2, 2, True)]


def test_snapshots_know_what_was_given() -> None:
    query = counted(pn.session(5), 4, watermark="manual", lateness=9)
    op = query.operator()
    op.push([*rows(1, 4), *rows(2, key="b")])
    op.advance(1)
    op.advance(4)
    whole = query.operator(restore=op.snapshot())
    parts = query.operator(restore=[op.snapshot(key_groups=range(64)), op.snapshot(key_groups=range(64, 128))])
    for other in (whole, parts):
        for each in (op, other):
            each.push(rows(9))
        assert sorted(shown(other.advance(30))) == sorted(shown(op.advance(30)))
        op = query.operator(restore=whole.snapshot())
        break


def test_a_session_without_length_that_was_given_early_can_be_saved() -> None:
    stream = pn.stream(None, schema={"t": "bigint", "g": "bigint"}, time="t", watermark="manual")
    query = stream.window(w=pn.session("g")).agg(n="count(*)").early(1)
    op = query.operator()
    op.push([{"t": 5, "g": 0}])
    op.advance(1)
    assert shown(op.advance(2)) == [(5, 5, 1, 0, False)]
    assert shown(query.operator(restore=op.snapshot()).finish()) == [(5, 5, 1, 1, True)]


def test_asked_by_hand_and_only_of_queries_that_say_so() -> None:
    op = counted(pn.tumbling(10), "1 s", clock=True).operator()
    op.push(rows(1, 2))
    assert shown(op.early()) == [(0, 10, 2, 0, False)]
    assert shown(op.early()) == []
    plain = pn.stream(None, schema={"t": "bigint"}, time="t").window(pn.tumbling(10)).agg(n="count(*)").operator()
    with pytest.raises(QueryError, match=r"early\(\): say query\.early\(\.\.\.\) first"):
        plain.early()


def test_by_the_clock_while_rows_are_awaited() -> None:
    clock = FakeClock(start=0)

    def come() -> Any:
        yield {"t": 1}
        clock.advance(400_000)
        yield {"t": 2}
        clock.advance(2_000_000)
        yield {"t": 3}

    stream = pn.stream(come(), schema={"t": "bigint"}, time="t", clock=clock)
    query = stream.window(w=pn.tumbling(10)).agg(n="count(*)").early("1 s", clock=True)
    assert [(r["n"], r["final"]) for r in query.rows()] == [(2, False), (3, True)]


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda s: s.window(r=pn.tumbling(pn.rows(3))).agg(n="count(*)").early(5), "window 'r': early.*in the order"),
        (lambda s: s.window(pn.tumbling(9)).agg(n="count(*)").where("n > 1").early(5), "right after agg"),
        (lambda s: s.window(pn.tumbling(9)).agg(n="count(*)").early(5).early(5), "say it once"),
        (lambda s: s.window(pn.tumbling(9)).agg(n="count(*)").early(0), "early"),
        (lambda s: s.window(pn.tumbling(9)).agg(n="count(*)").early(5, clock=True), "must be a duration of the clock"),
        (lambda s: s.window(pn.tumbling(9)).agg(n="count(*)").early("batch", clock=True), "leave clock out"),
        (lambda s: s.window(pn.tumbling(9)).agg(n="count(*)").early("batch").to_pandas(), "micro-batches are Spark's"),
        (lambda s: s.window(pn.tumbling(9)).agg(n="count(*)").early(5).stream(), "before they close"),
        (lambda s: s.window(pn.tumbling(9)).agg(final="count(*)").early(5), "'final' is the column that says whether"),
    ],
)  # fmt: skip
def test_what_cant_be_is_refused_by_name(ask: Any, said: str) -> None:
    with pytest.raises(QueryError, match=said):
        ask(pn.stream([{"t": 1}], time="t"))


def test_results_that_stop_passing_a_condition_are_withdrawn() -> None:
    query = counted(pn.tumbling(20), 5, watermark="manual").where("n < 3")
    op = query.operator()
    op.push(rows(1, 2))
    op.advance(1)
    assert shown(op.advance(5)) == [(0, 20, 2, 0, False)]
    op.push(rows(7))
    assert shown(op.advance(10)) == [(0, 20, "void", 1, False)]


def test_the_newest_of_each_is_the_final_one() -> None:
    data = [{"t": t} for t in (1, 4, 12, 14, 25)]
    query = pn.stream(data, time="t").window(pn.tumbling(20)).agg(n="count(*)").early(5)
    assert [(r["n"], r["final"]) for r in query.latest().rows()] == [(4, True), (1, True)]
