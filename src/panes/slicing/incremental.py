"""Changes since an epoch, put onto the snapshot that ended it.

A snapshot is facts and tables. Tables with a column `slot` have the state of keys: of keys that have changed, which the
table `keys` names, the entries of the older snapshot go, and those of the changes come. All other tables have the state
of the stream, and those of the changes take their place. What comes out is the snapshot that would have been taken
instead of the changes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panes.errors import SnapshotMismatch
from panes.state.checked import demand, fact, numbers, read_table, whole

Part = tuple[dict[str, Any], dict[str, pa.Table]]
#: Facts that changes leave out: they are those of the snapshot before, or there would be no changes but a whole.
SETTLED = ("identity", "windows", "lanes", "next_number", "outputs")
#: Rows as they came, whose columns are the user's.
_OF_USER = ("late", "raw", "due")


def changes_of(facts: Mapping[str, object], tables: Mapping[str, pa.Table]) -> Part:
    """Facts and tables of the keys that have changed, without what goes without saying."""
    kept: dict[str, Any] = {name: each for name, each in facts.items() if name not in SETTLED}
    kept["of"] = _digest(facts)
    return kept, {name: table for name, table in tables.items() if table.num_rows or name in ("keys", *_OF_USER)}


def with_changes(before: Part, changes: Part) -> Part:
    """The snapshot that the changes lead to."""
    old_facts, old = before
    new_facts, new = changes
    if fact(new_facts, "of", str) != _digest(old_facts):
        raise SnapshotMismatch("the changes belong to another query than the snapshot before them, or to other windows")
    facts = {**old_facts, **{name: each for name, each in new_facts.items() if name not in SETTLED}, "since": None}
    changed = numbers(read_table(new, "keys"), "slot", low=0) if "keys" in old else np.zeros(1, np.int64)
    slots = pa.array(np.unique(changed))
    tables = {name: new[name] for name in _OF_USER if name in new and name != "late"}
    for name in dict.fromkeys([*old, *new]):
        if name not in _OF_USER:
            tables[name] = _of_keys(old.get(name), new.get(name), slots)
    if "late" in old:
        tables["late"] = _late(old["late"], new.get("late"), whole(facts, "late_held", 0))
    for i, lane in enumerate(fact(facts, "lanes", list)):
        if not fact(lane, "rows", bool):
            _follow_slices(tables, f"lane.{i}.")
    return facts, tables


def _digest(facts: Mapping[str, object]) -> str:
    # outputs were not said before windows could have some of their own
    settled = json.dumps([facts[name] for name in SETTLED if name != "outputs" or facts[name]], sort_keys=True)
    return hashlib.blake2b(settled.encode(), digest_size=16).hexdigest()


def _of_keys(old: pa.Table | None, new: pa.Table | None, changed: pa.Array) -> pa.Table:
    """A table of the snapshot before, brought up to date."""
    if old is None or "slot" not in old.column_names:
        # what belongs to the stream is written whole, and left out if it is nothing
        return old.slice(0, 0) if new is None and old is not None else new
    kept = old.filter(pc.invert(pc.is_in(old["slot"], value_set=changed)))
    parts = [part for part in (kept, new) if part is not None and part.num_rows]
    if not parts:
        return kept
    both = pa.concat_tables(parts, promote_options="permissive")
    order = "seq" if "seq" in both.column_names else "slot"
    # stable: entries of a key, which all come from one side, stay in their order
    return both.take(pa.array(np.argsort(both[order].to_numpy(), kind="stable")))


def _late(old: pa.Table, new: pa.Table | None, held: int) -> pa.Table:
    """Rows on the ledger: those that came since, after the newest of the others."""
    both = old if new is None else pa.concat_tables([old, new])
    demand(held <= both.num_rows, "more late rows are held than there were")
    return both.slice(both.num_rows - held)


def _follow_slices(tables: dict[str, pa.Table], lane: str) -> None:
    """Slices that event time has passed were joined or forgotten, those of keys without changes with the others."""
    cells = read_table(tables, f"{lane}cells")
    starts = numbers(read_table(tables, f"{lane}slices"), "start")
    start = numbers(cells, "start")
    at = np.searchsorted(starts, start, side="right") - 1
    there = np.flatnonzero(at >= 0)
    place = cells.schema.get_field_index("start")
    moved = pa.array(starts[at[there]] if len(there) else np.empty(0, np.int64))
    tables[f"{lane}cells"] = cells.take(pa.array(there)).set_column(place, "start", moved)
