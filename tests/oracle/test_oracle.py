"""The oracle by itself: cases worked out by hand, and its shortcut against the literal rule."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fuzz.programs import Program, generate
from tests.oracle.aggregates import aggregate
from tests.oracle.oracle import Oracle, Result
from tests.oracle.windows import INFINITY, Row, due_windows

NAN = float("nan")


def rows(*times: int, **columns: list[Any]) -> list[Row]:
    return [Row(i, t, {c: values[i] for c, values in columns.items()}) for i, t in enumerate(times)]


@pytest.mark.parametrize(
    ("spec", "given", "watermark", "expected"),
    [
        (("tumbling", 5), rows(-1, 0, 4, 5), 5, {(-5, 0): [-1], (0, 5): [0, 4]}),
        (("sliding", 2, 5), rows(0, 1, 2, 5), INFINITY, {(0, 2): [0, 1], (5, 7): [5]}),
        (("sliding", 4, 3, 1), rows(4), INFINITY, {(1, 5): [4], (4, 8): [4]}),
        (("cumulate", 2, 6), rows(1, 3), 6, {(0, 2): [1], (0, 4): [1, 3], (0, 6): [1, 3]}),
        (("landmark", 2, 3), rows(1, 2, 9), INFINITY, {(2, 5): [2], (2, 11): [2, 9]}),
        (("fixed", 2, 5), rows(1, 2, 4, 5), 5, {(2, 5): [2, 4]}),
        (("fixed_band", 2, 3), rows(1, 2, 4, 5), 4, {}),
        (("session", 2), rows(1, 3, 6), 6, {(1, 5): [1, 3]}),
        (("session", 2), rows(1, 3, 6), 5, {}),
        (("last_rows", 2, 5), rows(1, 2, 3, 11), INFINITY, {(2, 5): [2, 3], (3, 15): [3, 11]}),
        (("alternating", 1, 2), rows(0, 1, 2, 3), INFINITY, {(0, 1): [0], (1, 3): [1, 2], (3, 4): [3]}),
    ],
)
def test_the_oracle_finds_windows_on_time(
    spec: Any, given: list[Row], watermark: float, expected: dict[Any, list[int]]
) -> None:
    found = due_windows(spec, given, watermark)
    assert {bounds[:2]: [r.time for r in held] for bounds, held in found.items()} == expected


def test_calendar_days_follow_the_clock_change() -> None:
    spring = rows(1_711_839_600 + 60)  # 2024-03-31 00:01 in Berlin, a day of 23 hours
    (bounds,) = due_windows(("calendar", "day", "Europe/Berlin"), spring, INFINITY)
    assert bounds[1] - bounds[0] == 23 * 3600
    assert bounds[0] == 1_711_839_600


def test_the_oracle_finds_windows_that_data_decide() -> None:
    given = rows(1, 2, 3, 4, d=[1.0, 2.0, None, 9.0], b=[True, False, True, None], e=[False, True, True, False])
    assert list(due_windows(("delta", 3.0, "d"), given, INFINITY)) == [(1, 4, 0, 3), (4, None, 3, 4)]
    assert list(due_windows(("delta", 3.0, "d"), given, 3)) == []
    assert list(due_windows(("threshold", "d", 1.5), given, INFINITY)) == [(2, 3, 1, 2), (4, None, 3, 4)]
    assert list(due_windows(("punctuated", "b"), given, INFINITY)) == [(1, 3, 0, 2), (3, None, 2, 4)]
    assert list(due_windows(("punctuated", "b", "e"), given, INFINITY)) == [(1, 2, 0, 1)]
    assert list(due_windows(("keep_last", 2, 3), given, INFINITY)) == [(2, 4, 1, 3)]


def test_aggregates_over_nan_and_null() -> None:
    given = rows(1, 2, 3, 4, v=[NAN, 2.0, None, 2.0], s=["b", None, "a", "b"])
    assert aggregate(("min", "v"), given) == 2.0
    assert aggregate(("max", "v"), given) != 0.0
    assert aggregate(("count_distinct", "v"), given) == 2
    assert aggregate(("median", "v"), given) == 2.0
    assert aggregate(("median", "v"), rows(1, 2, v=[1, 2])) == 1.5
    assert aggregate(("quantile", "v", 0.5, "disc"), rows(1, 2, v=[1, 2])) == 1
    assert aggregate(("mode", "s"), given) == "b"
    assert aggregate(("string_agg", "s", "-"), given) == "b-a-b"
    assert aggregate(("sum", "v"), given[2:3]) is None
    assert aggregate(("collect_list", "v"), given[2:3]) == []


def test_ledger_of_windows_that_see_rows_in_order() -> None:
    oracle = Oracle({"c": ("column", "m", 2, 2)}, [("count_rows",)], watermark=2, lateness=3)
    for time, measure in [(10, 1), (None, 1), (4, 0), (12, None), (13, 0)]:
        oracle.push([{"ts": time, "m": measure}])
    oracle.finish()
    assert [late.reason for late in oracle.late] == ["null time", "too late", "null measure", "measure went back"]
    assert (oracle.rows_in, oracle.rows_used, oracle.missed["c"]) == (5, 1, 3)


def test_rows_are_used_if_one_window_takes_them() -> None:
    windows = {"w": ("sliding", 20, 10, 0), "s": ("session_by", "g"), "c": ("column", "m", 2, 2)}
    oracle = Oracle(windows, [("count_rows",)], watermark=2)
    for time, gap, measure in [(0, 1, 1), (17, 1, 3), (11, 1, 2), (3, 9, None), (18, None, 4), (19, -1, 4)]:
        oracle.push([{"ts": time, "g": gap, "m": measure}])
    # W = 15: 11 is in [0, 20) and in [10, 30), which are open; 3 is in [-10, 10), closed, and in [0, 20)
    assert [(late.data["ts"], late.reason) for late in oracle.late] == [(18, "bad gap"), (19, "bad gap")]
    assert oracle.missed == {"w": 1, "s": 2, "c": 2}
    given = {(r.window, r.start, r.end): r.values for r in oracle.finish()}
    assert given["w", 0, 20] == (4,)
    assert given["w", 10, 30] == (2,)
    assert given["s", 17, 18] == (1,)


def test_a_session_that_is_closed_for_good_takes_no_part_in_merging() -> None:
    oracle = Oracle({"s": ("session", 5)}, [("count_rows",)], watermark=0)
    for time in (0, 6, 4, 3):  # [0, 5) is given when 6 comes; 4 joins 6 and begins before 5; 3 joins them
        oracle.push([{"ts": time}])
    assert [(r.start, r.end, r.values) for r in oracle.finish()] == [(3, 11, (3,))]
    assert not oracle.late


def test_empty_windows_from_the_first_with_a_row_to_the_last_of_any_key() -> None:
    oracle = Oracle({"w": ("sliding", 2, 3, 0)}, [("count_rows",)], keys=["k"], watermark="manual", emit_empty=True)
    oracle.push([{"ts": 2, "k": "A"}, {"ts": 3, "k": "A"}, {"ts": 9, "k": "B"}, {"ts": 12, "k": "B"}])
    assert [(r.start, *r.values) for r in oracle.advance(9)] == [(3, 1), (6, 0)]
    assert [(*r.key, r.start, *r.values) for r in oracle.finish()] == [
        ("A", 9, 0),
        ("A", 12, 0),
        ("B", 9, 1),
        ("B", 12, 1),
    ]


def test_windows_added_while_running() -> None:
    oracle = Oracle({"w": ("tumbling", 100)}, [("count_rows",)])
    oracle.push([{"ts": 1, "b": True}])
    oracle.add("r", ("rows", 2, 2))  # nothing has counted rows before
    oracle.push([{"ts": 2, "b": True}])
    oracle.add("p", ("punctuated", "b"))  # sees the next row, which is the second that is counted
    assert [r[1:6] for r in oracle.push([{"ts": 3, "b": True}])] == [("r", None, None, 0, 2)]
    assert [r[1:6] for r in oracle.push([{"ts": 4, "b": True}])] == [("p", 3, 4, 1, 2)]


def run(program: Program, *, strict: bool) -> tuple[list[list[Result]], Oracle]:
    oracle = Oracle(
        program.windows,
        program.aggregates,
        keys=program.keys,
        watermark=program.watermark,
        lateness=program.lateness,
        emit_empty=program.emit_empty,
        own=program.own,
        strict=strict,
    )
    calls = []
    for name, *arguments in program.steps:
        if name in ("add", "remove"):
            getattr(oracle, name)(*arguments)
        elif name != "snapshot":
            calls.append(getattr(oracle, name)(*arguments))
    return calls, oracle


@pytest.mark.parametrize("first", range(0, 2000, 500))
def test_shortcut_is_the_literal_rule(first: int) -> None:
    """Giving windows at the end of a call and around corrections is the same as after every row."""
    for seed in range(first, first + 500):
        program = generate(seed)
        calls, oracle = run(program, strict=False)
        strict_calls, strict_oracle = run(program, strict=True)
        for ours, theirs in zip(calls, strict_calls, strict=True):
            assert sorted(map(repr, ours)) == sorted(map(repr, theirs)), seed
        assert sorted(map(repr, oracle.late)) == sorted(map(repr, strict_oracle.late)), seed
        assert oracle.rows_in == oracle.rows_used + len(oracle.late)


def test_only_lateness_takes_results_back() -> None:
    for seed in range(2000, 3000):
        program = generate(seed)
        if program.lateness is None:
            calls, _ = run(program, strict=False)
            assert all(r.revision == 0 and not r.void for call in calls for r in call), seed
