"""One Spark session for all tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import panes as pn

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With several pytest workers, one of them runs all tests that need the session."""
    for item in items:
        if HERE in item.path.parents and "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    session = pn.spark(cores=2, memory="1g", quick=True)
    yield session
    session.stop()


@pytest.fixture
def run_stream(spark: Any, tmp_path: Path) -> Callable[..., pa.Table]:
    """Runs a streaming frame over all that is there and gives its results in the order of micro-batches.

    Called again with the same `checkpoint` it goes on where it was; results are then those of all runs.
    """

    def run(frame: Any, checkpoint: str = "checkpoint") -> pa.Table:
        place = tmp_path / checkpoint
        query = (
            frame.writeStream.format("parquet")
            .option("checkpointLocation", str(place / "offsets"))
            .option("path", str(place / "results"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return spark.read.schema(frame.schema).parquet(str(place / "results")).toArrow()

    return run
