"""What a process leaves behind in the temporary folder, and a session after its Java process has died."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import panes as pn

SCRATCH = "from panes.runners.spark.scratch import scratch; print(scratch(), flush=True); "
SESSION = """
import os, signal
import pyarrow as pa
import panes as pn
from panes.testing import MicroBatches

def count(spark):
    rows = pa.table({"t": pa.array(range(20), pa.int64())})
    MicroBatches(spark, [rows])  # writes them to a folder
    return pn.stream(spark.createDataFrame(rows), time="t").window(pn.tumbling(5)).agg(n="count(*)").to_spark().count()

spark = pn.spark(cores=1, memory="1g", quick=True)
java = spark.sparkContext._gateway.proc
os.kill(java.pid, signal.SIGKILL)
java.wait()
again = pn.spark(cores=1, memory="1g", quick=True)
print("windows", count(again))
"""


def process(code: str, folder: Path) -> subprocess.Popen[str]:
    source = str(Path(pn.__file__).parents[1])
    env = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": source}
    return subprocess.Popen(
        [sys.executable, "-c", code], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_a_session_comes_up_after_java_has_died_and_leaves_no_files(tmp_path: Path) -> None:
    ended = process(SESSION, tmp_path)
    said, _ = ended.communicate(timeout=300)
    assert ended.returncode == 0
    assert "windows 4" in said
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert left == []


@pytest.mark.skipif(sys.platform == "win32", reason="files are locked in another way")
def test_what_a_killed_process_has_left_goes_with_the_next_start(tmp_path: Path) -> None:
    killed = process(SCRATCH + "import time; time.sleep(600)", tmp_path)
    assert killed.stdout is not None
    abandoned = Path(killed.stdout.readline().strip())
    running = process(SCRATCH + "input()", tmp_path)
    assert running.stdout is not None
    used = Path(running.stdout.readline().strip())
    assert abandoned.is_dir()  # the other one still ran
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert abandoned.is_dir()
    next_one = process(SCRATCH, tmp_path)
    next_one.communicate(timeout=60)
    assert not abandoned.exists()
    assert used.is_dir()
    os.kill(running.pid, signal.SIGKILL)
    running.communicate()
