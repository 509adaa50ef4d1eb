"""Workers of sessions that Panes starts are forked from processes that have loaded what they need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from panes.runners.spark import daemon
from panes.runners.spark.session import _has_sockets_in


@pytest.mark.skipif(not Path("/proc").exists(), reason="threads that libraries start are seen in /proc, on Linux only")
def test_what_is_loaded_before_workers_are_forked_starts_no_thread() -> None:
    """A thread that holds a lock while a worker is forked would hold it there for ever."""
    code = (
        "import os, sys; from panes.runners.spark import daemon; daemon.load(); "
        "print(len(os.listdir('/proc/self/task')), 'panes.slicing.operator' in sys.modules)"
    )
    prefix = "spark.executorEnv."
    said = {name.removeprefix(prefix): value for name, value in daemon.SETTINGS.items() if name.startswith(prefix)}
    env = {**os.environ, **said, "OMP_NUM_THREADS": "1"}  # as Spark starts it
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True)
    assert done.stdout.split() == ["1", "True"]


def test_workers_have_what_they_need_when_they_begin(spark: Any) -> None:
    found = spark.range(2, numPartitions=1).mapInArrow(_modules, "loaded boolean").collect()
    assert [row.loaded for row in found] == [True]


def _modules(batches: Any) -> Any:
    import pyarrow as pa

    before = "panes.slicing.operator" in sys.modules
    for _ in batches:
        pass
    yield pa.RecordBatch.from_pydict({"loaded": [before]})


def test_sockets_in_folders_with_long_names_are_not_used() -> None:
    assert _has_sockets_in(Path("/tmp/panes-abcdefgh"))
    assert not _has_sockets_in(Path("/" + "x" * 80))
