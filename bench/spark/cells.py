"""Panes' default against what users would write in plain Spark, in 24 named cells: `make bench-cells`.

A cell is a kind of window, a number of keys, few or many rows per key and window, and small or large micro-batches.
Both contenders take turns in one session; a cell's figure is the median of the ratios of its pairs (above 1: Panes is
faster). Nothing is asked of the planner: the strategy is its own choice.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bench.harness import Options
from bench.spark import rivals
from bench.spark.data import EVENT_RATE, Events

OUT = Path(__file__).resolve().parents[2] / "out" / "bench-cells"
#: A default may be no slower than this share of plain Spark, in every cell; below the second it fails.
GOAL, LEAST = 0.95, 0.85
LARGE, SMALL = 1_000_000, 10_000
app = typer.Typer(add_completion=False)


@dataclass(frozen=True)
class Cell:
    """One comparison. `size` in milliseconds: of a window, or the gap of a session."""

    kind: str
    overlaps: int
    keys: int
    size: int
    per_batch: int
    batches: int

    @property
    def rows_per_window(self) -> float:
        return self.size / 1000 * EVENT_RATE / self.keys

    @property
    def name(self) -> str:
        kind = f"{self.kind}-{self.overlaps}" if self.overlaps > 1 else self.kind
        rows = "many" if self.rows_per_window >= 100 else "few"
        return f"{kind}, {self.keys:,} keys, {rows} rows, {'large' if self.per_batch >= 100_000 else 'small'} batches"

    def events(self) -> Events:
        return Events(self.per_batch * self.batches, keys=self.keys, files=self.batches)

    def plain(self) -> Any:
        if self.kind == "session":
            return rivals.session_windowed(f"{self.size} milliseconds")
        slide = None if self.overlaps == 1 else f"{self.size // self.overlaps} milliseconds"
        return rivals.windowed(f"{self.size} milliseconds", slide)

    def panes(self, strategy: str | None) -> Any:
        import panes as pn

        size = f"{self.size} ms"
        window: Any = pn.session(size) if self.kind == "session" else pn.tumbling(size)
        if self.overlaps > 1:
            window = pn.sliding(size, every=f"{self.size // self.overlaps} ms")

        def build(events: Any) -> Any:
            stream = pn.stream(events, time="ts", key="k", watermark="2 s")
            asked = stream.window(w=window).agg(s="sum(v)", a="avg(v)", m="max(v)")
            return asked.to_spark(strategy=strategy)

        return build


CELLS: tuple[Cell, ...] = (
    # kind, overlaps, keys, size or gap in ms, rows per micro-batch, micro-batches
    Cell("tumbling", 1, 1, 1_000, LARGE, 5),
    Cell("tumbling", 1, 1, 1_000, SMALL, 12),
    Cell("tumbling", 1, 1_000, 10_000, LARGE, 5),
    Cell("tumbling", 1, 1_000, 10_000, SMALL, 12),
    Cell("tumbling", 1, 1_000, 100, LARGE, 3),
    Cell("tumbling", 1, 100_000, 10_000, LARGE, 3),
    Cell("sliding", 2, 1, 1_000, LARGE, 5),
    Cell("sliding", 2, 1_000, 10_000, LARGE, 5),
    Cell("sliding", 2, 1_000, 10_000, SMALL, 12),
    Cell("sliding", 2, 1_000, 100, LARGE, 2),
    Cell("sliding", 2, 100_000, 10_000, LARGE, 2),
    Cell("sliding", 10, 1, 1_000, LARGE, 3),
    Cell("sliding", 10, 1_000, 10_000, LARGE, 3),
    Cell("sliding", 10, 1_000, 10_000, SMALL, 12),
    Cell("sliding", 10, 1_000, 500, LARGE // 2, 2),
    Cell("sliding", 10, 100_000, 10_000, LARGE // 4, 2),
    Cell("sliding", 60, 1, 60_000, LARGE // 2, 2),
    Cell("sliding", 60, 1_000, 60_000, LARGE // 2, 2),
    Cell("sliding", 60, 1_000, 60_000, SMALL, 6),
    Cell("sliding", 60, 100_000, 60_000, LARGE // 10, 2),
    Cell("session", 1, 1_000, 50, LARGE, 3),
    Cell("session", 1, 1_000, 50, SMALL, 12),
    Cell("session", 1, 1_000, 15, LARGE, 2),
    Cell("session", 1, 100_000, 1_000, LARGE, 2),
)


@dataclass(frozen=True)
class Compared:
    cell: Cell
    strategy: str
    ratios: tuple[float, ...]
    panes: float  # seconds, medians
    plain: float

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)


@app.command()
def cells(
    only: Annotated[
        list[str] | None, typer.Option(help="Only cells whose name has this text (may be repeated).")
    ] = None,
    pairs: Annotated[int, typer.Option(min=1, help="Pairs per cell.")] = 5,
    strategy: Annotated[str | None, typer.Option(help="Ask for this strategy instead of the planner's.")] = None,
    budget: Annotated[float, typer.Option(min=0.1, help="Minutes that all of it may take.")] = 40.0,
    list_: Annotated[bool, typer.Option("--list", help="Name the cells and stop.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the table and JSON.")] = OUT,
) -> None:
    """Is Panes' default on Spark ever slower than groupBy(window)? Ends with 1 if a cell is below 0.85."""
    import panes as pn
    from bench.spark.lab import SparkLab

    wanted = [cell for cell in CELLS if not only or any(text in cell.name for text in only)]
    console = Console(width=None if Console().is_terminal else 140)
    if list_:
        console.print(*(cell.name for cell in wanted), sep="\n", highlight=False)
        return
    began = time.monotonic()
    spark = pn.spark(cores=2, memory="4g")
    lab = SparkLab("cells", Options(), lambda text: None, spark)
    found: list[Compared] = []
    for cell in wanted:
        if time.monotonic() - began > 60 * budget:
            console.print(f"[yellow]{60 * budget:.0f} s are over: {len(wanted) - len(found)} cells were not run[/]")
            break
        found.append(compare(lab, cell, pairs, strategy))
        one = found[-1]
        print(f"{time.monotonic() - began:5.0f} s  {cell.name}: {one.ratio:.2f} ({one.strategy})", file=sys.stderr)
    spark.stop()
    console.print(table(found))
    least = min(one.ratio for one in found)
    below = [one.cell.name for one in found if one.ratio < GOAL]
    console.print(
        f"{(time.monotonic() - began) / 60:.1f} minutes, {len(found)} cells; least {least:.2f}, "
        f"below {GOAL}: {'; '.join(below) or 'none'}",
        highlight=False,
    )
    _save(found, out)
    if least < LEAST:
        raise typer.Exit(1)


def compare(lab: Any, cell: Cell, pairs: int, strategy: str | None) -> Compared:
    """A run of each to warm up, then so many pairs, of which each begins with the other."""
    folder = cell.events().folder()
    builds = {"panes": cell.panes(strategy), "plain": cell.plain()}
    seconds: dict[str, list[float]] = {name: [] for name in builds}
    for number in range(-1, pairs):
        for name in builds if number % 2 else reversed(builds):
            timed = lab.time([builds[name](lab.source(folder, per_batch=1))])
            if number >= 0:
                seconds[name].append(timed.seconds)
    ratios = tuple(theirs / ours for theirs, ours in zip(seconds["plain"], seconds["panes"], strict=True))
    chosen = strategy or _chosen(cell, lab.source(folder))
    return Compared(cell, chosen, ratios, *(statistics.median(seconds[name]) for name in ("panes", "plain")))


def _chosen(cell: Cell, events: Any) -> str:
    return str(cell.panes(None)(events)._panes_facts["strategy"])


def table(found: Sequence[Compared]) -> Table:
    made = Table(title="Panes' default against plain Spark: plain's time / Panes' time", title_justify="left")
    made.add_column("cell")
    made.add_column("strategy")
    for name in ("rows", "rows per key and window", "plain, s", "Panes, s", "ratio", "least and most"):
        made.add_column(name, justify="right")
    for one in found:
        style = "red" if one.ratio < LEAST else "yellow" if one.ratio < GOAL else "green"
        cell = one.cell
        made.add_row(
            cell.name, one.strategy, f"{cell.per_batch * cell.batches:,}", f"{cell.rows_per_window:,.0f}",
            f"{one.plain:.2f}", f"{one.panes:.2f}", f"[{style}]{one.ratio:.2f}[/]",
            f"{min(one.ratios):.2f} to {max(one.ratios):.2f}",
        )  # fmt: skip
    return made


def _save(found: Sequence[Compared], out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with (out / "table.txt").open("w", encoding="utf-8") as file:
        Console(file=file, width=160).print(table(found))
    facts = [
        {
            "cell": one.cell.name,
            "strategy": one.strategy,
            "ratio": one.ratio,
            "ratios": one.ratios,
            "plain": one.plain,
            "panes": one.panes,
        }
        for one in found
    ]
    (out / "figures.json").write_text(json.dumps(facts, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    app(prog_name="bench-cells")
