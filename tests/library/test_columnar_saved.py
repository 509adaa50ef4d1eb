"""What `ColumnarWindow.saved` gives puts the state of then into other windows, as often as wanted."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from panes.policies.library import arrays, count, delta, partition_age, partition_count, time, tuple_count
from panes.policies.library.arrays import to_table
from panes.policies.library.columnar import WATCHABLE, ColumnarWindow

SCHEMA = pa.schema({"k": pa.string(), "t": pa.int64(), "a": pa.float64(), "v": pa.float64()})
FORMS: dict[str, dict[str, Any]] = {
    "sliding counts": {"evict": count(3), "trigger": count(2)},
    "tumbling counts": {"evict": count(4)},
    "times": {"evict": time(6), "trigger": time(4)},
    "deltas": {"evict": delta("a", 5.0), "trigger": delta("a", 2.0)},
    "least recent": {"evict": count(3), "trigger": count(1), "partition_evict": partition_count(3)},
    "least often": {"evict": count(3), "trigger": count(1), "partition_evict": tuple_count(5), "select": "lfu"},
    "old": {"evict": count(3), "trigger": count(1), "partition_evict": partition_age(5)},
}


def batch(rng: random.Random, clock: list[int]) -> pa.Table:
    rows = []
    for _ in range(rng.randint(1, 9)):
        clock[0] += rng.choice((0, 1, 1, 2))
        value = None if rng.random() < 0.1 else float(clock[0])
        rows.append({"k": rng.choice("abcdefg"), "t": clock[0], "a": float(clock[0]), "v": value})
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def seen(window: ColumnarWindow, rows: pa.Table) -> Any:
    fired = window.push(rows)
    table = to_table(fired.columns)
    contents = [table.slice(a, b - a).to_pylist() for a, b in zip(fired.start.tolist(), fired.stop.tolist())]
    keys = [column.to_pylist() for column in fired.keys]
    counts = {name: n for name, n in window.metrics.items() if name != "bytes"}
    return fired.kind.tolist(), fired.row.tolist(), fired.at.tolist(), keys, contents, counts


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("spare", [0, arrays.SPARE])
@pytest.mark.parametrize("seed", range(15))
def test_a_window_goes_back_as_often_as_it_must(
    form: str, spare: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays, "SPARE", spare)  # with 0, tuples, keys and queues are tidied up all the time
    monkeypatch.setattr("panes.policies.loop.FEW", (0, 50, 1 << 16)[seed % 3])
    rng, clock = random.Random(seed), [0]

    def fresh() -> ColumnarWindow:
        return ColumnarWindow(SCHEMA, key=["k"], time="t", watch=WATCHABLE, **FORMS[form])

    window, control = fresh(), fresh()
    put_back = None
    for _ in range(25):
        rows = batch(rng, clock)
        if rng.random() < 0.4:
            put_back = window.saved()
            since: list[pa.Table] = []
        elif put_back is not None and rng.random() < 0.5:
            seen(window, batch(random.Random(rng.random()), [clock[0]]))  # it goes on, and is given up
            window = fresh()
            put_back(window)
            for each in since:
                window.push(each)
        if put_back is not None:
            since.append(rows)
        assert seen(window, rows) == seen(control, rows)
