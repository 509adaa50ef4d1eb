"""The harness runs, says what it cut and what missed its goal, and `panes bench` finds it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from bench import data, report
from bench.contenders import ENGINE, Contender, RivalRunner, rival
from bench.harness import RATE, Claim, Goal, Lab, Options, Point, Workload, run
from bench.rivals import FUNCTIONS, Cutty, Pairs, Periodic, TupleBuffer
from bench.workloads.catalogue import WORKLOADS
from panes.cli import main as bench_command
from panes.cli.main import app

QUICK = Options(quick=True, repeat=1)


def test_streams_have_the_stated_properties() -> None:
    steady = data.steady(100_000, rate=10_000)
    assert np.ptp(steady.times) == 9_999
    late = data.late(steady, share=0.2, most=500)
    held_back = np.maximum.accumulate(late.times) - late.times
    assert 0 < held_back.max() <= 500
    assert 0.15 < (held_back > 0).mean() < 0.25
    assert sorted(late.times) == sorted(steady.times)
    assert len(np.unique(data.machine(10_000).values)) == 37
    gaps = np.diff(data.with_gaps(steady, per_minute=30).times)
    assert (gaps > 1000).sum() == 4


def test_batches_never_hold_rows_before_the_watermark() -> None:
    watermark = -1
    for batch in data.late(data.steady(20_000, rate=1_000)).batches(1_000):
        assert batch.times.min() >= watermark
        watermark = batch.watermark


def test_throughput_compares_contenders_and_says_when_they_differ() -> None:
    queries = [Periodic(1000, 500)]
    batches = data.steady(20_000, rate=10_000).batches(5_000)
    lab = Lab("test", QUICK)
    same = lab.throughput(batches, [rival(t, queries, "sum") for t in (Pairs, Cutty, TupleBuffer)])
    assert all(p.extra["agree"] and p.value > 0 for p in same.values())
    other = rival(Pairs, [Periodic(1000, 1000)], "sum", name="another question")
    wrong = lab.throughput(batches, [rival(Cutty, queries, "sum"), other])
    assert {p.extra["agree"] for p in wrong.values()} == {False}
    assert "RESULTS DIFFER" in report.notes(wrong["cutty"])


def test_slow_contenders_are_cut_and_said_to_be() -> None:
    class Slow(RivalRunner):
        def step(self, batch: data.Batch) -> object:
            import time

            time.sleep(0.06)
            return super().step(batch)

    start = Contender("slow", lambda: Slow(Pairs([Periodic(1000, 500)], FUNCTIONS["sum"])))
    batches = data.steady(50_000, rate=10_000).batches(5_000)
    point = Lab("test", QUICK).throughput(batches, [start])["slow"]
    assert point.extra["cut"]
    assert point.extra["rows"] == 10_000
    assert "cut after 10,000 rows" in report.notes(point)


@pytest.mark.parametrize(
    ("goal", "rate", "passes", "met"),
    [
        (Goal(rows_per_s=100), 100, None, True),
        (Goal(rows_per_s=100), 99, None, False),
        (Goal(rows_per_s=100, sum_passes=8), 200, 9, False),
        (Goal(sum_passes=8), 1, 7.9, True),
        (Goal(most=2), 2.1, None, False),
        (Goal(least=3), 3, None, True),
    ],
)
def test_a_goal_is_missed_by_any_of_its_limits(goal: Goal, rate: float, passes: float | None, met: bool) -> None:
    assert Point("w", {}, ENGINE, RATE, rate, goal, {"sum_passes": passes}).met is met


def test_a_broken_workload_does_not_hide_the_others() -> None:
    def broken(lab: Lab) -> None:
        lab.record(ENGINE, RATE, 1.0)
        raise RuntimeError("no such thing")

    def sound(lab: Lab) -> None:
        lab.record(ENGINE, RATE, 2.0)

    first, second = run([Workload("a", "", broken), Workload("b", "", sound)], QUICK)
    assert first[2] == "RuntimeError: no such thing"
    assert len(first[1]) == 1
    assert second[2] is None


def test_report_writes_json_and_plot(tmp_path: Path) -> None:
    claim = Claim("R-0", "one is more than none", lambda points: (points[0].value > 0, "1"))
    workload = Workload("demo", "a demonstration", lambda lab: None, x="n", claims=(claim,))
    points = [Point("demo", {"n": n}, c, RATE, n * 1e6) for n in (1, 10) for c in (ENGINE, "pairs")]
    said = report.claims(workload, points, Console(quiet=True))
    report.save(workload, points, said, QUICK, tmp_path)
    assert report.plot(workload, points, tmp_path) == tmp_path / "demo.png"
    written = json.loads((tmp_path / "demo.json").read_text())
    assert written["claims"] == [{"id": "R-0", "text": "one is more than none", "holds": True, "figures": "1"}]
    assert [p["value"] for p in written["points"]] == [1e6, 1e6, 1e7, 1e7]


def test_every_experiment_of_the_literature_is_there() -> None:
    names = [w.name for w in WORKLOADS]
    assert len(set(names)) == len(names)
    for number in (39, 40, 41, 42, 43, 44, 45, 46, 47, 48):
        assert any(name.startswith(f"s{number}-") for name in names), number
    claimed = {claim.id for w in WORKLOADS for claim in w.claims}
    assert {f"R-{n}" for n in (*range(10, 21), *range(28, 35))} <= claimed


def test_panes_bench_runs_a_workload(tmp_path: Path) -> None:
    """Through the command, in its own process, as a user does."""
    result = CliRunner().invoke(
        app, ["bench", "--repeat", "1", "--only", "w19-sensors", "--rows", "5000", "--out", str(tmp_path)]
    )
    assert result.exit_code == 0, result.output
    written = json.loads((tmp_path / "w19-sensors.json").read_text())
    assert {"Panes", "cutty", "numpy.sum"} <= {p["contender"] for p in written["points"]}
    assert (tmp_path / "w19-sensors.png").stat().st_size > 1000


def test_panes_bench_outside_a_checkout_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_command, "checkout", lambda: None)
    result = CliRunner().invoke(app, ["bench", "--quick"])
    assert result.exit_code == 2
    assert "run from a checkout" in result.output


def test_panes_version_says_its_own_first() -> None:
    result = CliRunner().invoke(app, ["version"])
    assert result.exit_code == 0
    assert result.output.startswith("panes 0.")
