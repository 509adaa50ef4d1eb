"""Every worked example of SPEC G-31 to G-36, as data: what an expression over streams gives, with punctuations."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import yaml

import panes as pn
from panes import operators
from panes.operators.arrivals import PortOutput
from panes.plan.flow import Flow
from panes.plan.graph import OperateNode
from panes.runners.local.reading import ReadOptions, punctuated
from panes.runtime.arrivals import passed_on

CASES = yaml.safe_load((Path(__file__).parent / "examples.yaml").read_text(encoding="utf-8"))
NAMES = {name: getattr(operators, name) for name in operators.__all__}


def streams_of(case: dict[str, Any], *, batch: int | None = None) -> dict[str, Any]:
    made = {}
    for name, lines in case["streams"].items():
        columns = case["columns"] if isinstance(case["columns"], list) else case["columns"][name]
        rows = [dict(zip(columns, line)) for line in lines]
        data: Any = rows if batch is None else iter([rows[i : i + batch] for i in range(0, len(rows), batch)])
        made[name] = pn.stream(data, time="ts", time_unit="s")
    return made


def shown(stream: Any, columns: list[str]) -> list[Any]:
    """Rows and punctuations in order."""
    assert isinstance(stream._node, OperateNode)
    flow = Flow.of(stream._plan, columns)
    out: list[Any] = []
    for given in punctuated(stream._node, ReadOptions()):
        out += lines(passed_on(flow, given))
    return out


def lines(given: PortOutput) -> list[Any]:
    rows = [list(row.values()) for row in given.table.to_pylist()]
    out: list[Any] = []
    for i in range(len(rows) + 1):
        out += ["|"] * int((given.marks == i).sum())
        out += rows[i : i + 1]
    return out


@pytest.mark.parametrize("name", CASES)
def test_operators_give_the_worked_examples(name: str) -> None:
    case = CASES[name]
    made = eval(case["make"], {**NAMES, **streams_of(case)})
    assert shown(made, case["show"]) == case["given"]
    rows = [[row[column] for column in case["show"]] for row in made.rows()]
    assert rows == [line for line in case["given"] if line != "|"]


@pytest.mark.parametrize("name", CASES)
def test_batches_make_no_difference(name: str) -> None:
    case = CASES[name]
    for batch in (1, random.Random(name).choice((2, 3))):
        made = eval(case["make"], {**NAMES, **streams_of(case, batch=batch)})
        assert shown(made, case["show"]) == case["given"]


def test_all_items_are_there() -> None:
    specs = {case["spec"] for case in CASES.values()}
    assert {"G-06", "G-13", "G-18a", "G-19", "G-22", "G-33", "G-34", "G-35", "G-36"} <= specs
    assert len(CASES) >= 22
