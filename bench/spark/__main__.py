"""The command: `make bench-spark` or `python -m bench.spark`. Tables, JSON, CSV and plots in out/bench-spark/."""

from __future__ import annotations

import csv
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer
from rich.console import Console

from bench import report
from bench.harness import Options, Point

OUT = Path(__file__).resolve().parents[2] / "out" / "bench-spark"
app = typer.Typer(add_completion=False)


@app.command()
def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Small inputs, one repeat: minutes in all.")] = False,
    only: Annotated[list[str] | None, typer.Option(help="Run only this workload (may be repeated).")] = None,
    rows: Annotated[
        int | None, typer.Option(min=10_000, help="Rows per input, instead of each workload's own.")
    ] = None,
    repeat: Annotated[int | None, typer.Option(min=1, help="Repeats; figures are their median. [3, quick: 1]")] = None,
    cores: Annotated[int, typer.Option(min=1, help="Cores that Spark uses.")] = 2,
    memory: Annotated[str, typer.Option(help="Memory of the Java process.")] = "4g",
    out: Annotated[Path, typer.Option(help="Folder for JSON, CSV and plots.")] = OUT,
    list_: Annotated[bool, typer.Option("--list", help="Name the workloads and stop.")] = False,
) -> None:
    """Measure Panes on Spark against Spark itself, interleaved in one session."""
    import panes as pn
    from bench.spark import latency, live, rivals, row_rivals, speed, state
    from bench.spark.lab import SparkLab

    workloads = (*speed.WORKLOADS, *state.WORKLOADS, *latency.WORKLOADS)
    console = Console(width=None if Console().is_terminal else 160)
    if list_:
        for workload in workloads:
            console.print(f"[bold]{workload.name:16}[/] {workload.title}", highlight=False)
        return
    if unknown := sorted({*(only or ())} - {w.name for w in workloads}):
        raise typer.BadParameter(f"no workload {unknown[0]!r}; `--list` names all", param_hint="--only")
    options = Options(quick=quick, rows=rows, repeat=repeat or (1 if quick else 3))
    began = time.perf_counter()
    failed, everything = [], []
    with console.status("starting Spark") as status:

        def say(text: str) -> None:
            status.update(text)
            if not console.is_terminal:  # a run takes minutes: a log shows where it is
                print(f"{time.perf_counter() - began:5.0f} s  {text}", file=sys.stderr, flush=True)

        spark = pn.spark(cores=cores, memory=memory)
        for module in (live, rivals, row_rivals):
            _send_by_value(module)
        for workload in workloads:
            if only and workload.name not in only:
                continue
            lab = SparkLab(workload.name, options, say, spark)
            try:
                workload.run(lab)
            except Exception as error:  # one broken experiment must not hide the figures of the others
                failed.append(workload.name)
                console.print(f"[red]{workload.name} stopped[/]: {str(error)[:500]}", highlight=False)
            console.print()
            console.print(report.table(workload, lab.points))
            said = report.claims(workload, lab.points, console)
            report.save(workload, lab.points, said, options, out)
            report.plot(workload, lab.points, out)
            everything += lab.points
    _save_csv(everything, out / "figures.csv")
    console.print(f"\n{time.perf_counter() - began:.0f} s, {cores} cores. Figures and plots: {out}", highlight=False)
    if quick:
        console.print("A quick run: the time is mostly Spark's start of each query. Goals are judged by the full one.")
    spark.stop()
    if failed:
        raise typer.Exit(1)


def _send_by_value(module: ModuleType) -> None:
    """Workers can't import the benchmark: its functions are sent to them whole."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(module)


def _save_csv(points: list[Point], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["workload", "params", "contender", "metric", "value", "rows"])
        for p in points:
            params = "; ".join(f"{k}={v}" for k, v in p.params.items())
            writer.writerow([p.workload, params, p.contender, p.metric, p.value, p.extra.get("rows", "")])


if __name__ == "__main__":
    app()
