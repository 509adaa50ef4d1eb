"""Policies of users that declare their borders: reduced from border to border, with the same results."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import panes as pn
from panes.errors import QueryError, UserCodeError
from panes.policies import LiveWindow

p = pn.policies


class At(p.Trigger):
    """After so many rows of the key; after the last of them, every so many."""

    def __init__(self, *ends: int, scale: str | None = "rows") -> None:
        self.ends, self.scale, self.seen = ends, scale, 0

    def notify(self, row: Any) -> bool:
        self.seen += 1
        return self.seen > 1 and self.next_trigger(self.seen - 2) == self.seen - 1

    def next_trigger(self, previous: int) -> int:
        later = [end for end in self.ends if end > previous]
        return later[0] if later else (previous // self.ends[-1] + 1) * self.ends[-1]


class Shares(p.Eviction):
    """Windows that end after n rows begin after n * share of them."""

    def __init__(self, ends: At, share: float, scale: str | None = "rows") -> None:
        self.ends, self.share, self.scale, self.seen, self.head = ends, share, scale, 0, 0

    def notify(self, row: Any, triggered: bool, size: int) -> int:
        begin = int(self.ends.next_trigger(self.seen) * self.share)
        gone = max(0, min(begin - self.head, size))
        self.seen, self.head = self.seen + 1, self.head + gone
        return gone

    def lower_border(self, upper: int) -> int:
        return int(upper * self.share)


class Doubling(p.ActiveTrigger):
    """At the times 1, 2, 4, 8, ... as ticks."""

    def __init__(self, scale: str | None = "time") -> None:
        self.scale, self.next = scale, 1

    def before(self, row: Any) -> Any:
        while self.next <= row[p.TIME]:
            yield p.Tick(self.next)
            self.next *= 2

    def notify(self, row: Any) -> bool:
        return False

    def next_trigger(self, previous: int) -> int:
        return 1 if previous < 1 else 1 << previous.bit_length()


#: by name: the policies, with borders declared or not
PAIRS: dict[str, Any] = {
    "own trigger and eviction": lambda s: (At(2, 3, 7, scale=s and "rows"), Shares(At(2, 3, 7), 0.5, s and "rows")),
    "hopping": lambda s: (At(4, 9, scale=s and "rows"), Shares(At(4, 9), 0.8, s and "rows")),
    "own trigger, count": lambda s: (At(2, 3, 7, scale=s and "rows"), p.count(4)),
    "count, own eviction": lambda s: (p.count(3), Shares(At(3), 0.6, s and "rows")),
    "own trigger, time": lambda s: (Doubling(s and "time"), p.time(5)),
}  # fmt: skip


def rows_of(seed: int) -> list[dict[str, Any]]:
    rng, t, rows = Random(seed), 0, []
    for i in range(60):
        t += rng.choice((0, 1, 1, 2, 9))
        rows.append({"t": t, "k": rng.randrange(2), "v": i})
    return rows


def given(policies: Any, rows: list[dict[str, Any]], seed: int, *, end: bool) -> tuple[list[Any], dict[str, Any]]:
    trigger, evict = policies
    window = pn.policy(trigger=trigger, evict=evict, end=end)
    query = pn.stream(rows, time="t", key="k").window(w=window).agg(total="sum(v)", n="count(*)", top="max(v)")
    rng, op, found, at = Random(seed), query.operator(), [], 0
    while at < len(rows):
        step = rng.choice((1, 1, 2, 20))
        found += op.push(rows[at : at + step]).rows()
        at += step
        if rng.random() < 0.2:
            op = query.operator(restore=op.snapshot(), trusted=True)
    found += op.finish().rows()
    return sorted(found, key=lambda r: (r["k"], r["window_to"], r["window_from"])), op.metrics


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("seed", range(6))
def test_declared_borders_change_no_result_and_make_fewer_slices(name: str, seed: int) -> None:
    rows, end = rows_of(seed), seed % 3 > 0
    known, metrics = given(PAIRS[name](True), rows, seed, end=end)
    unknown, before = given(PAIRS[name](None), rows, seed, end=end)
    assert known == unknown
    assert known
    assert metrics["plans"] == {"w": "slices from border to border"}
    assert "each row" in before["plans"]["w"]
    assert metrics["buffered"] <= before["buffered"]


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("seed", range(6))
def test_declared_borders_over_python_objects(name: str, seed: int) -> None:
    found = []
    for scale in (True, None):
        trigger, evict = PAIRS[name](scale)
        live = LiveWindow(
            pn.policy(trigger=trigger, evict=evict, end=seed % 3 > 0),
            reduce=lambda a, b: a + b, value=lambda r: [r["v"]], key="k", time="t",
        )  # fmt: skip
        for row in rows_of(seed):
            live.process(row)
        live.close()
        found.append(live.results)
        assert live.plan == ("borders" if scale else "none")
    assert found[0] == found[1]


def test_borders_are_used_by_default_with_the_end_of_the_stream() -> None:
    """Count with count and time with time, whose last window begins between two borders."""
    for trigger, evict in ((p.count(4), p.count(10)), (p.time(4), p.time(10))):
        query = pn.stream(None, schema={"t": "bigint", "v": "bigint"}, time="t")
        query = query.window(w=pn.policy(trigger=trigger, evict=evict)).agg(vs="min(v)", n="count(*)")
        op = query.operator()
        for t in range(1, 36):
            op.push({"t": t, "v": t})
        assert op.metrics["plans"] == {"w": "slices from border to border"}
        assert op.metrics["buffered"] <= 6
        (last,) = op.finish().rows()
        first = 26 if isinstance(evict, type(p.count(1))) else 25
        assert (last["window_start"], last["vs"], last["n"]) == (first, first, 36 - first)


class Liar(Shares):
    def lower_border(self, upper: int) -> int:
        return super().lower_border(upper) - 1


def test_policies_that_declare_other_borders_than_they_have_are_named() -> None:
    policy = pn.policy(trigger=At(6), evict=Liar(At(6), 0.5))
    query = pn.stream([{"t": t, "v": t} for t in range(40)], time="t").window(w=policy).agg(total="sum(v)")
    with pytest.raises(QueryError, match=r"window 'w': At\(...\), Liar\(...\): a window begins at row"):
        list(query.rows())
    live = LiveWindow(policy, reduce=max, value="v", time="t")
    for t in range(18):
        live.process({"t": t, "v": t})
    with pytest.raises(QueryError, match=r"Liar\(...\): a window begins at a row that is no border"):
        live.process({"t": 18, "v": 18})


class Says(At):
    def __init__(self, answer: Any) -> None:
        super().__init__(5)
        self.answer = answer

    def next_trigger(self, previous: int) -> Any:
        return self.answer


@pytest.mark.parametrize("answer", [0, 1.5, None, True])
def test_a_next_trigger_lies_after_the_one_before(answer: Any) -> None:
    rows = [{"t": 1, "v": 1}, {"t": 2, "v": 2}]
    query = pn.stream(rows, time="t").window(pn.policy(trigger=Says(answer), evict=p.count(3)))
    with pytest.raises(QueryError, match=r"Says\(...\): next_trigger\(.*\) returned"):
        list(query.agg("count(*)").rows())
    live = LiveWindow(pn.policy(trigger=Says(answer), evict=p.count(3)), reduce=max, value="v", time="t")
    with pytest.raises(QueryError, match="it must be a later integer"):
        live.process({"t": 1, "v": 1})


def test_scales_that_differ_declare_nothing() -> None:
    live = LiveWindow(pn.policy(trigger=At(5), evict=p.time(3)), reduce=max, value="v", time="t")
    assert live.plan == "none"


class Raises(At):
    def notify(self, row: Any) -> bool:
        return False

    def next_trigger(self, previous: int) -> int:
        raise ZeroDivisionError("no idea")


def test_errors_in_what_declares_borders_are_named() -> None:
    rows = [{"t": 1, "v": 1}, {"t": 2, "v": 2}]
    query = pn.stream(rows, time="t").window(w=pn.policy(trigger=Raises(1), evict=p.count(3))).agg("count(*)")
    with pytest.raises(UserCodeError, match=r"window 'w': Raises\(...\).next_trigger\(0\) raised ZeroDivisionError"):
        list(query.rows())


class Nothing(p.Trigger):
    def notify(self, row: Any) -> bool:
        return False


@pytest.mark.parametrize(("scale", "says"), [("rows", "must define next_trigger"), ("km", "scale='km' must be")])
def test_what_is_declared_is_checked_when_it_is_written(scale: str, says: str) -> None:
    policy = Nothing()
    policy.scale = scale
    with pytest.raises(QueryError, match=says):
        pn.policy(trigger=policy, evict=p.count(3))
