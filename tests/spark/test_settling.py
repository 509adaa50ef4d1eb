"""What Spark's collector looks at after each task."""

from __future__ import annotations

import gc
from typing import Any

import pyarrow as pa

from panes.runners.spark.settling import settle


def test_workers_keep_loaded_modules_from_the_collector(spark: Any) -> None:
    def look(batches: Any) -> Any:
        settle()
        rows = sum(batch.num_rows for batch in batches)
        yield pa.record_batch({"rows": [rows], "kept": [gc.get_freeze_count()], "left": [len(gc.get_objects())]})

    (found,) = spark.range(3).repartition(1).mapInArrow(look, "rows long, kept long, left long").collect()
    assert found.rows == 3
    assert found.kept > 10 * found.left


def test_other_processes_are_left_alone() -> None:
    before = gc.get_freeze_count()
    settle()
    assert gc.get_freeze_count() == before
