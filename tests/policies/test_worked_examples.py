"""Every worked example of SPEC group P: in a query, one row at a time, with snapshots, and over Python objects."""

from __future__ import annotations

from typing import Any

import pytest

import panes as pn
from panes.policies.buffers import Costs
from panes.policies.live import LiveWindow
from panes.policies.runtimes import together
from panes.units import TimeDomain
from tests.policies.examples import EXAMPLES, GROUPED, Example, Grouped
from tests.policies.parallel_plans import Message, run_by_time, run_central

p = pn.policies
INTEGERS = TimeDomain("ms", integer=True)


def when(row: dict[str, Any]) -> Any:
    return "end" if row["window_end"] is None else row["window_end"]


def query(example: Example) -> Any:
    rows = [{"t": t, "v": v} for t, v in example.items]
    return pn.stream(rows, time="t").window(w=example.policy).agg(values=pn.collect_list("v"))


@pytest.mark.parametrize("example", EXAMPLES, ids=[e.name for e in EXAMPLES])
def test_queries_give_the_windows_of_the_worked_examples(example: Example) -> None:
    assert [(when(r), r["values"]) for r in query(example).rows()] == example.windows


@pytest.mark.parametrize("example", EXAMPLES, ids=[e.name for e in EXAMPLES])
def test_row_by_row_with_snapshots(example: Example) -> None:
    made = query(example)
    op, found = made.operator(), []
    for t, v in example.items:
        found += op.push({"t": t, "v": v}).rows()
        op = made.operator(restore=op.snapshot(), trusted=True)
    found += op.finish().rows()
    assert [(when(r), r["values"]) for r in found] == example.windows


@pytest.mark.parametrize("example", EXAMPLES, ids=[e.name for e in EXAMPLES])
@pytest.mark.parametrize("optimise", [True, False])
def test_live_windows_give_the_worked_examples(example: Example, optimise: bool) -> None:
    reduced = LiveWindow(
        example.policy, reduce=lambda a, b: a + b, value=lambda r: [r["v"]], time="t", optimise=optimise
    )
    whole = LiveWindow(example.policy, group_reduce=list, value="v", time="t")
    for window in (reduced, whole):
        for t, v in example.items:
            window.process({"t": t, "v": v})
        window.close()
        assert [("end" if r.when is None else r.when, r.value) for r in window.results] == example.windows


@pytest.mark.parametrize("example", GROUPED, ids=[e.name for e in GROUPED])
def test_worked_examples_by_key_give_their_sums(example: Grouped) -> None:
    rows = [{"t": t, "k": k, "v": v} for t, k, v in example.items]
    found = pn.stream(rows, time="t", key="k").window(w=example.policy).agg(sum="sum(v)").to_arrow().to_pylist()
    assert sorted((str(when(r)), r["k"], r["sum"]) for r in found) == sorted((str(w), k, s) for w, k, s in example.sums)
    live = LiveWindow(example.policy, reduce=lambda a, b: a + b, value="v", key="k", time="t")
    for row in rows:
        live.process(row)
    live.close()
    given = [("end" if r.when is None else r.when, r.key, r.value) for r in live.results]
    assert sorted(given, key=str) == sorted(example.sums, key=str)
    assert [w for w, _, _ in given] == [w for w, _, _ in example.sums]


def test_one_policy_by_itself_and_every() -> None:
    """P-33..P-35: window(X), window(X).every(Y), and where the key comes."""
    rows = [
        {"t": i, "k": k, "v": v} for i, (k, v) in enumerate([("A", 10), ("B", 20), ("A", 30), ("A", 40), ("B", 50)], 1)
    ]
    stream = pn.stream(rows, time="t")
    alone = stream.window(p.count(3)).agg(n="count(*)").to_arrow()["n"].to_pylist()
    assert alone == [3, 2]
    slid = stream.window(p.count(3)).every(p.count(2)).agg(s="sum(v)").to_arrow()["s"].to_pylist()
    assert slid == [30, 90, 120]
    central = stream.window(p.count(3)).every(p.count(2)).key_by("k").agg(s="sum(v)").to_arrow().to_pylist()
    assert sorted((r["window_end"], r["k"], r["s"]) for r in central[:4]) == [
        (3, "A", 10),
        (3, "B", 20),
        (5, "A", 70),
        (5, "B", 20),
    ]
    own = stream.key_by("k").window(p.count(1)).every(p.count(2)).agg(s="sum(v)").to_arrow().to_pylist()
    assert {(r["k"], r["s"]) for r in own} == {("A", 30), ("A", 40), ("B", 50)}


def test_distances_are_those_of_the_definitions() -> None:
    assert p.euclidean((1, 2), (4, 6)) == 5
    assert p.cosine((1, 0), (0, 1)) == 1
    assert p.cosine((3, 4), (4, 3)) == pytest.approx(0.04)
    assert p.cosine((2, 0), (5, 0)) == 0
    assert p.cosine((1, 0), (-3, 0)) == 2
    assert p.cosine((0, 0), (1, 1)) != p.cosine((0, 0), (1, 1))


@pytest.mark.parametrize(
    ("said", "answers"),
    [([0, 2, 5], (5, 0, 7, 2)), ([3, 0, 1], (3, 0, 4, 3)), ([], (0, 2**31 - 1, 0, 0))],
)
def test_combined_evictions_follow_their_rule(said: list[int], answers: tuple[int, ...]) -> None:
    assert tuple(together(rule, said) for rule in ("largest", "smallest", "total", "first_of")) == answers


def test_word_count_gives_the_counts_of_the_example() -> None:
    lines = ("Beer Beer Tea Coffee", "Tea Tea Beer Tea")
    rows = [{"t": t, "word": word} for t, line in enumerate(lines) for word in line.split()]
    found = pn.stream(rows, time="t", key="word").window(pn.policy(central_trigger=p.count(100))).agg(n="count(*)")
    assert sorted((r["word"], r["n"]) for r in found.rows()) == [("Beer", 3), ("Coffee", 1), ("Tea", 4)]


def machine(policy: Any) -> Any:
    return policy.bind(INTEGERS)


def test_central_discretization_sends_the_messages_of_the_example() -> None:
    told: list[tuple[int, Message]] = []
    rows = [{p.TIME: i, "v": i} for i in range(1, 5)]
    found = run_central(
        machine(pn.policy(trigger=p.count(3), end=False)),
        rows,
        lambda a, b: a + b,
        workers=2,
        value=lambda r: r["v"],
        tell=lambda worker, message: told.append((worker, message)),
    )
    assert found == [6]
    flat = [(w, m.row and m.row["v"], m.window, m.delete) for w, m in told]
    assert flat == [
        (0, 1, -1, 0), (1, 2, -1, 0), (0, 3, -1, 0), (0, None, 1, 0), (1, None, 1, 0), (1, 4, -1, 1), (0, None, -1, 2),
    ]  # fmt: skip


@pytest.mark.parametrize("example", EXAMPLES, ids=[e.name for e in EXAMPLES])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_parallel_plans_give_the_same(example: Example, workers: int) -> None:
    rows = [{p.TIME: t, "t": t, "v": v} for t, v in example.items]
    want = [sum(values) for _, values in example.windows]
    costs = Costs()
    bound = machine(example.policy)
    assert run_central(bound, rows, lambda a, b: a + b, workers=workers, value=lambda r: r["v"], costs=costs) == want
    assert costs.network >= len(rows)
    if "P-21 range" in example.name or example.name == "P-23 exact":
        by_final = run_by_time(bound, rows, lambda a, b: a + b, workers=workers, finals=2, value=lambda r: r["v"])
        found = {border: value for final in by_final for border, value in final}
        assert found == {None if w == "end" else w: sum(values) for w, values in example.windows}
