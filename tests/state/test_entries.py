"""Banks of entries: what is declared is written, read and checked; small snapshots are deflated, and not too far."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pyarrow as pa
import pytest

from panes.errors import SnapshotDamaged
from panes.state import snapshot
from panes.state.entries import (
    Entries,
    EntryBank,
    EntryColumn,
    Held,
    SlotMap,
    dump_banks,
    entry_columns,
    load_banks,
    named,
    nbytes_of,
    renumber_banks,
    slots_of_banks,
)


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


class OwnMarks(Marks):
    """Marks at numbers, whole or not, of which there need not be any, and that no key loses."""

    declared = entry_columns("mark", at=EntryColumn(None))
    optional = True

    def used_slots(self) -> None:
        return Held.used_slots(self)

    def renumber(self, moved: np.ndarray) -> None:
        Held.renumber(self, moved)


def test_banks_are_written_and_read_by_name_and_those_that_are_nothing_need_not_be_there() -> None:
    tables = dump_banks(named("a.", {"some": Marks((3, 6, 2)), "none": Marks(), "own": OwnMarks()}), np.array([3]))
    assert {name: table.num_rows for name, table in tables.items()} == {"a.some": 1, "a.none": 0}
    here = {"some": Marks(), "own": OwnMarks((1, 1, 1))}
    slots = SlotMap(np.array([3]), np.array([8]))
    load_banks(named("a.", here), tables, slots)
    assert (here["some"].slot.tolist(), here["own"].slot.tolist()) == ([8], [1])
    with pytest.raises(SnapshotDamaged, match="the snapshot has no table"):
        load_banks(named("b.", here), tables, slots)


def test_keys_are_forgotten_unless_one_bank_never_forgets_any() -> None:
    banks = {"one": Marks((4, 0, 0), (1, 0, 0)), "other": Marks((4, 0, 0))}
    used = slots_of_banks(banks)
    assert used is not None
    assert used.tolist() == [1, 4]
    assert nbytes_of(banks) == 3 * 8
    renumber_banks(banks, np.array([-1, 0, -1, -1, 1]))
    assert (banks["one"].slot.tolist(), banks["other"].slot.tolist()) == ([1, 0], [1])
    assert slots_of_banks({**banks, "own": OwnMarks()}) is None
    with pytest.raises(TypeError, match="OwnMarks never forgets a key"):
        renumber_banks({"own": OwnMarks()}, np.zeros(1, np.int64))


@pytest.mark.parametrize("at", [2**53 + 1, 0.5])
def test_columns_of_numbers_of_either_kind_keep_theirs(at: float) -> None:
    here = OwnMarks()
    here.load(pa.table({"slot": [0], "at": [at], "mark": [1]}), SlotMap(np.zeros(1, int), np.zeros(1, int)), "marks")
    assert here.at.tolist() == [at]
    with pytest.raises(SnapshotDamaged, match="of type string"):
        here.load(pa.table({"slot": [0], "at": ["x"], "mark": [1]}), SlotMap(np.zeros(1, int), np.zeros(1, int)), "it")


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
