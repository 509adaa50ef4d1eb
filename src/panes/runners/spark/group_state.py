"""The state of one key group in Spark's state store: a snapshot now and then, and the steps since.

The operator is deterministic, so a snapshot and the steps after it are the state. A micro-batch then writes
its own rows as they came, and no more, however large the state is; a new snapshot takes the place of all that
is there where it is the smaller of the two, or once the steps outweigh the old one. Where rows wait in the
state, so that a snapshot with them would hold them all, the snapshot is of the moment before they came.

Workers live longer than a micro-batch: an operator kept from an earlier one is used again if the store says
that it is the same, after the steps that it has missed. Every write has a stamp that no other has, so an
operator of an attempt that failed, or of another query, is never taken for the one in the store.
"""

from __future__ import annotations

import json
import os
import uuid
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from panes.errors import SnapshotMismatch
from panes.runners.spark.group_operator import GroupOperator, Passed, Runnable, StepOutput, reach, run
from panes.runners.spark.stored import (
    HEAD,
    QUERY,
    Head,
    PieceRun,
    StoredStep,
    changed,
    compressed,
    from_pieces,
    redo,
    restored,
    to_pieces,
)

#: Steps up to this size are kept whatever the size of the snapshot; each counts as `_STEP` bytes at least.
_FREE = 1 << 18
_STEP = 1 << 12
#: What an operator takes beside its state, in bytes.
_EACH = 1 << 12
#: Bytes that a worker keeps at least.
_LEAST_KEPT = 1 << 28
#: Where the kernel says how much memory a container may take, in its two versions.
_CONTAINER_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


class GroupState:
    """Reads and writes the operator of a key group; `state` is the map of Spark that holds the group's state."""

    def __init__(self, state: Any, query: Runnable, facts: dict[str, Any]) -> None:
        self._query = query
        self._facts = json.dumps(facts, sort_keys=True)
        self._digest = blake2b(self._facts.encode(), digest_size=16).hexdigest()
        self._map = state
        self.written = 0
        #: bytes that the operator of the last call holds
        self.held = 0

    def head(self) -> Head:
        """What the last micro-batch left."""
        stored = self._get(HEAD)
        if stored is None:
            return Head(self._digest, lineage=uuid.uuid4().hex)
        head = Head.from_json(stored)
        if head.query != self._digest:
            self._refuse()
        return head

    def operator(self, head: Head) -> GroupOperator:
        """The operator as the last micro-batch left it. It is the caller's: saving gives it back."""
        names = [head.stamp, *(e.stamp for e in head.steps)]
        kept = operator_cache.take(head.lineage, names)
        if kept is None:
            op, missed = restored(self._query, head, self._read), head.steps
        else:
            op, missed = kept[0], head.steps[names.index(kept[1]) :]
        redo(self._query, op, missed, self._read)
        return op

    def step(
        self, head: Head, op: GroupOperator, passed: Passed, packed: Sequence[bytes], rows: Any
    ) -> tuple[StepOutput, bytes | None]:
        """What a micro-batch gives, and what `save` may want of the moment before its rows."""
        sent = sum(map(len, packed))
        if _has_room(head, sent, 0):
            return run(op, passed, rows), None
        due = reach(op, passed.before)
        size = int(_filled(op.metrics) * head.ratio)
        wanted = not _has_room(head, sent, size) and 2 * size <= sent  # it may be, and is cheap
        before = compressed(op.snapshot()) if wanted else None
        given = run(op, passed, rows)
        return StepOutput(due + given.results, given.late), before

    def save(
        self, head: Head, op: GroupOperator, passed: Passed, packed: Sequence[bytes], before: bytes | None = None
    ) -> None:
        """Write what a step has changed: the step itself, or a snapshot in place of all that is there."""
        rows, held = sum(map(len, packed)), op.metrics
        after = int(_filled(held) * head.ratio)
        stamp = uuid.uuid4().hex
        if _has_room(head, rows, after) and rows <= max(after, _FREE):
            self._add_step(head, stamp, passed, packed)
        elif before is not None and len(before) + rows < 1.5 * after:  # the rows are packed already
            self._replace(head, uuid.uuid4().hex, before)
            self._add_step(head, stamp, passed, packed)
        else:
            snapshot = compressed(op.snapshot())
            head.ratio = len(snapshot) / max(_filled(held), len(snapshot))
            self._replace(head, stamp, snapshot)
        self._write_head(head)
        self.held = int(held["bytes"])
        operator_cache.put(head.lineage, stamp, op, self.held)

    def keep(self, head: Head, op: GroupOperator) -> None:
        """Nothing has happened to the operator; only the head may have changed."""
        self._write_head(head)
        self.held = int(op.metrics["bytes"])
        operator_cache.put(head.lineage, head.steps[-1].stamp if head.steps else head.stamp, op, self.held)

    def note(self, head: Head) -> None:
        """Nobody has looked at the operator; only the head has changed."""
        self._write_head(head)

    def start_from(self, snapshot: bytes, timer: int) -> None:
        """Begin with a snapshot that was taken elsewhere."""
        head = Head(self._digest, lineage=uuid.uuid4().hex, timer=timer)
        self._query.operator([snapshot])  # refuses what is not of this query
        self._replace(head, uuid.uuid4().hex, compressed(snapshot))
        self._write_head(head)

    def _add_step(self, head: Head, stamp: str, passed: Passed, packed: Sequence[bytes]) -> None:
        head.steps.append(StoredStep(stamp, passed, self._write(head, packed)))
        head.step_bytes += max(sum(map(len, packed)), _STEP)

    def _replace(self, head: Head, stamp: str, snapshot: bytes) -> None:
        for gone in (head.snapshot, *(e.rows for e in head.steps)):
            for number in gone.numbers:
                self._map.removeKey((number,))
        head.stamp, head.snapshot = stamp, self._write(head, [snapshot])
        head.steps, head.step_bytes = [], 0

    def _write_head(self, head: Head) -> None:
        if not head.known:
            self._put(QUERY, self._facts)
            head.known = True
        self._put(HEAD, head.to_json())

    def _write(self, head: Head, values: Sequence[bytes]) -> PieceRun:
        pieces = to_pieces(values)
        run = PieceRun(head.next_piece, len(pieces), [len(v) for v in values])
        head.next_piece += len(pieces)
        for number, text in zip(run.numbers, pieces):
            self._put(number, text)
        return run

    def _read(self, run: PieceRun) -> list[bytes]:
        return from_pieces((self._map.getValue((n,))[0] for n in run.numbers), run.sizes)

    def _get(self, number: int) -> str | None:
        found = self._map.getValue((number,))
        return None if found is None else str(found[0])

    def _put(self, number: int, text: str) -> None:
        self._map.updateValue((number,), (text,))
        self.written += len(text)

    def _refuse(self) -> None:
        """Say what is different in the query that the checkpoint is of."""
        said = changed(json.loads(self._get(QUERY) or ""), json.loads(self._facts))
        raise SnapshotMismatch(
            f"the checkpoint belongs to another query: {said}. Start the changed query with a new checkpoint, "
            "or undo the change"
        )


def _has_room(head: Head, rows: int, size: int) -> bool:
    """Whether the steps, with one more, still weigh less than a snapshot."""
    # groups differ in how much they take, so that they don't all write snapshots in one micro-batch
    share = 0.5 + int(head.lineage[:4], 16) / 2**17
    return head.step_bytes + max(rows, _STEP) <= max(_FREE, int(max(head.snapshot_bytes, size // 2) * share))


def _filled(metrics: Mapping[str, Any]) -> int:
    """Bytes of what a snapshot has to hold: much of the memory of an operator may be room for more."""
    return int(metrics.get("bytes_filled", metrics["bytes"]))


class OperatorCache:
    """Operators kept in this process, one per lineage; those not used for longest leave first."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = _share_of_memory() if limit is None else limit
        self._operators: OrderedDict[str, tuple[str, GroupOperator, int]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._operators)

    def take(self, lineage: str, stamps: Sequence[str]) -> tuple[GroupOperator, str] | None:
        """The operator of the lineage, and its stamp, if it is one of these; it is the caller's then."""
        known = self._operators.get(lineage)
        if known is None or known[0] not in stamps:
            return None
        self._drop(lineage)
        return known[1], known[0]

    def put(self, lineage: str, stamp: str, op: GroupOperator, held: int) -> None:
        """Keep an operator, which holds so many bytes."""
        self._drop(lineage)
        size = held + _EACH
        self._operators[lineage] = (stamp, op, size)
        self._bytes += size
        while self._bytes > self._limit:
            self._drop(next(iter(self._operators)))

    def clear(self) -> None:
        self._operators.clear()
        self._bytes = 0

    def _drop(self, lineage: str) -> None:
        found = self._operators.pop(lineage, None)
        if found is not None:
            self._bytes -= found[2]


def _share_of_memory() -> int:
    """Half of the memory of this machine or container, for as many workers as there are cores."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on every system
        return 4 * _LEAST_KEPT
    for limit in _CONTAINER_LIMITS:
        if limit.exists() and (text := limit.read_text().strip()).isdigit():
            memory = min(memory, int(text))
    return max(memory // 2 // (os.cpu_count() or 1), _LEAST_KEPT)


#: The operators of this worker.
operator_cache = OperatorCache()
