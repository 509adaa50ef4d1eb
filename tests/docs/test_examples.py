"""The demo runs from end to end, and is what it says: twenty windows, many kinds, tables and pictures."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def demo() -> ModuleType:
    spec = importlib.util.spec_from_file_location("wikipedia_edits", EXAMPLES / "wikipedia_edits.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_twenty_windows_of_at_least_five_kinds(demo: ModuleType) -> None:
    assert len(demo.WINDOWS) == 20
    assert len({str(window).partition("(")[0] for window in demo.WINDOWS.values()}) >= 5


def test_every_edit_is_used_or_on_the_ledger(demo: ModuleType) -> None:
    edits = demo.load_edits()
    assert len(edits) == 39_244
    query = demo.twenty_windows(edits)
    results = query.to_arrow()
    assert set(results["window"].to_pylist()) == set(demo.WINDOWS)
    metrics = query.metrics
    assert metrics["rows_in"] == 39_244 == metrics["rows_used"] + metrics["rows_late"]
    hours = [row["edits"] for row in results.to_pylist() if row["window"] == "hour"]
    assert sum(hours) == metrics["rows_used"]


def test_the_demo_prints_tables_and_writes_pictures(tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / "wikipedia_edits.py"), "pictures"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, timeout=120)
    for piece in (
        "Twenty windows in one query",
        "A session per user",
        "Busiest wikis",
        "rows/s",
        "Row copies",
    ):
        assert piece in done.stdout
    assert (tmp_path / "pictures" / "wikipedia.png").read_bytes().startswith(b"\x89PNG")
    assert "<html" in (tmp_path / "pictures" / "wikipedia.html").read_text(encoding="utf-8")[:500]


@pytest.mark.xdist_group("spark apart")
def test_the_demo_on_spark_is_quiet_and_complete(tmp_path: Path) -> None:
    """Nothing but its own words on the screen: no warning, no log line, no stack of Java or Python."""
    command = [sys.executable, str(EXAMPLES / "wikipedia_on_spark.py"), "pictures"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr == ""
    for piece in ("watermark 2015-09-12", "Twenty windows in one query", "The same on plain Spark", "robots only"):
        assert piece in done.stdout
    for noise in ("WARN", "ERROR", "log4j", "Traceback", "Python worker", "\tat "):
        assert noise not in done.stdout
    assert (tmp_path / "pictures" / "wikipedia.png").read_bytes().startswith(b"\x89PNG")


def test_sample_data_is_small_and_licensed() -> None:
    files = [path for path in (EXAMPLES / "data").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 5_000_000
    for folder in {path.parent for path in files if path.suffix in (".gz", ".csv")}:
        assert list(folder.glob("LICENSE*")), f"{folder.name} has no licence note"
