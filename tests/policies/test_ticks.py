"""Ticks: several triggers take turns by time, users place theirs in time, evictions are asked of them."""

from __future__ import annotations

from itertools import permutations, repeat
from typing import Any

import pytest

import panes as pn
from panes.errors import DataError
from panes.policies import FakeClock, LiveWindow, specs
from panes.policies.built_in import BuiltInPolicies
from tests.policies import oracle
from tests.policies.parallel_plans import run_by_time, run_central

p = pn.policies


@pytest.fixture(params=["plain", "compiled"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "compiled":
        monkeypatch.setattr(BuiltInPolicies, "few", 0)
    return request.param


def given(rows: list[dict[str, Any]], key: str | None = None, **sides: Any) -> list[tuple[Any, ...]]:
    query = pn.stream(rows, time="t", key=key).window(w=pn.policy(**sides)).agg(rows=pn.collect_list("v"))
    return [(*([r[key]] if key else []), r["window_end"], r["rows"]) for r in query.rows()]


def at(*times: int) -> list[dict[str, Any]]:
    return [{"t": t, "v": t} for t in times]


# --- K-10: by time, not by the order of the list ---


@pytest.mark.parametrize("sizes", [(13, 11), (11, 13)])
def test_no_window_is_lost_whichever_time_trigger_comes_first(way: str, sizes: tuple[int, int]) -> None:
    assert given(at(1, 5, 14), trigger=[p.time(s) for s in sizes]) == [(11, [1, 5]), (None, [14])]
    assert given(at(1, 5, 14), trigger=[p.time(s) for s in sizes], evict=p.time(7)) == [
        (11, [5]), (None, [14]),
    ]  # fmt: skip


@pytest.mark.parametrize("order", list(permutations((3, 5, 7))))
def test_three_time_triggers_take_turns(way: str, order: tuple[int, ...]) -> None:
    """Borders 3, 5, 6, 7, 9, 10, 12, 14: each sees the rows of the last 4 ticks before it."""
    want = [(3, [1]), (5, [1, 4]), (6, [4]), (7, [4]), (None, [15])]
    triggers = [p.time(s) for s in order]
    rows = at(1, 4, 15)
    assert given(rows, trigger=triggers, evict=p.time(4)) == want
    assert given(rows, trigger=p.any_of(triggers[0], p.any_of(*triggers[1:])), evict=p.time(4)) == want
    keyed = [{**row, "k": "a"} for row in rows]
    assert [w[1:] for w in given(keyed, "k", central_trigger=triggers, evict=p.time(4))] == want
    assert [w[1:] for w in given(keyed, "k", central_trigger=triggers, central_evict=p.time(4))] == want
    live = LiveWindow(pn.policy(trigger=triggers, evict=p.time(4)), group_reduce=list, value="v", time="t")
    for row in rows:
        live.process(row)
    live.close()
    assert [(r.when, r.value) for r in live.results] == want


def both_kinds(rows: list[dict[str, Any]], central: int, own: int, **evict: Any) -> list[tuple[Any, ...]]:
    return given(rows, "k", central_trigger=p.time(central), trigger=p.time(own), **evict)


def keyed(*rows: tuple[int, str]) -> list[dict[str, Any]]:
    return [{"t": t, "k": k, "v": t} for t, k in rows]


@pytest.mark.parametrize(("central", "own"), [(13, 11), (11, 13)])
def test_no_window_is_lost_between_the_centre_and_a_key(way: str, central: int, own: int) -> None:
    """The example of K-10 with one of its triggers at the centre: before the row at 14 comes 11, then 13."""
    rows = keyed((1, "a"), (5, "a"), (14, "a"))
    assert both_kinds(rows, central, own, evict=p.time(7)) == [("a", 11, [5]), ("a", None, [14])]


def test_borders_of_the_centre_and_of_a_key_take_turns(way: str) -> None:
    """Central ones at 4, 8, 12 for both keys; before its row at 13, those of a at 3, 6, 9, 12 among them.

    b's own wait for a row of b, which never comes. At 12 the centre is first.
    """
    rows = keyed((1, "a"), (2, "b"), (13, "a"))
    assert both_kinds(rows, 4, 3, evict=p.count(2)) == [
        ("a", 3, [1]),
        ("a", 4, [1]), ("b", 4, [2]),
        ("a", 6, [1]),
        ("a", 8, [1]), ("b", 8, [2]),
        ("a", 9, [1]),
        ("a", 12, [1]), ("b", 12, [2]), ("a", 12, [1]),
        ("a", None, [1, 13]), ("b", None, [2]),
    ]  # fmt: skip


def test_a_keys_border_waits_for_its_key_not_so_those_of_the_centre(way: str) -> None:
    """The row of b brings the central border 13, at which a's rows are too old; its own 11 comes with its next row."""
    rows = keyed((1, "a"), (5, "a"), (14, "b"), (15, "a"))
    assert both_kinds(rows, 13, 11, evict=p.time(7)) == [("a", None, [15]), ("b", None, [14])]


def test_central_borders_by_the_clock_wait_for_no_border_of_a_key(way: str) -> None:
    """However rows are cut into batches: the clock alone may have sent 13 before the row came that brings 11."""
    sides: Any = {"central_trigger": p.time(13, thread=True), "trigger": p.time(11), "evict": p.time(7)}
    assert given(keyed((1, "a"), (5, "a"), (14, "a")), "k", **sides) == [("a", None, [14])]


def test_live_windows_take_turns_as_well() -> None:
    window = pn.policy(central_trigger=p.time(13), trigger=p.time(11), evict=p.time(7))
    live = LiveWindow(window, group_reduce=list, value="v", key="k", time="t")
    for row in keyed((1, "a"), (5, "a"), (14, "a")):
        live.process(row)
    live.close()
    assert [(r.when, r.value) for r in live.results] == [(11, [5]), (None, [14])]


def test_threads_that_look_now_and_then_send_borders_in_order() -> None:
    clock = FakeClock()
    live = LiveWindow(
        pn.policy(trigger=[p.time(13, thread=True, start=0), p.time(11, thread=True, start=0)], evict=p.time(7)),
        group_reduce=list, value="v", clock=clock, check=20,
    )  # fmt: skip
    clock.advance_to(5)
    live.process({"v": 5})
    clock.advance_to(30)
    assert [(r.when, r.value) for r in live.results] == [(11, [5])]


def test_parallel_plans_of_two_time_triggers_agree_with_one_place() -> None:
    machine = pn.policy(trigger=[p.time(6), p.time(4)], evict=p.time(7)).bind(specs.CLOCK)
    rows = [{p.TIME: t, "v": t} for t in (1, 3, 5, 9, 14, 15, 27)]
    want = [sum(rows[i]["v"] for i in held) for _, held, _ in oracle.run(
        [{"t": r["v"]} for r in rows], [("time", {"z": 6}), ("time", {"z": 4})], [("time", {"z": 7})]
    )]  # fmt: skip
    options: dict[str, Any] = {"workers": 3, "value": lambda r: r["v"]}
    assert run_central(machine, rows, lambda a, b: a + b, **options) == want
    found = run_by_time(machine, rows, lambda a, b: a + b, finals=1, **options)
    assert [value for _, value in found[0]] == want


ENDLESS = [
    ("of one key", {"trigger": p.time(1), "evict": p.count(3)}, "time(1):"),
    ("two triggers", {"trigger": [p.time(1), p.time(2)], "evict": p.count(3)}, "time(1), time(2):"),
    ("beside a delta", {"trigger": [p.time(1), p.delta(1, on="v")], "evict": p.count(3)}, "time(1):"),
    ("of the centre", {"central_trigger": p.time(1), "evict": p.time(10**16)}, "time(1):"),
    ("of a key under the centre", {"trigger": p.time(1), "central_evict": p.count(3)}, "time(1):"),
]


@pytest.mark.parametrize(("sides", "says"), [e[1:] for e in ENDLESS], ids=[e[0] for e in ENDLESS])
def test_borders_without_end_are_refused_by_the_trigger_that_makes_them(
    way: str, monkeypatch: pytest.MonkeyPatch, sides: Any, says: str
) -> None:
    """In one batch of rows, in the next, and by the clock; a few fewer are given."""
    monkeypatch.setattr(specs, "MOST_FAKES", 1_000)
    few, many = [{"t": t, "k": 1, "v": t} for t in (1, 600)], {"t": 10**15, "k": 1, "v": 5}
    assert len(given(few, "k", **sides)) >= 599
    with pytest.raises(DataError, match="ten million") as error:
        given([*few, many], "k", **sides)
    assert str(error.value).startswith(says)
    op = pn.stream(None, schema=dict.fromkeys("tkv", "bigint"), time="t", key="k")
    op = op.window(w=pn.policy(**sides)).agg(n="count(*)").operator()
    op.push(few[:1])
    with pytest.raises(DataError, match="up to the row at time 1000000000000000 there would be"):
        op.push([many])


@pytest.mark.parametrize("side", ["trigger", "central_trigger"])
def test_borders_without_end_by_the_clock_are_refused(way: str, monkeypatch: pytest.MonkeyPatch, side: str) -> None:
    monkeypatch.setattr(specs, "MOST_FAKES", 1_000)
    sides = {side: p.time(1, thread=True), side.replace("trigger", "evict"): p.count(3)}
    op = pn.stream(None, schema=dict.fromkeys("tkv", "bigint"), time="t", key="k", watermark="manual")
    op = op.window(w=pn.policy(**sides)).agg(n="count(*)").operator()
    op.push([{"t": 1, "k": 1, "v": 1}])
    assert len(op.advance(500)) == 499
    with pytest.raises(DataError, match="ten million"):
        op.advance(10**15)


def test_a_users_fake_items_without_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(specs, "MOST_FAKES", 1_000)

    class Endless(p.ActiveTrigger):
        def before(self, row: Any) -> Any:
            return repeat(p.Tick(row[p.TIME]))

        def notify(self, row: Any) -> bool:
            return False

    with pytest.raises(DataError, match=r"Endless\(...\).before sends more than ten million"):
        given(at(1, 2), trigger=Endless(), evict=p.count(3))


class Never(p.Trigger):
    def notify(self, row: Any) -> bool:
        return False


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("side", ["trigger", "central_trigger"])
def test_a_thread_among_other_triggers_is_heard_between_rows(order: int, side: str) -> None:
    """The clock of the stream is enough for it, though others, in Python, wait for rows."""
    triggers = [Never(), p.count(100), p.time(5, thread=True)]
    sides = {side: triggers[order:] + triggers[:order], side.replace("trigger", "evict"): p.count(3)}
    op = pn.stream(None, schema=dict.fromkeys("tkv", "bigint"), time="t", key="k", watermark="manual")
    op = op.window(w=pn.policy(**sides)).agg(vs=pn.collect_list("v")).operator()
    op.push([{"t": 1, "k": 1, "v": 1}])
    assert [(r["window_end"], r["vs"]) for r in op.advance(11).rows()] == [(5, [1]), (10, [1])]


# --- K-18: ticks that users place in time ---


class Expires(p.ActiveTrigger):
    """A session of rows ends `gap` after the last of them."""

    def __init__(self, gap: int) -> None:
        self.gap, self.last = gap, None

    def before(self, row: Any) -> list[Any]:
        last, self.last = self.last, row[p.TIME]
        return [p.Tick(last + self.gap)] if last is not None and row[p.TIME] - last > self.gap else []

    def notify(self, row: Any) -> bool:
        return False


def test_a_users_tick_says_when_its_window_ends() -> None:
    assert given(at(1, 2, 10, 11, 30), trigger=Expires(3)) == [(5, [1, 2]), (14, [10, 11]), (None, [30])]


def test_users_ticks_and_borders_come_in_the_order_of_time() -> None:
    for triggers in ([Expires(3), p.time(4)], [p.time(4), Expires(3)]):
        found = given(at(1, 2, 10), trigger=triggers, evict=p.time(4))
        assert found == [(4, [1, 2]), (5, [1, 2]), (None, [10])]


class Places(p.ActiveTrigger):
    def __init__(self, *at: Any) -> None:
        self.at = at

    def before(self, row: Any) -> list[Any]:
        return [p.Tick(t) for t in self.at] if row[p.TIME] > 5 else []

    def notify(self, row: Any) -> bool:
        return False


@pytest.mark.parametrize("wrong", [10, 4, 5.5, None])
def test_a_tick_lies_between_two_rows(wrong: Any) -> None:
    with pytest.raises(DataError) as error:
        given(at(5, 9), trigger=Places(wrong), evict=p.count(2))
    assert "Places(...).before sent Tick" in str(error.value)
    assert "from 5, the row before, up to 9" in str(error.value)


def test_ticks_may_carry_what_evictions_look_at() -> None:
    """A session ends with a row of its own making, which a delta compares with those that are held."""

    class Far(Expires):
        def before(self, row: Any) -> list[Any]:
            return [p.Tick(tick.at, {"v": 100}) for tick in super().before(row)]

    rows = [{"t": 1, "v": 1}, {"t": 2, "v": 95}, {"t": 9, "v": 3}]
    assert given(rows, trigger=Far(3), evict=p.active(p.delta(10, on="v"))) == [(5, [95]), (None, [3])]
    assert given(rows, trigger=Far(3), evict=p.delta(10, on="v")) == [(5, [95]), (None, [3])]


def test_live_windows_take_ticks_from_threads() -> None:
    class Timed(p.ActiveTrigger):
        def start(self, send: Any, clock: Any) -> None:
            clock.call_at(8, lambda: send(p.Tick(6)))

        def notify(self, row: Any) -> bool:
            return False

    clock = FakeClock()
    live = LiveWindow(pn.policy(trigger=Timed(), evict=p.time(4)), group_reduce=list, value="v", clock=clock)
    for t in (1, 3, 5):
        clock.advance_to(t)
        live.process({"v": t})
    clock.advance_to(9)
    assert [(r.when, r.value) for r in live.results] == [(6, [3, 5])]


# --- K-18: what active(...) may wrap ---


def test_active_time_lets_old_rows_go_for_a_tick(way: str) -> None:
    rows = at(1, 2, 9)
    passive = given(rows, trigger=p.time(4), evict=p.time(2, active=False))
    assert passive == [(4, [1, 2]), (8, [1, 2]), (None, [9])]
    wrapped = given(rows, trigger=p.time(4), evict=p.active(p.time(2, active=False)))
    assert wrapped == given(rows, trigger=p.time(4), evict=p.time(2)) == [(4, [2]), (None, [9])]


KEYED = [
    {"t": t, "k": k, "v": v, "m": m}
    for t, k, v, m in [(1, "a", 1, "x"), (2, "b", 2, "x"), (3, "a", 9, "end"), (4, "a", 8, "x"), (5, "b", 9, "end")]
]
REST = [("a", None, [9, 8]), ("b", None, [9])]


def test_active_punctuation_clears_other_keys_as_well(way: str) -> None:
    """Under a central trigger a row of one key is a timer tick to all others."""
    end = p.punctuation("end", on="m")
    held = given(KEYED, "k", central_trigger=end, evict=end)
    assert held == [
        ("a", 3, [1]),
        ("b", 3, [2]),
        ("b", 5, [2]),
        ("a", 5, [9, 8]),
        ("a", None, [9, 8]),
        ("b", None, [9]),
    ]
    cleared = given(KEYED, "k", central_trigger=end, evict=p.active(end))
    assert cleared == [("a", 3, [1]), ("b", 3, [2]), ("a", 5, [9, 8]), ("b", None, [9])]


def test_active_delta_compares_with_rows_of_other_keys(way: str) -> None:
    near = p.delta(3, on="v")
    held = given(KEYED, "k", central_trigger=p.count(2), evict=near)
    assert held == [
        ("a", 3, [1]),
        ("b", 3, [2]),
        ("b", 5, [2]),
        ("a", 5, [9, 8]),
        ("a", None, [9, 8]),
        ("b", None, [9]),
    ]
    active = given(KEYED, "k", central_trigger=p.count(2), evict=p.active(near))
    assert active == [("a", 3, [1]), ("b", 3, [2]), ("a", 5, [9, 8]), ("a", None, [9, 8]), ("b", None, [9])]


@pytest.mark.parametrize("inner", [p.delta(0, on="v"), p.punctuation(4, on="v")])
def test_a_border_has_no_values_to_compare(way: str, inner: Any) -> None:
    assert given(at(1, 2, 9), trigger=p.time(4), evict=p.active(inner)) == given(
        at(1, 2, 9), trigger=p.time(4), evict=inner
    )


# --- K-09: a wrapped tumbling eviction waits for the result ---


def test_active_tumbling_clears_after_the_tick_has_emitted(way: str) -> None:
    rows = at(1, 2, 5, 13)
    want = [(4, [1, 2]), (8, [5]), (None, [13])]
    assert given(rows, trigger=p.time(4), evict=p.active(p.tumble())) == want
    assert given(rows, trigger=p.time(4)) == want
    assert given(rows, trigger=p.time(4), evict=p.tumble()) == [
        (4, [1, 2]), (8, [1, 2, 5]), (12, [1, 2, 5]), (None, [1, 2, 5, 13]),
    ]  # fmt: skip
    # beside another eviction, which is asked before the result
    assert given(rows, trigger=p.time(4), evict=[p.active(p.tumble()), p.time(2)]) == [(4, [2]), (None, [13])]
