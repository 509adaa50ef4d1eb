"""What the state store holds of one key group, as plain values: a head that says what is where, and pieces.

The state of a group is a snapshot and the steps since, each a run of pieces. Whoever reads a state, a worker
or someone who looks at a checkpoint from outside, puts it together with what is here.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from panes.errors import SnapshotMismatch
from panes.runners.spark.beats import Clocked
from panes.runners.spark.group_operator import GroupOperator, Passed, Runnable, run
from panes.runners.spark.packing import from_bytes, to_bytes
from panes.state.checked import MANY, demand, fact, one_row, read_table, reading, value, whole
from panes.windows.base import ALWAYS, NEVER

#: One variable only: every further one costs time in each task. Pieces are numbered from 0 on; the head and the
#: facts of the query have numbers of their own.
STATE, KEY, VALUE = "panes", "number", "data"
HEAD, QUERY = -1, -2
#: Pieces near this size are the cheapest to read and write.
PIECE_BYTES = 1 << 20
#: The layout described here; another one is refused.
LAYOUT = 2


def state_map(handle: Any) -> Any:
    """The map from numbers to texts of the group that Spark's handle stands at, declared without the engine."""
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    # schemas as objects: a text would be parsed in every task
    key, value = (StructType([StructField(name, kind)]) for name, kind in ((KEY, LongType()), (VALUE, StringType())))
    return handle.getMapState(STATE, key, value)


@dataclass
class PieceRun:
    """Values kept end to end in a run of pieces: the number of the first, how many, and the size of each value."""

    first: int = 0
    count: int = 0
    sizes: list[int] = field(default_factory=list)

    @property
    def numbers(self) -> range:
        return range(self.first, self.first + self.count)

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> PieceRun:
        sizes = [value(size, "sizes", int, low=0, high=MANY) for size in fact(facts, "sizes", list)]
        return cls(whole(facts, "first", 0, MANY), whole(facts, "count", 0, MANY), sizes)


@dataclass
class StoredStep:
    """One step since the snapshot: its stamp, how far event time passed in it, and where its rows are."""

    stamp: str
    passed: Passed
    rows: PieceRun

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> StoredStep:
        before, after = (value(tick, "passed", int, low=ALWAYS, high=NEVER) for tick in fact(facts, "passed", list))
        return cls(fact(facts, "stamp", str), Passed(before, after), PieceRun.from_json(fact(facts, "rows", dict)))


@dataclass
class Head:
    """What is in the store.

    `query` is a digest of the query, `lineage` names this state for as long as it lives, and every write has
    a stamp that no other has. `timer` is the timer that is set. Checkpoints of older versions lack some facts.
    """

    query: str
    lineage: str
    stamp: str = ""
    snapshot: PieceRun = field(default_factory=PieceRun)
    steps: list[StoredStep] = field(default_factory=list)
    step_bytes: int = 0
    next_piece: int = 0
    known: bool = False  # whether the facts of the query are in the store
    #: bytes of a snapshot per byte that the operator has filled: a guess until one was written
    ratio: float = 0.5
    timer: int | None = None
    #: the watermark of the last micro-batch that the group has heard of
    reached: int = ALWAYS
    #: Spark's watermark, in milliseconds, from which on something may be due without rows; 0: nobody has looked
    due: int = 0
    #: what the clock has said so far, where it moves the watermark
    clocked: Clocked = field(default_factory=Clocked)
    layout: int = LAYOUT

    @property
    def snapshot_bytes(self) -> int:
        return sum(self.snapshot.sizes)

    def to_json(self) -> str:
        # every group writes its head in every micro-batch, and asdict() copies all of it first
        facts = {**vars(self), "snapshot": vars(self.snapshot), "clocked": vars(self.clocked)}
        facts["steps"] = [{**vars(step), "rows": vars(step.rows)} for step in self.steps]
        return json.dumps(facts, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Head:
        with reading("the head of the state in the checkpoint"):
            return cls._read(value(json.loads(text), "the head", dict))

    @classmethod
    def _read(cls, facts: dict[str, Any]) -> Head:
        if facts.get("layout") != LAYOUT:
            raise SnapshotMismatch(
                f"the checkpoint has state of layout {facts.get('layout')}, this version of Panes reads layout "
                f"{LAYOUT}; go on with the version that wrote it"
            )
        timer = facts.get("timer")
        return cls(
            fact(facts, "query", str),
            value(fact(facts, "lineage", str), "lineage", str),
            fact(facts, "stamp", str),
            PieceRun.from_json(fact(facts, "snapshot", dict)),
            [StoredStep.from_json(value(e, "a step", dict)) for e in fact(facts, "steps", list)],
            whole(facts, "step_bytes", 0, MANY),
            whole(facts, "next_piece", 0, MANY),
            fact(facts, "known", bool),
            _share(facts),
            None if timer is None else whole(facts, "timer"),
            value(facts.get("reached", ALWAYS), "reached", int, low=ALWAYS, high=NEVER),
            value(facts.get("due", 0), "due", int, low=0, high=NEVER),
            _clocked(facts.get("clocked", {})),
        )


def _clocked(facts: dict[str, Any]) -> Clocked:
    known = value(facts, "clocked", dict)
    return Clocked(*(None if known.get(n) is None else whole(known, n) for n in ("now", "last", "left")))


def _share(facts: dict[str, Any]) -> float:
    given = facts.get("ratio")
    demand(isinstance(given, int | float) and 0 <= given <= 1, "a snapshot is larger than what it is of")
    demand(len(facts["lineage"]) >= 4 and int(facts["lineage"][:4], 16) >= 0, "the state has no name")
    return float(facts["ratio"])


def to_pieces(values: Iterable[bytes]) -> list[str]:
    """Values end to end, cut into pieces."""
    data = b"".join(values)
    # text is written and read faster than bytes, see docs/spark.md
    return [base64.b64encode(data[at : at + PIECE_BYTES]).decode("ascii") for at in range(0, len(data), PIECE_BYTES)]


def from_pieces(pieces: Iterable[str], sizes: Sequence[int]) -> list[bytes]:
    data = memoryview(b"".join(base64.b64decode(piece, validate=True) for piece in pieces))
    demand(len(data) == sum(sizes), "a state is longer or shorter than its head says")
    out, at = [], 0
    for size in sizes:
        out.append(bytes(data[at : at + size]))
        at += size
    return out


def compressed(snapshot: bytes) -> bytes:
    return to_bytes(pa.table({"snapshot": pa.array([snapshot], pa.large_binary())}))


def uncompressed(data: bytes) -> bytes:
    found = read_table({"snapshot": from_bytes(data)}, "snapshot", {"snapshot": pa.large_binary()})
    found.validate(full=True)
    return one_row(found, "snapshot")["snapshot"]


def restored(query: Runnable, head: Head, read: Callable[[PieceRun], list[bytes]]) -> GroupOperator:
    """The operator of the snapshot, before the steps."""
    with reading("the state in the checkpoint"):
        blobs = [uncompressed(blob) for blob in read(head.snapshot)]
    return query.operator(blobs)


def redo(
    query: Runnable, op: GroupOperator, steps: Iterable[StoredStep], read: Callable[[PieceRun], list[bytes]]
) -> None:
    """Bring an operator up to date; what the steps give was given when they were done first."""
    for entry in steps:
        with reading("a step in the checkpoint"):
            rows = query.checked(query.rows(read(entry.rows)))
        run(op, entry.passed, rows)


def changed(then: dict[str, Any], now: dict[str, Any]) -> str:
    """What is different between the facts of two queries, in words."""
    before, after = _flat(then), _flat(now)
    names = [n for n in sorted({*before, *after}) if before.get(n) != after.get(n)]
    return "; ".join(f"{n} was {before.get(n)!r}, is {after.get(n)!r}" for n in names)


def _flat(facts: dict[str, Any]) -> dict[str, Any]:
    with reading("the checkpoint"):
        fact(facts, "identity", dict)
    return {**facts["identity"], **{n: v for n, v in facts.items() if n != "identity"}}
