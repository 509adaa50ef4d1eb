"""Counts, times and deltas are one vocabulary: policy windows, containers and operators take the same values."""

from __future__ import annotations

from typing import Any

import pytest

import panes as pn
from panes import operators
from panes.errors import QueryError
from panes.policies import library

p = pn.policies
SAME = {
    "count": (p.count(3), operators.count(3), library.count(3)),
    "time": (p.time("10 s"), operators.time("10 s"), library.time("10 s")),
    "a bare time": (p.time(5), operators.time(5), library.time(5)),
    "delta": (p.delta(10, on="ts"), operators.delta("ts", 10), library.delta(10, on="ts")),
}


@pytest.mark.parametrize("name", SAME)
def test_the_same_words_make_equal_values(name: str) -> None:
    first, *others = SAME[name]
    assert all(other == first and repr(other) == repr(first) for other in others)


def test_operators_and_containers_take_values_of_policies() -> None:
    assert repr(operators.sliding(p.time("10 s"), every=p.count(2))) == "sliding(time('10 s'), every=count(2))"
    window = library.SlidingWindow(evict=p.count(2), trigger=p.count(2))
    seen: list[Any] = []
    window.on("trigger", lambda key, w: seen.append(w.content(key)))
    for row in "abcd":
        window.insert(row)
    assert seen == [("a", "b"), ("c", "d")]


def test_policy_windows_take_values_of_operators() -> None:
    rows = [{"t": t} for t in range(7)]
    query = pn.stream(rows, time="t").window(w=pn.policy(evict=operators.time(2), trigger=operators.count(3)))
    assert [row["ts"] for row in query.agg(ts=pn.collect_list("t")).rows()] == [[0, 1, 2], [3, 4, 5], [4, 5, 6]]


REFUSED = {
    "start of a count": (lambda: operators.sliding(p.count(3, start=1)), "start= is for pn.policy"),
    "delay of a time": (lambda: operators.tumbling(p.time("1 s", delay="1 s")), "delay= is for pn.policy"),
    "passive time": (
        lambda: library.SlidingWindow(evict=p.count(1), trigger=p.time(3, active=False)),
        "active= is for",
    ),
    "two columns": (lambda: operators.sliding(p.delta(1, on=("a", "b"))), "compares one attribute"),
    "cosine": (
        lambda: library.TumblingWindow(evict=p.delta(1, on="a", function="cosine")),
        "function= is for pn.policy",
    ),
    "count of nothing": (lambda: pn.policy(trigger=operators.count(0)), "count: size=0 must be a whole number from 1"),
    "delta of a function": (lambda: pn.policy(trigger=library.delta(len, 1)), "on= must be a column"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_only_others_can_say_is_refused_by_name(name: str) -> None:
    make, says = REFUSED[name]
    with pytest.raises(QueryError, match=says):
        make()
