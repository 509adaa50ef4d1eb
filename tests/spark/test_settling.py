"""What workers of Spark leave alone between tasks: what the collector looks at, and memory that they keep."""

from __future__ import annotations

import gc
import platform
import resource
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from panes.runners.spark.workers import tune_worker


def test_workers_keep_loaded_modules_from_the_collector(spark: Any) -> None:
    def look(batches: Any) -> Any:
        tune_worker()
        rows = sum(batch.num_rows for batch in batches)
        yield pa.record_batch({"rows": [rows], "kept": [gc.get_freeze_count()], "left": [len(gc.get_objects())]})

    (found,) = spark.range(3).repartition(1).mapInArrow(look, "rows long, kept long, left long").collect()
    assert found.rows == 3
    assert found.kept > 10 * found.left


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only the GNU C library can be told to keep memory")
def test_workers_keep_the_memory_of_large_arrays(spark: Any) -> None:
    def look(batches: Any) -> Any:
        tune_worker()
        rows = sum(batch.num_rows for batch in batches)
        taken = []
        for _ in range(20):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            np.ones(1 << 20)  # 8 MiB: 2,048 pages of 4 KiB
            pa.allocate_buffer(1 << 23)
            taken.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
        yield pa.record_batch({"rows": [rows], "pages": [taken[-1]], "pool": [pa.default_memory_pool().backend_name]})

    (found,) = spark.range(3).repartition(1).mapInArrow(look, "rows long, pages long, pool string").collect()
    assert found.rows == 3
    assert found.pool == "system"
    assert found.pages < 100


def test_other_processes_are_left_alone() -> None:
    before, pool = gc.get_freeze_count(), pa.default_memory_pool().backend_name
    tune_worker()
    assert gc.get_freeze_count() == before
    assert pa.default_memory_pool().backend_name == pool
