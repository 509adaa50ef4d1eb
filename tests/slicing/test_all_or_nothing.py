"""A call that raises changes nothing: the operator is as one that never saw it."""

from __future__ import annotations

import random
import threading
from typing import Any, ClassVar

import pytest

import panes as pn
from panes.errors import DataError, OperatorClosed, QueryError, UserCodeError
from tests.fuzz.errors import check_seed

SCHEMA = {"t": "bigint", "k": "string", "v": "bigint", "s": "string"}


def rows(*triples: tuple[int, str, int]) -> list[dict[str, Any]]:
    return [{"t": t, "k": k, "v": v, "s": str(v)} for t, k, v in triples]


def stream(watermark: int | None = 2) -> Any:
    return pn.stream(None, schema=SCHEMA, time="t", key="k", watermark=watermark)


GOOD = rows((1, "a", 1), (2, "b", 2), (3, "a", 3))
NEXT = rows((14, "b", 5), (30, "a", 1))


def assert_as_if_it_never_came(query: Any, good: list[Any], bad: list[Any], then: list[Any], match: str) -> None:
    """`bad` is refused; after it the operator gives, row by row and in order, what one gives that never saw it."""
    struck, calm = query.operator(), query.operator()
    for op in (struck, calm):
        op.push(good)
    for _ in range(3):
        with pytest.raises(Exception, match=match):
            struck.push(bad)
        assert struck.metrics == calm.metrics
    assert list(struck.push(then)) == list(calm.push(then))
    assert struck.late.equals(calm.late)
    assert list(struck.finish()) == list(calm.finish())


def test_an_overflow_of_one_key_leaves_the_results_of_others_due() -> None:
    query = stream().window(pn.tumbling(10)).agg(total="sum(v)")
    bad = rows((5, "x", 2**62), (6, "x", 2**62), (14, "b", 5))
    assert_as_if_it_never_came(query, GOOD, bad, NEXT, "64-bit integer")


def test_a_failing_cast_over_aggregates_leaves_all_as_it_was() -> None:
    query = stream().window(pn.tumbling(10)).agg(n="cast(max(s) as int)")
    bad = [{"t": 4, "k": "b", "v": 1, "s": "zzz"}, *NEXT]
    assert_as_if_it_never_came(query, GOOD, bad, NEXT, "zzz")


def test_a_failing_select_leaves_all_as_it_was() -> None:
    query = stream().window(pn.tumbling(10)).agg(m="max(s)").select("window_end", n="cast(m as int)")
    bad = [{"t": 4, "k": "b", "v": 1, "s": "zzz"}, *NEXT]
    assert_as_if_it_never_came(query, GOOD, bad, NEXT, "zzz")


def test_a_batch_of_the_wrong_shape_leaves_single_rows_waiting() -> None:
    op = stream().window(pn.tumbling(10)).agg(n="count(*)").operator()
    op.push(GOOD[0])
    with pytest.raises(DataError, match="column"):
        op.push([{"t": 50, "k": "a"}, {"t": 60, "v": []}])
    assert [r["n"] for r in op.push(NEXT)] == [1, 1]


class Doubled(pn.UserAggregate):
    """A sum that fails on 13."""

    commutative = True

    def lift(self, value: int) -> int:
        if value == 13:
            raise RuntimeError("thirteen")
        return value

    def combine(self, a: int, b: int) -> int:
        return a + b

    def lower(self, a: int) -> int:
        return a


class Joined(pn.UserAggregate):
    """A sum in a dict that `combine` and `lower` change; fails after it has done so, as often as it is told to."""

    commutative = True
    returns = "bigint"
    failing: ClassVar[list[str]] = []

    def lift(self, value: int) -> dict[str, int]:
        return {"total": value}

    def combine(self, a: dict[str, int], b: dict[str, int]) -> dict[str, int]:
        a["total"] += b["total"]
        if "combine" in self.failing:
            raise RuntimeError(self.failing.pop())
        return a

    def lower(self, a: dict[str, int]) -> int:
        given = a.pop("total")
        if "lower" in self.failing:
            raise RuntimeError(self.failing.pop())
        return given


class Fives(pn.FreeFormWindow):
    """Five rows at a time; its state is a list that grows before the error is raised."""

    columns = ("v",)

    def new_state(self) -> list[int]:
        return []

    def expire(self, state: list[int], row: Any, position: int, time: int) -> int:
        state.append(int(row["v"]))
        if row["v"] == 13:
            raise RuntimeError("thirteen")
        return 5 if len(state) % 5 == 2 and len(state) > 2 else 0

    def emit(self, state: list[int], row: Any, position: int, time: int) -> bool:
        return len(state) % 5 == 1 and len(state) > 1


class Pairs(pn.DeterministicWindow):
    """Two rows at a time, by a counter in its state."""

    columns = ("v",)

    def new_state(self) -> dict[str, int]:
        return {"seen": 0}

    def on_row(self, state: dict[str, int], row: Any, position: int, time: int) -> Any:
        state["seen"] += 1
        if row["v"] == 13:
            raise RuntimeError("thirteen")
        first = state["seen"] % 2 == 1
        return pn.WindowEvents(begin=int(first), end=int(first and state["seen"] > 1))


class EverySecond(pn.policies.Trigger):
    """Counts before the error is raised."""

    columns = ("v",)

    def __init__(self) -> None:
        self.seen = 0

    def notify(self, row: Any) -> bool:
        self.seen += 1
        if row["v"] == 13:
            raise RuntimeError("thirteen")
        return self.seen % 2 == 0


USERS = {
    "aggregate": lambda **w: stream(**w).window(pn.tumbling(10)).agg(total=Doubled("v")),
    "aggregate over rows": lambda **w: stream(**w).window(pn.tumbling(pn.rows(2))).agg(total=Doubled("v")),
    "free-form window": lambda **w: stream(**w).window(Fives()).agg(n="count(*)", total="sum(v)"),
    "deterministic window": lambda **w: stream(**w).window(Pairs()).agg(n="count(*)", total="sum(v)"),
    "policy": lambda **w: stream(**w).window(pn.policy(trigger=EverySecond())).agg(n="count(*)", total="sum(v)"),
}


@pytest.mark.parametrize("fails", ["combine", "lower"])
@pytest.mark.parametrize(
    "window", [pn.session(5), pn.tumbling(10), pn.sliding(10, every=2), pn.sliding(pn.rows(4), every=pn.rows(2))]
)
def test_an_aggregate_that_combines_in_place_is_right_after_a_push_that_raised(window: Any, fails: str) -> None:
    op = stream().window(window).agg(own=Joined("v"), total="sum(v)").operator()
    Joined.failing.clear()
    found = [*op.push(GOOD), *op.push(rows((4, "a", 4), (4, "b", 2), (5, "a", 7)))]
    for call in (lambda: op.push(NEXT), lambda: op.advance(40), op.finish):
        for failing in ([fails], [fails], [fails], []):
            Joined.failing[:] = failing
            try:
                found += call()
                break  # there was nothing to do in this call that could fail
            except UserCodeError:
                continue
    Joined.failing.clear()
    assert found
    assert [r["own"] for r in found] == [r["total"] for r in found]


def test_an_aggregate_that_combines_in_place_gives_each_sliding_window_its_own() -> None:
    query = stream().window(pn.sliding(10, every=2)).agg(own=Joined("v"), total="sum(v)")
    op = query.operator()
    many = rows(*((i, "ab"[i % 2], 1) for i in range(40)))
    found = [*op.push(many), *op.finish()]
    assert len(found) > 30
    assert [r["own"] for r in found] == [r["total"] for r in found]


def test_an_aggregate_whose_partials_nobody_can_copy_says_so() -> None:
    lock = pn.aggregate(
        "v", lift=lambda v: [threading.Lock()], combine=lambda a, b: a, lower=lambda a: 1.0, name="lock"
    )
    op = stream().window(pn.sliding(10, every=2)).agg(own=lock).operator()
    with pytest.raises(DataError, match=r"lock\(v\): partials must be objects that can be pickled or copied"):
        op.push([*GOOD, *NEXT])


@pytest.mark.parametrize("kind", USERS)
def test_an_exception_in_user_code_leaves_its_state_as_it_was(kind: str) -> None:
    many = rows(*((4 + i // 3, "ab"[i % 2], i) for i in range(9)))
    bad = [*many, *rows((8, "c", 1), (9, "a", 13), (20, "b", 1))]
    assert_as_if_it_never_came(USERS[kind](), GOOD, bad, [*many, *NEXT], "thirteen")


@pytest.mark.parametrize("kind", USERS)
def test_a_single_row_that_user_code_refuses_is_refused_when_it_is_pushed(kind: str) -> None:
    op = USERS[kind](watermark=None).operator()  # in order: code sees a row at once, and not when a watermark lets it
    op.push(GOOD[0])
    with pytest.raises(Exception, match="thirteen"):
        [op.push(row) for row in rows((3, "a", 13), (40, "a", 1), (80, "a", 1))]
    assert op.metrics["rows_in"] == 1


def test_a_single_row_that_an_expression_refuses_is_refused_when_it_is_pushed() -> None:
    op = stream().window(pn.tumbling(10)).agg(total="sum(cast(s as int))").operator()
    op.push(GOOD[0])
    with pytest.raises(DataError, match="not a number"):
        op.push({"t": 3, "k": "a", "v": 1, "s": "not a number"})
    assert [r["total"] for r in op.push(NEXT)] == [1, 5]


def test_a_window_that_can_not_be_added_changes_nothing() -> None:
    query = stream().window(a=pn.tumbling(pn.rows(2))).agg(n="count(*)")
    op = query.operator()
    op.push(GOOD)
    with pytest.raises(QueryError):
        op.add("b", pn.tumbling(5, on="v"))
    assert list(op.windows) == ["a"]
    assert list(op.push(NEXT)) == list(query.operator().push([*GOOD, *NEXT]))


def test_an_operator_pushed_to_from_several_threads_counts_every_row_once() -> None:
    op = pn.stream(None, schema={"t": "bigint", "k": "bigint", "v": "bigint"}, time="t", key="k", watermark="manual")
    op = op.window(pn.tumbling(100), pn.sliding(100, every=10)).agg(n="count(*)", total="sum(v)").operator()
    errors: list[BaseException] = []

    def work(number: int) -> None:
        rng = random.Random(number)
        try:
            for _ in range(100):
                op.push([{"t": rng.randrange(100), "k": rng.randrange(5), "v": 1} for _ in range(7)])
                op.push({"t": rng.randrange(100), "k": rng.randrange(5), "v": 1})
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert op.metrics["rows_used"] == 4 * 100 * 8
    whole = [r for r in op.finish() if r["window"].startswith("tumbling")]
    assert sum(r["n"] for r in whole) == sum(r["total"] for r in whole) == 4 * 100 * 8


def test_user_code_that_calls_its_own_operator_is_told_so() -> None:
    class Asks(Doubled):
        def lift(self, value: int) -> int:
            op.push(GOOD)
            return value

    op = stream().window(pn.tumbling(10)).agg(total=Asks("v")).operator()
    with pytest.raises(OperatorClosed, match="in the middle of a call"):
        op.push(GOOD)
    assert op.metrics["rows_in"] == 0


@pytest.mark.parametrize("seed", range(40))
def test_an_error_at_any_line_of_a_call_leaves_all_as_it_was(seed: int) -> None:
    first = 1000 * seed
    assert [(s, why) for s in range(first, first + 5) if (why := check_seed(s)) is not None] == []


def test_a_micro_batch_gives_what_its_parts_give_one_by_one() -> None:
    query = stream(watermark="manual").window(t=pn.tumbling(10), s=pn.session(3)).agg(n="count(*)", total="sum(v)")
    whole, parts = query.operator(), query.operator()
    for before, batch, after in [(0, GOOD, 4), (12, NEXT, 12), (20, None, 35), (30, rows((36, "b", 1)), 50)]:
        given = list(whole.micro_batch(before, batch, after))
        calls = [parts.advance(max(before, parts.watermark)), *([parts.push(batch)] if batch else [])]
        calls.append(parts.advance(max(after, parts.watermark)))
        one_by_one = [row for call in calls for row in call]
        assert given == sorted(one_by_one, key=lambda row: row["window_end"])
        assert whole.watermark == parts.watermark
    assert list(whole.finish()) == list(parts.finish())
    assert whole.late.equals(parts.late)


def test_a_micro_batch_whose_windows_fail_takes_no_rows() -> None:
    query = stream(watermark="manual").window(pn.tumbling(10)).agg(n="cast(max(s) as int)")
    struck, calm = query.operator(), query.operator()
    for op in (struck, calm):
        op.micro_batch(0, GOOD, 0)
    with pytest.raises(DataError, match="zzz"):
        struck.micro_batch(0, [{"t": 4, "k": "b", "v": 1, "s": "zzz"}], 10)
    assert struck.metrics == calm.metrics
    assert list(struck.micro_batch(0, NEXT, 40)) == list(calm.micro_batch(0, NEXT, 40))
