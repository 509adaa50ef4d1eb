"""Random programs and data: compiled and row by row, in any batches, across snapshots, all give the same.

The oracle compares small cases one by one (test_configurations.py); here data are larger, the compiled loops are forced
to compile, tables are compared with the times of results, and a bit of everything is drawn.
"""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest

import panes as pn
from panes.operators import count, join_lists, sliding, time
from tests.operators import oracle
from tests.operators.oracle import Config
from tests.operators.programs import COMBINATIONS, POLICIES, Pushed, clause, flat, random_config, random_rows, stream

ROWS = 120


def shown(made: Any) -> Any:
    """With the time of results, where there is one."""
    names = made._plan.columns
    return made.select(*names, "result_time") if "result_time" in made._plan.scope.names else made


@pytest.mark.parametrize("seed", range(6))
def test_aggregates_do_not_depend_on_mechanism_batches_or_restarts(seed: int) -> None:
    rng = random.Random(seed)
    evict, trigger = rng.choice(COMBINATIONS)
    config = random_config(rng, evict, trigger, rng.choice((None, "kept", "count", "tuples", "age")))
    events = [(t, 0, row) for t, row in random_rows(rng, ROWS, marks=0.1 if evict == "punct" else 0)]
    source = stream(config).punctuate("false") if evict == "punct" else stream(config)
    made = shown(
        source.aggregate(
            window=clause(config),
            group_by=() if rng.random() < 0.5 else "g",
            partial=rng.random() < 0.5,
            total="sum(x)",
            middle="median(x)",
            last="last(n)",
            share="sum(x) / count(*)",
        )
    )
    runs = [
        Pushed(made, mechanism).run(events, cut, restarts=cut is not None)
        for mechanism in ("columns", "windows")
        for cut in (None, random.Random(seed))
    ]
    assert all(one == other for one, other in pairwise(runs)), config


@pytest.mark.parametrize("seed", range(8))
def test_joins_do_not_depend_on_mechanism_batches_or_restarts(seed: int) -> None:
    rng = random.Random(seed)
    keyed = rng.choice((None, "kept"))
    drawn = (random_config(rng, rng.choice(POLICIES), "count", keyed) for _ in range(2))
    configs = [Config(c.evict, ("count", 1), c.partitions) for c in drawn]
    if rng.random() < 0.2:
        configs[rng.randrange(2)] = Config(("count", 0), ("count", 1), keyed)
    events = [(t, rng.randrange(2), row) for t, row in random_rows(rng, ROWS) if row is not None]
    for _, _, row in events:
        if rng.random() < 0.1:
            row["m"] = None
    how = rng.choice(("inner", "left", "right", "full"))
    on, matches = rng.choice(
        (
            ("l.m = r.m", lambda left, right: left["m"] is not None and left["m"] == right["m"]),
            ("l.x <= r.x AND l.g = r.g", lambda left, right: left["x"] <= right["x"] and left["g"] == right["g"]),
            ("l.x + r.x = 5", lambda left, right: left["x"] + right["x"] == 5),
            (lambda left, right: left["x"] > right["x"], lambda left, right: left["x"] > right["x"]),
        )
    )
    made = shown(
        stream(configs[0]).match(
            stream(configs[1]),
            window=(clause(configs[0]), clause(configs[1])),
            on=on,
            how=how,
            entries={"left_n": "l.n", "right_n": "r.n"},
        )
    )
    runs = [
        Pushed(made, mechanism).run(events, cut, restarts=cut is not None)
        for mechanism in ("columns", "windows")
        for cut in (None, random.Random(seed))
    ]
    assert all(one == other for one, other in pairwise(runs)), configs
    wanted = oracle.join((configs[0], configs[1]), events, matches, how)
    assert flat(runs[0], "left_n", "right_n") == wanted


def recorded(n: int, seed: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    rng = random.Random(seed)
    sides: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
    for i in range(n):
        sides[rng.randrange(2)].append({"ts": i // 3, "id": rng.randrange(40), "n": i})
    return sides


@pytest.mark.parametrize("how", ["inner", "full"])
def test_compiled_and_plain_loop_agree(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = (pn.stream(rows, time="ts", time_unit="s") for rows in recorded(6000, 1))
    made = left.match(right, window=sliding(time("20 s")), using="id", how=how)
    compiled = made.to_arrow()
    assert len(compiled) > 1000
    monkeypatch.setattr(join_lists, "use_kernels", lambda rows: False)
    assert made.to_arrow() == compiled


def test_pairs_beyond_the_room_of_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many pairs are given in pieces; one arrival may have more than fit into one."""
    from panes.operators import join_lists

    left, right = (pn.stream(rows, time="ts", time_unit="s") for rows in recorded(600, 2))
    made = left.match(right, window=sliding(count(50)), how="full", on="l.id <> r.id")
    whole = made.to_arrow()
    monkeypatch.setattr(join_lists, "_PAIRS", 8)
    assert made.to_arrow() == whole
    assert len(whole) > 20_000


@pytest.mark.parametrize("mechanism", ["columns", "windows"])
def test_memory_follows_the_windows(mechanism: str) -> None:
    """Keys come and go by the thousand; what is held stays small."""
    empty = pn.stream(None, schema={"ts": "bigint", "id": "bigint"}, time="ts", time_unit="s")
    for keyed in (False, True):
        source = empty.key_by("id") if keyed else empty
        made = source.match(source, window=sliding(time("5 s")), **({} if keyed else {"using": "id"}))
        operator = made.operator(mechanism=mechanism)
        sizes = []
        for batch in range(12):
            rows = [{"ts": batch * 1000 + i, "id": batch * 1000 + i} for i in range(1000)]
            operator.push(rows, batch % 2)
            sizes.append(len(operator.snapshot()))
        assert operator.metrics["rows_held"] <= 12
        if mechanism == "columns":  # windows of the library keep keys of sliding windows (partition_evict forgets)
            assert max(sizes[6:]) <= 1.1 * max(sizes[:6])
