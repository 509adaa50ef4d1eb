"""State that moves between runners: the checkpoint of a Spark query as parts of an operator's snapshot.

`spark_snapshot` reads the state of every key group as the last committed micro-batch left it and brings the
groups to one watermark. What that makes due, and Spark would give with its next micro-batch, goes along. Each group
counted its rows on its own; arrival numbers are spread out, so that they keep their order within a group and no two
are alike.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from panes.errors import QueryError, SnapshotMismatch
from panes.plan.query import QueryPlan
from panes.runners.spark.group_operator import GroupQuery, reach, used_columns
from panes.runners.spark.packing import group_labels, hash_groups
from panes.runners.spark.stored import (
    HEAD,
    KEY,
    QUERY,
    STATE,
    VALUE,
    Head,
    PieceRun,
    changed,
    from_pieces,
    redo,
    restored,
)
from panes.slicing.checkpoint import DUE
from panes.slicing.key_groups import KeyGroups, spread
from panes.slicing.keys import KEY_GROUPS as MOST_GROUPS
from panes.slicing.operator import SliceOperator
from panes.state.checked import demand, fact, reading, value, whole
from panes.state.snapshot import pack, unpack

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark_snapshot(
    spark: SparkSession, checkpoint: str | os.PathLike[str], query: Any, *, batch: int | None = None
) -> list[bytes]:
    """The state in the checkpoint of a Spark query, for `query.operator(restore=...)` or `to_spark(restore=...)`.

    `query` is the same query, on data of any kind. `batch` is a micro-batch that is still in the checkpoint;
    None: the last one.
    """
    store = _values(spark, os.fspath(checkpoint), batch)
    if not store:
        raise QueryError(f"checkpoint: there is no state of a Panes query in {checkpoint!s} yet")
    return parts_of(store, query._plan)


def parts_of(store: Mapping[int, Mapping[int, str]], plan: QueryPlan) -> list[bytes]:
    """The parts of an operator's snapshot, from what a checkpoint holds by the label of the key group and by number."""
    with reading("the checkpoint"):
        facts = value(json.loads(next(iter(store.values()))[QUERY]), "the query", dict)
        groups, columns = whole(facts, "key_groups", 1, MOST_GROUPS), fact(facts, "columns", list)
        needed = {*used_columns(plan, facts.get("sequence"))}
        demand(needed <= set(columns) <= set(plan.stream.schema.names), "it has other columns than the stream")
        demand(len(set(columns)) == len(columns), "it has two columns of one name")
    asked = GroupQuery(plan, tuple(columns), facts.get("sequence"))
    if facts != asked.facts(groups):
        raise SnapshotMismatch(f"the checkpoint belongs to another query: {changed(facts, asked.facts(groups))}")
    group_of_label = {label: group for group, label in enumerate(group_labels(groups))}
    with reading("the checkpoint"):
        heads = {group_of_label[label]: Head.from_json(values[HEAD]) for label, values in store.items()}
    operators = {group: _operator(asked, heads[group], store[label]) for label, group in group_of_label.items()
                 if label in store}  # fmt: skip
    return _aligned(operators, groups, plan.operator_spec().schema)


def _operator(query: GroupQuery, head: Head, values: Mapping[int, str]) -> SliceOperator:
    def read(run: PieceRun) -> list[bytes]:
        return from_pieces((values[n] for n in run.numbers), run.sizes)

    op = restored(query, head, read)
    assert isinstance(op, SliceOperator)
    redo(query, op, head.steps, read)
    reach(op, head.reached)  # it has heard of it, and nothing was due
    op.take_late()
    return op


def _aligned(operators: Mapping[int, SliceOperator], groups: int, schema: pa.Schema) -> list[bytes]:
    """The operators of key groups as parts of one snapshot."""
    reached = max(op.watermark for op in operators.values())
    parts = []
    for group, op in operators.items():
        due = reach(op, reached)
        facts, tables = spread([lane.aggs for lane in op.lanes], unpack(op.snapshot()), group, groups)
        facts["groups"] = KeyGroups(hash_groups(group, groups)).spans()
        parts.append((facts, {**tables, **({DUE: due[0]} if due else {})}))
    # groups without state have had no rows: they are nobody's, and go with the first
    held = KeyGroups.union([KeyGroups.read(facts["groups"]) for facts, _ in parts])
    parts[0][0]["groups"] = (KeyGroups.read(parts[0][0]["groups"]) | ~held).spans()
    count = max(facts["seq"] for facts, _ in parts)
    return [pack({**facts, "seq": count}, _with_columns(tables, schema)) for facts, tables in parts]


def _with_columns(tables: Mapping[str, pa.Table], schema: pa.Schema) -> dict[str, pa.Table]:
    """Input rows with all columns of the stream; workers only had those that the query looks at."""
    out = dict(tables)
    for name in ("late", "raw"):
        if name in out:
            table = out[name]
            known = {n: table.column(n) for n in table.column_names}
            extra = [f for f in table.schema if f.name not in schema.names]
            columns = [known.get(f.name, pa.nulls(table.num_rows, f.type)) for f in schema]
            out[name] = pa.table([*columns, *(known[f.name] for f in extra)], schema=pa.schema([*schema, *extra]))
    return out


def _values(spark: SparkSession, checkpoint: str, batch: int | None) -> dict[int, dict[int, str]]:
    """What a checkpoint holds, by the label of the key group and by number."""
    reader = spark.read.format("statestore").option("stateVarName", STATE)
    if batch is not None:
        reader = reader.option("batchId", batch)
    frame = reader.load(checkpoint).selectExpr(
        "key.panes_group AS label", f"user_map_key.{KEY} AS number", f"user_map_value.{VALUE} AS data"
    )
    found: dict[int, dict[int, str]] = {}
    for part in frame.toArrow().to_batches():
        for label, number, data in zip(*(column.to_pylist() for column in part.columns)):
            found.setdefault(label, {})[number] = data
    return found
