"""Windows that come and go while the partial lane runs: what they give, from when on, and that others don't notice."""

from __future__ import annotations

import random
from typing import Any

import pytest

import panes as pn
from panes.errors import QueryError
from panes.slicing.lane import RunningWindow
from tests.oracle.windows import Row, due_windows
from tests.slicing.lane_programs import LaneRunner, Program, bound_window, random_window

Spec = tuple[Any, ...]


class ChangingRunner(LaneRunner):
    """A runner whose windows may change; remembers all rows, to compute any window from scratch."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.specs: dict[str, Spec] = dict(program.windows)
        self.seen: list[Row] = []

    def rows(self, rows: list[tuple[Any, ...]]) -> list[Any]:
        limit = self.watermark - (self.program.lateness or 0)
        for k, time, v, g in rows:
            self.seen.append(Row(len(self.seen), time, {"k": k, "v": v, "g": g}, limit))
        return super().rows(rows)

    def add(self, label: str, spec: Spec) -> None:
        number = len(self.numbers)
        self.numbers[label] = number
        query = RunningWindow(label, number, bound_window(spec))
        self.specs[label] = spec
        self.lane.add_query(query, self.watermark)
        self.queries = list(self.lane.queries)

    def remove(self, label: str) -> None:
        self.lane.remove_query(self.numbers[label])
        self.queries = list(self.lane.queries)

    def newest(self) -> int:
        return max((r.time for r in self.seen), default=-(10**18))

    def from_scratch(self, label: str, key: Any) -> dict[tuple[int, int], int]:
        """(start, end) -> number of rows of every window that is due."""
        rows = sorted((r for r in self.seen if key is None or r.data["k"] == key), key=lambda r: (r.time, r.seq))
        found = due_windows(self.specs[label], rows, self.watermark)
        return {(b[0], b[1]): len(rows) for b, rows in found.items()}


def runner_of(windows: dict[str, Spec], **options: Any) -> ChangingRunner:
    return ChangingRunner(
        Program(windows, [("count_rows",)], options.pop("keyed", False), options.pop("lateness", None))
    )


def at(*times: int) -> list[tuple[Any, ...]]:
    return [(0, t, 1, 1) for t in times]


def test_an_added_window_is_warm_where_slices_fit() -> None:
    runner = runner_of({"slow": ("sliding", 60, 1)})
    runner.rows(at(*range(100)))
    runner.advance(90)
    runner.add("fast", ("sliding", 10, 5))
    found = [r for r in runner.advance(96) if r[1] == "fast"]
    assert found == [(None, "fast", 85, 95, 0, False, (10,))]


def test_an_added_window_waits_for_slices_of_its_own() -> None:
    runner = runner_of({"slow": ("tumbling", 20)})
    runner.rows(at(*range(33)))
    runner.advance(30)
    runner.add("fast", ("tumbling", 5))
    runner.rows(at(*range(33, 50)))
    found = [r for r in runner.advance(50) if r[1] == "fast"]
    assert found == [  # [30, 35) holds rows that lie in the slice [20, 40)
        (None, "fast", 35, 40, 0, False, (5,)),
        (None, "fast", 40, 45, 0, False, (5,)),
        (None, "fast", 45, 50, 0, False, (5,)),
    ]


def test_the_others_do_not_notice() -> None:
    runner = runner_of({"slow": ("tumbling", 20)})
    runner.rows(at(*range(33)))
    runner.add("fast", ("tumbling", 7))
    runner.rows(at(*range(25, 60)))
    runner.remove("fast")
    runner.rows(at(*range(40, 75)))
    found = runner.advance(80)
    assert [(r[2], r[6][0]) for r in found] == [(0, 20), (20, 13 + 15), (40, 40), (60, 15)]


def test_added_sessions_start_when_nothing_can_be_missing() -> None:
    runner = runner_of({"t": ("tumbling", 10)})
    runner.rows(at(1, 2, 3))
    runner.add("s", ("session", 5))
    runner.rows(at(7, 9, 30, 31))
    found = [r for r in runner.finish() if r[1] == "s"]
    assert found == [(None, "s", 30, 36, 0, False, (2,))]
    with pytest.raises(QueryError, match="gap by expression"):
        runner.add("x", ("session_by", "g"))


def test_removed_windows_leave_no_slices_behind() -> None:
    runner = runner_of({"day": ("tumbling", 1000), "fine": ("tumbling", 2)})
    runner.rows(at(*range(100)))
    runner.remove("fine")
    runner.rows(at(*range(100, 200)))
    assert len(runner.lane.slices.slices) == 51
    runner.remove("day")
    assert runner.lane.metrics()["slices"] == 0
    runner.add("new", ("tumbling", 10))
    runner.rows(at(*range(200, 220)))
    assert [(r[2], r[6][0]) for r in runner.finish()] == [(200, 10), (210, 10)]


def test_late_rows_do_not_correct_what_an_added_window_never_gave() -> None:
    runner = runner_of({"a": ("tumbling", 5)}, lateness=50)
    runner.rows(at(*range(40)))
    runner.advance(30)
    runner.add("b", ("tumbling", 10))
    assert [r[1] for r in runner.rows(at(22))] == ["a"]
    runner.advance(45)
    assert sorted((r[1], r[4]) for r in runner.rows(at(33))) == [("a", 1), ("b", 1)]


@pytest.mark.parametrize("block", range(4))
def test_windows_added_and_removed_at_random_are_right(block: int) -> None:
    """Windows that begin after all rows seen when they were added must be given; any other given must be right."""
    for seed in range(100 * block, 100 * block + 20):
        rng = random.Random(seed)
        program = Program(
            {f"w{i}": random_window(rng) for i in range(2)},
            [("count_rows",)],
            rng.random() < 0.5,
            rng.choice([None, 20]),
        )
        runner = ChangingRunner(program)
        sure = dict.fromkeys(program.windows, -(10**18))
        given: dict[tuple[Any, ...], int] = {}
        now = 0
        for step in range(12):
            now += rng.choice([1, 5, 20])
            rows = [
                (rng.randrange(4), now - rng.randint(0, 12), 1, rng.choice([0, 2])) for _ in range(rng.randint(1, 15))
            ]
            found = runner.rows(rows) + runner.advance(now - rng.randint(3, 10))
            if step == 11:
                found += runner.finish()
                runner.watermark = 10**15
            for key, label, start, end, _, void, values in found:
                if void:
                    given.pop((key, label, start, end))
                else:
                    given[key, label, start, end] = values[0]
            compare(runner, sure, given, seed)
            if rng.random() < 0.25 and len(sure) > 1:
                label = rng.choice(sorted(sure))
                del sure[label]
                runner.remove(label)
                given = {w: n for w, n in given.items() if w[1] != label}
            elif rng.random() < 0.4:
                spec = random_window(rng)
                if spec[0] != "session_by":
                    label = f"a{step}"
                    sure[label] = max(runner.watermark, runner.newest() + 1) + (spec[1] if spec[0] == "session" else 0)
                    runner.add(label, spec)
            elif rng.random() < 0.3:
                runner.move(rng.randint(1, 2))


def compare(runner: ChangingRunner, sure: dict[str, int], given: dict[tuple[Any, ...], int], seed: int) -> None:
    keys = {r.data["k"] for r in runner.seen} if runner.program.keyed else {None}
    for label, start in sure.items():
        for key in keys:
            due = runner.from_scratch(label, key)
            mine = {w[2:]: n for w, n in given.items() if w[:2] == (key, label)}
            must = {w: n for w, n in due.items() if w[0] >= start}
            assert {w: n for w, n in mine.items() if w[0] >= start} == must, (seed, label, key)
            assert all(due.get(w) == n for w, n in mine.items()), (seed, label, key)


def test_joining_slices_keeps_where_the_last_step_of_a_landmark_begins() -> None:
    """A landmark window is given to keys with rows in its last step; slices joined across its start would hide them."""
    stream = pn.stream(None, schema={"ts": "bigint", "k": "string"}, time="ts", key="k", watermark=0)
    operator = stream.window(other=pn.tumbling(3), total=pn.landmark(-1, every=3)).agg(n="count(*)").operator()
    operator.push([{"ts": 4, "k": "B"}, {"ts": 5, "k": "C"}, {"ts": 7, "k": "B"}])
    operator.add("later", pn.fixed_band(20, size=7))
    given = [(r["k"], r["window_end"], r["n"]) for r in operator.push([{"ts": 11, "k": "B"}]) if r["window"] == "total"]
    assert sorted(given) == [("B", 8, 2), ("C", 8, 1)]


def test_rows_of_a_slice_from_before_a_change_are_known_to_be_forgotten() -> None:
    """Found by the fuzz: its end was asked of the windows of now, which have an edge inside of it."""
    stream = pn.stream(None, schema={"ts": "bigint", "v": "double"}, time="ts", watermark=3000)
    op = stream.window(six=pn.tumbling(6000)).agg(total="sum(v)").operator()
    op.push([{"ts": 11_007, "v": 6.25}])  # in the slice [6000, 12000), which ends at 11008 from the change on
    op.add("two", pn.sliding(2000, every=6000))  # an edge at 8000, inside of that slice
    op.push([{"ts": 17_007, "v": 2.25}])  # now the slice is forgotten
    op.add("late", pn.tumbling(7000, offset=3095))  # [10095, 17095) lacks a row
    op.push([{"ts": 18_000, "v": 1.0}])
    given = [(r["window_start"], r["total"]) for r in op.finish().rows() if r["window"] == "late"]
    assert given == [(17_095, 1.0)]


def test_a_key_for_which_nothing_is_true_has_a_result() -> None:
    stream = pn.stream(time="ts", schema={"ts": "bigint", "k": "string", "b": "boolean"}, key="k", watermark=1)
    op = stream.window(w=pn.tumbling(5)).agg(n=pn.count_if("b")).operator()
    given = [*op.push([{"ts": t, "k": k, "b": k == "A"} for t, k in ((1, "C"), (2, "A"), (9, "A"))]), *op.finish()]
    assert [(r["k"], r["n"]) for r in given] == [("C", 0), ("A", 1), ("A", 1)]
