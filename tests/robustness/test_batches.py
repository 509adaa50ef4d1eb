"""Empty batches, and batches whose schema changes."""

from __future__ import annotations

import pyarrow as pa
import pytest

import panes as pn
from panes.slicing.operator import SliceOperator
from tests.robustness.helpers import balanced, picked, query

SCHEMA = {"ts": "bigint", "k": "string", "v": "double"}
WINDOWS = {"t": pn.tumbling(10), "visit": pn.session(3), "pair": pn.tumbling(pn.rows(2))}


def operator() -> SliceOperator:
    return query(None, WINDOWS, {"s": "sum(v)"}, key="k", schema=SCHEMA).operator()


def batch(**changed: object) -> pa.Table:
    columns = {"ts": [1, 2], "k": ["a", "a"], "v": [1.0, 2.0], **changed}
    return pa.table({name: values for name, values in columns.items() if values is not None})


NOTHING = batch().slice(0, 0)
EMPTY = {"list": [], "table": NOTHING, "record batch": pa.RecordBatch.from_pylist([], schema=NOTHING.schema)}


@pytest.mark.parametrize("empty", EMPTY.values(), ids=EMPTY)
def test_empty_batches_change_nothing(empty: object) -> None:
    calm, interrupted = operator(), operator()
    expected = [*calm.push(batch()).rows(), *calm.push(batch(ts=[20, 30])).rows(), *calm.finish().rows()]
    found = []
    for piece in (empty, batch(), empty, batch(ts=[20, 30]), empty):
        found += list(interrupted.push(piece).rows())
    found += list(interrupted.finish().rows())
    assert found == expected
    assert interrupted.metrics["rows_in"] == 4


@pytest.mark.parametrize("rows", [[], EMPTY["table"]], ids=["list", "table"])
def test_a_query_over_nothing_gives_a_typed_empty_table(rows: object) -> None:
    table = query(rows, WINDOWS, {"s": "sum(v)"}, key="k", schema=SCHEMA).to_arrow()
    assert table.num_rows == 0
    assert table.schema.field("s").type == pa.float64()
    assert table.schema.field("k").type == pa.string()


def test_further_and_reordered_columns_are_found_by_name() -> None:
    one, other = operator(), operator()
    one.push(batch())
    other.push(batch(extra=[[1], [2]]).select(["extra", "v", "k", "ts"]))
    assert list(one.finish().rows()) == list(other.finish().rows())


REFUSED = {
    "value column missing": batch(v=None),
    "key column missing": batch(k=None),
    "time column missing": batch(ts=None),
    "text for a number": batch(v=["one", "two"]),
    "list for a number": batch(v=[[1.0], [2.0]]),
    "text for time": batch(ts=["yesterday", "today"]),
    "fractions of a tick": batch(ts=[1.5, 2.5]),
}


@pytest.mark.parametrize("wrong", REFUSED.values(), ids=REFUSED)
def test_a_batch_of_another_schema_is_refused_and_changes_nothing(wrong: pa.Table) -> None:
    calm, interrupted = operator(), operator()
    calm.push(batch())
    interrupted.push(batch())
    with pytest.raises(pn.errors.DataError):
        interrupted.push(wrong)
    assert interrupted.metrics["rows_in"] == 2
    later = batch(ts=[3, 14])
    assert list(interrupted.push(later).rows()) == list(calm.push(later).rows())
    assert list(interrupted.finish().rows()) == list(calm.finish().rows())
    assert balanced(interrupted.metrics)


@pytest.mark.parametrize(
    "same",
    [
        batch(v=pa.array([1, 2], pa.int32())),
        batch(v=pa.array([1, 2], pa.float32())),
        batch(ts=pa.array([1, 2], pa.int16())),
        batch(k=pa.array(["a", "a"]).dictionary_encode()),
        batch(k=pa.array(["a", "a"], pa.large_string())),
    ],
    ids=["int32 value", "float32 value", "int16 time", "dictionary key", "large string key"],
)
def test_types_that_keep_every_value_are_read(same: pa.Table) -> None:
    one, other = operator(), operator()
    one.push(batch())
    other.push(same)
    assert picked(other.finish().rows(), ["window", "s"]) == picked(one.finish().rows(), ["window", "s"])


def test_the_error_names_the_column() -> None:
    with pytest.raises(pn.errors.DataError, match=r"\bv\b"):
        operator().push(batch(v=None))
