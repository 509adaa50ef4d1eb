"""Operators of users: the example of the documentation, state in snapshots, punctuations, several outputs."""

from __future__ import annotations

import importlib.util
import inspect
import math
import random
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

import panes as pn
from panes.errors import DataError, QueryError
from panes.operators import (
    ROW_BY_ROW_FORMS,
    TUMBLING_FORMS,
    InputPort,
    Model,
    Operator,
    OutputPort,
    count,
    partition_count,
    punct,
    sliding,
    time,
    tumbling,
)

EXAMPLE = Path(__file__).parents[2] / "examples" / "correlation.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("correlation", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["correlation"] = module  # snapshots pickle by name
    spec.loader.exec_module(module)
    return module


def test_the_operator_has_under_40_lines(example: ModuleType) -> None:
    lines = inspect.getsource(example.Correlation).splitlines() + inspect.getsource(example.pearson).splitlines()
    assert len(lines) < 40


def test_the_correlation_is_right(example: ModuleType) -> None:
    one, other = ([row["celsius"] for row in stream.rows()] for stream in example.sensors())
    found = example.correlations().select("result_time", "rows", "correlation").to_arrow().to_pylist()
    assert [row["result_time"] for row in found] == list(range(19, 120))
    for row in found:
        last = slice(row["result_time"] - 19, row["result_time"] + 1)
        x, y = one[last], other[last]
        mean = [sum(v) / 20 for v in (x, y)]
        cov = sum((a - mean[0]) * (b - mean[1]) for a, b in zip(x, y))
        norm = math.sqrt(sum((a - mean[0]) ** 2 for a in x) * sum((b - mean[1]) ** 2 for b in y))
        assert row["correlation"] == pytest.approx(cov / norm)
        assert row["rows"] == 20


def test_the_example_runs() -> None:
    done = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, check=True, timeout=60)
    assert "[60, 120) s: at least -1.00" in done.stdout


def test_pushes_and_snapshots_make_no_difference(example: ModuleType) -> None:
    streams = example.sensors()
    rows = [list(stream.rows()) for stream in streams]
    wanted = example.correlations().to_arrow().to_pylist()
    empty = [pn.stream(None, schema={"ts": "bigint", "celsius": "double"}, time="ts", time_unit="s") for _ in rows]
    last = sliding(count(20))
    made = empty[0].apply(example.Correlation("celsius", at_least=20), empty[1], window={"left": last, "right": last})
    operator, found, rng = made.operator(), [], random.Random(5)
    for one, other in zip(*rows):
        found += operator.push([one], "left").rows()
        found += operator.push([other], "right").rows()
        if rng.random() < 0.2:
            operator = made.operator(restore=operator.snapshot(), trusted=True)
    found += operator.finish().rows()
    assert found == wanted
    assert operator.metrics["rows_in"] == 240
    assert operator.metrics["rows_out"] == len(wanted)
    assert operator.metrics["rows_held"] == 40


class Batches(Operator):
    """Gives each window as text, counts them, and passes large values on at once."""

    model = Model(
        "Batches",
        inputs=(InputPort("in", TUMBLING_FORMS, "window bound"),),
        outputs=(OutputPort("batches", "generating"), OutputPort("large", "preserving", "in")),
    )
    schema: ClassVar = {"batches": {"number": "bigint", "batch": "string"}, "large": {"v": "bigint"}}

    def start(self) -> None:
        self.number = 0
        self.window("in").on("before_flush", self.give)

    def on_row(self, port: str, row: dict[str, Any]) -> None:
        if row["v"] > 9:
            self.emit("large", v=row["v"])
        self.insert(port, row)

    def give(self, key: Any, window: Any) -> None:
        self.number += 1
        self.emit(number=self.number, batch=",".join(str(row["v"]) for row in window.content(key)))
        self.punctuate()

    def on_finish(self) -> None:
        self.emit(number=-1, batch=f"{self.now}")


def numbers(values: list[int]) -> Any:
    return pn.stream([{"ts": t, "v": v} for t, v in enumerate(values)], time="ts", time_unit="s")


def test_outputs_punctuations_and_the_end() -> None:
    made = numbers([1, 20, 3, 4, 30]).apply(Batches(), window=tumbling(count(2)))
    assert [(row["number"], row["batch"]) for row in made.rows()] == [(1, "1,20"), (2, "3,4"), (-1, "4")]
    ends = made.where("number > 0").aggregate(window=tumbling(punct()), n="count(*)")
    assert [row["n"] for row in ends.rows()] == [1, 1]
    operator = made.operator()
    assert operator.push([{"ts": 0, "v": 50}]).ports["large"].column("v").to_pylist() == [50]


def test_punctuated_input_and_state() -> None:
    empty = pn.stream(None, schema={"ts": "bigint", "v": "bigint"}, time="ts", time_unit="s").punctuate("false")
    made = empty.apply(Batches(), window=tumbling(punct()))
    operator = made.operator()
    given = []
    for value in (1, 2, None, 3, None, None):
        if value is None:
            given += [row["batch"] for row in operator.punctuate().rows()]
        else:
            operator.push([{"ts": 1, "v": value}])
        operator = made.operator(restore=operator.snapshot(), trusted=True)
    assert given == ["1,2", "3", ""]
    assert [row["number"] for row in operator.finish().rows()] == [-1]


def test_keys_and_partition_eviction() -> None:
    class Sizes(Operator):
        model = Model("Sizes", (InputPort("in", ROW_BY_ROW_FORMS),), (OutputPort("out"),))
        schema: ClassVar = {"k": "string", "rows": "bigint", "forgotten": "string"}

        def start(self) -> None:
            self.forgotten = ""
            self.window("in").on("trigger", lambda key, w: self.emit(k=key, rows=w.size(key), forgotten=self.forgotten))
            self.window("in").on("partition_evict", self.forget)

        def forget(self, subwindows: Any) -> None:
            self.forgotten += "".join(key for key, _ in subwindows)

    rows = [{"ts": i, "k": k} for i, k in enumerate("abacab")]
    made = pn.stream(rows, time="ts", key="k").apply(
        Sizes(), window=sliding(count(9), partition_evict=partition_count(2))
    )
    found = [(r["k"], r["rows"], r["forgotten"]) for r in made.rows()]
    assert found == [("a", 1, ""), ("b", 1, ""), ("a", 2, ""), ("c", 1, ""), ("a", 3, "b"), ("b", 1, "b")]


def test_time_passes_with_rows() -> None:
    class Ticks(Operator):
        model = Model("Ticks", (InputPort("in", (("sliding", "time", "time"),)),), (OutputPort("out"),))
        schema: ClassVar = {"at": "bigint", "held": "string"}

        def start(self) -> None:
            self.window("in").on("trigger", lambda key, w: self.emit(at=self.now, held=str(w.size(key))))

    made = (
        numbers([1, 2, 3]).with_time("v", time_unit="s").apply(Ticks(), window=sliding(time("1 s"), every=time("1 s")))
    )
    assert [(r["at"], r["held"]) for r in made.rows()] == [(2, "1"), (3, "1")]
    operator = made.operator()
    operator.push([{"ts": 0, "v": -5}])
    assert [(r["at"], r["held"]) for r in operator.advance(-2).rows()] == [(-4, "1"), (-3, "0"), (-2, "0")]


def test_what_an_operator_must_not_do() -> None:
    class Odd(Operator):
        model = Model("Odd", (InputPort("in"),), (OutputPort("out"),))
        schema: ClassVar = {"v": "bigint"}

        def __init__(self, deed: str) -> None:
            self.deed = deed

        def on_row(self, port: str, row: dict[str, Any]) -> None:
            if self.deed == "column":
                self.emit(w=1)
            elif self.deed == "type":
                self.emit(v="text")
            elif self.deed == "punctuate":
                self.punctuate()
            elif self.deed == "output":
                self.emit("side", v=1)
            else:
                self.insert(port, row)

    for deed, error, message in (
        ("column", DataError, r"Odd: emit\(w=...\) is not a column of its schema: v"),
        ("type", DataError, "Odd: what was emitted does not fit its schema"),
        ("punctuate", QueryError, "output 'out' is declared free of punctuations"),
        ("output", QueryError, "there is no output 'side'; there are out"),
        ("window", QueryError, "input 'in' has no window"),
    ):
        with pytest.raises(error, match=message):
            numbers([1]).apply(Odd(deed)).to_arrow()
    with pytest.raises(QueryError, match="Odd does not run yet"):
        Odd("window").window("in")


def test_attributes_that_cannot_be_pickled_are_named_at_the_snapshot() -> None:
    class Handles(Operator):
        model = Model("Handles", (InputPort("in"),), (OutputPort("out"),))
        schema: ClassVar = {"v": "bigint"}

        def start(self) -> None:
            self.handle = lambda: None

        def on_row(self, port: str, row: dict[str, Any]) -> None:
            self.emit(v=row["v"])

    with pytest.raises(QueryError, match="can't be pickled"):
        numbers([1]).apply(Handles()).operator().snapshot()
