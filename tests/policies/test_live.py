"""Live windows: threads on a fake clock, mutual exclusion, system time, users' own active triggers."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import panes as pn
from panes.errors import DataError, OperatorClosed, QueryError
from panes.policies import FakeClock, LiveWindow

p = pn.policies


def at(clock: FakeClock, window: LiveWindow, *times: int) -> None:
    for t in times:
        clock.advance_to(t)
        window.process({"v": t})


def values(window: LiveWindow) -> list[tuple[Any, Any]]:
    return [(r.when, r.value) for r in window.results]


def sliding(**options: Any) -> Any:
    return pn.policy(evict=p.time(4), trigger=p.time(2, delay=2, **options))


def test_a_thread_sends_timer_ticks_at_its_checks() -> None:
    """Checks at 3, 7, 11; items at 1, 2, 4, 5, 9, 11: fake 6 comes at 7 instead of 9, each border once."""
    clock = FakeClock(-1)
    given: list[tuple[int, Any, list[int]]] = []
    # counted from the moment at which the window is made, -1: the first border, 4, is 5 later
    window = LiveWindow(
        pn.policy(evict=p.time(4), trigger=p.time(2, delay=3, thread=True)),
        group_reduce=list,
        value="v",
        clock=clock,
        check=4,
        emit=lambda r: given.append((clock.now(), r.when, r.value)),
    )
    at(clock, window, 1, 2, 4, 5, 9, 11)
    window.close()
    assert given == [
        (4, 4, [1, 2]), (7, 6, [2, 4, 5]), (9, 8, [4, 5]), (11, 10, [9]), (11, None, [9, 11]),
    ]  # fmt: skip


def test_without_check_the_thread_is_there_when_the_border_is() -> None:
    clock = FakeClock()
    window = LiveWindow(sliding(thread=True), group_reduce=list, value="v", clock=clock)
    at(clock, window, 1, 2)
    clock.advance_to(20)
    assert values(window) == [(4, [1, 2]), (6, [2])]
    window.close()
    clock.advance_to(100)
    assert len(window.results) == 2


def test_system_time_counts_from_the_start() -> None:
    clock = FakeClock(1_000)
    window = LiveWindow(pn.policy(trigger=p.time(10)), reduce=lambda a, b: a + b, value="v", clock=clock)
    at(clock, window, 1_001, 1_009, 1_010, 1_035)
    window.close()
    assert values(window) == [(1_010, 2_010), (1_020, 1_010), (None, 1_035)]


def test_a_start_that_is_given_counts_even_if_it_is_0() -> None:
    """Borders at 10, 20, ... since 1970, though the window is made at 1,003."""
    clock = FakeClock(1_003)
    window = LiveWindow(pn.policy(trigger=p.time(10, start=0)), reduce=max, value="v", clock=clock)
    nested = LiveWindow(pn.policy(trigger=p.any_of(p.time(10, start=0))), reduce=max, value="v", clock=clock)
    for t in (1_004, 1_009, 1_011):
        clock.advance_to(t)
        for each in (window, nested):
            each.process({"v": t})
    for each in (window, nested):
        each.close()
        assert values(each)[-2:] == [(1_010, 1_009), (None, 1_011)]


def test_rows_and_fake_items_exclude_each_other() -> None:
    """Timer ticks from another thread never come into the middle of a row."""
    inside, seen = [0], []

    def slowly(rows: list[int]) -> int:
        inside[0] += 1
        seen.append(inside[0])
        total = sum(rows)
        inside[0] -= 1
        return total

    class Impatient(p.ActiveTrigger):
        def start(self, send: Any, clock: Any) -> None:
            Impatient.send = staticmethod(send)

        def notify(self, row: Any) -> bool:
            return True

    window = LiveWindow(
        pn.policy(evict=p.count(5), trigger=Impatient()), group_reduce=slowly, value="v", clock=FakeClock()
    )
    other = threading.Thread(target=lambda: [Impatient.send(i) for i in range(300)])
    other.start()
    for i in range(300):
        window.process({"v": i})
    other.join()
    assert set(seen) == {1}


def test_keys_have_threads_of_their_own() -> None:
    clock = FakeClock()
    window = LiveWindow(
        pn.policy(evict=p.count(2), trigger=p.time(5, thread=True)), reduce=max, value="v", key="k", clock=clock
    )
    window.process({"k": "a", "v": 1})
    clock.advance_to(3)
    window.process({"k": "b", "v": 2})
    clock.advance_to(11)
    assert [(r.key, r.when, r.value) for r in window.results] == [("a", 5, 1), ("b", 5, 2), ("a", 10, 1), ("b", 10, 2)]


def test_misuse_of_live_windows_is_refused() -> None:
    with pytest.raises(QueryError, match="reduce="):
        LiveWindow(pn.policy(trigger=p.count(1)))
    with pytest.raises(QueryError, match="granularity"):
        LiveWindow(pn.policy(trigger=p.count(1)), reduce=max, granularity=1)
    window = LiveWindow(pn.policy(trigger=p.count(1)), reduce=max, clock=FakeClock())
    window.close()
    with pytest.raises(OperatorClosed):
        window.process({})


def test_time_evictions_need_times() -> None:
    class Odd(p.ActiveTrigger):
        def before(self, row: Any) -> list[Any]:
            return ["no time"]

        def notify(self, row: Any) -> bool:
            return False

    window = LiveWindow(pn.policy(evict=p.time(3), trigger=Odd()), reduce=max, value="v", clock=FakeClock())
    with pytest.raises(DataError, match="'no time'"):
        window.process({"v": 1})


@pytest.mark.parametrize(
    ("path", "want"), [("v[1]", [[[0, 1], [9, 2]], [[0, 8]]]), ("v[0]", [[[0, 1]], [[9, 2]], [[0, 8]]])]
)
def test_policies_reach_into_arrays(path: str, want: list[Any]) -> None:
    window = LiveWindow(
        pn.policy(trigger=p.delta(5, on=path)), group_reduce=lambda rows: [r["v"] for r in rows], clock=FakeClock()
    )
    for v in ([0, 1], [9, 2], [0, 8]):
        window.process({"v": v})
    window.close()
    assert [r.value for r in window.results] == want


def test_policies_reach_into_maps_and_what_is_not_there_is_null() -> None:
    window = LiveWindow(
        pn.policy(trigger=p.punctuation("end", on="m['kinds'][0]")), group_reduce=len, value="m", clock=FakeClock()
    )
    for m in ({"kinds": ["x"]}, {"kinds": []}, {}, {"kinds": ["end"]}):
        window.process({"m": m})
    window.close()
    assert [r.value for r in window.results] == [3, 1]


def test_value_key_and_time_of_a_live_window_reach_into_arrays_and_maps() -> None:
    def gathered(**options: Any) -> list[Any]:
        live = LiveWindow(pn.policy(trigger=p.count(2), evict=p.count(2)), group_reduce=list, **options)
        for i in range(4):
            live.process({"v": [i, 10 * i], "m": {"who": "ab"[i % 2], "t": i}})
        live.close()
        return [(result.key, result.value) for result in live.results]

    plain = gathered(value=lambda row: row["v"][1], key=lambda row: row["m"]["who"])
    assert plain
    assert gathered(value="v[1]", key="m['who']", time="m['t']") == plain


def test_a_live_window_names_a_value_that_no_row_has() -> None:
    policy = pn.policy(trigger=p.count(2))
    with pytest.raises(QueryError, match=r"value='v\[x\]' is neither a column nor a path"):
        LiveWindow(policy, group_reduce=list, value="v[x]")
    live = LiveWindow(policy, group_reduce=list, value="w[0]")
    with pytest.raises(DataError, match=r"value='w\[0\]': the row has no such column; it has v"):
        live.process({"v": [1]})
