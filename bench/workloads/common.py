"""Sets of queries and small readers of points that several workloads share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from bench.harness import RATE, Point
from bench.rivals import Periodic, Query

#: Rows per second of event time of the generated streams, unless a workload says otherwise.
EVENT_RATE = 100_000
IN_ORDER, DISORDER = "in order", "20 % late"


def w1_queries(measure: str = "time", unit: int = 1000) -> list[Query]:
    """Sliding 60 s every 1 s, and tumbling 1..20 s: 21 queries, 80 windows hold each row."""
    return [
        Periodic(60 * unit, unit, measure),
        *(Periodic(n * unit, n * unit, measure) for n in range(1, 21)),
    ]


def concurrent(windows: int, measure: str = "time", unit: int = 1000) -> list[Query]:
    """Tumbling queries with lengths spread evenly over 1..20 units (SPEC S-38)."""
    lengths = np.linspace(unit, 20 * unit, windows).astype(int) if windows > 1 else [unit]
    return [Periodic(int(n), int(n), measure) for n in lengths]


def due_together() -> list[Query]:
    """1,000 tumbling queries of 1 to 21 s, 20 ms apart: 150 of their windows end in a second."""
    return [Periodic(1_000 + 20 * i, 1_000 + 20 * i) for i in range(1_000)]


def value(points: Iterable[Point], contender: str, metric: str = RATE, **params: Any) -> float:
    """The one figure of a contender under these parameters."""
    for point in points:
        same = point.contender == contender and point.metric == metric
        if same and all(point.params.get(k) == v for k, v in params.items()):
            return point.value
    raise KeyError(f"{contender} {metric} {params}")


def values(points: Iterable[Point], contender: str, metric: str = RATE, **params: Any) -> list[float]:
    """All figures of a contender under these parameters, in the order they were taken."""
    return [
        p.value
        for p in points
        if p.contender == contender and p.metric == metric and all(p.params.get(k) == v for k, v in params.items())
    ]


def best_of(points: Iterable[Point], contenders: Iterable[str], **params: Any) -> float:
    """The best rate among contenders that have one."""
    rates = [rate for name in contenders for rate in values(points, name, **params)]
    if not rates:
        raise KeyError(f"none of {list(contenders)} {params}")
    return max(rates)
