"""`make bench-against`: when a tree counts as slower, workloads that another revision can't run, a real run."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench.against import client, compare, embedded, on_spark
from bench.against.__main__ import app
from bench.against.compare import BROKEN, CANT_RUN, Comparison, Row
from bench.against.tree import ROOT, NoRevision, Tree, checked_out, this_tree
from bench.against.verdict import FASTER, SAME, SLOWER, UNJUDGED, judge, median_interval
from bench.against.work import EMBEDDED, Pass, Work

SEVEN = (1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6)


@pytest.mark.parametrize(
    ("ratios", "word"),
    [
        ((1.06, 1.07, 1.06, 1.08, 1.06, 1.09, 1.07), SLOWER),
        ((1.20, 1.21, 1.19, 0.90, 1.22, 1.18, 1.20), SLOWER),  # one turn in which the other was disturbed
        ((1.20, 1.21, 1.19, 0.90, 0.95, 1.18, 1.20), SAME),  # two: no longer sure
        ((1.04, 1.05, 1.04, 1.05, 1.04, 1.05, 1.04), SAME),  # surely longer, but by less than counts
        ((1.05,) * 7, SAME),
        ((1.00, 1.06, 1.30, 0.80, 1.10, 0.90, 1.20), SAME),  # noise around a median of 1.06
        ((1.01, 0.99, 1.00, 1.02, 0.98, 1.00, 1.00), SAME),
        ((0.80, 0.82, 0.79, 0.81, 1.30, 0.80, 0.80), FASTER),
        ((1.50, 1.50, 1.50), UNJUDGED),
        ((1.50, 1.50, 1.50, 1.50), SLOWER),
    ],
)
def test_slower_is_a_median_above_five_percent_and_an_interval_above_one(ratios: tuple[float, ...], word: str) -> None:
    assert judge(ratios).word == word
    assert judge(ratios[::-1]).word == word


def test_the_interval_of_seven_leaves_out_one_at_each_end() -> None:
    assert median_interval(SEVEN) == (1.1, 1.5)
    assert median_interval(SEVEN, level=0.9) == (1.0, 1.6)
    assert median_interval(SEVEN[:4]) == (1.0, 1.3)
    assert median_interval(SEVEN[:3]) is None
    assert judge(SEVEN).ratio == 1.3


class FakeWorker:
    """Passes of given lengths, or an error."""

    def __init__(self, tree: Tree, kind: str, log: Path, driver: Path) -> None:
        self.tree = tree
        self.closed = False

    def prepare(self, name: str, rows: int | None, deadline: float) -> None:
        if name == "new" and self.tree.name == "there":
            raise client.Failed("AttributeError: module 'panes' has no attribute 'new'")
        if name == "broken" and self.tree.name == "here":
            raise client.Failed("ZeroDivisionError: division by zero")
        self.name = name

    def run(self, deadline: float) -> Pass:
        seconds = 2.0 if (self.tree.name, self.name) == ("here", "worse") else 1.0
        if time.monotonic() > deadline:
            raise client.OutOfTime
        return Pass(seconds, seconds, results=1 + (self.name == "worse"))

    def close(self) -> None:
        self.closed = True


def _rows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *names: str, budget: float = 100.0) -> dict[str, Row]:
    monkeypatch.setattr(compare, "Worker", FakeWorker)
    works = [Work(name, "", lambda rows: lambda: Pass(0, 0)) for name in names]
    comparison = Comparison(Tree("here", tmp_path), Tree("there", tmp_path), tmp_path, budget=budget)
    return {row.name: row for row in comparison.run({EMBEDDED: works})}


def test_a_workload_the_revision_cant_run_is_reported_and_the_others_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = _rows(monkeypatch, tmp_path, "new", "worse", "equal", "broken")
    assert rows["new"].word == CANT_RUN
    assert "no attribute 'new'" in rows["new"].note
    assert rows["broken"].word == BROKEN
    assert rows["worse"].word == SLOWER
    assert rows["worse"].medians == (2.0, 1.0)
    assert len(rows["worse"].here) == 7
    assert rows["equal"].word == SAME


def test_when_time_is_up_the_rest_is_not_judged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rows = _rows(monkeypatch, tmp_path, "worse", "equal", budget=-1.0)
    assert {row.word for row in rows.values()} == {UNJUDGED}
    assert rows["equal"].note == "no time was left"


def test_results_that_differ_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    differ = compare._differences
    assert differ(Pass(1, 1, 5, 10.0), Pass(1, 1, 6, 10.0)) == "5 results here, 6 there"
    assert differ(Pass(1, 1, 5, 10.0), Pass(1, 1, 5, 10.5)) == "values of results differ"
    assert differ(Pass(1, 1, 5, 1e12), Pass(1, 1, 5, 1e12 + 1)) == ""


def test_names_of_workloads_differ() -> None:
    names = [work.name for work in (*embedded.WORKS, *on_spark.WORKS)]
    assert len(set(names)) == len(names)
    assert {"w1", "w1-keys", "flat", "median", "count", "sessions", "single-rows", "policies", "operators"} <= {*names}


@pytest.mark.parametrize("work", embedded.WORKS, ids=lambda work: work.name)
def test_embedded_workloads_run_and_give_results_again_and_again(work: Work) -> None:
    once = work.prepare(300_000 if work.name in ("count", "operators-aggregate") else 20_000)
    first, second = once(), once()
    assert first.results == second.results > 0
    assert first.checksum == second.checksum
    assert first.wall > 0


def test_a_worker_runs_the_panes_of_its_tree_and_says_what_it_lacks(tmp_path: Path) -> None:
    """A Panes of long ago, with nothing in it: no workload runs, and the message is the reason."""
    (tmp_path / "src" / "panes").mkdir(parents=True)
    (tmp_path / "src" / "panes" / "__init__.py").write_text("")
    worker = client.Worker(Tree("old", tmp_path), EMBEDDED, tmp_path / "log", ROOT)
    deadline = time.monotonic() + 60
    try:
        worker.prepare("w1", 1000, deadline)
        with pytest.raises(client.Failed, match="'panes' has no attribute 'stream'"):
            worker.run(deadline)
        with pytest.raises(client.Failed, match="has no attribute 'policies'"):
            worker.prepare("policies", 1000, deadline)
    finally:
        worker.close()


def test_a_worker_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    (tmp_path / "src" / "panes").mkdir(parents=True)
    (tmp_path / "src" / "panes" / "__init__.py").write_text("import time\ntime.sleep(600)")
    worker = client.Worker(Tree("slow", tmp_path), EMBEDDED, tmp_path / "log", ROOT)
    began = time.monotonic()
    try:
        with pytest.raises(client.OutOfTime):
            worker.prepare("w1", 1000, began + 0.5)
    finally:
        worker.close()
    assert time.monotonic() - began < 60


needs_git = pytest.mark.skipif(
    subprocess.run(["git", "rev-parse", "--verify", "HEAD"], cwd=ROOT, capture_output=True).returncode != 0,
    reason="not a git checkout",
)


@needs_git
def test_both_trees_are_laid_out_and_removed() -> None:
    with checked_out("HEAD") as there, this_tree() as here:
        for tree in (there, here):
            assert (tree.folder / "src" / "panes" / "__init__.py").is_file()
            assert not tree.folder.is_relative_to(ROOT)  # files that are edited meanwhile don't matter
        assert (here.folder / "bench" / "against" / "worker.py").is_file()
        assert there.name.startswith("HEAD (")
    assert not there.folder.exists()
    assert not here.folder.exists()
    for wrong in ("no-such-revision", "--output=x"):
        with pytest.raises(NoRevision, match="is no revision"), checked_out(wrong):
            pass


@needs_git
def test_a_short_run_against_head(tmp_path: Path) -> None:
    options = ["--only", "single-rows-1", "--repeats", "4", "--rows", "1000", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, ["HEAD", *options])
    assert result.exit_code in (0, 1), result.output  # so short a run may call anything slower
    (row,) = json.loads((tmp_path / "figures.json").read_text())["workloads"]
    assert len(row["seconds here"]) == len(row["seconds there"]) == 4
    assert row["verdict"] in (SLOWER, SAME, FASTER)
    assert "single-rows-1" in (tmp_path / "table.txt").read_text()
    assert row["verdict"] in result.output
    assert result.exit_code == (row["verdict"] == SLOWER)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["HEAD", "--only", "w2"], "no workload 'w2'"),
        (["HEAD", "--only", "w1", "--spark"], "no workload 'w1'"),
        (["HEAD", "--clock", "sun"], "must be wall or cpu"),
        (["nowhere", "--only", "w1"], "is no revision"),
    ],
)
def test_wrong_options_are_refused(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert said in result.output
