"""Looking at the open windows of one key: as they stand, and nothing changes."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import panes as pn
from panes.errors import OperatorClosed, QueryError
from panes.policies import count, delta
from panes.policies import time as by_time
from tests.state import kept

SCHEMA = {"k": "bigint", "t": "bigint", "v": "bigint"}
#: All that is given at the end of a key is what `peek` shows, but for windows that wait for more rows.
QUERIES = {
    **kept.QUERIES,
    "policy_of_time": lambda: kept._agg({"p": pn.policy(evict=by_time(9), trigger=count(3))}),
    "policy_of_delta": lambda: kept._agg({"p": pn.policy(evict=delta(9, on="v"), trigger=count(3))}),
    "session_by_row": lambda: kept._rich({"s": pn.session(4), "w": pn.tumbling(pn.rows(1000))}),
}


def stream(**options: Any) -> Any:
    return pn.stream(None, schema=SCHEMA, time="t", **{"key": "k", "watermark": 0, **options})


@pytest.mark.parametrize("name", QUERIES)
def test_a_peek_shows_what_the_end_of_the_stream_would_give_of_a_key_and_changes_nothing(name: str) -> None:
    query = QUERIES[name]()
    op = query.operator()
    kept.pushed(name, op, range(100))
    for row in kept.rows(range(100, 107), in_order=name == "in_order"):
        op.push(row)
    metrics, before = op.metrics, op.snapshot()
    keys: list[dict[str, Any]] = [{}] if name == "sliding_without_key" else [{"k": f"key {i}"} for i in range(8)]
    seen = [row for key in keys for row in op.peek(**key).rows()]
    assert op.snapshot() == before
    assert op.metrics == metrics
    assert op.peek(**keys[0]).schema == op.push([]).schema
    at_end = [row for row in query.operator(restore=before).finish().rows() if row["n" if "n" in row else "d"]]
    # those windows wait for rows, and are never given if none come
    lack = {"count", "count_lateness", "policy", "session_by_row"}
    shown = [row for row in seen if name not in lack or row["window_end"] is not None or row in at_end]
    assert sorted(map(_told, shown)) == sorted(map(_told, at_end))
    assert kept.rest(name, op) == kept.rest(name, query.operator(restore=before))


def _told(row: dict[str, Any]) -> str:
    return str({name: value for name, value in row.items() if name not in ("revision", "final")})


def test_a_window_that_counts_rows_is_shown_with_those_it_has() -> None:
    windows = {"w": pn.tumbling(pn.rows(4)), "x": pn.sliding(pn.rows(4), every=pn.rows(2))}
    op = stream().window(**windows).agg(n="count(*)").operator()
    op.push([{"k": 1, "t": t, "v": t} for t in range(7)] + [{"k": 2, "t": 9, "v": 1}])
    found = [(row["window"], row["window_from"], row["window_to"], row["n"]) for row in op.peek(k=1).rows()]
    assert sorted(found) == [("w", 4, 8, 3), ("x", 4, 8, 3), ("x", 6, 10, 1)]


def test_a_key_that_nobody_has_seen_has_no_windows_and_stays_unseen() -> None:
    op = stream(key=["k", "v"]).window(w=pn.tumbling(10)).agg(n="count(*)").operator()
    op.push([{"k": 1, "t": 3, "v": 1}, {"k": 2, "t": 3, "v": None}])
    assert [op.peek(k=k, v=v).num_rows for k, v in ((1, 1), (2, 1), (1, 2), (7, 7), (2, None), (None, 1))] == [
        *(1, 0, 0, 0, 1, 0)
    ]
    assert op.peek(1, 1).num_rows == 1
    assert op.metrics["keys"] == 2


def test_early_results_are_not_disturbed_and_windows_are_not_final() -> None:
    op = stream().window(w=pn.tumbling(10), s=pn.session(5)).agg(n="count(*)").early(4).operator()
    op.push([{"k": 1, "t": 3, "v": 1}, {"k": 1, "t": 9, "v": 1}])
    assert {(row["window"], row["final"], row["revision"]) for row in op.peek(k=1).rows()} == {
        ("w", False, 0),
        ("s", False, 0),
    }


def test_closed_windows_that_wait_for_late_rows_are_not_shown() -> None:
    op = stream(lateness=100).window(w=pn.tumbling(10), s=pn.session(5)).agg(n="count(*)").operator()
    op.push([{"k": 1, "t": 3, "v": 1}, {"k": 1, "t": 33, "v": 1}])
    assert [(row["window_start"], row["n"]) for row in op.peek(k=1).rows()] == [(33, 1), (30, 1)]
    op.push([{"k": 1, "t": 29, "v": 1}])  # joins the session that is open
    assert [(row["window_start"], row["n"]) for row in op.peek(k=1).rows()] == [(29, 2), (30, 1)]


def test_wrong_keys_are_refused() -> None:
    op = stream().window(w=pn.tumbling(10)).agg(n="count(*)").operator()
    for key in ({"x": 1}, {}, {"k": 1, "x": 2}, {"k": "one"}, {"k": 1.5}):
        with pytest.raises(QueryError, match="peek"):
            op.peek(**key)
    with pytest.raises(QueryError, match="key of this stream is empty"):
        stream(key=None).window(w=pn.tumbling(10)).agg(n="count(*)").operator().peek(k=1)
    op.finish()
    with pytest.raises(OperatorClosed, match="peek after finish"):
        op.peek(k=1)


def test_policies_of_all_keys_are_refused_by_name() -> None:
    window = pn.policy(evict=count(2), central_trigger=count(5))
    op = stream().window(p=window).agg(n="count(*)").operator()
    op.push([{"k": 1, "t": 3, "v": 1}])
    with pytest.raises(QueryError, match="window 'p' has policies that look at all keys"):
        op.peek(k=1)


def test_a_key_of_another_part_is_refused() -> None:
    query = stream().window(w=pn.tumbling(10)).agg(n="count(*)")
    op = query.operator()
    op.push([{"k": k, "t": 3, "v": 1} for k in range(20)])
    part = query.operator(restore=op.snapshot(key_groups=range(64)))
    here = {k for k in range(20) if query.key_group(k) < 64}
    assert all(part.peek(k=k).num_rows == 1 for k in here)
    with pytest.raises(QueryError, match="holds the key groups"):
        part.peek(k=min(set(range(20)) - here))


def test_user_code_that_a_peek_runs_can_not_call_the_operator() -> None:
    held: list[Any] = []

    def lower(state: int) -> int:
        held[0].push([{"k": 1, "t": 5, "v": 1}])
        return state

    nosy = pn.aggregate("v", lift=int, combine=max, lower=lower, commutative=True, returns="bigint", name="nosy")
    query = stream().window(w=pn.tumbling(10)).agg(n=nosy)
    held.append(query.operator())
    held[0].push([{"k": 1, "t": 3, "v": 1}])
    with pytest.raises(Exception, match="in the middle of a call"):
        held[0].peek(k=1)


@pytest.mark.parametrize(
    "window",
    [pn.tumbling(1000), pn.session(60), pn.tumbling(pn.rows(10)), pn.policy(evict=by_time(50), trigger=count(2))],
    ids=["tumbling", "session", "count", "policy"],
)
@pytest.mark.parametrize("function", ["sum(v)", "median(v)"])
def test_other_keys_have_no_part_in_the_cost(window: Any, function: str) -> None:
    def cost(keys: int) -> float:
        op = stream(watermark=50).window(w=window).agg(a=function).operator()
        for i in range(2):
            k = np.arange(keys)
            op.push(pa.table({"k": k, "t": k * 100 // keys + 100 * i, "v": k}))
        op.peek(k=1)
        times = []
        for k in range(60):
            start = time.process_time()
            assert op.peek(k=k).num_rows
            times.append(time.process_time() - start)
        return float(np.median(times))

    assert cost(100_000) < 5 * cost(1000)
