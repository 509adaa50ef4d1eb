"""Rows kept for corrections are found by key and in order, however they came."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from panes.aggregates.base import Column
from panes.slicing.lane import RowBatch
from panes.slicing.rows.kept_rows import KeptRows
from panes.state.journal import Journal


def batch(times: list[int], slots: list[int], number: int, *, nulls: bool = False) -> RowBatch:
    n = len(times)
    seq = np.arange(number, number + n)
    valid = seq % 3 > 0 if nulls else None
    in_order = times == sorted(times)
    columns = {"v": Column(seq * 10, valid, pa.int64())}
    return RowBatch(np.array(slots, np.int64), np.array(times, np.int64), seq, columns, in_order)


def check(kept: KeptRows, wanted: list[tuple[int, int, int]], slot: int) -> None:
    """`wanted` are time, slot and number of all rows as they came."""
    mine = sorted((row for row in wanted if row[1] == slot), key=lambda row: row[0])
    rows = kept.of(slot)
    assert len(rows) == len(mine)
    if mine:
        found = rows.take(slice(None))
        assert list(zip(found.times.tolist(), found.slots.tolist(), found.seq.tolist())) == mine
        assert found.columns["v"].values.tolist() == [10 * number for _, _, number in mine]
        assert rows.times(np.arange(len(mine))).tolist() == [time for time, _, _ in mine]
        time = mine[len(mine) // 2][0]
        assert rows.place_of(time) == sum(t <= time for t, _, _ in mine)


@pytest.mark.parametrize("seed", range(20))
def test_rows_of_a_key_are_in_order_whenever_somebody_asks(seed: int) -> None:
    rng = Random(seed)
    journal = Journal()
    kept, wanted, now, number = KeptRows(journal), [], 0, 0
    for _ in range(150):
        if rng.random() < 0.3 and wanted:  # a late row of one key
            slot, time = rng.randrange(4), rng.randint(max(0, now - 40), now)
            place = kept.of(slot).place_of(time) if len(kept.of(slot)) else 0
            kept.insert(slot, batch([time], [slot], number, nulls=rng.random() < 0.1), place)
            wanted.append((time, slot, number))
            number += 1
        else:
            n = rng.randint(0, 6)
            times = sorted(rng.randint(now, now + 5) for _ in range(n))
            slots = [rng.randrange(4) for _ in times]
            kept.add(batch(times, slots, number, nulls=rng.random() < 0.1))
            wanted += zip(times, slots, range(number, number + n))
            now, number = now + 5, number + n
        assert len(kept) == len(wanted)
        if rng.random() < 0.2:
            journal.begin()
            journal.watch(kept.begin())
            slot = rng.randrange(4)
            kept.add(batch([now, now], [slot, slot], number))
            kept.insert(slot, batch([0], [slot], number + 2), 0)
            journal.rewind()
        if rng.random() < 0.3:
            check(kept, wanted, rng.randrange(4))
    rows = kept.all()
    assert rows is not None
    assert rows.seq.tolist() == [row[2] for row in wanted]
    kept.put(rows.take(np.arange(len(rows))[-10:]))
    for slot in range(4):
        check(kept, wanted[-10:], slot)
