"""An operator of one's own on the window library: the correlation of two streams over their last rows.

Run it: `python examples/correlation.py`. Two sensors feel the same weather until one of them breaks after a minute.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import panes as pn
from panes.operators import ROW_BY_ROW_FORMS, InputPort, Model, Operator, OutputPort, count, sliding


class Correlation(Operator):
    """How two streams go together, each time a row has come to both: over the rows in their windows."""

    model = Model(
        "Correlation",
        inputs=(InputPort("left", ROW_BY_ROW_FORMS), InputPort("right", ROW_BY_ROW_FORMS)),
        outputs=(OutputPort("out"),),
    )
    schema: ClassVar = {"rows": "bigint", "correlation": "double"}

    def __init__(self, column: str, *, at_least: int = 2) -> None:
        self.column = column
        self.at_least = at_least

    def start(self) -> None:
        self.window("right").on("trigger", self.correlate)

    def correlate(self, key: Any, window: Any) -> None:
        sides = [self.window(port).content(key) for port in ("left", "right")]
        n = min(map(len, sides))
        if n >= self.at_least:
            x, y = ([row[self.column] for row in rows[-n:]] for rows in sides)
            self.emit(rows=n, correlation=pearson(x, y))


def pearson(x: list[float], y: list[float]) -> float | None:
    """None where one of them does not vary."""
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    spread_x, spread_y = (math.sqrt(sum((v - m) ** 2 for v in vs)) for vs, m in ((x, mean_x), (y, mean_y)))
    common = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y))
    return common / (spread_x * spread_y) if spread_x and spread_y else None


def sensors() -> tuple[Any, Any]:
    """A reading per second for two minutes; the second sensor is upside down after one."""
    wave = [math.sin(t / 5) + 0.1 * math.sin(t * 7) for t in range(120)]
    one = [{"ts": t, "celsius": 20 + v} for t, v in enumerate(wave)]
    other = [{"ts": t, "celsius": 21 + (v if t < 60 else -v)} for t, v in enumerate(wave)]
    return tuple(pn.stream(rows, time="ts", time_unit="s") for rows in (one, other))


def correlations() -> Any:
    """The stream of correlations over the last 20 rows of both sensors."""
    one, other = sensors()
    last = sliding(count(20))
    return one.apply(Correlation("celsius", at_least=20), other, window={"left": last, "right": last})


if __name__ == "__main__":
    for row in correlations().select("result_time", "correlation").rows():
        if row["result_time"] % 10 == 9:
            bar = "#" * round(20 * (row["correlation"] + 1))
            print(f"{row['result_time']:>4} s {row['correlation']:+.2f} {bar}")
    # A result of an operator is a stream like any other: windows can be put on it.
    worst = correlations().window(pn.tumbling("60 s")).agg(least="min(correlation)")
    for row in worst.rows():
        print(f"[{row['window_start']}, {row['window_end']}) s: at least {row['least']:+.2f}")
