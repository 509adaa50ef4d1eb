"""Many keys over the dense store: matrices as wide as this have few rows, which are more when slices are."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import panes as pn

SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.int64()), ("v", pa.int64())])
#: (size, every) of windows over many slices, and over one at first and more later
Sizes = dict[str, tuple[int, int]]
SHORT: Sizes = {"ten": (10, 10), "forty": (40, 5)}
LONG: Sizes = {"hundred": (100, 100), "longest": (300, 60)}


def _query(sizes: Sizes) -> pn.Query:
    windows = {label: pn.sliding(size, every=every) for label, (size, every) in sizes.items()}
    stream = pn.stream(None, schema=SCHEMA, time="t", key="k", watermark="manual")
    return stream.window(**windows).agg(n="count(*)", total="sum(v)", high="max(v)")


def _batches(rng: np.random.Generator) -> list[pa.Table]:
    """Keys come, are more and more, and come no more; rows reach back up to 30."""
    tables = []
    for number, (first, last) in enumerate([(0, 50), (0, 6_000), (3_000, 14_000), (13_000, 13_010), (0, 9_000)] * 2):
        n = 3 * (last - first)  # several rows per key
        times = 330 + 25 * number + rng.integers(-30, 25, n)
        tables.append(pa.table([times, rng.integers(first, last, n), rng.integers(-99, 99, n)], schema=SCHEMA))
    return tables


def _naive(tables: list[pa.Table], sizes: Sizes) -> Counter[tuple[object, ...]]:
    """Every row into every window that it is in."""
    rows: dict[tuple[str, int, int], list[int]] = {}
    for table in tables:
        for t, k, v in zip(*(column.to_pylist() for column in table.columns)):
            for label, (size, every) in sizes.items():
                for start in range(t // every * every, t - size, -every):
                    rows.setdefault((label, start, k), []).append(v)
    return Counter((label, start, k, len(v), sum(v), max(v)) for (label, start, k), v in rows.items())


@pytest.mark.parametrize("store", ["lazy", "eager", "auto"])
@pytest.mark.parametrize("sizes", [SHORT, LONG])
def test_windows_of_many_keys_are_those_of_their_rows(sizes: Sizes, store: str) -> None:
    tables = _batches(np.random.default_rng(3))
    op = _query(sizes).operator(store=store)
    given = []
    for number, table in enumerate(tables):
        given += op.push(table).rows()
        given += op.advance(330 + 25 * (number + 1) - 30).rows()
        if number == 5:
            op = _query(sizes).operator(restore=op.snapshot(), store=store)
    given += op.finish().rows()
    columns = ("window", "window_start", "k", "n", "total", "high")
    assert Counter(tuple(row[c] for c in columns) for row in given) == _naive(tables, sizes)


def test_many_keys_take_no_memory_for_slices_that_are_not_there() -> None:
    op = _query(SHORT).operator()
    n = 20_000
    for number in range(3):
        op.push(pa.table([np.full(n, 100 + number), np.arange(n), np.ones(n, np.int64)], schema=SCHEMA))
    assert op.metrics["bytes"] < 6 * op.metrics["bytes_filled"]
