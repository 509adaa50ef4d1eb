"""Windows by policies on Spark: what the embedded runner gives, over static frames, streams and restarts."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import panes as pn
from panes.errors import QueryError
from tests.fuzz.user_windows import LastOf, Pauses

p = pn.policies


class Restless(p.Trigger):
    """When values have gone up and down by more than so much in all."""

    columns = ("v",)

    def __init__(self, most: float) -> None:
        self.most, self.moved, self.last = most, 0.0, None

    def notify(self, row: Any) -> bool:
        if self.last is not None:
            self.moved += abs(row["v"] - self.last)
        self.last = row["v"]
        if self.moved <= self.most:
            return False
        self.moved = 0.0
        return True


class Young(p.ActiveEviction):
    """Lets go every second row of those held when asked."""

    def notify(self, row: Any, triggered: bool, size: int) -> int:
        return size // 2 if triggered else 0

    def notify_fake(self, fake: Any, size: int) -> int:
        return size // 2


class Expires(p.ActiveTrigger):
    """A session ends so long after its last row."""

    def __init__(self, gap: int) -> None:
        self.gap, self.last = gap, None

    def before(self, row: Any) -> list[Any]:
        last, self.last = self.last, row[p.TIME]
        return [p.Tick(last + self.gap)] if last is not None and row[p.TIME] - last > self.gap else []

    def notify(self, row: Any) -> bool:
        return False


#: of one key each: these can be in any number of key groups
OWN = {
    "counts": pn.policy(evict=p.count(5), trigger=p.count(3)),
    "times": pn.policy(evict=p.time(9), trigger=p.time(4)),
    "borders": pn.policy(evict=p.count(5), trigger=p.count(2, start=-3), end=False),
    "clock": pn.policy(evict=p.time(12), trigger=p.time(6, thread=True)),
    "deltas": pn.policy(trigger=p.delta(3, on="v * 2", start=0)),
    "ends": pn.policy(evict=p.punctuation(7, on="v"), trigger=p.punctuation(7, on="v")),
    "nested": pn.policy(
        evict=p.largest(p.count(6), p.smallest(p.time(20), p.count(3, delete=2))),
        trigger=p.any_of(p.all_of(p.count(2), p.delta(2, on="v", start=0)), p.exactly_one_of(p.count(4), p.count(6))),
    ),
    "python": pn.policy(evict=[p.count(6), Young()], trigger=[Restless(9), p.time(10)]),
    "two timers": pn.policy(evict=p.time(9), trigger=[p.time(7), p.time(4)]),
    "expiring": pn.policy(trigger=Expires(3)),
    "plain": pn.tumbling(10),
}
#: windows of users that time closes, the clock being that of all keys
FREE_FORM = {"last of five": LastOf(2, 5), "pauses": Pauses(4), "plain": pn.tumbling(10)}
#: of all keys
CENTRAL = {
    "alike": pn.policy(evict=p.count(2), central_trigger=p.time(5)),
    "queue": pn.policy(central_evict=p.count(8), central_trigger=p.count(6)),
    "mixed": pn.policy(trigger=p.count(3), central_trigger=p.time(9), evict=p.count(4), central_evict=p.count(10)),
    "shared": pn.policy(central_trigger=Restless(12)),
}
SCHEMA = pa.schema({"t": pa.int64(), "k": pa.string(), "v": pa.int64(), "seq": pa.int64()})


def table(n: int = 90, seed: int = 5, at: int = 0) -> pa.Table:
    rng = random.Random(seed)
    rows = []
    for i in range(n):
        at += rng.choice((0, 1, 1, 2, 5))
        rows.append({"t": at, "k": rng.choice("abcd"), "v": rng.randint(0, 9), "seq": i})
    return pa.Table.from_pylist(rows, SCHEMA)


def query(data: Any, windows: dict[str, Any], **options: Any) -> Any:
    stream = pn.stream(data, **{"time": "t", "key": "k", **options})
    return stream.window(**windows).agg(vs=pn.collect_list("v"), total="sum(v)")


def bag(found: pa.Table) -> list[str]:
    return sorted(str(row) for row in found.to_pylist())


@pytest.mark.parametrize("windows", [OWN, CENTRAL, FREE_FORM], ids=["own", "central", "free form"])
def test_static_frames_give_the_same(spark: Any, windows: dict[str, Any]) -> None:
    data = table()
    expected = query(data, windows).to_arrow()
    # of several partitions, in which rows are neither in order of time nor of arrival
    order = list(range(data.num_rows))
    random.Random(1).shuffle(order)
    frame = spark.createDataFrame(data.take(order)).repartition(3)
    found = query(frame, windows).to_spark(sequence="seq").toArrow()
    assert {row["window"] for row in expected.to_pylist()} == {*windows}
    assert bag(found.cast(expected.schema)) == bag(expected)


def test_rows_without_a_key(spark: Any) -> None:
    windows = {name: OWN[name] for name in ("counts", "nested", "python")}
    data = table(40)
    expected = query(data, windows, key=None).to_arrow()
    found = query(spark.createDataFrame(data), windows, key=None).to_spark().toArrow()
    assert bag(found.cast(expected.schema)) == bag(expected)


@pytest.mark.parametrize("windows", [OWN, CENTRAL, FREE_FORM], ids=["own", "central", "free form"])
def test_streams_give_the_same(spark: Any, run_stream: Callable[..., pa.Table], windows: dict[str, Any]) -> None:
    """Over two runs from one checkpoint; rows of a micro-batch are in any order, none is late."""
    data = table()
    op = query(None, windows, schema=SCHEMA, watermark="manual").operator()
    given = []
    parts = [data.slice(i, 30) for i in range(0, 90, 30)]
    batches = pn.testing.MicroBatches(spark, schema=SCHEMA, partitions=2)
    running = query(batches.frame, windows, watermark=8).to_spark(sequence="seq", key_groups=4)
    for number, part in enumerate(parts):
        order = list(range(part.num_rows))
        random.Random(number).shuffle(order)
        batches.add(part.take(order))
        if number != 1:
            found = run_stream(running)
        given.append(op.push(part).table)
        given.append(op.advance(int(part["t"][-1].as_py()) - 8).table)
    expected = pa.concat_tables(given)
    assert {row["window"] for row in expected.to_pylist()} == {*windows}
    assert bag(found.cast(expected.schema)) == bag(expected)


def test_the_sequence_is_a_column(spark: Any) -> None:
    frame = spark.createDataFrame(table(3))
    ordered = pn.stream(frame, time="t").window(w=pn.tumbling(2))
    with pytest.raises(QueryError, match="sequence='sec': there is no such column; did you mean 'seq'"):
        query(frame, OWN).to_spark(sequence="sec")
    with pytest.raises(QueryError, match=r"strategy='native' can't run this query: .*sequence="):
        ordered.agg(x="first(v)").to_spark(sequence="seq", strategy="native")
    assert ordered.agg(x="sum(v)").to_spark(sequence="seq", strategy="native").count() == 2


SCRIPT = """
import subprocess, sys
import panes as pn
from panes.runners.spark.group_operator import GroupQuery, used_columns
from panes.runners.spark.shipping import packed

class Odd(pn.policies.Trigger):
    columns = ("v",)
    def notify(self, row):
        return row["v"] % 2 == 1

stream = pn.stream(None, schema={"t": "bigint", "v": "bigint"}, time="t")
plan = stream.window(pn.policy(trigger=Odd())).agg(n="sum(v)")._plan
sys.stdout.buffer.write(packed(GroupQuery(plan, used_columns(plan))))
"""
WORKER = """
import sys
import pyarrow as pa
from panes.runners.spark.shipping import unpacked

query = unpacked(sys.stdin.buffer.read())
op = query.operator()
op.push(pa.table({"t": [1, 2], "v": [2, 4]}))
op.advance(3)
op = query.operator([op.snapshot()])
found = [op.push(pa.table({"t": [5], "v": [7]})), op.advance(6), op.finish()]
print([n for given in found for n in given.table["n"].to_pylist()])
"""


def test_policies_of_a_script_are_in_snapshots_of_workers() -> None:
    made = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, check=True).stdout
    found = subprocess.run([sys.executable, "-c", WORKER], input=made, capture_output=True, check=True).stdout
    assert found.decode().split("\n")[0] == "[6, 7]"


def test_explain_says_where_central_policies_run(spark: Any) -> None:
    frame = spark.createDataFrame(table(3))
    assert "1 for key_groups" in str(query(frame, CENTRAL).explain())
    assert "16 for key_groups" in str(query(frame, OWN).explain())
