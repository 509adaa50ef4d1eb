"""Every combination of policies on random rows: the container tells what the oracle lists."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from panes.clock import FakeClock
from tests.library.oracle import Config, Oracle, Row
from tests.library.programs import COMBINATIONS, Recorder, container, feed

PARTITIONS = (None, ("none", "lru"), ("count", "lru"), ("count", "lfu"), ("count", "oldest"), ("tuples", "lru"),
              ("tuples", "lfu"), ("tuples", "oldest"), ("age", "lru"))  # fmt: skip


def test_there_are_thirteen_combinations() -> None:
    assert len(COMBINATIONS) == len(set(COMBINATIONS)) == 13


def random_config(rng: random.Random, evict: str, trigger: str | None, partition: tuple[str, str] | None) -> Config:
    least = 0 if evict in ("count", "delta") and trigger is not None else 1
    config = Config(
        (evict, rng.randint(least, 6)), None if trigger is None else (trigger, rng.randint(1, 5)), partition is not None
    )
    config.discard = rng.random() < 0.7
    if partition is not None and partition[0] != "none":
        config.partition_evict = (partition[0], rng.randint(1, 8 if partition[0] == "age" else 4))
        config.select = partition[1]
    return config


def random_rows(rng: random.Random, config: Config) -> list[Row]:
    now = value = 0
    rows: list[Row] = []
    for _ in range(rng.randint(0, 30)):
        now += rng.choice((0, 0, 1, 1, 2, 3, rng.randint(0, 12)))
        value += rng.choice((0, 1, 1, 2, 5))
        if config.evict[0] == "punct" and rng.random() < 0.3:
            rows.append((now, None, None))
        else:
            rows.append((now, rng.choice("abcd") if config.partitioned else None, value))
    return rows


@pytest.mark.parametrize("partition", PARTITIONS, ids=str)
@pytest.mark.parametrize(("evict", "trigger"), COMBINATIONS)
def test_container_does_what_the_oracle_lists(
    evict: str, trigger: str | None, partition: tuple[str, str] | None
) -> None:
    rng = random.Random(f"{evict} {trigger} {partition}")
    events = 0
    for _ in range(40):
        config = random_config(rng, evict, trigger, partition)
        rows = random_rows(rng, config)
        until = (rows[-1][0] if rows else 0) + 10
        clock = FakeClock()
        window, oracle = container(config, clock), Oracle(config)
        recorder = Recorder(window, clock)
        feed(window, clock, rows, until)
        oracle.run(rows, until)
        assert recorder.events == oracle.events, (config, rows)
        events += len(oracle.events)
    assert events > 20, "random programs in which hardly anything happens prove nothing"


@pytest.mark.parametrize(("evict", "trigger"), COMBINATIONS)
def test_a_window_without_keys_is_a_partitioned_one_with_a_single_key(evict: str, trigger: str | None) -> None:
    """SPEC G-07. (Subwindows that are discarded have no empty flushes.)"""
    rng = random.Random(f"{evict} {trigger} one key")
    for _ in range(20):
        config = random_config(rng, evict, trigger, None)
        rows = random_rows(rng, config)
        if evict == "punct":
            rows = [(0, None, 0), *rows]  # there is no subwindow before its first tuple
        told = []
        for partitioned in (False, True):
            clock = FakeClock()
            window = container(replace(config, partitioned=partitioned, discard=False), clock)
            recorder = Recorder(window, clock)
            feed(window, clock, rows, 200)
            told.append(recorder.events)
        assert told[0] == told[1]
