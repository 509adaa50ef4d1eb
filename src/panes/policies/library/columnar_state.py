"""A columnar window's whole state as a snapshot and back, as Arrow tables: keys, subwindows, tuples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from panes.aggregates.columns import column_from_arrow
from panes.errors import QueryError
from panes.policies.library import fields as k
from panes.policies.library.arrays import Arrays, relink, to_table
from panes.policies.library.specs import text
from panes.slicing.keys import KeyDirectory
from panes.state.checked import (
    MANY,
    columns_of,
    demand,
    fact,
    numbers,
    read_table,
    reading,
    same_identity,
    whole,
    within,
)
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
    tables["notes"] = pa.table(notes)
    if window._keys is not None:
        tables["keys"] = window._keys.dump()
    counts = {name: int(arrays.g[field]) for name, field in _COUNTS.items()}
    return pack({"identity": identity(window), "counts": counts, "pickled": False}, tables)


def restore(window: ColumnarWindow, blob: bytes) -> None:
    """Put a snapshot into a window of the same configuration that has seen no rows; it changes only if all is well."""
    if window._arrays.g[k.G_UPDATES]:
        raise QueryError("restore() into a window that has seen rows: make a new one")
    facts, tables = unpack(blob)
    same_identity(facts, identity(window), "window", str)
    with reading("the snapshot of a window"):
        arrays, keys = window._fresh_arrays(), None
        if window._keys is not None:
            keys = KeyDirectory(window._keys.types)
            keys.load_all(read_table(tables, "keys"))
        _load(arrays, window, facts, tables, 1 if keys is None else len(keys))
    window._arrays, window._keys = arrays, keys


def _load(
    arrays: Arrays, window: ColumnarWindow, facts: Mapping[str, Any], tables: Mapping[str, pa.Table], slots: int
) -> None:
    subs, tuples, notes = (read_table(tables, name) for name in ("subs", "tuples", "notes"))
    n, held = subs.num_rows, notes.num_rows
    demand(n <= slots if window._keys is None else n == slots, "there are more subwindows than keys, or fewer")
    columns_of(tuples, "tuples", arrays.tuples.types)
    demand(tuples.num_rows == held, "there are more tuples than times of tuples, or fewer")
    arrays.room(n, held)
    for name, field in k.SAVED.items():
        arrays.subs[:n, field] = numbers(subs, name)
    for name, target in (
        ("base", arrays.bases),
        ("last_evict", arrays.last_evict),
        ("last_trigger", arrays.last_trigger),
    ):
        target[:n] = numbers(subs, name, pa.from_numpy_dtype(target.dtype))
    arrays.tuples.append({name: column_from_arrow(tuples[name]) for name in window.keep}, held)
    arrays.rows[:held, k.R_TIME] = numbers(notes, "arrived")
    if arrays.config[k.C_EVICT] == k.DELTA:
        arrays.evict_values[:held] = numbers(notes, "evict_value", pa.from_numpy_dtype(arrays.evict_values.dtype))
    counts = fact(facts, "counts", dict)
    for name, field in _COUNTS.items():
        arrays.g[field] = whole(counts, name)
    _check(arrays, n, held)
    arrays.worked = n + held
    relink.worth(arrays.worked)(np.flatnonzero(arrays.subs[:n, k.S_SIZE] > 0), arrays.subs, arrays.rows)
    arrays.make_queues()


def _check(arrays: Arrays, n: int, held: int) -> None:
    """Loops follow what they are given: tuples lie slot after slot, and all counts fit."""
    subs, g = arrays.subs[:n], arrays.g
    alive, size = subs[:, k.S_ALIVE], subs[:, k.S_SIZE]
    within(alive, "whether a subwindow is there", low=0, high=1)
    within(size, "the size of a subwindow", low=0, high=held * alive)
    demand(int(size.sum()) == held == g[k.G_TUPLES], "there are more tuples than subwindows hold, or fewer")
    demand(int(alive.sum()) == g[k.G_LIVE], "there are more subwindows than are counted, or fewer")
    here = subs[alive == 1]
    updates = int(g[k.G_UPDATES])
    demand(0 <= updates <= MANY, "more happened than can be counted")
    for field in (k.S_CREATED, k.S_UPDATED, k.S_UPDATES):
        within(here[:, field], "what happened to a subwindow", low=0, high=updates)
    within(here[:, k.S_COUNTER], "a count of tuples", low=-1, high=MANY)
    for field in (k.S_FULL, k.S_HAS_BASE):
        within(here[:, field], "a mark of a subwindow", low=-1, high=1)
    demand(len(np.unique(here[:, k.S_CREATED])) == len(here), "two subwindows began at once")


def identity(window: ColumnarWindow) -> dict[str, Any]:
    """What makes a window this window."""
    policies = {name: text(getattr(window, name)) for name in ("evict", "trigger", "partition_evict")}
    schema = {name: str(window.schema.field(name).type) for name in (*window.key, *window._needed)}
    options = {
        "select": window.select,
        "key": list(window.key),
        "time": window.time,
        "keep": list(window.keep),
        "discard": window.discard,
    }
    return {**policies, **options, "schema": schema}
