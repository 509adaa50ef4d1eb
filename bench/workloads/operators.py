"""The operators: a join of two streams by key within 10 s, against other ways to join as rows come."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench import data
from bench.contenders import ENGINE, Contender
from bench.harness import Goal, Lab, Workload

Array = np.ndarray
KEYS = 1000
WINDOW = 10_000  # ms
RATE = 100  # rows per second of each stream: 1,000 in 10 s, so that a row has one partner on average


@dataclass(frozen=True)
class Pair:
    """Rows of both streams of the same stretch of time."""

    left: pa.RecordBatch
    right: pa.RecordBatch
    values: Array

    def __len__(self) -> int:
        return len(self.left) + len(self.right)


def pairs(rows: int, size: int = data.BATCH_ROWS) -> list[Pair]:
    """Two streams of `rows` together, keys at random."""
    sides = [data.with_keys(data.steady(rows // 2, rate=RATE, seed=s), KEYS, seed=s + 2) for s in (1, 2)]
    cut = [side.batches(size // 2) for side in sides]
    return [Pair(one.arrow, two.arrow, np.concatenate((one.values, two.values))) for one, two in zip(*cut)]


class PanesRunner:
    """The embedded run of `left.match(right, ...)`, batch by batch."""

    def __init__(self, mechanism: str) -> None:
        import panes as pn
        from panes.operators import sliding, time

        schema = {"ts": "bigint", "v": "double", "k": "bigint"}
        left, right = (pn.stream(None, schema=schema, time="ts") for _ in range(2))
        made = left.match(
            right, window=sliding(time(f"{WINDOW} ms")), using="k", entries={"k": "k", "a": "l.v", "b": "r.v"}
        )
        # `_source`: in trees before the logical graph, which this one is compared with
        node: Any = getattr(made, "_node", None) or getattr(made, "_source", None)
        self._plan = node.plan
        self._machine = self._plan.start(mechanism)

    def step(self, batch: Any) -> list[pa.Table]:
        from panes.operators.arrivals import Arrivals, arrivals_of

        empty = [port.rows.empty_table() for port in self._plan.ports]
        sides = [
            arrivals_of(port.read(pa.Table.from_batches([rows]))[0], i, empty)
            for i, (port, rows) in enumerate(zip(self._plan.ports, (batch.left, batch.right)))
        ]
        times = np.concatenate([side.times for side in sides])
        order = np.argsort(times, kind="stable")
        tables = tuple(side.tables[i] for i, side in enumerate(sides))
        merged = Arrivals(np.concatenate([side.ports for side in sides])[order], times[order], tables)
        given = self._machine.push(merged)[0].table
        return [pa.Table.from_arrays(given.columns, schema=self._plan.outputs[0].rows)]

    def finish(self) -> list[pa.Table]:
        return [self._machine.finish()[0].table]

    def digest(self, outputs: Sequence[list[pa.Table]]) -> tuple[int, float]:
        tables = [table for tables in outputs for table in tables]
        return sum(map(len, tables)), float(sum(pc.sum(pc.multiply(t["a"], t["b"])).as_py() or 0 for t in tables))


class DictRunner:
    """Two dicts of queues, row by row in Python: what one would write by hand."""

    def __init__(self) -> None:
        self._held: tuple[Any, Any] = (defaultdict(deque), defaultdict(deque))
        self._order: tuple[Any, Any] = (deque(), deque())

    def step(self, batch: Any) -> list[tuple[int, float, float]]:
        sides = [list(zip(*(b.column(n).to_pylist() for n in ("ts", "k", "v")))) for b in (batch.left, batch.right)]
        merged = sorted([(ts, 0, k, v) for ts, k, v in sides[0]] + [(ts, 1, k, v) for ts, k, v in sides[1]])
        out = []
        for ts, side, key, value in merged:
            for held, order in zip(self._held, self._order):
                while order and ts - order[0][0] > WINDOW:
                    gone = order.popleft()[1]
                    held[gone].popleft()
            self._held[side][key].append(value)
            self._order[side].append((ts, key))
            for other in self._held[1 - side][key]:
                out.append((key, value, other) if side == 0 else (key, other, value))
        return out

    def finish(self) -> list[tuple[int, float, float]]:
        return []

    def digest(self, outputs: Sequence[list[tuple[int, float, float]]]) -> tuple[int, float]:
        rows = [row for rows in outputs for row in rows]
        return len(rows), float(sum(a * b for _, a, b in rows))


class BatchSqlRunner:
    """DuckDB over what is held and what is new: the join of micro-batches that an SQL engine offers."""

    SQL = f"""SELECT l.k AS k, l.v AS a, r.v AS b FROM l JOIN r ON l.k = r.k AND abs(l.ts - r.ts) <= {WINDOW}
              WHERE l.fresh OR r.fresh"""

    def __init__(self) -> None:
        import duckdb

        self._con = duckdb.connect(config={"threads": 1})
        self._held: list[pa.Table | None] = [None, None]

    def step(self, batch: Any) -> pa.Table:
        sides = []
        for held, new in zip(self._held, (batch.left, batch.right)):
            fresh = pa.Table.from_batches([new]).append_column("fresh", pa.array(np.ones(len(new), bool)))
            sides.append(fresh if held is None else pa.concat_tables([held, fresh]))
        for name, table in zip("lr", sides):
            self._con.register(name, table)
        out = self._con.sql(self.SQL).to_arrow_table()
        newest = max(pc.max(table["ts"]).as_py() for table in sides)
        for i, table in enumerate(sides):
            kept = table.filter(pc.greater_equal(table["ts"], newest - WINDOW)).drop_columns(["fresh"])
            self._held[i] = kept.append_column("fresh", pa.array(np.zeros(len(kept), bool)))
        return out

    def finish(self) -> pa.Table:
        return pa.table({"k": [], "a": pa.array([], pa.float64()), "b": pa.array([], pa.float64())})

    def digest(self, outputs: Sequence[pa.Table]) -> tuple[int, float]:
        products = (pc.sum(pc.multiply(t["a"].cast("double"), t["b"].cast("double"))).as_py() for t in outputs)
        return sum(map(len, outputs)), float(sum(p or 0 for p in products))


def join(lab: Lab) -> None:
    """1,000 keys, 10 s windows on both sides, one match per row."""
    contenders = [
        Contender(ENGINE, lambda: PanesRunner("auto")),
        Contender("Panes, row by row", lambda: PanesRunner("windows")),
        Contender("Python dicts", DictRunner),
        Contender("DuckDB per batch", BatchSqlRunner),
    ]
    batches: Any = pairs(lab.rows(2_000_000, 100_000))
    lab.throughput(batches, contenders, params={"keys": KEYS}, goal=Goal(rows_per_s=2e6))


class AggregateRunner:
    """An Aggregate pushed batch by batch."""

    def __init__(self, mechanism: str) -> None:
        import panes as pn
        from panes.operators import count, sliding

        stream = pn.stream(None, schema={"ts": "bigint", "v": "double", "k": "bigint"}, time="ts", key="k")
        made = stream.aggregate(window=sliding(count(100), every=count(10)), x="sum(v)")
        self._operator = made.operator(mechanism=mechanism)

    def step(self, batch: data.Batch) -> Any:
        return self._operator.push(batch.arrow)

    def finish(self) -> Any:
        return self._operator.finish()

    def digest(self, outputs: Sequence[Any]) -> tuple[int, float]:
        return sum(map(len, outputs)), float(sum(pc.sum(out.table["x"]).as_py() or 0 for out in outputs))


def aggregate(lab: Lab) -> None:
    """The last 100 rows of each of 1,000 keys, every 10 rows."""
    stream = data.with_keys(data.steady(lab.rows(2_000_000, 100_000), rate=100_000), KEYS)
    contenders = [
        Contender(ENGINE, lambda: AggregateRunner("auto")),
        Contender("Panes, row by row", lambda: AggregateRunner("windows")),
    ]
    lab.throughput(stream.batches(), contenders, params={"keys": KEYS})


WORKLOADS = (
    Workload("operators", "join of two streams by key, 10 s windows on both sides, one match per row", join),
    Workload("operators-aggregate", "the last 100 rows of each of 1,000 keys, every 10 rows", aggregate),
)
