"""The command: `make bench-against REV=...` or `python -m bench.against REV`. Writes to out/bench-against/."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bench.against import embedded, on_spark
from bench.against.compare import BROKEN, CANT_RUN, Comparison, Row
from bench.against.tree import ROOT, NoRevision, checked_out, this_tree
from bench.against.verdict import FASTER, LIMIT, SAME, SLOWER, UNJUDGED
from bench.against.work import EMBEDDED, SPARK, Work

OUT = ROOT / "out" / "bench-against"
STYLES = {SLOWER: "red", BROKEN: "red", UNJUDGED: "yellow", CANT_RUN: "yellow", FASTER: "green", SAME: ""}
app = typer.Typer(add_completion=False)


@app.command()
def against(
    revision: Annotated[str, typer.Argument(help="The git revision to compare this tree with.")] = "HEAD",
    only: Annotated[list[str] | None, typer.Option(help="Run only this workload (may be repeated).")] = None,
    which: Annotated[
        bool | None, typer.Option("--embedded/--spark", help="Only the embedded workloads, or only those on Spark.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Turns per workload; fewer than four are not judged.")] = 7,
    budget: Annotated[float, typer.Option(min=0.1, help="Minutes that all of it may take.")] = 25.0,
    rows: Annotated[int | None, typer.Option(min=1000, help="Rows per input instead of each workload's own.")] = None,
    clock: Annotated[str | None, typer.Option(help="wall or cpu. [cpu embedded, wall on Spark]")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the table, JSON and messages of the processes.")] = OUT,
    list_: Annotated[bool, typer.Option("--list", help="Name the workloads and stop.")] = False,
) -> None:
    """Compare the speed of this tree with that of a revision, in turns. Ends with 1 if a workload is slower here.

    Slower: the median of the ratios is above 1.05 and its 80 % interval lies above 1. Ends with 2 if nothing is
    slower, but a workload fails in this tree or could not be judged.
    """
    works: dict[str, Sequence[Work]] = {EMBEDDED: embedded.WORKS, SPARK: on_spark.WORKS}
    if which is not None:
        works = {kind: some for kind, some in works.items() if which == (kind == EMBEDDED)}
    known = {work.name: work for some in works.values() for work in some}
    console = Console(width=None if Console().is_terminal else 140)
    if list_:
        for work in known.values():
            console.print(f"[bold]{work.name:20}[/] {work.title}", highlight=False)
        return
    if unknown := sorted({*(only or ())} - {*known}):
        raise typer.BadParameter(f"no workload {unknown[0]!r}; `--list` names all {len(known)}", param_hint="--only")
    if clock not in (None, "wall", "cpu"):
        raise typer.BadParameter(f"must be wall or cpu, got {clock!r}", param_hint="--clock")
    works = {kind: [w for w in some if not only or w.name in only] for kind, some in works.items()}
    try:
        found = _compare(works, revision, console, out, repeats, rows, budget * 60, clock)
    except NoRevision as error:
        raise typer.BadParameter(str(error), param_hint="REV") from None
    words = {row.word for row in found}
    raise typer.Exit(1 if SLOWER in words else 2 if words & {BROKEN, UNJUDGED} else 0)


def _compare(
    works: dict[str, Sequence[Work]],
    revision: str,
    console: Console,
    out: Path,
    repeats: int,
    rows: int | None,
    budget: float,
    clock: str | None,
) -> list[Row]:
    began = time.monotonic()
    found: list[Row] = []
    with console.status("starting") as status, checked_out(revision) as there, this_tree() as here:

        def say(text: str) -> None:
            status.update(text)
            if not console.is_terminal:  # a run takes minutes: a log shows where it is
                print(f"{time.monotonic() - began:5.0f} s  {text}", file=sys.stderr, flush=True)

        comparison = Comparison(here, there, out / "logs", repeats, rows, budget, clock, say)
        for row in comparison.run(works):
            found.append(row)
            say(f"{row.name}: {_line(row)}")
    table = _table(found, there.name)
    console.print(table)
    end = f"{(time.monotonic() - began) / 60:.1f} minutes. {_summary(found)}"
    console.print(end, highlight=False)
    _save(found, there.name, table, end, out)
    console.print(f"Table and figures: {out}", highlight=False)
    return found


def _line(row: Row) -> str:
    ratio = f"{row.verdict.ratio:.3f} " if row.verdict else ""
    return f"{ratio}{row.word}" + (f" ({row.note})" if row.note else "")


def _table(found: Sequence[Row], other: str) -> Table:
    table = Table(title=f"this tree against {other}: time here / time there", title_justify="left", title_style="bold")
    for name in ("workload", "what"):
        table.add_column(name)
    for name in ("here, ms", "there, ms", "ratio", "80 % interval"):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    table.add_column("notes", style="dim", overflow="fold")
    for row in found:
        here, there = (f"{1000 * s:,.0f}" for s in row.medians) if row.medians else ("", "")
        verdict = row.verdict
        interval = "" if verdict is None or verdict.interval is None else "{:.3f} to {:.3f}".format(*verdict.interval)
        style = STYLES[row.word]
        word = f"[{style}]{row.word}[/]" if style else row.word
        table.add_row(
            row.name, row.title, here, there, f"{verdict.ratio:.3f}" if verdict else "", interval, word, row.note
        )
    return table


def _summary(found: Sequence[Row]) -> str:
    by_word = {word: [row.name for row in found if row.word == word] for word in STYLES}
    counts = "; ".join(f"{word}: {', '.join(names)}" for word, names in by_word.items() if names and word != SAME)
    same = len(by_word[SAME])
    return f"{same} of {len(found)} the same within {LIMIT - 1:.0%} or what repeats differ by" + (
        f"; {counts}." if counts else "."
    )


def _save(found: Sequence[Row], other: str, table: Table, end: str, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with (out / "table.txt").open("w", encoding="utf-8") as file:
        plain = Console(file=file, width=160)
        plain.print(table)
        plain.print(end, highlight=False)
    content = [
        {
            "workload": row.name,
            "title": row.title,
            "seconds here": list(row.here),
            "seconds there": list(row.there),
            "ratio": row.verdict and row.verdict.ratio,
            "interval": row.verdict and row.verdict.interval,
            "verdict": row.word,
            "note": row.note,
        }
        for row in found
    ]
    text = json.dumps({"against": other, "workloads": content}, indent=1)
    (out / "figures.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    app(prog_name="bench-against")
