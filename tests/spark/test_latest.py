"""Results of streams on Spark in a table: micro-batches that are stored as docs/storing.md says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import panes as pn
from panes.api.stream import Query
from panes.errors import QueryError
from tests.runners.test_identity import Stored, alike, random_rows

QUERIES: dict[str, Callable[[Any], Query]] = {
    "aggregates": lambda windows: windows.agg(n="count(*)", total="sum(v)"),
    "steps": lambda windows: (
        windows.agg(n="count(*)", total="sum(v)")
        .where("total > 6")
        .select("window", "window_start", "window_from", "window_to", "n", "revision", s="k", e="window_end", x="void")
    ),
    "relation": lambda windows: windows.relation(["ts", "v"], where="v > 2", order_by="v", limit=3),
}  # fmt: skip


def micro_batches(frame: Any, place: Path) -> list[pa.Table]:
    """What a stream hands over, batch by batch."""
    found: list[pa.Table] = []
    running = (
        frame.writeStream.foreachBatch(lambda batch, number: found.append(batch.toArrow()))
        .option("checkpointLocation", str(place))
        .trigger(availableNow=True)
        .start()
    )
    running.awaitTermination()
    return found


@pytest.mark.parametrize("name", QUERIES)
def test_what_is_stored_is_the_latest(spark: Any, tmp_path: Path, name: str) -> None:
    data = pn.replay(pa.Table.from_pylist(random_rows(2)), batch_rows=12).to_spark(spark)
    stream = pn.stream(data, time="ts", key="k", watermark=0, lateness=100)
    query = QUERIES[name](stream.window(visit=pn.session(3), four=pn.tumbling(pn.rows(4)), high=pn.threshold("v > 3")))
    every = micro_batches(query.to_spark(), tmp_path / "all")
    newest = micro_batches(query.to_spark(latest=True), tmp_path / "newest")
    plan, identity = query._plan, query.identity
    void, revision, key = (plan.shape.called(column) for column in ("void", "revision", "k"))
    assert void
    assert revision
    assert key

    stored = Stored(query)
    for table in newest:
        stored.take(table)
        found = {(*(row[c] for c in identity), row[revision]) for row in table.to_pylist()}
        assert len({each[:-1] for each in found}) == len(found)  # one revision of each identity
        gone = [(row[key], row[void]) for row in table.to_pylist()]
        for one in {k for k, _ in gone}:
            flags = [flag for k, flag in gone if k == one]
            assert flags == sorted(flags, reverse=True)
    assert sum(map(len, newest)) < sum(map(len, every))

    last: dict[Any, int] = {}
    rows = [row for table in every for row in table.to_pylist()]
    for row in rows:
        name_of = tuple(row[c] for c in identity)
        last[name_of] = max(last.get(name_of, 0), row[revision])
    wanted = [row for row in rows if not row[void] and last[tuple(row[c] for c in identity)] == row[revision]]
    assert len(wanted) > 20
    assert any(row[void] for row in rows)
    assert alike(stored.table()) == alike(wanted)


def test_a_select_that_drops_identity_is_refused_by_name(spark: Any) -> None:
    data = spark.createDataFrame([(1, "a")], "ts long, k string")
    query = pn.stream(data, time="ts", key="k").window(pn.tumbling(5)).agg(n="count(*)")
    assert [row.n for row in query.to_spark(latest=True).collect()] == [1]  # nothing of a static frame is late
    with pytest.raises(QueryError, match=r"^to_spark\(latest=True\): the select leaves out window_end,"):
        query.select("k", "window_start").to_spark(latest=True)
