"""Banks: columns over slots grow, are chosen from, put back, forgotten, written and read, all of them alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from panes.errors import SnapshotDamaged, SnapshotUntrusted
from panes.state.bank import Bank, BankColumn
from panes.state.entries import SlotMap
from panes.state.journal import Journal
from panes.state.pickles import trusting

DECLARED = {
    "seen": BankColumn(np.int64(0)),
    "last": BankColumn(np.float64(-np.inf)),
    "open": BankColumn(np.bool_(False)),
    "own": BankColumn(None),
    "pairs": BankColumn(None, packed=True),
}
#: from slots 0 and 1 to the same here
BOTH = SlotMap(np.arange(2), np.arange(2))


def bank(journal: Journal | None = None) -> Bank:
    made = Bank(DECLARED, journal or Journal())
    made.grow(3)
    made.columns["seen"][:3] = 1, 2, 3
    made.columns["own"][1] = ["mine"]
    made.columns["pairs"][2] = b"0123"
    return made


def shown(found: Bank) -> dict[str, list[Any]]:
    return {name: column.tolist() for name, column in found.columns.items()}


def test_slots_of_which_nothing_is_known_have_the_defaults() -> None:
    made = bank()
    assert made.grow(5)
    assert not made.grow(5)
    assert len(made) == 5
    assert made.columns["seen"].tolist() == [1, 2, 3, 0, 0]
    assert made.columns["last"].tolist() == [-np.inf] * 5
    assert made.columns["own"].tolist() == [None, ["mine"], None, None, None]
    assert made.nbytes == 5 * (8 + 8 + 1 + 8 + 8)


def test_a_column_that_stays_keeps_what_it_holds() -> None:
    made = bank()
    made.declare({"seen": DECLARED["seen"], "new": BankColumn(np.int64(7))})
    assert shown(made) == {"seen": [1, 2, 3], "new": [7, 7, 7]}


def test_what_is_selected_is_a_copy_and_can_be_put_back() -> None:
    made = bank()
    part = made.select(np.array([1, 2]))
    part.columns["own"][0].append("more")
    part.columns["seen"] += 10
    assert made.columns["own"][1] == ["mine"]
    made.put(np.array([1, 2]), part)
    assert made.columns["own"][1] == ["mine", "more"]
    assert made.columns["seen"].tolist() == [1, 12, 13]


def test_a_call_that_fails_takes_back_what_was_put_and_grown() -> None:
    journal = Journal()
    made = bank(journal)
    before = shown(made)
    journal.begin()
    journal.watch([made])
    part = made.select(np.array([0]))
    part.columns["seen"][0] = 99
    made.put(np.array([0]), part)
    made.grow(50)
    journal.rewind()
    assert shown(made) == before
    assert len(made) == 3


def test_slots_that_are_kept_are_numbered_anew() -> None:
    made = bank()
    made.renumber(np.array([0, -1, 1]))
    assert made.columns["seen"].tolist() == [1, 3]
    assert made.columns["pairs"].tolist() == [None, b"0123"]


def test_what_is_written_is_read_into_other_slots() -> None:
    table = bank().dump(np.array([1, 2]))
    assert table.column_names == ["slot", "seen", "last", "open", "own.pickled", "pairs"]
    other = Bank(DECLARED, Journal())
    with trusting(True):
        other.load(table, SlotMap(np.array([1, 2]), np.array([4, 0])), "the state of a window")
    assert other.columns["seen"].tolist() == [3, 0, 0, 0, 2]
    assert other.columns["own"][4] == ["mine"]
    assert other.columns["pairs"][0] == b"0123"


def test_objects_of_users_are_read_only_from_trusted_bytes() -> None:
    with pytest.raises(SnapshotUntrusted, match="the state of a window is pickled"):
        Bank(DECLARED, Journal()).load(bank().dump(np.array([1])), BOTH, "the state of a window")


def test_columns_that_nobody_declared_are_refused() -> None:
    table = bank().dump(np.array([0, 1]))
    plain = {"seen": DECLARED["seen"]}
    with pytest.raises(SnapshotDamaged, match="pickled, and this query has no code of its own there"):
        Bank({**DECLARED, "own": BankColumn(np.int64(0))}, Journal()).load(table, BOTH, "it")
    with pytest.raises(SnapshotDamaged, match="wrong columns"):
        Bank(plain, Journal()).load(table.select(["slot", "seen", "last"]), BOTH, "it")
    with pytest.raises(SnapshotDamaged, match="of one key is there twice"):
        Bank(plain, Journal()).load(table.select(["slot", "seen"]), SlotMap(np.arange(2), np.ones(2, np.int64)), "it")
