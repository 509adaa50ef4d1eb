"""How far a batch of rows walks through the house: calls, modules and depth within Panes, `python -m bench.calls`.

Counted with `sys.setprofile` over the second of two pushes of 1,000 rows, so that what is made once is not in it. Two
trees are compared by running it with the one and the other on the path.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import pyarrow as pa
import typer
from rich.console import Console
from rich.table import Table

ROWS = 1_000
SCHEMA = {"ts": "bigint", "k": "bigint", "v": "double"}
app = typer.Typer(add_completion=False)


class Walk:
    """Counts calls of functions that belong to Panes."""

    def __init__(self) -> None:
        import panes

        self._home = str(Path(str(panes.__file__)).parent)
        self.calls = 0
        self.modules: set[str] = set()
        self.depth = 0
        self._now = 0

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if not frame.f_code.co_filename.startswith(self._home):
            return
        if event == "call":
            self.calls += 1
            self._now += 1
            self.depth = max(self.depth, self._now)
            self.modules.add(frame.f_code.co_filename)
        elif event == "return":
            self._now -= 1


def batch(number: int) -> pa.Table:
    """Rows in order of time, of ten keys, right after those of the batch before."""
    at = range(number * ROWS, (number + 1) * ROWS)
    return pa.table({"ts": list(at), "k": [i % 10 for i in at], "v": [float(i % 7) for i in at]})


def stream(data: Any = None, **options: Any) -> Any:
    import panes as pn

    return pn.stream(data, schema=SCHEMA if data is None else None, time="ts", **{"key": "k", **options})


def pushed(window: Callable[[Any], Any]) -> Callable[[], Iterator[Any]]:
    """Two pushes to the operator of one window."""

    def run() -> Iterator[Any]:
        import panes as pn

        op = stream().window(window(pn)).agg(n="count(*)", s="sum(v)").operator()
        yield op.push(batch(0))
        yield op.push(batch(1))

    return run


def key_group() -> Iterator[Any]:
    """Two micro-batches as a task of Spark packs them, and as one key group takes them."""
    import panes as pn
    from panes.runners.spark.group_operator import GroupQuery, used_columns
    from panes.runners.spark.packing import Packer

    plan = stream(watermark=0).window(pn.tumbling(100)).agg(n="count(*)", s="sum(v)")._plan
    query = GroupQuery(plan, used_columns(plan))
    packer, op = Packer(plan.stream, query.columns, 1), query.operator()
    for number in range(2):
        (packed,) = packer(batch(number).to_batches())
        rows = query.rows(packed.column(packed.schema.names.index("panes_rows")).to_pylist())
        assert rows is not None
        yield op.micro_batch(number * ROWS, rows, (number + 1) * ROWS)


def join() -> Iterator[Any]:
    """A join built and run twice."""
    import panes as pn

    for number in range(2):
        left, right = (stream(batch(number)) for _ in range(2))
        yield pn.join(left, right, window=pn.tumbling(100), on="l.ts = r.ts", entries=["l.v"]).to_arrow()


PATHS: dict[str, Callable[[], Iterator[Any]]] = {
    "push, tumbling": pushed(lambda pn: pn.tumbling(100)),
    "push, row lane": pushed(lambda pn: pn.tumbling(pn.rows(100))),
    "push, policy": pushed(lambda pn: pn.policy(evict=pn.policies.count(100), trigger=pn.policies.count(50))),
    "push, policy by time": pushed(lambda pn: pn.policy(evict=pn.policies.time(100), trigger=pn.policies.time(50))),
    "Spark: packing and one key group": key_group,
    "pn.join, build and run": join,
}


def walked(path: Callable[[], Iterator[Any]]) -> Walk:
    """The second part of a path."""
    for _ in path():  # what is compiled and loaded once
        pass
    steps, walk = path(), Walk()
    next(steps)
    before = sys.getprofile()
    sys.setprofile(walk)
    try:
        next(steps)
    finally:
        sys.setprofile(before)
    return walk


@app.command()
def main(as_json: Annotated[bool, typer.Option("--json", help="As one line of JSON.")] = False) -> None:
    """Calls, modules and depth of a second push of 1,000 rows."""
    found = {name: walked(path) for name, path in PATHS.items()}
    if as_json:
        print(json.dumps({name: [w.calls, len(w.modules), w.depth] for name, w in found.items()}))
        return
    table = Table("path", "calls", "modules", "depth")
    for name, walk in found.items():
        table.add_row(name, f"{walk.calls:,}", str(len(walk.modules)), str(walk.depth))
    Console().print(table)


if __name__ == "__main__":
    app()
