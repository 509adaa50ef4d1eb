"""The state of the partial lane as Arrow tables, whole or for some keys, and back.

What belongs to a key has a `slot` column. What belongs to the stream (watermark, slice bounds, which windows
of added queries count) is in every dump, so that dumps of different keys can be loaded into one lane.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Cells
from panes.aggregates.codec import cells_from_arrow, cells_to_arrow
from panes.errors import SnapshotMismatch
from panes.slicing.partials.session_store import GIVEN, Pieces
from panes.slicing.partials.slice_side import Admission
from panes.slicing.partials.store import CellList
from panes.windows.base import ALWAYS

if TYPE_CHECKING:
    from panes.slicing.lane import Agg
    from panes.slicing.partials.partial_lane import PartialLane

Array = np.ndarray


def dump(lane: PartialLane, slots: Array | None) -> dict[str, pa.Table]:
    """The state of these keys, or of all."""
    side = lane.slices
    starts = side.slices.starts
    held = side.store.cells(slots)
    tables = {
        "facts": _table(
            ("watermark", "last_time", "purged_to"),
            [(lane.watermark, lane.last_time, side.known_purged(lane.last_time))],
        ),
        "slices": pa.table({"start": starts}),
        "bounds": _table(("start", "end"), list(side.odd_bounds().items())),
        "cells": _with_cells({"slot": held.slots, "start": starts[held.at]}, lane.aggs, held.cells),
        "added": _added_table(lane),
        "sessions": _sessions_table(lane, slots),
        "revisions": _revisions_table(lane, slots),
    }
    if side.empty is not None:
        tables["empty"] = _empty_table(side.empty.first_end, slots)
    return tables


def load(lane: PartialLane, tables: Mapping[str, pa.Table], slot_map: Array) -> None:
    """Add a dump to a lane; `slot_map[slot in the dump]` is the slot here."""
    facts = tables["facts"].to_pylist()[0]
    if lane.last_time > ALWAYS and facts["last_time"] > ALWAYS and lane.watermark != facts["watermark"]:
        raise SnapshotMismatch(
            f"two parts of a snapshot have watermarks {lane.watermark} and {facts['watermark']}: they were taken "
            "at different times"
        )
    lane.watermark = max(lane.watermark, facts["watermark"])
    lane.last_time = max(lane.last_time, facts["last_time"])
    if len(slot_map):
        lane.keys = max(lane.keys, int(slot_map.max()) + 1)
    _load_added(lane, tables["added"])
    _load_slices(lane, tables, slot_map, facts["purged_to"])
    _load_sessions(lane, tables["sessions"], slot_map)
    for row in tables["revisions"].to_pylist():
        window = (row["query"], int(slot_map[row["slot"]]), row["start"], row["end"])
        lane.revisions.load(window, row["revision"])
    if lane.slices.empty is not None and "empty" in tables:
        table = tables["empty"]
        for number in np.unique(table["query"].to_numpy()).tolist():
            mine = table["query"].to_numpy() == number
            lane.slices.empty.load(number, slot_map[table["slot"].to_numpy()[mine]], table["end"].to_numpy()[mine])


def _load_slices(lane: PartialLane, tables: Mapping[str, pa.Table], slot_map: Array, purged_to: int) -> None:
    side = lane.slices
    table = tables["cells"]
    odd = {row["start"]: row["end"] for row in tables["bounds"].to_pylist()}
    delta = CellList(table["start"].to_numpy(), slot_map[table["slot"].to_numpy()], _cells_of(lane.aggs, table))
    side.load(tables["slices"]["start"].to_numpy(), odd, delta, purged_to)


def _added_table(lane: PartialLane) -> pa.Table:
    rows = [(n, a.start, a.after) for n, a in lane.slices.admissions.items()]
    rows += [(s.query.number, s.clean_after, ALWAYS) for s in lane.sessions.running]
    return _table(("query", "start", "after"), rows)


def _load_added(lane: PartialLane, table: pa.Table) -> None:
    sessions = {s.query.number: s for s in lane.sessions.running}
    for row in table.to_pylist():
        if row["query"] in sessions:
            sessions[row["query"]].clean_after = max(sessions[row["query"]].clean_after, row["start"])
        else:
            known = lane.slices.admissions.get(row["query"])
            start = row["start"] if known is None else max(row["start"], known.start)
            lane.slices.admissions[row["query"]] = Admission(start, row["after"])


def _sessions_table(lane: PartialLane, slots: Array | None) -> pa.Table:
    parts = []
    for session in lane.sessions.running:
        store = session.store
        ids = store.held(slots)
        columns = {
            "query": np.full(len(ids), session.query.number, np.int64),
            "slot": store.slot[ids],
            "first": store.first[ids],
            "end": store.end[ids],
            "given": store.state[ids] == GIVEN,
        }
        parts.append(_with_cells(columns, lane.aggs, store.cells(ids)))
    if not parts:
        return pa.table({"query": pa.array([], pa.int64())})
    return pa.concat_tables(parts)


def _load_sessions(lane: PartialLane, table: pa.Table, slot_map: Array) -> None:
    numbers = table["query"].to_numpy()
    for session in lane.sessions.running:
        mine = table.filter(pa.array(numbers == session.query.number))
        slots = slot_map[mine["slot"].to_numpy()]
        first = mine["first"].to_numpy()
        pieces = Pieces(slots, first, mine["end"].to_numpy(), _cells_of(lane.aggs, mine))
        order = np.lexsort((first, slots))
        session.store.load(pieces.take(order), mine["given"].to_numpy(zero_copy_only=False)[order])


def _revisions_table(lane: PartialLane, slots: Array | None) -> pa.Table:
    chosen = None if slots is None else set(slots.tolist())
    rows = [(*w, r) for w, r in lane.revisions.items() if chosen is None or w[1] in chosen]
    return _table(("query", "slot", "start", "end", "revision"), rows)


def _empty_table(first_end: Mapping[int, Array], slots: Array | None) -> pa.Table:
    rows = []
    for number, ends in first_end.items():
        begun = np.flatnonzero(ends < np.iinfo(np.int64).max)
        if slots is not None:
            begun = begun[np.isin(begun, slots)]
        rows += [(number, slot, int(ends[slot])) for slot in begun.tolist()]
    return _table(("query", "slot", "end"), rows)


def _table(names: Sequence[str], rows: Sequence[tuple[int, ...]]) -> pa.Table:
    columns = np.array(rows, np.int64).reshape(len(rows), len(names))
    return pa.table({name: columns[:, i] for i, name in enumerate(names)})


def _with_cells(columns: dict[str, Any], aggs: Sequence[Agg], cells: Sequence[Cells]) -> pa.Table:
    for i, (agg, partials) in enumerate(zip(aggs, cells)):
        columns.update({f"agg.{i}.{name}": a for name, a in cells_to_arrow(agg.bound, partials).items()})
    return pa.table(columns)


def _cells_of(aggs: Sequence[Agg], table: pa.Table) -> tuple[Cells, ...]:
    found = []
    for i, agg in enumerate(aggs):
        prefix = f"agg.{i}."
        arrays = {n[len(prefix) :]: table[n] for n in table.column_names if n.startswith(prefix)}
        found.append(cells_from_arrow(agg.bound, arrays))
    return tuple(found)
