"""Late rows that correct results: what one costs with 20,000 rows or sessions kept, and with 200,000 (SPEC K-19).

Windows count rows or are sessions, `lateness` keeps so many of either, and rows come one at a time behind the
watermark, or a fifth of them in batches. The cost of one must not depend on how much is kept.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from bench.contenders import ENGINE
from bench.harness import Goal, Lab, Workload

FEW, MANY = 20_000, 200_000
#: the cost of a late row where many are kept, in that where few are
ALIKE = 1.3
#: rows and sessions are one tick apart over all keys, times this; a session's gap is half of it for a key
TICK = 10
BATCH = 500
AGGREGATES = {"sum, count, mean": {"s": "sum(v)", "n": "count(*)", "m": "avg(v)"}, "max": {"x": "max(v)"}}
WINDOWS = ("tumbling rows", "sliding rows", "session")


@dataclass(frozen=True)
class Case:
    """A window with so many rows or sessions kept."""

    window: str
    aggregate: str
    keys: int
    kept: int

    def operator(self) -> Any:
        import panes as pn

        schema = {"ts": "bigint", "k": "bigint", "v": "bigint"}
        stream = pn.stream(
            None, schema=schema, time="ts", key="k" if self.keys > 1 else None, watermark=0, lateness=self.kept * TICK
        )
        windows = {
            "tumbling rows": pn.tumbling(pn.rows(10)),
            "sliding rows": pn.sliding(pn.rows(100), every=pn.rows(10)),
            "session": pn.session(self.keys * TICK // 2),
        }
        return stream.window(w=windows[self.window]).agg(**AGGREGATES[self.aggregate]).operator()

    def rows(self, first: int, n: int) -> dict[str, np.ndarray]:
        """Rows in order, keys in turn: each of its own key is far enough from the last to begin a session."""
        at = np.arange(first, first + n)
        return {"ts": at * TICK, "k": at % self.keys, "v": at * 7919 % 1000}

    def filled(self) -> Any:
        """An operator that keeps as much as it is to."""
        op = self.operator()
        for first in range(0, self.past, 10_000):
            op.push(pa.table(self.rows(first, 10_000)))
        return op

    @property
    def past(self) -> int:
        """Rows that came before: twice those that are kept, and of each key more than a window holds."""
        return max(2 * self.kept, 250 * self.keys)

    def late(self, n: int, more: int = 0) -> list[dict[str, int]]:
        """Rows that come about ten rows of their key late, beside one that is there, after `more` rows in time."""
        rng, now = np.random.default_rng(5 + more), self.past + more
        at = now - self.keys * rng.integers(3, 15, n) - rng.integers(0, self.keys, n)
        return [{"ts": int(i * TICK + 1), "k": int(i % self.keys), "v": int(i % 1000)} for i in at]

    def mixed(self, batches: int) -> Iterator[pa.Table]:
        """Batches in which a fifth of the rows is late."""
        share = BATCH // 5
        for i in range(batches):
            came = i * (BATCH - share)
            rows, some = self.rows(self.past + came, BATCH - share), self.late(share, came)
            place = np.arange(BATCH) % 5 == 4
            columns = {name: np.empty(BATCH, np.int64) for name in rows}
            for name, column in columns.items():
                column[~place], column[place] = rows[name], [row[name] for row in some]
            yield pa.table(columns)


def alone(case: Case, n: int) -> float:
    """Microseconds of a late row that is pushed alone."""
    op, spent = case.filled(), []
    for row in case.late(n):
        began = time.process_time()
        op.push([row])
        spent.append(time.process_time() - began)
    return median(spent) * 1e6


def in_batches(case: Case, n: int) -> float:
    """Microseconds of a late row that is pushed among others."""
    op, spent = case.filled(), []
    for batch in case.mixed(n):
        began = time.process_time()
        op.push(batch)
        spent.append(time.process_time() - began)
    return median(spent) * 1e6 / (BATCH // 5)


def late(lab: Lab) -> None:
    few, many = lab.pick((FEW, MANY), (FEW // 10, MANY // 10))
    n, batches = lab.pick((300, 12), (60, 3))
    for window in WINDOWS:
        for aggregate in AGGREGATES:
            for keys in (1, 1_000):
                for name, measure, count in (("alone", alone, n), ("in batches", in_batches, batches)):
                    costs = [measure(Case(window, aggregate, keys, kept), count) for kept in (few, many)]
                    params = {"window": window, "aggregate": aggregate, "keys": keys, "rows": name}
                    for kept, cost in zip((few, many), costs):
                        lab.record(ENGINE, "µs per late row", cost, params={**params, "kept": kept})
                    ratio = costs[1] / costs[0]
                    lab.record(ENGINE, "cost with ten times as much kept", ratio, params=params, goal=Goal(most=ALIKE))


WORKLOADS = (Workload("late", "late rows that correct results, by how much is kept", late),)
