"""Banks of entries: what is declared is written, read and checked; small snapshots are deflated, and not too far."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pyarrow as pa
import pytest

from panes.errors import SnapshotDamaged
from panes.state import snapshot
from panes.state.entries import Entries, EntryBank, EntryColumn, SlotMap, entry_columns


class Marks(EntryBank):
    """Any number of marks of each key."""

    declared = entry_columns("at", mark=EntryColumn(low=0, high=9))

    def __init__(self, *marks: tuple[int, int, int]) -> None:
        self.slot, self.at, self.mark = np.array(marks, np.int64).reshape(-1, 3).T

    def entries(self, slots: np.ndarray) -> Entries:
        return Entries(self.slot, {"at": self.at, "mark": self.mark}).of(slots)

    def take_in(self, found: Entries) -> None:
        self.slot, self.at, self.mark = found.slots, found.columns["at"], found.columns["mark"]

    def used_slots(self) -> np.ndarray:
        return np.unique(self.slot)

    def renumber(self, moved: np.ndarray) -> None:
        self.slot = moved[self.slot]

    @property
    def nbytes(self) -> int:
        return self.slot.nbytes


def test_entries_of_some_keys_are_written_and_read_as_those_of_other_slots() -> None:
    table = Marks((0, 5, 1), (3, 6, 2), (3, 7, 3)).dump(np.array([3]))
    here = Marks()
    here.load(table, SlotMap(np.array([3]), np.array([8])), "marks")
    assert (here.slot.tolist(), here.at.tolist(), here.mark.tolist()) == ([8, 8], [6, 7], [2, 3])


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"slot": [0], "at": [1], "mark": [10]}, "too large"),
        ({"slot": [0], "at": [1], "mark": [-1]}, "too small"),
        ({"slot": [0], "at": [None], "mark": pa.array([1])}, "type null"),
        ({"slot": [0], "at": pa.array([None], pa.int64()), "mark": [1]}, "has nulls"),
        ({"slot": [0], "at": [1.5], "mark": [1]}, "of type double"),
        ({"slot": [0], "at": [1]}, "too few"),
        ({"slot": [0], "at": [1], "mark": [1], "code.pickled": [b""]}, "belongs to nothing"),
        ({"slot": [4], "at": [1], "mark": [1]}, "a key that it does not name"),
    ],
)
def test_entries_that_can_not_be_are_refused(columns: dict[str, object], reason: str) -> None:
    with pytest.raises(SnapshotDamaged, match=reason):
        Marks().load(pa.table(columns), SlotMap(np.zeros(1, np.int64), np.zeros(1, np.int64)), "marks")


def test_what_is_small_is_deflated_if_asked_and_read_back() -> None:
    tables = {str(i): pa.table({"v": [1, 2]}) for i in range(9)}
    small, plain = snapshot.pack({"n": 1}, tables, deflate=True), snapshot.pack({"n": 1}, tables)
    assert 3 * len(small) < len(plain)
    assert snapshot.unpack(small)[0] == snapshot.unpack(plain)[0] == {"n": 1}
    assert snapshot.unpack(small)[1]["7"].equals(tables["7"])
    large = {"t": pa.table({"v": np.zeros(100_000)})}
    assert len(snapshot.pack({}, large, deflate=True)) > 800_000


@pytest.mark.parametrize("inner", [b"", b"\0" * 8, b"\0" * 10**8, struct.pack("<Q", 2) + b"{}", b"?"])
def test_deflated_bytes_are_believed_no_more_than_others(inner: bytes) -> None:
    body = struct.pack("<Q", 0) + (inner if inner == b"?" else zlib.compress(inner))
    checksum = snapshot._checksum(snapshot.FORMAT, body)
    with pytest.raises(SnapshotDamaged):
        snapshot.unpack(snapshot._HEAD.pack(snapshot.MAGIC, snapshot.FORMAT, len(body), checksum) + body)
