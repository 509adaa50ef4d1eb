"""An operator's whole state as a snapshot, or the part of some key groups, and back.

A part holds the keys of its groups. What belongs to the stream and not to a key (watermark, arrival number,
windows of now) is in every part and must agree; counters and the late ledger are in the part with group 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from panes.errors import QueryError, SnapshotMismatch
from panes.slicing.keys import KEY_GROUPS, KeyDirectory
from panes.slicing.rows import row_lane_state
from panes.slicing.rows.row_lane import RowLane
from panes.slicing.spec import OperatorSpec
from panes.state.snapshot import pack, unpack
from panes.windows.base import Bound, Window
from panes.windows.codec import window_from_json, window_to_json

if TYPE_CHECKING:
    from panes.slicing.operator import SliceOperator

Array = np.ndarray
#: The table of results that are due and not given yet; parts that come from operators apart may have one.
DUE = "due"
_SHARED = ("watermark", "seq", "next_number", "windows", "finished", "identity")


def snapshot(op: SliceOperator, key_groups: range | None = None) -> bytes:
    """The state of the operator, or of the keys in these key groups."""
    groups = range(KEY_GROUPS) if key_groups is None else key_groups
    if groups.step != 1 or not 0 <= groups.start <= groups.stop <= KEY_GROUPS:
        raise QueryError(f"key_groups must be a range within 0..{KEY_GROUPS}, in steps of 1; got {groups}")
    slots = _slots_of(op, groups)
    tables: dict[str, pa.Table] = {}
    if op._keys is not None:
        tables["keys"] = op._keys.dump(slots)
    for i, lane in enumerate(op._lanes):
        if isinstance(lane, RowLane):
            lane._move_base()  # operators of one stream agree on where it is, whenever they last moved it
        parts = row_lane_state.dump(lane, slots) if isinstance(lane, RowLane) else lane.dump(slots)
        tables.update({f"lane.{i}.{name}": table for name, table in parts.items()})
    first = groups.start == 0
    if first:
        tables["late"] = op._ledger.table()
        if op._due:
            tables[DUE] = pa.concat_tables(op._due)
    raw = _raw_of(op, groups)
    if raw is not None:
        tables["raw"] = raw
    specs = _written(op)
    facts = {
        "identity": op.spec.whole_identity,
        "watermark": op.watermark,
        "seq": op._seq,
        "next_number": op._next_number,
        "keys_used": op._idle_keys.used,
        "windows": [[q.label, q.number, spec] for q, spec in zip(op._queries, specs, strict=True)],
        "lanes": [_lane_facts(lane) for lane in op._lanes],
        "finished": op._finished,
        "counts": op._counts if first else {},
        "groups": [groups.start, groups.stop],
        "pickled": any("pickled" in spec for spec in specs) or _has_pickles(op, tables),
    }
    return pack(facts, tables)


def restore(op: SliceOperator, blobs: Sequence[bytes]) -> None:
    """Put the state of one whole snapshot, or of parts that make up one, into a fresh operator."""
    parts = [unpack(blob) for blob in blobs]
    if not parts:
        raise SnapshotMismatch("restore needs at least one snapshot")
    facts = parts[0][0]
    _check_same_query(op, facts)
    _check_parts([f for f, _ in parts])
    op._resume(facts, _windows(op.spec, facts))
    for part, tables in parts:
        slot_map = np.zeros(1, np.int64) if op._keys is None else op._keys.load(tables["keys"])
        for i, lane in enumerate(op._lanes):
            prefix = f"lane.{i}."
            mine = {n[len(prefix) :]: t for n, t in tables.items() if n.startswith(prefix)}
            if isinstance(lane, RowLane):
                row_lane_state.load(lane, mine, slot_map)
            else:
                lane.load(mine, slot_map)
        if "late" in tables:
            op._ledger.load(tables["late"])
        if DUE in tables:
            op._due.append(tables[DUE])
        if "raw" in tables:
            raw = tables["raw"]
            op._raw.keep(raw["panes.seq"].to_numpy(), raw.drop_columns(["panes.seq"]))
        for name, count in part["counts"].items():
            op._counts[name] = op._counts.get(name, 0) + count


def _has_pickles(op: SliceOperator, tables: dict[str, pa.Table]) -> bool:
    """Whether reading these tables runs code: users' own objects can only be pickled."""
    names = (n for table in tables.values() for n in table.column_names)
    user_cells = any(f.python for a in op.spec.aggs for f in a.bound.fields)
    return user_cells or any(n.endswith(row_lane_state.PICKLED) for n in names)


def _written(op: SliceOperator) -> list[dict[str, Any]]:
    """The windows of now; those declared have been written before, as a rule."""
    declared, known = dict(op.spec.windows), op.spec.written_windows
    return [
        known[label] if label in known and window is declared[label] else window_to_json(window)
        for label, window in ((q.label, op._windows[q.label]) for q in op._queries)
    ]


def _windows(spec: OperatorSpec, facts: dict[str, Any]) -> dict[str, tuple[Window, Bound]]:
    """The windows of a snapshot; those declared are bound already."""
    declared, known = dict(spec.windows), spec.written_windows
    found = {}
    for label, _, written in facts["windows"]:
        if written == known.get(label):
            found[label] = declared[label], spec.bound_windows[label]
        else:
            window = window_from_json(written)
            found[label] = window, window.bind(spec.domain)
    return found


def _lane_facts(lane: Any) -> dict[str, Any]:
    rows = isinstance(lane, RowLane)
    dimensions = {name: kind.str for name, kind in lane.live.dimensions.items()} if rows else {}
    return {"rows": rows, "numbers": [q.number for q in lane.queries], "dimensions": dimensions}


def _slots_of(op: SliceOperator, groups: range) -> Array:
    if op._keys is None:
        return np.arange(1 if groups.start == 0 else 0)
    slots = np.arange(len(op._keys))
    of = op._keys.groups(slots)
    return slots[(of >= groups.start) & (of < groups.stop)]


def _raw_of(op: SliceOperator, groups: range) -> pa.Table | None:
    """Input rows that are kept, with their arrival numbers, of keys in these groups."""
    held = op._raw.held()
    if held is None or (op._keys is None and groups.start > 0):
        return None
    table = held[1].append_column("panes.seq", pa.array(held[0]))
    if op._keys is None or groups == range(KEY_GROUPS):
        return table
    keys = KeyDirectory(op._keys.types)  # of its own: rows may be of keys that the operator has forgotten
    of = keys.groups(keys.slots([table[k] for k in op.spec.keys]))
    mine = table.filter(pa.array((of >= groups.start) & (of < groups.stop)))
    return mine if mine.num_rows else None


def _check_same_query(op: SliceOperator, facts: dict[str, Any]) -> None:
    theirs, ours = facts["identity"], op.spec.whole_identity
    changed = [n for n in sorted({*theirs, *ours}) if theirs.get(n) != ours.get(n)]
    if changed:
        said = "; ".join(f"{n} was {theirs.get(n)!r}, is {ours.get(n)!r}" for n in changed)
        raise SnapshotMismatch(f"the snapshot belongs to another query: {said}")


def _check_parts(facts: Sequence[dict[str, Any]]) -> None:
    for name in _SHARED:
        if any(f[name] != facts[0][name] for f in facts[1:]):
            raise SnapshotMismatch(f"the parts are not of one snapshot: they differ in {name}")
    spans = sorted(tuple(f["groups"]) for f in facts)
    at = 0
    for start, stop in spans:
        if start < at:
            raise SnapshotMismatch(f"two parts hold key group {start}: each group may come once")
        at = stop
