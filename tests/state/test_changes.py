"""Snapshots of what has changed since an epoch: small, and as good as the whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import panes as pn
from panes.errors import QueryError, SnapshotMismatch
from panes.state.changes import ChangedKeys
from tests.state import kept

KEYED = [name for name in kept.QUERIES if name != "sliding_without_key"]


def chain(name: str, op: Any) -> list[bytes]:
    """A snapshot in the middle of the stream, and two of the changes since."""
    blobs = []
    for epoch, start in enumerate(range(0, 120, 40)):
        kept.pushed(name, op, range(start, start + 40))
        blobs.append(op.snapshot(epoch=epoch, since=epoch - 1 if epoch else None))
    return blobs


@pytest.mark.parametrize("name", kept.QUERIES)
def test_a_snapshot_and_its_changes_go_on_as_the_operator_does(name: str) -> None:
    query = kept.QUERIES[name]()
    op = query.operator()
    restored = query.operator(restore=chain(name, op))
    assert restored.late.equals(op.late)
    assert kept.rest(name, restored) == kept.rest(name, op)
    assert restored.metrics["rows_in"] == op.metrics["rows_in"]


@pytest.mark.parametrize("name", ["tumbling", "session_lateness", "count_lateness"])
def test_changes_go_on_after_a_restore_and_by_key_group(name: str) -> None:
    query = kept.QUERIES[name]()
    op = query.operator()
    blobs = []
    groups = [range(60), range(60, 128)]
    kept.pushed(name, op, range(40))
    blobs += [op.snapshot(key_groups=some, epoch=3) for some in groups]
    kept.pushed(name, op, range(40, 80))
    blobs += [op.snapshot(key_groups=some, epoch=4, since=3) for some in groups]
    op = query.operator(restore=blobs)
    kept.pushed(name, op, range(80, 120))
    whole = query.operator(restore=[*blobs[:2], *blobs[2:]])
    kept.pushed(name, whole, range(80, 120))
    changes = op.snapshot(epoch=5, since=4)
    assert len(changes) <= len(op.snapshot()) + 500
    assert kept.rest(name, op) == kept.rest(name, whole)


def test_changes_of_one_key_of_many_are_small() -> None:
    stream = pn.stream(None, schema={"ts": "bigint", "k": "string", "v": "double"}, time="ts", key="k", watermark=5)
    query = stream.window(w=pn.tumbling(60), s=pn.sliding(120, every=60)).agg(n="count(*)", s="sum(v)")
    op, n = query.operator(), 20_000
    op.push(pa.table({"ts": np.arange(n) // 1000, "k": [f"key {i}" for i in range(n)], "v": np.ones(n)}))
    whole = op.snapshot(epoch=1)
    op.push({"ts": 25, "k": "key 77", "v": 3.0})
    changes = op.snapshot(epoch=2, since=1)
    assert len(whole) > 900_000
    assert len(changes) < 4_000
    restored = query.operator(restore=[whole, changes])
    assert restored.snapshot() == op.snapshot()
    # windows close for all keys, which costs the changes nothing
    assert restored.advance(500).table.equals(op.advance(500).table)
    assert len(op.snapshot(epoch=3, since=2)) < 4_000


@pytest.mark.parametrize(
    ("window", "lateness"),
    [
        (pn.tumbling(100), None),
        (pn.session(30), None),
        (pn.tumbling(pn.rows(3)), None),
        (pn.policy(evict=pn.policies.time(50), trigger=pn.policies.count(2)), None),
        (pn.policy(evict=pn.policies.delta(1, on="v"), trigger=pn.policies.count(3)), None),
        (pn.tumbling(5), 1000),
        (pn.session(3), 1000),
    ],
    ids=["tumbling", "session", "count", "policy of time", "policy of delta", "lateness", "session with lateness"],
)
@pytest.mark.parametrize("function", ["sum(v)", "median(v)"])
def test_changes_of_one_key_are_small_for_every_kind_of_state(window: Any, lateness: int | None, function: str) -> None:
    options = {} if lateness is None else {"lateness": lateness}
    stream = pn.stream(
        None, schema={"ts": "bigint", "k": "bigint", "v": "double"}, time="ts", key="k", watermark=5, **options
    )
    query = stream.window(w=window).agg(n="count(*)", s=function)
    op, n = query.operator(), 20_000
    for i in range(2):
        op.push(pa.table({"ts": np.arange(n) // 1000 + 20 * i, "k": np.arange(n), "v": np.arange(n) / n + i}))
    # of a key that is corrected before and after
    op.push({"ts": 12 if lateness else 39, "k": 12_007, "v": 3.0})
    op.advance(35)
    whole = op.snapshot(epoch=1)
    op.push({"ts": 12 if lateness else 40, "k": 12_007, "v": 3.5})
    changes = op.snapshot(epoch=2, since=1)
    assert len(whole) > 200_000
    assert len(changes) < 2_000
    restored = query.operator(restore=[whole, changes])
    assert restored.snapshot(epoch=3, since=2) == op.snapshot(epoch=3, since=2)
    more = {"ts": [41, 41], "k": [12_007, 7], "v": [4.0, 4.0]}
    assert restored.push(pa.table(more)).table.equals(op.push(pa.table(more)).table)
    assert restored.finish().table.equals(op.finish().table)


def test_nothing_is_noted_unless_somebody_asks() -> None:
    op = kept.QUERIES["tumbling"]().operator()
    kept.pushed("tumbling", op, range(40))
    op.snapshot()
    kept.pushed("tumbling", op, range(40, 80))
    changed = op._journal.changed
    assert not changed.epochs
    assert not len(changed._changed_in)


def test_changes_follow_the_snapshot_of_their_epoch() -> None:
    query = kept.QUERIES["tumbling"]()
    op = query.operator()
    first, second, third = chain("tumbling", op)
    with pytest.raises(SnapshotMismatch, match="changes since epoch 1 are to follow the snapshot of that epoch"):
        query.operator(restore=[first, third])
    with pytest.raises(SnapshotMismatch, match="come after none"):
        query.operator(restore=second)
    with pytest.raises(SnapshotMismatch, match="belong to another query"):
        kept.QUERIES["empty"]().operator(restore=[chain("empty", kept.QUERIES["empty"]().operator())[0], second])


def test_epochs_rise_and_have_ended() -> None:
    op = kept.QUERIES["tumbling"]().operator()
    with pytest.raises(QueryError, match="no epoch of that number has ended here; snapshot"):
        op.snapshot(since=1)
    op.snapshot(epoch=5)
    assert op.snapshot(epoch=5) == op.snapshot(epoch=5)  # nothing has happened since
    kept.pushed("tumbling", op, range(20))
    with pytest.raises(QueryError, match="epoch=5 has ended before"):
        op.snapshot(epoch=5)
    with pytest.raises(QueryError, match="the last is 5"):
        op.snapshot(since=4)
    with pytest.raises(QueryError, match="must be a whole number"):
        op.snapshot(epoch=-1)


def test_a_window_that_comes_makes_the_changes_the_whole() -> None:
    query = kept.QUERIES["tumbling"]()
    op = query.operator()
    blobs = chain("tumbling", op)
    op.add("x", pn.tumbling(7))
    kept.pushed("tumbling", op, range(120, 140))
    blobs.append(op.snapshot(epoch=3, since=2))
    kept.pushed("tumbling", op, range(140, 160))
    blobs.append(op.snapshot(epoch=4, since=3))
    restored = query.operator(restore=blobs)
    assert list(restored.windows) == ["w", "x"]
    assert list(restored.finish()) == list(op.finish())


def test_changed_keys_are_known_since_every_epoch() -> None:
    changed = ChangedKeys()
    changed.note(np.array([1, 2]))  # before any epoch: nobody asked
    changed.end(10, 0)
    changed.note(np.array([3]))
    changed.end(11, 4)
    changed.note(np.array([5, 3]))
    assert changed.since(10, 9).tolist() == [3, 5]
    assert changed.since(11, 9).tolist() == [3, 5]
    changed.end(12, 4)
    assert changed.since(11, 9).tolist() == [3, 5]
    assert changed.since(12, 9).tolist() == []
    assert changed.late_since(10, 6) == 6
    assert changed.late_since(12, 6) == 2
    changed.note_all()
    assert changed.since(12, 9) is None
    changed.end(13, 6)
    assert changed.since(13, 9).tolist() == []
