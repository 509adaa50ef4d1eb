"""What is wrong stands in the first line of Spark's message, before any stack of calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import panes as pn
from panes.testing import MicroBatches

ROWS = pa.table({"t": pa.array(range(10), pa.int64()), "v": pa.array(range(10), pa.int64())})


def query(data: Any) -> Any:
    inverse = pn.aggregate("v", lift=lambda v: 1 / v, combine=max, lower=float, commutative=True, name="inverse")
    return pn.stream(data, time="t").window(pn.tumbling(5)).agg(largest=inverse).to_spark()


def test_an_error_in_an_aggregate_of_a_stream_names_it_first(spark: Any, run_stream: Callable[..., pa.Table]) -> None:
    frame = query(MicroBatches(spark, [ROWS]).frame)
    with pytest.raises(Exception, match="STREAM_FAILED") as raised:
        run_stream(frame)
    first, rest = str(raised.value).split("\n", 1)
    assert "aggregate 'largest': inverse(v).lift(0) raised ZeroDivisionError: division by zero" in first
    assert "lambda v: 1 / v" in rest  # where it was raised


def test_an_error_in_an_aggregate_of_a_frame_comes_right_after_sparks_own_words(spark: Any) -> None:
    with pytest.raises(Exception, match="Python worker") as raised:
        query(spark.createDataFrame(ROWS)).collect()
    said = str(raised.value).split("\n")
    assert "aggregate 'largest': inverse(v).lift(0) raised ZeroDivisionError" in said[1]
