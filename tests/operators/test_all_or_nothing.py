"""A call of an operator that raises changes nothing: the operator is as one that never saw it."""

from __future__ import annotations

import random
from typing import Any, ClassVar

import pytest

import panes as pn
from panes.errors import OperatorClosed
from panes.operators import TUMBLING_FORMS, InputPort, Model, Operator, OutputPort, count, sliding, time, tumbling
from panes.runners.local import past
from tests.fuzz.errors import lines_of, struck

SCHEMA = {"t": "bigint", "k": "string", "v": "bigint"}


def stream(key: str | None = None) -> Any:
    return pn.stream(None, schema=SCHEMA, time="t", key=key)


class Totals(Operator):
    """Sums in a state of its own; it has changed that, and a window, before it refuses 13."""

    model = Model("Totals", (InputPort("in", TUMBLING_FORMS),), (OutputPort("out"),))
    schema: ClassVar = {"total": "bigint", "held": "bigint"}

    def start(self) -> None:
        self.totals: list[int] = [0]

    def on_row(self, port: str, row: dict[str, Any]) -> None:
        self.totals.append(self.totals[-1] + row["v"])
        self.insert(port, row)
        if row["v"] == 13:
            raise RuntimeError("thirteen")
        self.emit(total=self.totals[-1], held=len(self.totals))


MADE = {
    "user operator": lambda: stream().apply(Totals(), window=tumbling(count(3))),
    "aggregate": lambda: stream("k").aggregate(
        window=sliding(count(3), every=count(1)), total="sum(v)", middle="median(v)"
    ),
    "aggregate over time": lambda: stream().aggregate(window=tumbling(time(5)), total="sum(v)"),
    "sort": lambda: stream().sort("v", window=sliding(count(4))),
    "dedupe": lambda: stream().dedupe("v", window=sliding(count(4))),
    "match": lambda: stream().match(stream(), using="v", window=sliding(count(3))),
}


def rows(rng: random.Random, n: int, now: int) -> list[dict[str, Any]]:
    return [{"t": now + i // 2, "k": rng.choice("ab"), "v": rng.randrange(6)} for i in range(n)]


def known(op: Any) -> dict[str, Any]:
    """What is counted, without the room that is taken."""
    return {name: value for name, value in op.metrics.items() if name != "bytes"}


def test_an_exception_in_a_users_operator_leaves_its_state_as_it_was() -> None:
    op = MADE["user operator"]().operator()
    good = [{"t": i, "k": "a", "v": v} for i, v in enumerate((1, 2))]
    assert [r["total"] for r in op.push(good)] == [1, 3]
    for _ in range(2):
        with pytest.raises(Exception, match="thirteen"):
            op.push([{"t": 5, "k": "a", "v": 4}, {"t": 6, "k": "a", "v": 13}])
        assert op.metrics["rows_in"] == 2
    assert [(r["total"], r["held"]) for r in op.push([{"t": 3, "k": "a", "v": 4}])] == [(7, 4)]


class Asking(Operator):
    """Asks something outside, which may not answer; two attributes are one list."""

    model = Model("Asking", (InputPort("in", TUMBLING_FORMS),), (OutputPort("out"),))
    schema: ClassVar = {"total": "bigint"}
    answers: ClassVar[list[bool]] = [True]

    def start(self) -> None:
        self.seen: list[int] = []
        self.same = self.seen

    def on_row(self, port: str, row: dict[str, Any]) -> None:
        self.same.append(row["v"])
        if not self.answers[0]:
            raise RuntimeError("no answer")
        self.emit(total=sum(self.seen))


@pytest.mark.parametrize("written", [False, True])
def test_an_operator_that_asked_in_vain_is_as_before_once_there_are_answers(
    written: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past, "_ROWS", 0 if written else 100)
    op = stream().apply(Asking(), window=tumbling(count(3))).operator()
    totals = []
    for t in range(4):
        for _ in range(2):
            Asking.answers[0] = False
            with pytest.raises(Exception, match="no answer"):
                op.push([{"t": t, "k": "a", "v": 10**t}])
        Asking.answers[0] = True
        totals += [r["total"] for r in op.push([{"t": t, "k": "a", "v": 10**t}])]
    assert totals == [1, 11, 111, 1111]


@pytest.mark.parametrize("kind", MADE)
@pytest.mark.parametrize("seed", range(3))
def test_an_error_at_any_line_of_a_call_leaves_all_as_it_was(
    kind: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past, "_ROWS", 8)  # so that states are written between calls, too
    rng = random.Random(seed)
    calm, victim = MADE[kind]().operator(), MADE[kind]().operator()
    hit = 0
    for number in range(12):
        calls: list[tuple[str, tuple[Any, ...]]] = [("push", (rows(rng, rng.randrange(1, 7), 4 * number),))]
        calls += [("advance", (4 * number + 3,))] if rng.random() < 0.3 else []
        for name, arguments in calls if number < 11 else [("finish", ())]:
            port = (rng.randrange(2),) if kind == "match" and name == "push" else ()
            was, given = struck(lambda: getattr(victim, name)(*arguments, *port), lines_of(rng))  # noqa: B023
            if was:
                hit += 1
                assert known(victim) == known(calm)
                given = getattr(victim, name)(*arguments, *port)
            assert list(given) == list(getattr(calm, name)(*arguments, *port)), (number, name, given)
    assert hit
    assert known(victim) == known(calm)


def test_an_operator_whose_state_can_not_be_written_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past, "_ROWS", 2)

    class Unwritable(Totals):
        def start(self) -> None:
            super().start()
            self.function = lambda: None

    op = stream().apply(Unwritable(), window=tumbling(count(3))).operator()
    op.push([{"t": i, "k": "a", "v": 1} for i in range(9)])
    with pytest.raises(OperatorClosed, match="can't go back"):
        op.push([{"t": 20, "k": "a", "v": 13}])
