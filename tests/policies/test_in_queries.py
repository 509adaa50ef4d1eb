"""Policy windows as windows like any other: beside others, late rows, many keys, added while running, snapshots."""

from __future__ import annotations

import importlib.util
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import panes as pn
from panes.errors import QueryError

p = pn.policies
EXAMPLE = Path(__file__).parents[2] / "examples" / "policies.py"


class Odd(p.Trigger):
    columns = ("v",)

    def notify(self, row: Any) -> bool:
        return row["v"] % 5 == 0


POLICIES = [
    pn.policy(evict=p.count(4), trigger=p.count(3)),
    pn.policy(evict=p.time(9), trigger=p.time(4)),
    pn.policy(trigger=p.delta(3, on="v", start=0)),
    pn.policy(evict=[p.count(5), p.delta(6, on="v")], trigger=[p.punctuation(7, on="v"), p.count(6)]),
    pn.policy(evict=p.time(7), trigger=p.count(2), end=False),
    pn.policy(evict=p.count(3), trigger=Odd()),
]


def rows(n: int, seed: int, keys: int = 3) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    return [{"t": rng.randint(0, n), "k": rng.randrange(keys), "v": rng.randint(0, 9)} for _ in range(n)]


def plain(results: Any) -> list[tuple[Any, ...]]:
    return [(r["k"], r["window_start"], r["window_end"], r["window_from"], r["window_to"], r["vs"]) for r in results]


@pytest.mark.parametrize("policy", POLICIES, ids=map(str, POLICIES))
@pytest.mark.parametrize("seed", range(4))
def test_late_rows_correct_windows(policy: Any, seed: int) -> None:
    """The last word on every window is what the rows in order give."""
    data = rows(40, seed)
    stream = pn.stream(None, schema={"t": "bigint", "k": "bigint", "v": "bigint"}, time="t", key="k", lateness=1000)
    op = stream.window(w=policy).agg(vs=pn.collect_list("v")).operator()
    last: dict[Any, Any] = {}
    given = [r for row in data for r in op.push(row).rows()] + list(op.finish().rows())
    for r in given:
        last[r["k"], r["window_start"], r["window_end"], r["window_from"], r["window_to"]] = r
    in_order = sorted(data, key=lambda r: r["t"])
    want = pn.stream(in_order, time="t", key="k").window(w=policy).agg(vs=pn.collect_list("v")).rows()
    assert sorted(plain(r for r in last.values() if not r["void"]), key=str) == sorted(plain(want), key=str)


def test_slices_are_shared_with_other_windows() -> None:
    data = [{"t": i, "v": i % 7} for i in range(200)]
    alone = pn.stream(data, time="t").window(p=POLICIES[0]).agg(s="sum(v)").to_arrow()
    both = pn.stream(data, time="t").window(p=POLICIES[0], bar=pn.tumbling(10), s=pn.session(3)).agg(s="sum(v)")
    mine = [r for r in both.to_arrow().to_pylist() if r["window"] == "p"]
    assert mine == alone.to_pylist()
    assert len([r for r in both.to_arrow().to_pylist() if r["window"] == "bar"]) == 20


@pytest.mark.parametrize("policy", POLICIES, ids=map(str, POLICIES))
def test_many_rows_are_compiled_and_give_the_same(policy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from panes.policies.built_in import BuiltInPolicies

    data = sorted(rows(3_000, 5, keys=17), key=lambda r: r["t"])
    query = pn.stream(data, time="t", key="k").window(w=policy).agg(vs=pn.collect_list("v"))
    monkeypatch.setattr(BuiltInPolicies, "few", 10**9)
    slow = query.to_arrow()
    monkeypatch.setattr(BuiltInPolicies, "few", 1_000)
    assert query.to_arrow().to_pylist() == slow.to_pylist()


@pytest.mark.parametrize("policy", POLICIES, ids=map(str, POLICIES))
@pytest.mark.parametrize("few", [0, 40, 10**6])
def test_snapshots_and_key_groups(policy: Any, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from panes.policies.built_in import BuiltInPolicies

    monkeypatch.setattr(BuiltInPolicies, "few", few)
    data = sorted(rows(120, 6, keys=9), key=lambda r: r["t"])
    query = pn.stream(data, time="t", key="k").window(w=policy).agg(vs=pn.collect_list("v"))
    want = sorted(plain(query.rows()), key=str)
    op, found = query.operator(), []
    for at in range(0, len(data), 30):
        found += op.push(data[at : at + 30]).rows()
        parts = [op.snapshot(key_groups=range(a, a + 32)) for a in range(0, 128, 32)]
        op = query.operator(restore=parts, trusted=True)
    found += op.finish().rows()
    assert sorted(plain(found), key=str) == want


def test_built_in_policies_are_not_pickled() -> None:
    data = rows(50, 7)
    data.sort(key=lambda r: r["t"])
    for policy in POLICIES[:-1]:
        query = pn.stream(data, time="t", key="k").window(w=policy).agg("count(*)")
        op = query.operator()
        op.push(data)
        assert b'"pickled": false' in op.snapshot() or b'"pickled":false' in op.snapshot()


def test_a_policy_added_while_running_starts_with_the_next_row() -> None:
    stream = pn.stream(None, schema={"t": "bigint", "v": "bigint"}, time="t")
    op = stream.window(bar=pn.tumbling(pn.rows(2))).agg(vs=pn.collect_list("v")).operator()
    op.push([{"t": i, "v": i} for i in range(5)])
    op.add("p", pn.policy(evict=p.count(3), trigger=p.count(2)))
    found = [*op.push([{"t": i, "v": i} for i in range(5, 10)]).rows(), *op.finish().rows()]
    assert [r["vs"] for r in found if r["window"] == "p"] == [[5, 6], [6, 7, 8], [7, 8, 9]]


def test_threads_go_by_the_watermark() -> None:
    """The border of a silent key doesn't wait for its next row."""
    stream = pn.stream(None, schema={"t": "bigint", "k": "string"}, time="t", key="k")
    for thread, silent in ((True, 1), (False, 0)):
        policy = pn.policy(evict=p.time(10), trigger=p.time(10, thread=thread))
        op = stream.window(w=policy).agg(n="count(*)").operator()
        found = list(op.push([{"t": 1, "k": "a"}, {"t": 2, "k": "b"}, {"t": 12, "k": "b"}]).rows())
        assert len([r for r in found if r["k"] == "a"]) == silent


def test_central_state_is_of_all_keys() -> None:
    query = (
        pn.stream(rows(10, 1), time="t", key="k", watermark=20)
        .window(pn.policy(central_trigger=p.count(3)))
        .agg("count(*)")
    )
    op = query.operator()
    op.push(sorted(rows(10, 1), key=lambda r: r["t"]))
    op.advance(100)
    parts = [range(first, first + 16) for first in range(0, 128, 16)]
    with pytest.raises(QueryError, match="all key groups"):
        [op.snapshot(key_groups=part) for part in parts]
    query.operator(restore=op.snapshot())


def test_explain_and_metrics_say_the_plan() -> None:
    stream = pn.stream([{"t": 1, "v": 1}], time="t")
    plans = {
        "tumbling": pn.policy(trigger=p.count(3)),
        "border to border": pn.policy(evict=p.count(5), trigger=p.count(2)),
        "may begin a window": pn.policy(evict=p.count(5), trigger=p.time(2)),
    }
    for words, policy in plans.items():
        query = stream.window(w=policy).agg("count(*)")
        assert words in str(query.explain())
        query.to_arrow()
        assert words in query.metrics["plans"]["w"]


@pytest.fixture(scope="module")
def example() -> Any:
    spec = importlib.util.spec_from_file_location("policies_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_example_of_expressiveness_gives_its_sums(example: Any) -> None:
    data = example.readings()
    sums = [r for r in example.recent_sums(data).rows() if r["window_end"] is not None]
    assert [(r["window_end"], r["n"]) for r in sums] == example.check(data)
    few = example.recent_sums(data, most=5).to_arrow()["n"].to_pylist()
    assert max(few) == 5
    moves = example.means_or_moves(data).to_arrow().to_pylist()
    assert sum(r["n"] for r in moves) == len(data)
    assert any(r["window_end"] is not None and r["window_end"] % 300 for r in moves)
    drifts = [r["window_end"] for r in example.after_drift(data).rows() if r["window_end"] is not None]
    assert 2 <= len(drifts) <= 20
    visits = example.sessions(data).to_arrow().to_pylist()
    assert sum(v["actions"] for v in visits) == len(data)
    for user in "xy":
        times = [r["t"] for r in data if r["user"] == user]
        pauses = sum(b - a > 20 * 60 for a, b in pairwise(times))
        assert len([v for v in visits if v["user"] == user]) == pauses + 1


class Second(p.Trigger):
    """When the second element is odd."""

    columns = ("v[1]",)

    def notify(self, row: Any) -> bool:
        return row["v[1]"] is not None and row["v[1]"] % 2 == 1


@pytest.mark.parametrize(
    "policy",
    [
        pn.policy(trigger=p.delta(10, on="v[1]"), evict=p.count(3)),
        pn.policy(trigger=p.punctuation(9, on="v[1]"), evict=p.count(3)),
        pn.policy(trigger=p.count(2), evict=p.delta(20, on=("v[0]", "v[1]"))),
        pn.policy(trigger=p.time(3, on="v[1]"), evict=p.time(20, on="v[1]")),
        pn.policy(trigger=Second(), evict=p.count(3)),
    ],
    ids=["delta", "punctuation", "two elements", "time", "own"],
)
def test_extractors_reach_into_arrays(policy: Any) -> None:
    """In queries as in live windows; elements count from 0."""
    rows = [{"t": i, "v": [i % 3, i * i]} for i in range(8)]
    query = pn.stream(rows, time="t").window(w=policy).agg(ts=pn.collect_list("t"))
    live = p.LiveWindow(policy, group_reduce=list, value="t", time="t")
    for row in rows:
        live.process(row)
    live.close()
    found = [(r["window_end"], r["ts"]) for r in query.rows()]
    assert found == [(r.when, r.value) for r in live.results]
    assert len(found) > 1
