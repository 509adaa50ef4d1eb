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

#: Each key has partials of `_FIELDS` sums in one slice of `_WINDOWS` windows: so many bytes of content, without the
#: room for more that an operator keeps beside it (`op.metrics["bytes_filled"]`).
_FIELDS, _WINDOWS = 16, 4
_BYTES_PER_KEY = 272
_ALL, _FEW, _ONE = "all keys", "1 % of the keys", "one key"
_SHARES = {_ALL: 1.0, _FEW: 0.01, _ONE: 0.0}
_REPEATS = 3


def _state(lab: SparkLab) -> None:
    windows = {f"w{i}": pn.tumbling(f"{i + 1} d") for i in range(_WINDOWS)}
    sums = {f"s{i}": f"sum(v + {i})" for i in range(_FIELDS)}
    build = panes(windows, sums)
    for megabytes in lab.pick((1, 10, 100, 1000), (1, 10)):
        keys = megabytes * 1_000_000 // _BYTES_PER_KEY
        folder = KeyBatches(keys, tuple(share for share in _SHARES.values() for _ in range(_REPEATS))).folder()
        lab._log(f"{lab.workload}: {megabytes} MB")
        timed = lab.time([build(lab.source(folder, per_batch=1))])
        batches = [p for p in timed.batches if p["numInputRows"]]
        for number, touched in enumerate(_SHARES):
            of = batches[1 + number * _REPEATS :][:_REPEATS]
            seen = [p["observedMetrics"]["panes"] for p in of]
            params = {"state MB": megabytes, "touched": touched}
            rows = int(_middle(p["numInputRows"] for p in of))
            seconds = _middle(p["durationMs"]["addBatch"] for p in of) / 1000
            lab.record(ENGINE, "seconds", seconds, params=params, rows=rows)
            lab.record(ENGINE, "MB written", _middle(m["written"] for m in seen) / 1e6, params=params, rows=rows)


def _middle(values: Any) -> float:
    return float(statistics.median(values))


def _few_write_little(points: list[Point]) -> tuple[bool, str]:
    few, everything = _at_most_state(points, "MB written", _FEW, _ALL)
    return few < 0.1 * everything, f"{few:.3g} against {everything:.3g} MB"


def _few_take_little(points: list[Point]) -> tuple[bool, str]:
    one, few, everything = _at_most_state(points, "seconds", _ONE, _FEW, _ALL)
    return few < 0.1 * everything, f"{few:.3g} against {everything:.3g} s, one key {one:.3g} s"


def _at_most_state(points: list[Point], metric: str, *touched: str) -> list[float]:
    size = max(p.params["state MB"] for p in points)
    return [value(points, ENGINE, metric, **{"state MB": size, "touched": t}) for t in touched]


WORKLOADS = (
    Workload(
        "spark-state", "cost of state per micro-batch", _state, x="state MB",
        claims=(
            Claim("written", "1 % of the keys writes less than 10 % of all", _few_write_little),
            Claim("time", "1 % of the keys takes less than 10 % of the time of all", _few_take_little),
        ),
    ),
)  # fmt: skip
