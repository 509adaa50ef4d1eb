"""A columnar window's whole state as a snapshot and back, as Arrow tables: keys, subwindows, tuples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from panes.aggregates.columns import column_from_arrow
from panes.errors import QueryError, SnapshotMismatch
from panes.policies.library import fields as k
from panes.policies.library.tuple_store import to_table
from panes.state.snapshot import pack, unpack

if TYPE_CHECKING:
    from panes.policies.library.columnar import ColumnarWindow

_COUNTS = {"updates": k.G_UPDATES, "tuples": k.G_TUPLES, "live": k.G_LIVE, "now": k.G_NOW}


def snapshot(window: ColumnarWindow) -> bytes:
    """All of the window's state."""
    window._forget()
    arrays = window._arrays
    n, held = arrays.n, arrays.tuples.n
    subs = {name: arrays.subs[:n, field] for name, field in k.SAVED.items()}
    values = {"base": arrays.bases[:n], "last_evict": arrays.last_evict[:n], "last_trigger": arrays.last_trigger[:n]}
    tables = {"subs": pa.table({**subs, **values}), "tuples": to_table(arrays.tuples.take(np.arange(held)))}
    notes: dict[str, Any] = {"arrived": arrays.rows[:held, k.R_TIME]}
    if arrays.config[k.C_EVICT] == k.DELTA:
        notes["evict_value"] = arrays.evict_values[:held]
    if arrays.config[k.C_TRIGGER] == k.DELTA:
        notes["trigger_value"] = arrays.trigger_values[:held]
    tables["notes"] = pa.table(notes)
    if window._keys is not None:
        tables["keys"] = window._keys.dump()
    counts = {name: int(arrays.g[field]) for name, field in _COUNTS.items()}
    return pack({"identity": identity(window), "counts": counts, "pickled": False}, tables)


def restore(window: ColumnarWindow, blob: bytes) -> None:
    """Put a snapshot into a window of the same configuration that has seen no rows."""
    from panes.policies.library import view_kernels

    arrays = window._arrays
    if arrays.g[k.G_UPDATES]:
        raise QueryError("restore() into a window that has seen rows: make a new one")
    facts, tables = unpack(blob)
    ours, theirs = identity(window), facts["identity"]
    changed = [name for name in sorted({*ours, *theirs}) if ours.get(name) != theirs.get(name)]
    if changed:
        said = "; ".join(f"{n} was {theirs.get(n)}, is {ours.get(n)}" for n in changed)
        raise SnapshotMismatch(f"the snapshot belongs to another window: {said}")
    if window._keys is not None:
        window._keys.load(tables["keys"])  # fresh slots are those of the snapshot: they are given in its order
    subs, tuples, notes = tables["subs"], tables["tuples"], tables["notes"]
    n, held = subs.num_rows, notes.num_rows
    arrays.room(n, held)
    for name, field in k.SAVED.items():
        arrays.subs[:n, field] = subs[name].to_numpy()
    arrays.bases[:n] = subs["base"].to_numpy()
    arrays.last_evict[:n] = subs["last_evict"].to_numpy()
    arrays.last_trigger[:n] = subs["last_trigger"].to_numpy()
    arrays.tuples.append({name: column_from_arrow(tuples[name]) for name in window.keep}, held)
    arrays.rows[:held, k.R_TIME] = notes["arrived"].to_numpy()
    if "evict_value" in notes.column_names:
        arrays.evict_values[:held] = notes["evict_value"].to_numpy()
    if "trigger_value" in notes.column_names:
        arrays.trigger_values[:held] = notes["trigger_value"].to_numpy()
    for name, field in _COUNTS.items():
        arrays.g[field] = facts["counts"][name]
    view_kernels.relink(np.flatnonzero(arrays.subs[:n, k.S_SIZE] > 0), arrays.subs, arrays.rows)
    arrays.make_queues()


def identity(window: ColumnarWindow) -> dict[str, Any]:
    """What makes a window this window."""
    policies = {name: repr(getattr(window, name)) for name in ("evict", "trigger", "partition_evict")}
    schema = {name: str(window.schema.field(name).type) for name in (*window.key, *window._needed)}
    options = {
        "select": window.select,
        "key": list(window.key),
        "time": window.time,
        "keep": list(window.keep),
        "discard": window.discard,
    }
    return {**policies, **options, "schema": schema}
