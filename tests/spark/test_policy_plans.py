"""The parallel plans of policy windows give what the operator gives, whoever has which rows."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import panes as pn
from panes.errors import QueryError
from panes.policies.policy import PolicyMachine
from panes.runners.spark.group_operator import GroupQuery, used_columns
from panes.runners.spark.runner import choose
from panes.runners.spark.strategies.card import StrategyJob
from panes.runners.spark.strategies.policy_central import CentralDiscretizer, combine, preaggregate
from panes.runners.spark.strategies.policy_parallel import Joining, Share, borders_of
from panes.runners.spark.strategies.policy_parts import Partials
from tests.spark.test_policies import CENTRAL, OWN, SCHEMA, bag, table

p = pn.policies
AGGREGATES = {"total": "sum(v)", "n": "count(*)", "mean": "avg(v * 2)", "mid": "median(v)", "wide": "max(v) - min(v)"}
POLICIES = {label: window for label, window in OWN.items() if label != "plain"}
TIMES = {
    "slide": pn.policy(trigger=p.time(4), evict=p.time(9)),
    "apart": pn.policy(trigger=p.time(7, delay=2, start=-3), evict=p.time(3), end=False),
    "tumble": pn.policy(trigger=p.time(5, start=8)),
}


def query(data: Any, windows: Any, key: str | None = "k", **more: str) -> Any:
    return pn.stream(data, time="t", key=key).window(**windows).agg(**AGGREGATES, **more)


def central(plan: Any, data: pa.Table, shares: int) -> pa.Table:
    asked, partials = GroupQuery(plan, used_columns(plan, "seq"), "seq"), Partials(plan)
    told = dict(CentralDiscretizer(asked, partials, shares).tell(data.select(asked.columns)))
    windows = told.pop(-1)
    return combine(partials, windows, [preaggregate(partials, share, rows) for share, rows in sorted(told.items())])


def parallel(plan: Any, data: pa.Table, of: np.ndarray) -> pa.Table:
    asked, partials = GroupQuery(plan, used_columns(plan)), Partials(plan)
    borders: Any = tuple(borders_of(bound) for _, bound in plan.bound)
    share, met = Share(asked, partials, borders, 3), {}
    for number in range(int(of.max()) + 1):
        for label, part in share.by_group(data.filter(pa.array(of == number)).select(asked.columns)):
            met.setdefault(label, []).append(part)
    joining = Joining(asked, partials, borders, tuple(label for label, _ in plan.bound))
    return pa.concat_tables([joining.results(pa.concat_tables(parts)) for parts in met.values()])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("windows", "key"), [(POLICIES, "k"), (POLICIES, None), (CENTRAL, "k")])
def test_central_discretization_gives_the_embedded_results(windows: dict[str, Any], key: str | None, seed: int) -> None:
    data = table(90, seed)
    asked = query(data, windows, key, early="first(v)")
    expected = asked.to_arrow()
    order = list(range(90))
    random.Random(seed).shuffle(order)
    found = central(asked._plan, data.take(order), 1 + seed % 4)
    assert bag(found.select(expected.column_names).cast(expected.schema)) == bag(expected)


@pytest.mark.parametrize("seed", range(40))
def test_tasks_that_all_discretize_give_the_embedded_results(seed: int) -> None:
    rng = random.Random(seed)
    data = table(rng.choice((1, 5, 60, 90)), seed, at=rng.choice((-50, 0, 1000)))
    windows = {}
    for i in range(3):
        trigger = p.time(rng.randint(1, 12), delay=rng.choice((None, 0, 3)), start=rng.choice((None, -7, 5)))
        evict = None if rng.random() < 0.3 else p.time(rng.randint(1, 30))
        windows[f"w{i}"] = pn.policy(trigger=trigger, evict=evict, end=rng.random() < 0.7)
    of = np.array([rng.randrange(rng.randint(1, 4)) for _ in range(data.num_rows)])
    for key in ("k", None):
        asked = query(data, windows, key)
        expected = asked.to_arrow()
        found = parallel(asked._plan, data, of)
        assert bag(found.select(expected.column_names).cast(expected.schema)) == bag(expected)


def test_policy_plans_on_spark_give_the_embedded_results(spark: Any) -> None:
    data = table()
    frame = spark.createDataFrame(data).repartition(3)
    for strategy, windows, key in (
        ("policy_central", POLICIES, "k"),
        ("policy_central", CENTRAL, "k"),
        ("policy_parallel", TIMES, "k"),
        (None, TIMES, None),
    ):
        expected = query(data, windows, key).to_arrow()
        found = query(frame, windows, key).to_spark(strategy=strategy, sequence="seq").toArrow()
        assert bag(found.cast(expected.schema)) == bag(expected)


def test_the_planner_takes_what_pays(spark: Any) -> None:
    frame = spark.createDataFrame(table(3))

    def chosen(windows: dict[str, Any], key: str | None) -> str:
        return choose(StrategyJob(query(frame, windows, key)._plan, frame)).name

    assert chosen(TIMES, None) == "policy_parallel"  # half of the time
    assert chosen(TIMES, "k") == "key_groups"
    assert chosen(POLICIES, None) == "key_groups"
    assert chosen(CENTRAL, "k") == "key_groups"
    explained = str(query(frame, TIMES, None).explain())
    assert "policy_parallel, the cheapest of the 3 that can run this query" in explained
    assert "policy_central   can, at" in explained


def test_policy_plans_refuse_what_they_can_not_run(spark: Any) -> None:
    frame = spark.createDataFrame(table(3))
    with pytest.raises(QueryError, match="'policy_parallel' can't run this query: counts goes by more than"):
        query(frame, POLICIES).to_spark(strategy="policy_parallel")
    with pytest.raises(QueryError, match="'policy_central' can't run this query: it is for windows by policies"):
        query(frame, {"w": pn.tumbling(5)}).to_spark(strategy="policy_central")
    with pytest.raises(
        QueryError, match=r"'policy_central' can't run this query: collect_list.v. depends on the order"
    ):
        query(frame, TIMES, all="collect_list(v)").to_spark(strategy="policy_central")
    with pytest.raises(QueryError, match=r"'policy_parallel' can't .* first.v. asks for the order of rows"):
        query(frame, TIMES, early="first(v)").to_spark(strategy="policy_parallel")
    with pytest.raises(QueryError, match=r"'policy_central' can't run this query: late rows, .* left to key_groups"):
        query(frame, TIMES).to_spark(strategy="policy_central", late=True)
    streaming = pn.testing.micro_batches(spark, schema=SCHEMA)
    with pytest.raises(QueryError, match="'policy_parallel' can't run this query: a stream keeps the state of pol"):
        query(streaming, TIMES).to_spark(strategy="policy_parallel")


def test_policies_that_look_at_more_than_event_time_need_history() -> None:
    needing = (
        *OWN.values(),
        *CENTRAL.values(),
        pn.policy(trigger=p.time(5, on="v"), evict=p.time(5, on="v")),
        pn.policy(trigger=p.time(5, border_on_row=True), evict=p.time(5)),
        pn.policy(trigger=p.time(5), evict=[p.time(5), p.count(2)]),
    )
    domain = pn.stream(None, schema=SCHEMA, time="t")._plan.domain
    bound = [w.bind(domain) for w in needing]
    free = [b for b in bound if isinstance(b, PolicyMachine) and borders_of(b) is not None]
    assert free == [OWN["times"].bind(domain)]
