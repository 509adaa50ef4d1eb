"""Contenders: what a workload runs side by side, all driven batch by batch through one small runner.

A runner's `step` is what is timed: it takes a batch and moves event time to the batch's watermark.
What it returns is kept, and looked at only after the clock has stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.data import Batch
from bench.rivals import FUNCTIONS, Periodic, Query, Results, Rival, Session

ENGINE = "Panes"
#: SQL text of each aggregate, for the engine
SQL = {
    "sum": "sum(v)",
    "count": "count(*)",
    "avg": "avg(v)",
    "min": "min(v)",
    "max": "max(v)",
    "median": "median(v)",
    "first": "first(v)",
    "last": "last(v)",
    "m4": "m4(v)",
}


class Runner(Protocol):
    def step(self, batch: Batch) -> Any: ...
    def finish(self) -> Any: ...
    def digest(self, outputs: Sequence[Any]) -> tuple[int, float]:
        """(number of results, sum of their values): equal for contenders that agree."""
        ...


@dataclass(frozen=True)
class Contender:
    """A name for tables, and a way to start afresh."""

    name: str
    start: Callable[[], Runner]


class RivalRunner:
    """A rival technique, keyed or not."""

    def __init__(self, rival: Any) -> None:
        self.rival = rival

    def step(self, batch: Batch) -> Results:
        if batch.keys is None:
            self.rival.push(batch.times, batch.values)
        else:
            self.rival.push(batch.times, batch.values, batch.keys)
        return self.rival.advance(batch.watermark)

    def finish(self) -> Results:
        return self.rival.finish()

    def digest(self, outputs: Sequence[Results]) -> tuple[int, float]:
        return sum(len(r) for r in outputs), float(sum(r.value.sum() for r in outputs))


class EngineRunner:
    """The Panes operator through its public API; results stay Arrow."""

    def __init__(self, operator: Any, column: str = "x") -> None:
        self.operator = operator
        self.column = column

    def step(self, batch: Batch) -> Any:
        return self.operator.push(batch.arrow)

    def finish(self) -> Any:
        return self.operator.finish()

    def digest(self, outputs: Sequence[Any]) -> tuple[int, float]:
        tables = [as_table(out) for out in outputs]
        total = 0.0
        for table in tables:
            column = table.column(self.column)
            if pa.types.is_struct(column.type):
                for part in column.combine_chunks().flatten():
                    total += float(pc.sum(part).as_py() or 0)
            else:
                total += float(pc.sum(column).as_py() or 0)
        return sum(t.num_rows for t in tables), total


def as_table(out: Any) -> pa.Table:
    """Results of a push as an Arrow table."""
    if isinstance(out, pa.Table):
        return out
    if isinstance(out, pa.RecordBatch):
        return pa.Table.from_batches([out])
    return out.to_arrow()


def panes_window(query: Query) -> Any:
    """The Panes spec of a query."""
    import panes as pn

    if isinstance(query, Session):
        return pn.session(f"{query.gap} ms")
    if not isinstance(query, Periodic):
        raise TypeError(f"no Panes window for {query}")
    if query.measure == "rows":
        return pn.sliding(pn.rows(query.size), every=pn.rows(query.slide))
    if query.size == query.slide:
        return pn.tumbling(f"{query.size} ms")
    return pn.sliding(f"{query.size} ms", every=f"{query.slide} ms")


def panes_operator(
    queries: Sequence[Query],
    aggregates: str | dict[str, Any],
    *,
    delay: int | None = None,
    keyed: bool = False,
    watermark: str | None = None,
    columns: dict[str, str] | None = None,
) -> Any:
    """An operator for streams of `data.py`: declared in order, or with a bound of `delay` ms."""
    import panes as pn

    schema = {"ts": "bigint", "v": "double", **({"k": "bigint"} if keyed else {}), **(columns or {})}
    if watermark is None and delay:
        watermark = f"{delay} ms"
    stream = pn.stream(None, schema=schema, time="ts", watermark=watermark, key="k" if keyed else None)
    windows = {f"w{i}": panes_window(query) for i, query in enumerate(queries)}
    if isinstance(aggregates, str):
        aggregates = {"x": SQL.get(aggregates, aggregates)}
    return stream.window(**windows).agg(**aggregates).operator()


def engine(
    queries: Sequence[Query], aggregates: str | dict[str, Any], *, name: str = ENGINE, **options: Any
) -> Contender:
    column = "x" if isinstance(aggregates, str) else next(iter(aggregates))
    return Contender(name, lambda: EngineRunner(panes_operator(queries, aggregates, **options), column))


def rival(
    technique: type[Rival],
    queries: Sequence[Query],
    function: str,
    *,
    name: str | None = None,
    **options: Any,
) -> Contender:
    return Contender(name or technique.name, lambda: RivalRunner(technique(queries, FUNCTIONS[function], **options)))


class EngineResults:
    """The engine behind the interface of the rivals, for differential tests."""

    def __init__(self, queries: Sequence[Query], function: str, *, delay: int) -> None:
        self.queries = queries
        self.operator = panes_operator(queries, function, watermark="manual" if delay else None)
        self.manual = bool(delay)

    def push(self, times: np.ndarray, values: np.ndarray) -> Results:
        batch = pa.RecordBatch.from_pydict({"ts": times, "v": values})
        return self._results(self.operator.push(batch))

    def advance(self, watermark: int) -> Results:
        return self._results(self.operator.advance(watermark)) if self.manual else Results()

    def finish(self) -> Results:
        return self._results(self.operator.finish())

    def _results(self, out: Any) -> Results:
        table = as_table(out)
        labels = table.column("window").to_pylist()
        number = np.array([int(str(label)[1:]) for label in labels], np.int64)
        on_time = self.queries[0].measure == "time"
        names = ("window_start", "window_end") if on_time else ("window_from", "window_to")
        start, end = (np.array(table.column(name).to_pylist(), np.int64) for name in names)
        return Results(number, start, end, np.array(table.column("x").to_pylist(), np.float64))
