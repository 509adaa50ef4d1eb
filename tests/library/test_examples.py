"""Worked examples of SPEC group G, as data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from panes.clock import FakeClock
from panes.policies.library import SlidingWindow
from tests.library.oracle import Config
from tests.library.programs import Recorder, container, feed

CASES: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "examples.yaml").read_text(encoding="utf-8"))
SECOND = 10**6


def us(seconds: float) -> int:
    return round(seconds * SECOND)


def policy(text: str) -> tuple[str, int]:
    kind, _, size = text.partition(" ")
    return kind, us(float(size)) if kind in ("time", "age") else int(size or 0)


def config_of(window: dict[str, Any]) -> Config:
    found = {name: policy(text) for name, text in window.items() if name in ("evict", "trigger", "partition_evict")}
    return Config(**found, partitioned=window.get("partitioned", False), select=window.get("select", "lru"))  # type: ignore[arg-type]


def test_all_examples_are_there() -> None:
    assert len(CASES) == len({case["id"] for case in CASES}) == 28


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_a_window_tells_the_events_of_the_worked_example(case: dict[str, Any]) -> None:
    clock = FakeClock()
    window = container(config_of(case["window"]), clock)
    recorder = Recorder(window, clock)
    partial: list[int] = []
    if case.get("full_only"):
        assert isinstance(window, SlidingWindow)
        window.on("trigger", lambda key, w: w.is_full(key) or partial.append(len(recorder.events) - 1))
    feed(
        window,
        clock,
        [(us(at), key, value) for at, key, value in case["rows"]],
        us(case["until"]) if "until" in case else None,
    )
    watched = case.get("watch", ["flush", "trigger"])
    events = [e for i, e in enumerate(recorder.events) if e[0] in watched and i not in partial]
    assert events == [(event, us(at), key, tuple(content)) for event, at, key, content in case["expect"]]
    if "left" in case:
        left = {key: [row["v"] for row in rows] for key, rows in window.subwindows()}
        assert left == case["left"]
