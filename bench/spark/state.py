"""What state costs: bytes written and time per micro-batch against the size of the state, and how many keys change."""

from __future__ import annotations

import statistics
from typing import Any

import panes as pn
from bench.contenders import ENGINE
from bench.harness import Claim, Point, Workload
from bench.spark.data import KeyBatches
from bench.spark.lab import SparkLab
from bench.spark.speed import panes
from bench.workloads.common import value

#: Each key has partials of `_FIELDS` sums for some days; an operator holds about this much of it in memory.
_FIELDS, _WINDOWS = 16, 4
_BYTES_PER_KEY = 4100
_ALL, _FEW = "all keys", "1 % of the keys"
_REPEATS = 3


def _state(lab: SparkLab) -> None:
    windows = {f"w{i}": pn.tumbling(f"{i + 1} d") for i in range(_WINDOWS)}
    sums = {f"s{i}": f"sum(v + {i})" for i in range(_FIELDS)}
    build = panes(windows, sums)
    for megabytes in lab.pick((1, 10, 100, 1000), (1, 10)):
        keys = megabytes * 1_000_000 // _BYTES_PER_KEY
        folder = KeyBatches(keys, (1.0,) * _REPEATS + (0.01,) * _REPEATS).folder()
        lab._log(f"{lab.workload}: {megabytes} MB")
        timed = lab.time([build(lab.source(folder, per_batch=1))])
        batches = [p for p in timed.batches if p["numInputRows"]]
        for touched, of in ((_ALL, batches[1 : 1 + _REPEATS]), (_FEW, batches[1 + _REPEATS :])):
            seen = [p["observedMetrics"]["panes"] for p in of]
            params = {"state MB": round(_middle(m["state_bytes"] for m in seen) / 1e6, 1), "touched": touched}
            rows = int(_middle(p["numInputRows"] for p in of))
            seconds = _middle(p["durationMs"]["addBatch"] for p in of) / 1000
            lab.record(ENGINE, "seconds", seconds, params=params, rows=rows)
            lab.record(ENGINE, "MB written", _middle(m["written"] for m in seen) / 1e6, params=params, rows=rows)


def _middle(values: Any) -> float:
    return float(statistics.median(values))


def _few_cost_little(metric: str) -> Any:
    def check(points: list[Point]) -> tuple[bool, str]:
        size = max(p.params["state MB"] for p in points)
        few, everything = (value(points, ENGINE, metric, **{"state MB": size, "touched": t}) for t in (_FEW, _ALL))
        return few < 0.1 * everything, f"{few:.3g} against {everything:.3g} at {size:,.0f} MB"

    return check


WORKLOADS = (
    Workload(
        "spark-state", "cost of state per micro-batch", _state, x="state MB",
        claims=(
            Claim("written", "1 % of the keys writes less than 10 % of all", _few_cost_little("MB written")),
            Claim("time", "1 % of the keys takes less than 10 % of the time of all", _few_cost_little("seconds")),
        ),
    ),
)  # fmt: skip
