"""An exception in a user's own code: the error names the aggregate, window, policy or operator, and the call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pytest

import panes as pn
from panes.errors import UserCodeError
from panes.operators import InputPort, Model, OutputPort

ROWS = pa.table({"t": pa.array(range(10), pa.int64()), "v": pa.array(range(10), pa.int64())})


class Inverse(pn.UserAggregate):
    """Fails at a zero, or where it is told to."""

    commutative = True

    def __init__(self, *inputs: str, fails: str = "lift") -> None:
        super().__init__(*inputs)
        self.fails = fails

    def lift(self, v: int) -> float:
        return 1 / v if self.fails == "lift" else float(v)

    def combine(self, a: float, b: float) -> float:
        return a / 0 if self.fails == "combine" else a + b

    def lower(self, a: float) -> float:
        return a / 0 if self.fails == "lower" else a


class Vectorised(pn.UserAggregate):
    state = {"x": "double"}  # noqa: RUF012

    def lift_segments(self, columns: Any, offsets: Any) -> Any:
        return {}["missing"]

    def fold_segments(self, partials: Any, offsets: Any) -> Any:
        return partials

    def lower_segments(self, partials: Any) -> Any:
        return partials[0]


class Edges(pn.ContextFreeWindow):
    def next_edge(self, value: Any) -> Any:
        return 1 // 0

    def ends_between(self, previous: Any, current: Any) -> Iterable[tuple[Any, Any]]:
        return []


class Marks(pn.DeterministicWindow):
    columns = ("v",)

    def on_row(self, state: Any, row: Mapping[str, Any], position: int, time: int) -> Any:
        if row["v"] == 3:
            raise KeyError("gone")
        return pn.WindowEvents(begin=1, end=1 if position else 0)


class Free(pn.FreeFormWindow):
    columns = ("v",)

    def expire(self, state: Any, row: Mapping[str, Any], position: int, time: int) -> int:
        return 0

    def emit(self, state: Any, row: Mapping[str, Any], position: int, time: int) -> bool:
        return bool(row["nothing"])


class Fires(pn.policies.Trigger):
    columns = ("v",)

    def notify(self, row: Mapping[str, Any]) -> bool:
        return 1 // (row["v"] - 3) > 0


def query(window: Any = None, aggregate: Any = "sum(v)") -> Any:
    return pn.stream(ROWS, time="t").window(mine=window or pn.tumbling(5)).agg(out=aggregate)


@pytest.mark.parametrize(
    ("build", "message", "cause"),
    [
        (
            lambda: query(aggregate=Inverse("v")),
            "aggregate 'out': Inverse(v).lift(0) raised ZeroDivisionError: division by zero",
            ZeroDivisionError,
        ),
        (
            lambda: query(aggregate=Inverse("v", fails="combine")),
            "aggregate 'out': Inverse(v).combine() raised ZeroDivisionError: float division by zero",
            ZeroDivisionError,
        ),
        (
            lambda: query(aggregate=Inverse("v", fails="lower")),
            "aggregate 'out': Inverse(v).lower(10.0) raised ZeroDivisionError: float division by zero",
            ZeroDivisionError,
        ),
        (
            lambda: query(aggregate=Vectorised("v")),
            "aggregate 'out': Vectorised(v).lift_segments() raised KeyError: 'missing'",
            KeyError,
        ),
        (
            lambda: query(Edges()),
            "window 'mine': Edges(...).next_edge(",
            ZeroDivisionError,
        ),
        (
            lambda: query(Marks()),
            "window 'mine': Marks(...).on_row({}, {'v': 3}, 3, 3) raised KeyError: 'gone'",
            KeyError,
        ),
        (
            lambda: query(Free()),
            "window 'mine': Free(...).emit({}, ",
            KeyError,
        ),
        (
            lambda: query(pn.policy(trigger=Fires())),
            "window 'mine': Fires(...).notify({'event time': 3, 'v': 3}) raised ZeroDivisionError",
            ZeroDivisionError,
        ),
        (
            lambda: query(pn.policy(trigger=pn.policies.delta(5, on="v", function=lambda a, b: a[0] / 0))),
            "window 'mine': delta(",
            ZeroDivisionError,
        ),
        (
            lambda: query(pn.delta(3, on="v", function=lambda old, new: 1 // 0)),
            "window 'mine': delta.function(0, 1) raised ZeroDivisionError",
            ZeroDivisionError,
        ),
    ],
    ids=["lift", "combine", "lower", "vectorised", "edges", "rows", "free form", "policy", "distance", "delta window"],
)
def test_the_message_begins_with_the_label_and_the_call(build: Any, message: str, cause: type[Exception]) -> None:
    with pytest.raises(UserCodeError) as raised:
        build().to_arrow()
    assert str(raised.value).startswith(message)
    assert type(raised.value.__cause__) is cause


def test_an_aggregate_in_two_outputs_names_both() -> None:
    with pytest.raises(UserCodeError, match="aggregate 'a', 'b': Inverse"):
        pn.stream(ROWS, time="t").window(pn.tumbling(5)).agg(a=Inverse("v"), b=Inverse("v")).to_arrow()


class Broken(pn.operators.Operator):
    model = Model("Broken", (InputPort("in", ()),), (OutputPort("out"),))
    schema = {"x": "double"}  # noqa: RUF012

    def on_row(self, port: str, row: dict[str, Any]) -> None:
        self.emit(x=1 / (row["v"] - 2))


def test_an_operator_is_named_with_its_row() -> None:
    with pytest.raises(UserCodeError, match=r"operator 'Broken': Broken\.on_row\('in', \{.*'v': 2.*\}\) raised Zero"):
        pn.stream(ROWS, time="t").apply(Broken()).to_arrow()


def test_a_function_that_matches_rows_is_named_with_them() -> None:
    def near(left: Any, right: Any) -> bool:
        return bool(left["v"] / right["w"])

    stream, other = (pn.stream(ROWS.rename_columns(["t", c]), time="t") for c in ("v", "w"))
    last = pn.operators.sliding(pn.operators.count(2))
    with pytest.raises(UserCodeError, match=r"operator 'Join': match\.near\(.*\) raised ZeroDivisionError"):
        stream.match(other, on=near, window=last).to_arrow()
