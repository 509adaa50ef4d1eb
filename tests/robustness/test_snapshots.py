"""Ten thousand damaged, swapped and foreign snapshots: refused by name, or restored exactly."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

import panes as pn
from panes.api.stream import Query
from panes.slicing.operator import SliceOperator
from tests.robustness.helpers import query

SCHEMA = {"ts": "bigint", "k": "string", "v": "double"}

#: (windows, options of the stream): one for each way to keep state.
QUERIES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "time": ({"t": pn.tumbling(10), "s": pn.sliding(20, every=5)}, {"watermark": 5}),
    "session": ({"visit": pn.session(4)}, {"key": "k", "watermark": 5, "lateness": 20}),
    "rows": ({"r": pn.tumbling(pn.rows(3)), "d": pn.delta(4, on="v")}, {"watermark": 5}),
}
#: Ten thousand in all.
MUTANTS_OF_EACH = 10_000 // len(QUERIES) + 1


def build(name: str) -> Query:
    windows, options = QUERIES[name]
    return query(None, windows, {"s": "sum(v)", "m": "median(v)"}, schema=SCHEMA, **options)


def rows(start: int, stop: int) -> list[dict[str, object]]:
    return [{"ts": t - t * 7 % 5, "k": "ab"[t % 2], "v": float(t % 11)} for t in range(start, stop)]


@cache
def snapshot(name: str) -> bytes:
    operator = build(name).operator()
    operator.push(rows(0, 40))
    return operator.snapshot()


def rest(operator: SliceOperator) -> list[dict[str, object]]:
    """All that the operator still gives when the stream goes on."""
    return [*operator.push(rows(40, 60)).rows(), *operator.finish().rows()]


@cache
def expected_rest(name: str) -> str:
    return repr(rest(build(name).operator(restore=snapshot(name))))


def flip_bits(blob: bytes, dice: random.Random) -> bytes:
    changed = bytearray(blob)
    for _ in range(dice.choice([1, 1, 1, 2, 8])):
        changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
    return bytes(changed)


def flip_in_head(blob: bytes, dice: random.Random) -> bytes:
    """The head says what the bytes are: the place where a careless reader is fooled."""
    return flip_bits(blob[:64], dice) + blob[64:]


def truncate(blob: bytes, dice: random.Random) -> bytes:
    return blob[: dice.randrange(len(blob))]


def extend(blob: bytes, dice: random.Random) -> bytes:
    return blob + dice.randbytes(dice.randrange(1, 50))


def swap_pieces(blob: bytes, dice: random.Random) -> bytes:
    a, b, c = sorted(dice.sample(range(len(blob) + 1), 3))
    return blob[:a] + blob[b:c] + blob[a:b] + blob[c:]


def cut_out(blob: bytes, dice: random.Random) -> bytes:
    a, b = sorted(dice.sample(range(len(blob) + 1), 2))
    return blob[:a] + blob[b:]


def zero_out(blob: bytes, dice: random.Random) -> bytes:
    a, b = sorted(dice.sample(range(len(blob) + 1), 2))
    return blob[:a] + bytes(b - a) + blob[b:]


def splice_other(blob: bytes, dice: random.Random) -> bytes:
    """The start of this snapshot, the end of another query's."""
    at = dice.randrange(len(blob))
    return blob[:at] + snapshot(dice.choice(list(QUERIES)))[at:]


def foreign(blob: bytes, dice: random.Random) -> bytes:
    return dice.choice([b"", b"PAR1", b"\x80\x04N.", b"{}", dice.randbytes(dice.randrange(200))])


def other_query(blob: bytes, dice: random.Random) -> bytes:
    return snapshot(dice.choice(list(QUERIES)))


MUTATIONS: list[Callable[[bytes, random.Random], bytes]] = [
    flip_bits,
    flip_in_head,
    truncate,
    extend,
    swap_pieces,
    cut_out,
    zero_out,
    splice_other,
    foreign,
    other_query,
]


@pytest.mark.parametrize("name", QUERIES)
def test_mutated_snapshots_are_refused_by_name_or_restored_exactly(name: str) -> None:
    dice = random.Random(20150912)
    built = build(name)
    outcomes: Counter[str] = Counter()
    for number in range(MUTANTS_OF_EACH):
        mutant = MUTATIONS[number % len(MUTATIONS)](snapshot(name), dice)
        try:
            operator = built.operator(restore=mutant)
        except pn.errors.SnapshotError as error:
            outcomes[type(error).__name__] += 1
        else:
            outcomes["restored"] += 1
            if mutant != snapshot(name):  # what the intact one gives is tested below
                assert repr(rest(operator)) == expected_rest(name), f"mutant {number} was loaded wrong"
    assert set(outcomes) == {"SnapshotDamaged", "SnapshotForeign", "SnapshotMismatch", "restored"}
    assert outcomes.total() == MUTANTS_OF_EACH


@pytest.mark.parametrize("name", QUERIES)
def test_an_intact_snapshot_is_restored_exactly(name: str) -> None:
    whole = build(name).operator()
    whole.push(rows(0, 40))
    assert repr(rest(whole)) == expected_rest(name)
    assert expected_rest(name) != "[]"


@pytest.mark.parametrize("name", QUERIES)
def test_the_snapshot_of_another_query_is_a_mismatch(name: str) -> None:
    for other in QUERIES:
        if other != name:
            with pytest.raises(pn.errors.SnapshotMismatch):
                build(name).operator(restore=snapshot(other))


def test_an_aggregate_of_the_same_shape_and_name_is_a_mismatch() -> None:
    """min and max keep the same fields: only what the query says tells them apart."""

    def extreme(text: str) -> Any:
        return pn.stream(None, schema={"t": "bigint", "v": "bigint"}, time="t").window(w=pn.tumbling(10)).agg(x=text)

    operator = extreme("min(v)").operator()
    operator.push([{"t": 1, "v": 1}])
    with pytest.raises(pn.errors.SnapshotMismatch, match=r"min\(v\).*max\(v\)"):
        extreme("max(v)").operator(restore=operator.snapshot())
    extreme("MIN( v )").operator(restore=operator.snapshot())


@pytest.mark.parametrize("wrong", [None, 3, "text", ["bytes"]])
def test_what_are_no_bytes_is_refused(wrong: object) -> None:
    if wrong is None:  # no snapshot: a fresh operator
        assert build("time").operator(restore=None).metrics["rows_in"] == 0
    else:
        with pytest.raises((pn.errors.SnapshotError, TypeError)):
            build("time").operator(restore=wrong)  # type: ignore[arg-type]


def test_a_snapshot_runs_no_code() -> None:
    """Arrow and JSON only: nothing in the snapshot of built-in windows and aggregates is pickled."""
    for name in QUERIES:
        blob = snapshot(name)
        assert b"\x80\x04\x95" not in blob
        assert b"\x80\x05\x95" not in blob
