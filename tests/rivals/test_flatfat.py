"""FlatFAT: which nodes an insert touches, which a lookup reads, order around the circle."""

from __future__ import annotations

import numpy as np
import pytest

from bench.rivals.flatfat import FlatFat, cover, spans
from bench.rivals.functions import ADD, FIRST, LAST


def filled(records: int) -> FlatFat:
    tree = FlatFat(ADD, capacity=16)
    tree.append(np.arange(1.0, records + 1))
    return tree


@pytest.mark.parametrize("each", [False, True])
def test_inserting_record_4_of_16(each: bool) -> None:
    tree = filled(3)
    before = tree.heap.copy()
    tree.append(np.array([4.0]), each=each)
    touched = [spans(16, int(node)) for node in np.flatnonzero(tree.heap != before)[::-1]]
    assert touched == [(4, 4), (3, 4), (1, 4), (1, 8), (1, 16)]
    assert tree.work - filled(3).work == 4


def test_lookup_of_4_to_8_reads_two_nodes() -> None:
    assert cover(16, 4, 8) == [(4, 4), (5, 8)]
    value, read = filled(16).lookup(np.array([3]), np.array([8]))
    assert value.tolist() == [4 + 5 + 6 + 7 + 8]
    assert read == 2


def test_full_doubles_and_a_third_halves() -> None:
    tree = FlatFat(ADD)
    sizes = []
    for i in range(17):
        tree.append(np.array([float(i)]))
        sizes.append(tree.capacity)
    assert sizes == [2, 2, 4, 4, 8, 8, 8, 8] + [16] * 8 + [32]
    tree.purge(6)  # 11 of 32 are more than a third
    assert tree.capacity == 32
    tree.purge(1)
    assert tree.capacity == 16
    assert tree.leaves().tolist() == list(range(7, 17))


@pytest.mark.parametrize(("op", "pick"), [(FIRST, 0), (LAST, -1)])
def test_order_holds_around_the_circle(op: int, pick: int) -> None:
    tree = FlatFat(op, capacity=8)
    held: list[float] = []
    rng = np.random.default_rng(5)
    wrapped = False
    for i in range(200):
        tree.append(np.array([float(i)]), each=bool(i % 2))
        held.append(float(i))
        if len(held) > rng.integers(3, 8):
            tree.purge(1)
            held.pop(0)
        lo, hi = np.triu_indices(len(held) + 1, 1)
        got, _ = tree.lookup(lo, hi)
        assert got.tolist() == [held[a:b][pick] for a, b in zip(lo, hi)]
        wrapped |= tree.front + len(tree) > tree.capacity
    assert wrapped


def test_rewriting_the_tail_is_an_insert_in_the_middle() -> None:
    tree = filled(5)
    tree.rewrite(2, np.array([9.0, 3, 4, 5]))
    assert tree.leaves().tolist() == [1, 2, 9, 3, 4, 5]
    assert tree.lookup(np.array([1]), np.array([4]))[0].tolist() == [14]
