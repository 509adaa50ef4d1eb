"""Snapshots that were written before each rule of policies had one source still restore, and go on as they would have.

`old_snapshots.json` was written by that code: `python -m tests.policies.test_old_snapshots` with it on the path.
"""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import panes as pn
from panes.clock import FakeClock
from panes.policies import library
from panes.policies.library.columnar import ColumnarWindow
from tests.policy_fuzz.users import HalfOnFake, SumTrigger

p = pn.policies
KNOWN = Path(__file__).with_name("old_snapshots.json")
ROWS = [
    {"t": 3 * i // 2, "k": "abc"[i * i % 3], "v": float(i * 7 % 11), "w": i % 5, "m": "xy"[i % 2]} for i in range(60)
]
CUT = 37
POLICIES: dict[str, Any] = {
    "count by count": {"evict": p.count(7), "trigger": p.count(3)},
    "time by time": {"evict": p.time(9), "trigger": p.time(4)},
    "time by count": {"evict": p.time(9), "trigger": p.count(4)},
    "count by time": {"evict": p.count(5, start=-2), "trigger": p.time(6, delay=1)},
    "delta": {"evict": p.delta(5, on="v"), "trigger": [p.delta(2, on=("v", "w"), start=(1, 1)), p.count(4)]},
    "nested": {
        "evict": p.largest(p.time(12), p.first_of(p.count(4, delete=2), p.delta(6, on="v"))),
        "trigger": p.any_of(p.time(5), p.all_of(p.count(2), p.punctuation("x", on="m"))),
    },
    "of the centre": {"central_evict": [p.count(9), p.time(11)], "central_trigger": p.count(5), "evict": p.count(6)},
    "of both": {"central_trigger": p.time(7), "trigger": p.count(4), "evict": p.active(p.count(3))},
    "in Python": {
        "evict": [HalfOnFake(3), p.time(12), p.count(9)],
        "trigger": [SumTrigger(15), p.time(8), p.count(6), p.delta(9, on="v")],
    },
}
CONTAINERS: dict[str, Any] = {
    "sliding": {"evict": library.time("9 us"), "trigger": library.count(3)},
    "by delta": {"evict": library.delta("t", 8), "trigger": library.delta("t", 3)},
    "by a bare time": {"evict": library.count(4), "trigger": library.time(5)},
}


def query(name: str) -> Any:
    stream = pn.stream(
        None, schema={"t": "bigint", "k": "string", "v": "double", "w": "bigint", "m": "string"}, time="t", key="k"
    )
    return stream.window(w=pn.policy(**POLICIES[name])).agg(ws=pn.collect_list("w"), top="max(v)")


def of_policies(name: str, blob: bytes | None = None) -> tuple[bytes, Any]:
    """A snapshot after some of the rows, and what the others give after it."""
    op = query(name).operator() if blob is None else query(name).operator(restore=blob, trusted=True)
    if blob is None:
        op.push(ROWS[:CUT])
        blob = op.snapshot()
    found = [*op.push(ROWS[CUT:]).rows(), *op.finish().rows()]
    return blob, json.loads(json.dumps(found, default=str))


def of_containers(name: str, blob: bytes | None = None) -> tuple[bytes, Any]:
    clock, found = FakeClock(), []
    window = library.SlidingWindow(**CONTAINERS[name], partitioned=True, clock=clock)
    window.on("trigger", lambda key, w: found.append([key, list(w.content(key))]))
    for row in ROWS[:CUT] if blob is None else ():
        clock.advance_to(row["t"])
        window.insert(row, row["k"])
    if blob is None:
        blob = window.snapshot()
    else:
        clock.advance_to(ROWS[CUT - 1]["t"])
        window.restore(blob)
    found.clear()
    for row in ROWS[CUT:]:
        clock.advance_to(row["t"])
        window.insert(row, row["k"])
    return blob, found


def of_batches(name: str, blob: bytes | None = None) -> tuple[bytes, Any]:
    rows = pa.Table.from_pylist(ROWS)
    window = ColumnarWindow(rows.schema, **CONTAINERS[name], key=["k"], time="t")
    if blob is None:
        window.push(rows[:CUT])
        blob = window.snapshot()
    else:
        window.restore(blob)
    fired = window.push(rows[CUT:])
    tuples = fired.table().to_pylist()
    return blob, [tuples[start:stop] for start, stop in zip(fired.start.tolist(), fired.stop.tolist())]


def of_operators(name: str, blob: bytes | None = None) -> tuple[bytes, Any]:
    """`name`: how windows are kept."""
    from panes.operators import sliding, time, tumbling

    schema = {"t": "bigint", "k": "string", "v": "double", "w": "bigint", "m": "string"}
    stream = pn.stream(None, schema=schema, time="t", time_unit="s")
    made = stream.aggregate(window=tumbling(library.delta("t", 9)), total="sum(v)") if name == "columns" else None
    if made is None:
        made = stream.aggregate(window=sliding(time("9 s"), every=library.count(2)), total="sum(v)")
    op = made.operator(mechanism=name) if blob is None else made.operator(mechanism=name, restore=blob)
    if blob is None:
        op.push(ROWS[:CUT])
        blob = op.snapshot()
    return blob, json.loads(json.dumps([*op.push(ROWS[CUT:]).rows(), *op.finish().rows()], default=str))


WAYS: dict[str, Any] = {
    **{f"policies: {name}": (of_policies, name) for name in POLICIES},
    **{f"containers: {name}": (of_containers, name) for name in CONTAINERS},
    **{f"batches: {name}": (of_batches, name) for name in CONTAINERS},
    **{f"operators: {name}": (of_operators, name) for name in ("columns", "windows")},
}


@pytest.mark.parametrize("way", WAYS)
def test_what_was_written_before_goes_on(way: str) -> None:
    run, name = WAYS[way]
    known = json.loads(KNOWN.read_text(encoding="utf-8"))[way]
    assert len(known["gives"]) >= 3
    assert run(name, zlib.decompress(base64.b64decode(known["blob"])))[1] == known["gives"]
    assert run(name)[1] == known["gives"]


if __name__ == "__main__":
    written = {}
    for way, (run, name) in WAYS.items():
        blob, gives = run(name)
        written[way] = {"blob": base64.b64encode(zlib.compress(blob, 9)).decode(), "gives": gives}
    KNOWN.write_text(json.dumps(written, indent=0), encoding="utf-8")
