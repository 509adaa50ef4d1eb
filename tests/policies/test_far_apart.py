"""Rows a century apart: borders between them are passed over, or refused by name, never walked one by one."""

from __future__ import annotations

from typing import Any

import pytest

import panes as pn
from panes.errors import DataError
from panes.policies import FakeClock, LiveWindow, evictions, specs
from panes.policies.built_in import BuiltInPolicies
from panes.policies.flow import Group
from tests.policies.parallel_plans import run_by_time, run_central

p = pn.policies
S = 1_000_000
CENTURY = 3_155_760_000 * S
SCHEMA = {"t": "bigint", "k": "string", "v": "bigint"}


@pytest.fixture(params=["plain", "compiled"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "compiled":
        monkeypatch.setattr(BuiltInPolicies, "few", 0)
    return request.param


class Never(p.Trigger):
    """A trigger in Python, beside which all policies run in Python."""

    def notify(self, row: Any) -> bool:
        return False


#: 0.5 s and 1.5 s, two of the same a century later, and one of another key
ROWS = [
    {"t": t, "k": k, "v": v}
    for t, k, v in [
        (S // 2, "a", 1), (3 * S // 2, "a", 2), (CENTURY + S // 2, "a", 3), (CENTURY + 3 * S // 2, "b", 4),
        (CENTURY + 3 * S // 2, "a", 5),
    ]
]  # fmt: skip
A = [row for row in ROWS if row["k"] == "a"]


def given(rows: list[dict[str, Any]], **sides: Any) -> list[tuple[Any, ...]]:
    """(key, end in seconds, counted from a century later where it is past that, values)."""
    query = pn.stream(rows, time="t", key="k").window(w=pn.policy(**sides)).agg(vs=pn.collect_list("v"))
    return [(r["k"], when(r["window_end"]), r["vs"]) for r in query.rows()]


def when(end: int | None) -> Any:
    if end is None:
        return None
    return end / S if end < CENTURY else f"+{(end - CENTURY) / S:g}"


TUMBLING = [("a", 1, [1]), ("a", 2, [2]), ("a", "+1", [3]), ("a", None, [5])]
SLIDING = [("a", 1, [1]), ("a", 2, [1, 2]), ("a", 3, [2]), ("a", "+1", [3]), ("a", None, [3, 5])]
EACH_KEY = {
    "tumbling": ({"trigger": p.time(S)}, TUMBLING),
    "sliding": ({"trigger": p.time(S), "evict": p.time(2 * S)}, SLIDING),
    "two triggers": ({"trigger": [p.time(7 * S), p.time(S)], "evict": p.time(2 * S)}, SLIDING),
    "nested": ({"trigger": p.any_of(p.all_of(), p.any_of(p.time(S))), "evict": p.time(2 * S)}, None),
    "two evictions": ({"trigger": p.time(S), "evict": [p.time(2 * S), p.count(9)]}, SLIDING),
    "beside a count": ({"trigger": [p.time(S), p.count(99)], "evict": p.active(p.tumble())}, TUMBLING),
    "border on a row": ({"trigger": p.time(S, border_on_row=True), "evict": p.time(2 * S)}, SLIDING),
    "by the clock": ({"trigger": p.time(S, thread=True), "evict": p.time(2 * S)}, SLIDING),
    "in Python": ({"trigger": [p.time(S), Never()], "evict": p.time(2 * S)}, SLIDING),
    "in Python, tumbling": ({"trigger": [p.time(S), Never()], "evict": p.active(p.tumble())}, TUMBLING),
    "under a central eviction": ({"trigger": p.time(S), "evict": p.time(2 * S), "central_evict": p.count(9)}, SLIDING),
}


@pytest.mark.parametrize("name", EACH_KEY)
def test_a_century_without_rows_of_a_key(way: str, name: str) -> None:
    sides, want = EACH_KEY[name]
    found = given(A, **sides)
    if want is not None:
        assert found == want
    else:  # all_of() of nothing fires at every row as well
        assert [w for w in found if w in SLIDING] == SLIDING


CENTRAL = {
    "of all keys": {"central_trigger": p.time(S), "central_evict": p.time(2 * S)},
    "evictions of keys": {"central_trigger": p.time(S), "evict": p.time(2 * S)},
    "two triggers": {"central_trigger": [p.time(9 * S), p.time(S)], "evict": p.time(2 * S)},
    "by the clock": {"central_trigger": p.time(S, thread=True), "evict": p.time(2 * S)},
    "in Python": {"central_trigger": [p.time(S), Never()], "evict": p.time(2 * S)},
    "beside triggers of keys": {"central_trigger": p.time(S), "trigger": p.count(99), "evict": p.time(2 * S)},
}


@pytest.mark.parametrize("sides", CENTRAL.values(), ids=CENTRAL)
def test_a_century_without_rows_of_any_key(way: str, sides: Any) -> None:
    assert given(ROWS, **sides) == [
        ("a", 1, [1]), ("a", 2, [1, 2]), ("a", 3, [2]), ("a", "+1", [3]), ("a", None, [3, 5]), ("b", None, [4]),
    ]  # fmt: skip


def test_a_century_between_two_batches_and_by_the_watermark_alone(way: str) -> None:
    window = pn.policy(trigger=p.time(S, thread=True), evict=p.time(2 * S))
    stream = pn.stream(None, schema=SCHEMA, time="t", key="k", watermark="manual")
    op = stream.window(w=window).agg(vs=pn.collect_list("v")).operator()
    op.push(A[:2])
    assert [(r["window_end"], r["vs"]) for r in op.advance(CENTURY).rows()] == [(S, [1]), (2 * S, [1, 2]), (3 * S, [2])]
    op.push(A[2:])
    assert [when(r["window_end"]) for r in op.advance(2 * CENTURY).rows()] == ["+1", "+2", "+3"]


def live_results(window: Any, rows: list[dict[str, Any]], **options: Any) -> list[tuple[Any, ...]]:
    live = LiveWindow(window, group_reduce=list, value="v", key="k", **options)
    for row in rows:
        if live.clock.__class__ is FakeClock:
            live.clock.advance_to(row["t"])  # type: ignore[attr-defined]
        live.process(row)
    live.close()
    return [(r.key, when(r.when), r.value) for r in live.results]


@pytest.mark.parametrize("name", EACH_KEY)
def test_live_windows_pass_over_a_century(name: str) -> None:
    sides, want = EACH_KEY[name]
    if want is not None and name != "by the clock":
        assert live_results(pn.policy(**sides), A, time="t") == want


@pytest.mark.parametrize("check", [None, S // 4])
@pytest.mark.parametrize("side", ["trigger", "central_trigger"])
def test_live_windows_sleep_while_nothing_is_held(side: str, check: int | None) -> None:
    """Nobody is called by the clock between two rows, a century apart, of a window that holds nothing."""
    window = pn.policy(evict=p.time(2 * S), **{side: p.time(S, thread=True, start=0)})
    assert live_results(window, A, clock=FakeClock(), check=check) == SLIDING


def test_parallel_plans_pass_over_a_century() -> None:
    machine = pn.policy(trigger=p.time(S), evict=p.time(2 * S)).bind(specs.CLOCK)
    rows = [{p.TIME: row["t"], **row} for row in A]
    options: dict[str, Any] = {"workers": 2, "value": lambda r: r["v"]}
    want = [sum(vs) for _, _, vs in SLIDING]
    assert run_central(machine, rows, lambda a, b: a + b, **options) == want
    found = run_by_time(machine, rows, lambda a, b: a + b, finals=1, **options)
    assert [value for _, value in found[0]] == want


# --- where each border is a result, or a question to a user's eviction ---


class Asked(p.ActiveEviction):
    """Counts what it is asked; lets all go at a timer tick."""

    def __init__(self) -> None:
        self.asked = 0

    def notify(self, row: Any, triggered: bool, size: int) -> int:
        return 0

    def notify_fake(self, fake: Any, size: int) -> int:
        self.asked += 1
        return size


class Passive(p.Eviction):
    def notify(self, row: Any, triggered: bool, size: int) -> int:
        return size


HELD = "there would be more than ten million windows, one for each border without a row; give start=, a larger size"
ASKED = "there would be more than ten million borders that your own evictions are asked about; give start="
FLOODS = {
    "held for good": ({"trigger": p.time(S), "evict": p.count(9)}, HELD),
    "held for good, of the centre": ({"central_trigger": p.time(S), "central_evict": p.count(9)}, HELD),
    "held for good, in Python": ({"trigger": [p.time(S), Never()], "evict": p.count(9)}, HELD),
    "held at times, for it matches rows": ({"trigger": p.time(S), "evict": p.active(p.punctuation(9, on="v"))}, HELD),
    "held at times, for it compares rows": ({"trigger": p.time(S), "evict": p.active(p.delta(9, on="v"))}, HELD),
    "held by the smallest": (
        {"trigger": p.time(S), "evict": p.smallest(p.time(S), p.active(p.punctuation(9, on="v")))},
        HELD,
    ),
    "held at times, in Python": (
        {"trigger": [p.time(S), Never()], "evict": p.largest(p.active(p.punctuation(9, on="v")))},
        HELD,
    ),
    "held at times, of the centre": (
        {"central_trigger": p.time(S), "central_evict": p.active(p.punctuation(9, on="v"))},
        HELD,
    ),
    "a user's eviction": ({"trigger": p.time(S), "evict": Asked()}, ASKED),
    "a user's eviction, wrapped": ({"trigger": p.time(S), "evict": p.active(Passive())}, ASKED),
    "a user's eviction, nested": ({"trigger": p.time(S), "evict": p.largest(p.time(S), Asked())}, ASKED),
    "a user's eviction under the centre": ({"central_trigger": p.time(S), "evict": Asked()}, ASKED),
}


@pytest.mark.parametrize(("sides", "says"), FLOODS.values(), ids=FLOODS)
def test_a_century_of_results_is_refused_by_the_trigger_that_makes_them(way: str, sides: Any, says: str) -> None:
    with pytest.raises(DataError) as error:
        given(A, **sides)
    assert str(error.value).startswith(f"time({S}): up to the row at time {CENTURY}"[:-7])
    assert says in str(error.value)


@pytest.mark.parametrize("name", [name for name, (_, says) in FLOODS.items() if says is HELD])
def test_rows_that_no_border_lets_go_are_refused_before_the_first_border(name: str, monkeypatch: Any) -> None:
    """In Python, one result for each of ten million borders takes minutes."""
    given_at: list[Any] = []
    monkeypatch.setattr(evictions, "emit", lambda *a: given_at.append(a))
    monkeypatch.setattr(Group, "process_fake", lambda *a: given_at.append(a))
    with pytest.raises(DataError, match="ten million windows"):
        given(A, **FLOODS[name][0])
    assert len(given_at) < 9


def test_few_rows_with_many_borders_are_soon_looked_at_in_compiled_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop that finds thousands of windows goes on compiled from where it is."""
    rows = [{"t": t * S, "k": "a", "v": t} for t in (1, 2, 10_000, 10_001)]
    window = pn.policy(trigger=p.time(S), evict=[p.time(3_000 * S), p.count(9)])
    query = pn.stream(rows, time="t", key="k").window(w=window).agg(vs="collect_list(v)")
    monkeypatch.setattr(BuiltInPolicies, "few", 1_000_000)
    plain = list(query.rows())
    assert len(plain) > 3_000
    monkeypatch.setattr(BuiltInPolicies, "few", 500)
    work: list[int] = []
    right = evictions.run_all.worth
    monkeypatch.setattr(evictions.run_all, "worth", lambda done, few: work.append(done) or right(done, few))
    assert list(query.rows()) == plain
    assert min(work) < 10
    assert max(work) > 500


@pytest.mark.parametrize("name", [name for name in FLOODS if "centre" not in name])
def test_live_windows_refuse_a_century_of_results(name: str) -> None:
    sides, says = FLOODS[name]
    with pytest.raises(DataError) as error:
        live_results(pn.policy(**sides), A, time="t")
    assert says in str(error.value)


@pytest.mark.parametrize("evict", [Asked(), p.active(Passive())], ids=["active", "wrapped"])
def test_users_evictions_are_asked_at_each_border_though_nothing_is_held(evict: Any, monkeypatch: Any) -> None:
    asked: list[Any] = []
    for kind, method in ((Asked, "notify_fake"), (Passive, "notify")):
        right = getattr(kind, method)
        monkeypatch.setattr(kind, method, lambda self, *a, right=right: asked.append(a[0]) or right(self, *a))
    given([{"t": t, "k": "a", "v": t} for t in (1, 6)], trigger=p.time(2), evict=evict)
    assert [fake for fake in asked if isinstance(fake, int)] == [2, 4, 6]


def test_windows_of_all_keys_count_together(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """300 borders are few, but not of five keys."""
    monkeypatch.setattr(specs, "MOST_FAKES", 1_000)
    rows = [{"t": 1, "k": str(i), "v": i} for i in range(5)]
    sides = {"central_trigger": p.time(1), "central_evict": p.count(9)}
    assert len(given([*rows, {"t": 150, "k": "0", "v": 1}], **sides)) > 700
    with pytest.raises(DataError, match="ten million"):
        given([*rows, {"t": 300, "k": "0", "v": 1}], **sides)
