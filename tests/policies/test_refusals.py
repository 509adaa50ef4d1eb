"""Bad configurations are refused by name when they are written; bad answers stop with the policy and the row named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import panes as pn
from panes.errors import DataError, QueryError

p = pn.policies


class Says(p.Trigger):
    columns = ("v",)

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def notify(self, row: Any) -> Any:
        return self.answer


class Leaves(p.Eviction):
    columns = ("v",)

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def notify(self, row: Any, triggered: bool, size: int) -> Any:
        return self.answer


class Sends(p.ActiveTrigger):
    def before(self, row: Any) -> Any:
        return 3

    def notify(self, row: Any) -> bool:
        return False


REFUSED: list[tuple[str, Callable[[], Any], str]] = [
    ("no trigger", lambda: pn.policy(evict=p.count(3)), "needs a trigger="),
    ("negative count", lambda: p.count(-3), "count: size=-3 must be a whole number"),
    ("count of nothing", lambda: p.count(0), "count: size=0"),
    ("half a row", lambda: p.count(1.5), "count: size=1.5"),
    ("negative delete", lambda: p.count(3, delete=-1), "count: delete=-1"),
    ("delete of a trigger", lambda: pn.policy(trigger=p.count(3, delete=2)), "a trigger has none"),
    ("negative time", lambda: p.time("-1 s"), "time: size"),
    ("rows as time", lambda: p.time(pn.rows(3)), "count(n)"),
    ("delay of an eviction", lambda: pn.policy(trigger=p.count(1), evict=p.time(3, delay=1)), "delay="),
    ("negative threshold", lambda: p.delta(-1, on="v"), "threshold=-1"),
    ("start of the wrong shape", lambda: p.delta(1, on=("a", "b"), start=0), "for each of the columns"),
    ("no distance", lambda: p.delta(1, on="v", function="manhattan"), "'manhattan'"),
    ("sample of the wrong shape", lambda: p.punctuation(1, on=("a", "b")), "sample=1"),
    ("an eviction that triggers", lambda: pn.policy(trigger=p.tumble()), "is an eviction policy"),
    ("a trigger that evicts", lambda: pn.policy(trigger=p.count(1), evict=Says(True)), "is a trigger policy"),
    ("no policy at all", lambda: pn.policy(trigger="often"), "'often' is no trigger policy"),
    ("an empty list", lambda: pn.policy(trigger=[]), "trigger=[] is empty"),
    ("active twice", lambda: p.active(p.active(p.time(3))), "asked for timer ticks anyway"),
    ("start of a wrapped count", lambda: p.active(p.count(3, start=1)), "a timer tick is none"),
    (
        "wrapped scales that differ",
        lambda: pn.policy(trigger=p.time(1), evict=p.active(p.time(3, on="v", active=False))),
        "another scale",
    ),
    ("nested clearing", lambda: p.largest(p.active(p.tumble()), p.count(2)), "put it beside"),
    ("threads apart", lambda: pn.policy(trigger=[p.time(1), p.time(2, thread=True)]), "they share one clock"),
    (
        "threads of keys and centre",
        lambda: pn.policy(trigger=p.time(1, thread=True), central_evict=p.count(3)),
        "central policies",
    ),
    ("whose rows leave", lambda: pn.policy(trigger=p.count(1), central_trigger=p.count(2)), "needs an eviction"),
    ("every of a window", lambda: stream().window(pn.tumbling(3)).every(p.count(1)), "every(...) follows"),
    ("key_by of a window", lambda: stream().window(pn.tumbling(3)).key_by("v"), "is for policies"),
    ("end of neither", lambda: pn.policy(trigger=p.count(1), end="yes"), "end='yes'"),
    (
        "lateness and central policies",
        lambda: late_stream().window(pn.policy(central_trigger=p.count(2))).agg("count(*)"),
        "lateness=",
    ),
    ("a missing column", lambda: stream().window(pn.policy(trigger=p.delta(1, on="w"))).agg("count(*)"), "w"),
    (
        "scales that differ",
        lambda: pn.policy(trigger=p.time(1), evict=p.time(3, on="v")),
        "another scale",
    ),
]  # fmt: skip
SCHEMA = {"t": "bigint", "v": "bigint"}


def late_stream() -> Any:
    return pn.stream(None, schema=SCHEMA, time="t", lateness=3)


def stream() -> Any:
    return pn.stream([{"t": 1, "v": 1}, {"t": 2, "v": 5}], time="t")


@pytest.mark.parametrize(("make", "says"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_refused_when_written(make: Callable[[], Any], says: str) -> None:
    with pytest.raises(QueryError) as error:
        make()
    assert says in str(error.value)


NONSENSE: list[tuple[str, Any, list[str]]] = [
    ("a trigger that says a word", pn.policy(trigger=Says("yes")), ["Says(...)", "'yes'", "v: 1"]),
    ("a trigger that says nothing", pn.policy(trigger=Says(None)), ["Says(...)", "None", "True or False"]),
    ("fewer than none", pn.policy(trigger=p.count(1), evict=Leaves(-1)), ["Leaves(...)", "-1", "v: 1"]),
    ("half a row", pn.policy(trigger=p.count(1), evict=Leaves(0.5)), ["Leaves(...)", "0.5"]),
    ("no list of fakes", pn.policy(trigger=Sends(), evict=p.count(1)), ["Sends(...)", "3", "list"]),
    (
        "a distance that is none",
        pn.policy(trigger=p.delta(1, on="v", start=0, function=lambda a, b: "far")),
        ["delta", "'far'"],
    ),
]


@pytest.mark.parametrize(("policy", "says"), [n[1:] for n in NONSENSE], ids=[n[0] for n in NONSENSE])
def test_nonsense_stops_with_the_policy_and_the_row(policy: Any, says: list[str]) -> None:
    rows = [{"t": 1, "v": 1}, {"t": 10**12, "v": 5}]
    with pytest.raises(DataError) as error:
        list(pn.stream(rows, time="t").window(policy).agg("count(*)").rows())
    for piece in says:
        assert piece in str(error.value)
