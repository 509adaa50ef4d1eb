"""Keys to slots and back: any type, any batch size, the same slots however rows are batched."""

from __future__ import annotations

import subprocess
import sys
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from panes.errors import DataError, QueryError, SnapshotDamaged
from panes.slicing import key_index
from panes.slicing.keys import KEY_GROUPS, KeyDirectory

COLUMNS = {
    "int64": pa.array([5, -3, None, 5, 2**63 - 1, -(2**63), None]),
    "int8": pa.array([5, -3, None, 5, 127, -128, None], pa.int8()),
    "uint64": pa.array([2**64 - 1, 0, None, 2**64 - 1, 2**63], pa.uint64()),
    "double": pa.array([1.5, float("nan"), None, -0.0, 0.0, float("inf"), -float("nan"), 1.5]),
    "float": pa.array([1.5, float("nan"), None, -0.0, 0.0], pa.float32()),
    "bool": pa.array([True, None, False, True]),
    "string": pa.array(["a", "", None, "a", "\u00fc", "b"]),
    "binary": pa.array([b"a", b"", None, b"a"]),
    "decimal": pa.array([Decimal("1.00"), None, Decimal("1.00"), Decimal("-2.50")], pa.decimal128(10, 2)),
    "date": pa.array([date(1970, 1, 1), None, date(1969, 12, 31), date(1970, 1, 1)]),
    "timestamp": pa.array([datetime(2020, 1, 1), None, datetime(1900, 1, 1)], pa.timestamp("us")),
    "dictionary": pa.array(["x", "y", None, "x", "z", "y"]).dictionary_encode(),
    "null": pa.nulls(3),
}


def same(a: object, b: object) -> bool:
    return a == b or (a != a and b != b)


def plain(column: pa.Array) -> list[object]:
    return column.to_pylist()


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("size", [1, 2, 100])
def test_every_type_goes_in_and_comes_out(name: str, size: int) -> None:
    column = COLUMNS[name]
    keys = KeyDirectory([column.type])
    slots = np.concatenate([keys.slots([column.slice(i, size)]) for i in range(0, len(column), size)])
    given = plain(column)
    for i, a in enumerate(given):
        for j, b in enumerate(given):
            assert (slots[i] == slots[j]) == same(a, b), (a, b)
    first_seen = [s for i, s in enumerate(slots.tolist()) if s not in slots[:i]]
    assert first_seen == list(range(len(keys)))
    back = plain(keys.key_columns(slots)[0])
    assert all(same(a, b) for a, b in zip(back, given))


@pytest.mark.parametrize("rows", [10, 5000])
@pytest.mark.parametrize("distinct", [3, 900, 60_000])
def test_slots_are_given_by_first_appearance_in_any_batching(rows: int, distinct: int) -> None:
    rng = np.random.default_rng(distinct)
    values = rng.integers(-(2**62), 2**62, distinct)[rng.integers(0, distinct, 20_000)]
    expected: dict[int, int] = {}
    want = [expected.setdefault(v, len(expected)) for v in values.tolist()]
    keys = KeyDirectory([pa.int64()])
    got = np.concatenate([keys.slots([pa.array(values[i : i + rows])]) for i in range(0, len(values), rows)])
    assert got.tolist() == want
    # small and large batches in turn look at the same keys
    assert keys.slots([pa.array(values[:7])]).tolist() == want[:7]
    assert keys.slots([pa.array(values[:4000])]).tolist() == want[:4000]


def test_nulls_get_their_slot_where_they_first_appear() -> None:
    rng = np.random.default_rng(1)
    values = [None if v == 7 else v for v in rng.integers(0, 50, 6000).tolist()]
    whole, parts = KeyDirectory([pa.int64()]), KeyDirectory([pa.int64()])
    a = whole.slots([pa.array(values, pa.int64())])
    b = np.concatenate([parts.slots([pa.array(values[i : i + 100], pa.int64())]) for i in range(0, 6000, 100)])
    assert a.tolist() == b.tolist()


def test_several_columns_make_one_key() -> None:
    rng = np.random.default_rng(2)
    n = 5000
    a, b, c = rng.integers(0, 20, n), rng.integers(0, 5, n), rng.integers(0, 3, n)
    text = pa.array([None if x == 0 else f"s{x}" for x in b])
    keys = KeyDirectory([pa.int64(), pa.string(), pa.float64()])
    slots = keys.slots([pa.array(a), text, pa.array(c / 2)])
    expected: dict[tuple[object, ...], int] = {}
    want = [expected.setdefault(k, len(expected)) for k in zip(a.tolist(), text.to_pylist(), (c / 2).tolist())]
    assert slots.tolist() == want
    assert [tuple(k) for k in zip(*(x.to_pylist() for x in keys.key_columns(np.arange(len(keys)))))] == list(expected)


def test_groups_are_the_same_everywhere() -> None:
    columns = [pa.array([1, -5, None, 2**40]), pa.array(["a", None, "b", "\u00fc"])]
    keys = KeyDirectory([c.type for c in columns])
    here = keys.groups(keys.slots(columns)).tolist()
    code = (
        "import pyarrow as pa; from panes.slicing.keys import KeyDirectory; "
        "c=[pa.array([1,-5,None,2**40]), pa.array(['a',None,'b','\\u00fc'])]; "
        "k=KeyDirectory([x.type for x in c]); print(k.groups(k.slots(c)).tolist())"
    )
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert str(here) == there.strip()
    assert here == [122, 122, 31, 35], "groups of keys are written in snapshots: they may never change"


def test_groups_do_not_depend_on_width_and_are_spread() -> None:
    values = np.arange(100_000, dtype=np.int32)
    narrow, wide = KeyDirectory([pa.int32()]), KeyDirectory([pa.int64()])
    a, b = narrow.slots([pa.array(values)]), wide.slots([pa.array(values.astype(np.int64))])
    groups = narrow.groups(a)
    assert (groups == wide.groups(b)).all()
    counts = np.bincount(groups, minlength=KEY_GROUPS)
    assert counts.min() > 600
    assert counts.max() < 1000


def test_dump_and_load_keep_keys_and_give_the_map() -> None:
    keys = KeyDirectory([pa.int64(), pa.string()])
    keys.slots([pa.array([1, 2, 3, 4]), pa.array(["a", None, "c", "d"])])
    other = KeyDirectory([pa.int64(), pa.string()])
    other.slots([pa.array([3]), pa.array(["c"])])
    moved = other.load(keys.dump(np.array([1, 2])))
    assert moved[np.array([1, 2])].tolist() == [1, 0]
    with pytest.raises(SnapshotDamaged, match="a key that it does not name"):
        moved[np.array([0])]
    assert len(other.load(keys.dump(np.array([], np.int64)))) == 0
    assert [c.to_pylist() for c in other.key_columns(np.array([0, 1]))] == [[3, 2], ["c", None]]


def test_compact_forgets_the_others() -> None:
    keys = KeyDirectory([pa.int64()])
    keys.slots([pa.array(np.arange(5000))])
    moved = keys.compact(np.array([4000, 10]))
    assert len(keys) == 2
    assert (moved[10], moved[4000], moved[11]) == (0, 1, -1)
    assert keys.slots([pa.array([4000, 10, 77])]).tolist() == [1, 0, 2]


def test_types_that_are_no_keys_and_values_that_do_not_fit() -> None:
    with pytest.raises(QueryError, match="nested"):
        KeyDirectory([pa.list_(pa.int64())])
    with pytest.raises(DataError, match="key column number 1"):
        KeyDirectory([pa.int64()]).slots([pa.array(["x"])])
    assert KeyDirectory([pa.int64()]).slots([pa.array([3], pa.int8())]).tolist() == [0]


def test_small_batches_do_not_import_numba() -> None:
    code = (
        "import sys, pyarrow as pa; from panes.slicing.keys import KeyDirectory; "
        f"KeyDirectory([pa.int64()]).slots([pa.array(range({key_index.LARGE - 1}))]); print('numba' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "False"
