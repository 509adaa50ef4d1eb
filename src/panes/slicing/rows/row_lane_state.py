"""The state of the row lane as Arrow tables, whole or for some keys, and back.

Only objects that users' own Python code made (state of user-defined windows) are pickled, in columns whose
name ends in PICKLED, so that a reader can see that they are there.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from panes.aggregates.codec import cells_from_arrow, cells_to_arrow
from panes.aggregates.columns import arrow_from_values, column_from_arrow
from panes.slicing.lane import Rows
from panes.slicing.rows.given import Record
from panes.slicing.rows.key_state import KEY_COLUMNS, KeyState
from panes.slicing.rows.ordered import OrderedSlicer
from panes.slicing.rows.reorder import concat_rows
from panes.slicing.rows.row_lane import RowLane
from panes.slicing.rows.slice_table import SliceTable

Array = np.ndarray
PICKLED = ".pickled"


def dump(lane: RowLane, slots: Array) -> dict[str, pa.Table]:
    """The state of these keys (sorted slots)."""
    tables = {
        "facts": pa.table(
            {
                "live": [lane.live.watermark],
                "base": [lane.base.watermark],
                "last_time": [lane.last_time],
                "given_from": [_scalar_starts(lane.live.keys)],
                "base_given_from": [_scalar_starts(lane.base.keys)],
            }
        )
    }
    for name, slicer in zip(("live", "base"), lane.slicers()):
        part = slicer.select(slots)
        tables[f"{name}.keys"] = _keys_table(part.keys, slots)
        tables[f"{name}.slices"] = _slices_table(part, slots)
        for number, machine in slicer.keys.machines.items():
            dumped = machine.dump(slots)
            tables.update({f"{name}.machine.{number}.{what}": table for what, table in dumped.items()})
    waiting = lane.buffer.held()
    for name, rows in (("waiting", waiting), ("log", concat_rows(lane.log) if lane.log else None)):
        if rows is not None:
            tables[name] = _rows_table(rows, slots)
    if len(lane.given):
        tables["given"] = _given_table(lane, set(slots.tolist()))
    return tables


def load(lane: RowLane, tables: Mapping[str, pa.Table], slot_map: Array) -> None:
    """Add a dump to a lane; `slot_map[slot in the dump]` is the slot here."""
    facts = tables["facts"].to_pylist()[0]
    for name, slicer in zip(("live", "base"), lane.slicers()):
        slicer.watermark = facts[name]
        key = "given_from" if name == "live" else "base_given_from"
        slicer.keys.given_from.update({int(e["number"]): e["start"] for e in facts[key]})
        if f"{name}.keys" in tables:
            _load_slicer(slicer, tables[f"{name}.keys"], tables[f"{name}.slices"], slot_map)
        for number, machine in slicer.keys.machines.items():
            prefix = f"{name}.machine.{number}."
            machine.load({n[len(prefix) :]: t for n, t in tables.items() if n.startswith(prefix)}, slot_map)
    lane.last_time = max(lane.last_time, facts["last_time"])
    if "waiting" in tables:
        lane.buffer.add(_rows_from(tables["waiting"], slot_map))
    if "log" in tables:
        lane.log.append(_rows_from(tables["log"], slot_map))
    if "given" in tables:
        for row in tables["given"].to_pylist():
            identity = (row["number"], row["start"], row["end"], row["lo"], row["hi"])
            record = Record(row["revision"], row["start_pos"], row["stop_pos"], row["void"])
            lane.given.by_slot.setdefault(int(slot_map[row["slot"]]), {})[identity] = record


def _scalar_starts(keys: KeyState) -> list[dict[str, Any]]:
    return [{"number": n, "start": s} for n, s in keys.given_from.items() if not isinstance(s, np.ndarray)]


def _keys_table(keys: KeyState, slots: Array) -> pa.Table:
    columns: dict[str, Any] = {"slot": slots, **{name: getattr(keys, name) for name in KEY_COLUMNS}}
    columns.update({f"last.{d}": values for d, values in enumerate(keys.last)})
    columns.update({f"from.{n}": s for n, s in keys.given_from.items() if isinstance(s, np.ndarray)})
    for number, state in keys.windows.items():
        columns.update({f"window.{number}.{name}": values for name, values in state.items()})
    for number, (states, heads) in keys.free_forms.items():
        columns[f"free.{number}.state"] = states
        columns[f"free.{number}.head"] = heads
    return pa.table(dict(_arrow(name, values) for name, values in columns.items()))


def _arrow(name: str, values: Array) -> tuple[str, pa.Array]:
    if values.dtype == object:
        return name + PICKLED, pa.array([pickle.dumps(v) for v in values], pa.binary())
    return name, pa.array(values)


def _numpy(table: pa.Table, name: str) -> Array:
    if name + PICKLED in table.column_names:
        out = np.empty(table.num_rows, object)
        out[:] = [pickle.loads(v) for v in table[name + PICKLED].to_pylist()]
        return out
    return np.array(table[name].to_numpy(zero_copy_only=False))


def _slices_table(part: OrderedSlicer, slots: Array) -> pa.Table:
    table = part.slices
    columns: dict[str, Any] = {"slot": slots[table.slot], "pos": table.pos, "rows": table.rows}
    for d, (first, last) in enumerate(zip(table.first, table.last, strict=True)):
        columns[f"first.{d}"], columns[f"last.{d}"] = first, last
    for i, (agg, cells) in enumerate(zip(part.aggs, table.cells, strict=True)):
        columns.update({f"agg.{i}.{name}": a for name, a in cells_to_arrow(agg.bound, cells).items()})
    return pa.table(columns)


def _load_slicer(slicer: OrderedSlicer, keys: pa.Table, slices: pa.Table, slot_map: Array) -> None:
    slots = slot_map[keys["slot"].to_numpy()]
    if not len(slots):
        return
    slicer.keys.grow(int(slots.max()) + 1)
    for name in KEY_COLUMNS:
        getattr(slicer.keys, name)[slots] = _numpy(keys, name)
    for d, column in enumerate(slicer.keys.last):
        column[slots] = keys[f"last.{d}"].to_numpy()
    for name in keys.column_names:
        if name.startswith("from."):
            number = int(name.split(".")[1])
            values = keys[name].to_numpy()
            known = slicer.keys.given_from.get(number)
            if not isinstance(known, np.ndarray):
                known = np.zeros(len(slicer.keys), values.dtype)
            known[slots] = values
            slicer.keys.given_from[number] = known
    for number, state in slicer.keys.windows.items():
        for name, column in state.items():
            column[slots] = _numpy(keys, f"window.{number}.{name}")
    for number, (states, heads) in slicer.keys.free_forms.items():
        states[slots] = _numpy(keys, f"free.{number}.state")
        heads[slots] = _numpy(keys, f"free.{number}.head")
    dims = range(len(slicer.keys.last))
    cells = []
    for i, agg in enumerate(slicer.aggs):
        prefix = f"agg.{i}."
        arrays = {n[len(prefix) :]: slices[n] for n in slices.column_names if n.startswith(prefix)}
        cells.append(cells_from_arrow(agg.bound, arrays))
    loaded = SliceTable(
        slot_map[slices["slot"].to_numpy()],
        slices["pos"].to_numpy(),
        slices["rows"].to_numpy(),
        tuple(slices[f"first.{d}"].to_numpy() for d in dims),
        tuple(slices[f"last.{d}"].to_numpy() for d in dims),
        tuple(cells),
    )
    both = SliceTable.concat([slicer.slices, loaded])
    slicer.slices = both.take(np.lexsort((both.pos, both.slot)))


def _rows_table(rows: Rows, slots: Array) -> pa.Table:
    if rows.slots is not None:
        rows = rows.take(np.flatnonzero(np.isin(rows.slots, slots)))
    elif not len(slots):
        # without keys all rows are those of slot 0, which is in another part
        rows = rows.take(np.arange(0))
    columns: dict[str, Any] = {
        "slot": np.zeros(len(rows), np.int64) if rows.slots is None else rows.slots,
        "time": rows.times,
    }
    if len(rows.seq):
        columns["seq"] = rows.seq
    for name, column in rows.columns.items():
        columns["column." + name] = arrow_from_values(column.values, column.valid, column.type)
    return pa.table(columns, metadata={"keyed": str(rows.slots is not None)})


def _rows_from(table: pa.Table, slot_map: Array) -> Rows:
    keyed = table.schema.metadata[b"keyed"] == b"True"
    times = table["time"].to_numpy()
    prefix = "column."
    columns = {n[len(prefix) :]: column_from_arrow(table[n]) for n in table.column_names if n.startswith(prefix)}
    return Rows(
        slot_map[table["slot"].to_numpy()] if keyed else None,
        times,
        table["seq"].to_numpy() if "seq" in table.column_names else np.empty(0, np.int64),
        columns,
        bool(np.all(times[1:] >= times[:-1])),
    )


def _given_table(lane: RowLane, slots: set[int]) -> pa.Table:
    flat = [
        (slot, *identity, r.revision, r.start_pos, r.stop_pos, r.void)
        for slot, records in lane.given.by_slot.items()
        if slot in slots
        for identity, r in records.items()
    ]
    names = ["slot", "number", "start", "end", "lo", "hi", "revision", "start_pos", "stop_pos", "void"]
    columns = [pa.array(list(c)) for c in zip(*flat, strict=True)] if flat else [pa.nulls(0, pa.int64())] * 10
    return pa.table(columns, names=names)
