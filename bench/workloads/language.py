"""How long CQL takes from text to a query that is ready to run (SPEC Q-47): all queries of the appendix."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from bench.contenders import ENGINE
from bench.harness import Goal, Lab, Workload
from panes.cql.parse import Located, parse
from panes.cql.session import Session

APPENDIX = Path(__file__).parents[2] / "tests" / "cql" / "statements" / "appendix.yaml"
MILLISECONDS = "ms"
REPEATS = 101


def interpretation(lab: Lab) -> None:
    """Parse, rewrite, resolve and compile the last statement of each case that is valid, after those before it."""
    clock = lab.clock
    for name, case, data in _valid_cases():
        times: dict[str, list[float]] = {"parse": [], "all phases": []}
        *before, last = parse(case["run"])
        for _ in range(lab.pick(REPEATS, 5)):
            session = Session(_streams(case, data), clock=lambda: 0)
            for located in before:
                session.execute(located)
            began = clock()
            (read,) = parse(last.source)
            times["parse"].append(clock() - began)
            session.execute(Located(read.statement, read.span, read.text))
            times["all phases"].append(clock() - began)
        for phase, found in times.items():
            goal = Goal(most=10) if phase == "all phases" else None
            lab.record(
                ENGINE,
                MILLISECONDS,
                1000 * statistics.median(found),
                params={"query": name, "phases": phase},
                goal=goal,
            )


def _valid_cases() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    document = yaml.safe_load(APPENDIX.read_text(encoding="utf-8"))
    for name, case in document["cases"].items():
        if "error" not in case:
            yield name, case, document["data"]


def _streams(case: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    wanted = case.get("streams", {})
    named = wanted if isinstance(wanted, dict) else {name: name for name in wanted}
    rows = {name: data[given] if isinstance(given, str) else given for name, given in named.items()}
    return {name: [tuple(r) if isinstance(r, list) else r for r in given] for name, given in rows.items()}


WORKLOADS = (
    Workload("q47-language", "from CQL text to a query that can run, queries of the appendix", interpretation),
)
