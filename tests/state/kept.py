"""Queries whose snapshots were kept when the format of snapshots last changed, and what they gave after that.

`python -m tests.state.kept` writes snapshots and results anew, into a folder named after the format that is current:
done once for a format, by the code that wrote it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import panes as pn

HERE = Path(__file__).parent
SCHEMA = {"ts": "bigint", "k": "string", "v": "bigint"}
#: Rows before the snapshot, and after it.
BEFORE, AFTER = range(120), range(120, 180)


def _agg(windows: dict[str, Any], *, emit_empty: bool = False, **options: Any) -> Any:
    options = {"key": "k", "watermark": 6, **options}
    stream = pn.stream(None, schema=SCHEMA, time="ts", **options)
    return stream.window(**windows, emit_empty=emit_empty).agg(n="count(*)", s="sum(v)", a="avg(v)")


def _rich(windows: dict[str, Any], **options: Any) -> Any:
    options = {"key": "k", "watermark": 6, **options}
    stream = pn.stream(None, schema=SCHEMA, time="ts", **options)
    return stream.window(**windows).agg(m="median(v)", l="last(v)", c="collect_list(v)", d="count(DISTINCT v)")


QUERIES: dict[str, Any] = {
    "tumbling": lambda: _agg({"w": pn.tumbling(10)}),
    "sliding_without_key": lambda: _agg({"w": pn.sliding(20, every=5), "x": pn.tumbling(15)}, key=None),
    "in_order": lambda: _agg({"w": pn.sliding(20, every=5), "x": pn.landmark(0, every=10)}, watermark=None),
    "session_lateness": lambda: _agg({"s": pn.session(3), "w": pn.tumbling(10)}, lateness=12),
    "early": lambda: _agg({"s": pn.session(3), "w": pn.tumbling(20)}, lateness=12).early(8),
    "empty": lambda: _agg({"w": pn.tumbling(5)}, emit_empty=True),
    "holistic": lambda: _rich({"w": pn.sliding(20, every=10), "s": pn.session(4)}),
    "count": lambda: _rich({"w": pn.tumbling(pn.rows(4)), "x": pn.sliding(pn.rows(6), every=pn.rows(2))}),
    "count_lateness": lambda: _agg({"w": pn.tumbling(pn.rows(4)), "t": pn.tumbling(10)}, lateness=12),
    "column": lambda: _agg({"w": pn.tumbling(50, on="v"), "t": pn.tumbling(10)}),
    "look_back": lambda: _agg({"w": pn.sliding(pn.rows(5), every=10)}),
    "delta": lambda: _agg({"d": pn.delta(20, on="v"), "p": pn.punctuated(end="v % 7 = 0")}),
    "policy": lambda: _agg(
        {"p": pn.policy(evict=pn.policies.count(5), trigger=pn.policies.time(7)), "w": pn.tumbling(pn.rows(3))}
    ),
}


def rows(numbers: range, *, in_order: bool) -> list[dict[str, Any]]:
    """Rows of eight keys, some out of order and a few late."""
    late = dict.fromkeys(range(0, 300, 37), 15)
    return [
        {"ts": n if in_order else n - n * 7 % 5 - late.get(n, 0), "k": f"key {n * 13 % 8}", "v": n} for n in numbers
    ]


def pushed(name: str, op: Any, numbers: range) -> list[dict[str, Any]]:
    """The results of pushing these rows in batches."""
    given = []
    for start in range(numbers.start, numbers.stop, 20):
        batch = rows(range(start, min(start + 20, numbers.stop)), in_order=name == "in_order")
        given += op.push(batch).rows()
    return given


def rest(name: str, op: Any) -> list[dict[str, Any]]:
    """What the stream gives after the snapshot."""
    return [*pushed(name, op, AFTER), *op.finish().rows()]


def blobs(name: str, op: Any) -> dict[str, bytes]:
    """The snapshot of an operator, of some queries also in parts."""
    if name not in ("tumbling", "count_lateness"):
        return {"whole": op.snapshot()}
    parts = {"left": range(50), "right": range(50, 128)}
    return {"whole": op.snapshot(), **{n: op.snapshot(key_groups=groups) for n, groups in parts.items()}}


def main() -> None:
    from panes.state.snapshot import FORMAT

    folder = HERE / f"format{FORMAT}"
    folder.mkdir(exist_ok=True)
    for name, query in QUERIES.items():
        op = query().operator()
        pushed(name, op, BEFORE)
        if name == "sliding_without_key":
            op.add("added", pn.sliding(12, every=4))
        for part, blob in blobs(name, op).items():
            (folder / f"{name}.{part}.snapshot").write_bytes(blob)
        (folder / f"{name}.json").write_text(json.dumps(rest(name, op), separators=(",", ":"), default=str))


if __name__ == "__main__":
    main()
