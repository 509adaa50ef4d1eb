"""What the state store holds of one key group, as plain values: a head that says what is where, and pieces.

The state of a group is a snapshot and the steps since, each a run of pieces. Whoever reads a state, a worker
or someone who looks at a checkpoint from outside, puts it together with what is here.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from panes.errors import SnapshotMismatch
from panes.runners.spark.group_operator import Passed, Runnable, Running, run
from panes.runners.spark.packing import from_bytes, to_bytes

#: Pieces near this size are the cheapest to read and write.
PIECE_BYTES = 1 << 20
#: The layout described here; another one is refused.
LAYOUT = 2


@dataclass
class Run:
    """Values kept end to end in a run of pieces: the number of the first, how many, and the size of each value."""

    first: int = 0
    count: int = 0
    sizes: list[int] = field(default_factory=list)

    @property
    def numbers(self) -> range:
        return range(self.first, self.first + self.count)


@dataclass
class Entry:
    """One step since the snapshot: its stamp, how far event time passed in it, and where its rows are."""

    stamp: str
    passed: Passed
    rows: Run

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> Entry:
        return cls(facts["stamp"], Passed(*facts["passed"]), Run(**facts["rows"]))


@dataclass
class Head:
    """What is in the store.

    `query` is a digest of the query, `lineage` names this state for as long as it lives, and every write has
    a stamp that no other has. `timer` is the timer that is set.
    """

    query: str
    lineage: str
    stamp: str = ""
    snapshot: Run = field(default_factory=Run)
    steps: list[Entry] = field(default_factory=list)
    step_bytes: int = 0
    next_piece: int = 0
    known: bool = False  # whether the facts of the query are in the store
    #: bytes of a snapshot per byte that the operator has filled: a guess until one was written
    ratio: float = 0.5
    timer: int | None = None
    layout: int = LAYOUT

    @property
    def snapshot_bytes(self) -> int:
        return sum(self.snapshot.sizes)

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Head:
        facts = json.loads(text)
        if facts.get("layout") != LAYOUT:
            raise SnapshotMismatch(
                f"the checkpoint has state of layout {facts.get('layout')}, this version of Panes reads layout "
                f"{LAYOUT}; go on with the version that wrote it"
            )
        steps = [Entry.from_json(e) for e in facts["steps"]]
        return cls(**{**facts, "snapshot": Run(**facts["snapshot"]), "steps": steps})


def to_pieces(values: Iterable[bytes]) -> list[str]:
    """Values end to end, cut into pieces."""
    data = b"".join(values)
    # text is written and read faster than bytes, see docs/spark.md
    return [base64.b64encode(data[at : at + PIECE_BYTES]).decode("ascii") for at in range(0, len(data), PIECE_BYTES)]


def from_pieces(pieces: Iterable[str], sizes: Sequence[int]) -> list[bytes]:
    data = memoryview(b"".join(base64.b64decode(piece) for piece in pieces))
    out, at = [], 0
    for size in sizes:
        out.append(bytes(data[at : at + size]))
        at += size
    return out


def compressed(snapshot: bytes) -> bytes:
    return to_bytes(pa.table({"snapshot": pa.array([snapshot], pa.large_binary())}))


def uncompressed(data: bytes) -> bytes:
    return from_bytes(data)["snapshot"][0].as_py()


def restored(query: Runnable, head: Head, read: Callable[[Run], list[bytes]]) -> Running:
    """The operator of the snapshot, before the steps."""
    return query.operator([uncompressed(blob) for blob in read(head.snapshot)])


def redo(query: Runnable, op: Running, steps: Iterable[Entry], read: Callable[[Run], list[bytes]]) -> None:
    """Bring an operator up to date; what the steps give was given when they were done first."""
    for entry in steps:
        run(op, entry.passed, query.rows(read(entry.rows)))


def changed(then: dict[str, Any], now: dict[str, Any]) -> str:
    """What is different between the facts of two queries, in words."""
    before, after = _flat(then), _flat(now)
    names = [n for n in sorted({*before, *after}) if before.get(n) != after.get(n)]
    return "; ".join(f"{n} was {before.get(n)!r}, is {after.get(n)!r}" for n in names)


def _flat(facts: dict[str, Any]) -> dict[str, Any]:
    return {**facts["identity"], **{n: v for n, v in facts.items() if n != "identity"}}
