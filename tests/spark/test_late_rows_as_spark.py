"""Late rows count as Spark itself counts them: worked examples, and a short form of `python -m tests.spark_oracle`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.spark_oracle.__main__ import compare
from tests.spark_oracle.streams import (
    Stream,
    by_strategy,
    counted_by_panes,
    counted_by_spark,
    on_spark,
    strategies,
)

#: micro-batches 1, 25 | 5, 6 | 47, 48 with a watermark of 10 s: 5 and 6 come when Spark's filter stands at nothing yet
EXAMPLES = {
    "tumbling": (Stream(-1, "tumbling", 10, 10, 10.5, (((1, "a", 1), (25, "a", 1)), ((5, "a", 1), (6, "a", 1)),
                                                       ((47, "a", 1), (48, "a", 1)))),
                 {("a", 0, 10, 3, 3), ("a", 20, 30, 1, 1)}),
    # the same rows one micro-batch later: [0, 10) is closed by then
    "tumbling, closed": (Stream(-2, "tumbling", 10, 10, 10.5, (((1, "a", 1), (25, "a", 1)), ((26, "a", 1),),
                                                               ((5, "a", 1), (27, "a", 1)), ((60, "a", 1),))),
                         {("a", 0, 10, 1, 1), ("a", 20, 30, 3, 3)}),
    # ... and of the sliding windows over 5, one is closed and one is open
    "sliding": (Stream(-3, "sliding", 20, 10, 10.5, (((1, "a", 1), (25, "a", 1)), ((26, "a", 1),),
                                                     ((5, "a", 1), (27, "a", 1)), ((70, "a", 1),))),
                {("a", -10, 10, 1, 1), ("a", 0, 20, 2, 2), ("a", 10, 30, 3, 3), ("a", 20, 40, 3, 3)}),
    # 18 joins the open session of 25, though it is behind the watermark of 16 that 26.5 made
    "session": (Stream(-4, "session", 8, 8, 10.5, (((1, "a", 1), (25, "a", 1)), ((27, "a", 1),),
                                                   ((18, "a", 1),), ((60, "a", 1),))),
                {("a", 1, 9, 1, 1), ("a", 18, 35, 3, 3)}),
}  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_late_rows_of_worked_examples_are_counted_as_spark_does(name: str, spark: Any, tmp_path: Path) -> None:
    stream, expected = EXAMPLES[name]
    running = [on_spark(spark, stream, tmp_path)]
    running += [by_strategy(spark, stream, strategy, tmp_path) for strategy in strategies(stream)]
    assert set(counted_by_panes(stream).counted) == expected
    for query, table in running:
        assert set(counted_by_spark(spark, query, table)) == expected


def test_late_rows_of_random_streams_are_counted_as_spark_does(spark: Any, tmp_path: Path) -> None:
    wrong, totals = compare(spark, range(1, 9), tmp_path)
    assert not wrong, "\n".join(wrong)
    assert sum(seen["late"] for seen in totals.values()) > 0
