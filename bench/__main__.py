"""The command: `panes bench` or `python -m bench`. Tables on the terminal, JSON and plots in out/bench/."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

app = typer.Typer(add_completion=False)
THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "POLARS_MAX_THREADS",
)
OUT = Path(__file__).resolve().parents[1] / "out" / "bench"


@app.command()
def bench(
    quick: Annotated[
        bool, typer.Option("--quick", help="Small inputs, one repeat, no plots: under a minute once all is compiled.")
    ] = False,
    only: Annotated[list[str] | None, typer.Option(help="Run only this workload (may be repeated).")] = None,
    rows: Annotated[int | None, typer.Option(min=1000, help="Rows per input instead of each workload's own.")] = None,
    repeat: Annotated[int | None, typer.Option(min=1, help="Repeats; figures are their median. [3, quick: 1]")] = None,
    clock: Annotated[str, typer.Option(help="wall, or cpu (on a machine that others use too).")] = "wall",
    core: Annotated[int | None, typer.Option(help="The core to pin to; the last one unless told.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for JSON and plots.")] = OUT,
    list_: Annotated[bool, typer.Option("--list", help="Name the workloads and stop.")] = False,
) -> None:
    """Measure Panes against rival techniques, per core, interleaved in one run."""
    # Figures are per core; NumPy and Numba read these when they are first imported.
    for name in THREADS:
        os.environ.setdefault(name, "1")
    from bench import report
    from bench.harness import Options, one_core, run
    from bench.workloads.catalogue import WORKLOADS

    console = Console(width=None if Console().is_terminal else 150)
    if list_:
        for workload in WORKLOADS:
            console.print(f"[bold]{workload.name:18}[/] {workload.title}", highlight=False)
        return
    known = {w.name for w in WORKLOADS}
    if unknown := sorted(set(only or ()) - known):
        raise typer.BadParameter(f"no workload {unknown[0]!r}; `--list` names all {len(known)}", param_hint="--only")
    if clock not in ("wall", "cpu"):
        raise typer.BadParameter(f"must be wall or cpu, got {clock!r}", param_hint="--clock")
    chosen = [w for w in WORKLOADS if not only or w.name in only]
    options = Options(quick=quick, rows=rows, repeat=repeat or (1 if quick else 3), clock=clock)
    pinned = one_core(core)
    console.print(f"one core ({'not pinned' if pinned is None else f'number {pinned}'}), {options}", highlight=False)
    began = time.perf_counter()
    failed, missed, met = [], [], 0
    with console.status("starting") as status:
        for workload, points, failure in run(chosen, options, lambda text: status.update(text)):
            console.print()
            console.print(report.table(workload, points))
            said = report.claims(workload, points, console)
            report.save(workload, points, said, options, out)
            if not quick:
                report.plot(workload, points, out)
            if failure:
                failed.append(workload.name)
                console.print(f"[red]{workload.name} stopped[/]: {failure}", highlight=False)
            missed += [p for p in points if p.met is False]
            met += sum(p.met is True for p in points)
    console.print()
    console.print(f"{time.perf_counter() - began:.0f} s. Goals met: {met}, not met: {len(missed)}.", highlight=False)
    for point in missed:
        assert point.goal is not None
        console.print(
            f"  [red]not met[/] {point.workload} {point.params}: {report.figure(point.value, point.metric)}"
            f" ({report.goal_text(point.goal)}; {point.extra.get('sum_passes', 0):.3g} passes)",
            highlight=False,
        )
    if quick:
        console.print("A quick run: inputs fit the caches, nothing is repeated. Goals are judged by the full one.")
    console.print(f"{'Figures' if quick else 'Figures and plots'}: {out}")
    if failed:
        raise typer.Exit(1)


if __name__ == "__main__":
    app()
