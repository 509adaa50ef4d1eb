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
from panes.aggregates.columns import cells_from_arrow, cells_to_arrow
from panes.errors import SnapshotMismatch
from panes.slicing.partials.revisions import Known
from panes.slicing.partials.session_store import GIVEN, Pieces
from panes.slicing.partials.slice_partials import Admission
from panes.slicing.partials.store import CellList
from panes.state.checked import INT64, MANY, demand, numbers, one_row, read_table, rising, value
from panes.windows.base import ALWAYS

if TYPE_CHECKING:
    from panes.slicing.lane import Agg
    from panes.slicing.partials.partial_lane import PartialLane

Array = np.ndarray
_REVISIONS = ("query", "slot", "start", "end", "revision")
_EARLY = ("query", "slot", "start", "end", "rows", "revision")


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
        # without keys every slice is that of all rows, so that a part without them has none
        "slices": pa.table({"start": starts if lane.keyed or slots is None or len(slots) else starts[:0]}),
        "bounds": _table(("start", "end"), list(side.odd_bounds().items())),
        "cells": _with_cells({"slot": held.slots, "start": starts[held.at]}, lane.aggs, held.cells),
        "added": _added_table(lane),
        "sessions": _sessions_table(lane, slots),
        "revisions": _revisions_table(lane, slots),
    }
    if side.complete_from:
        tables["complete"] = _table(("query", "start"), [*side.complete_from.items()])
    if side.empty is not None:
        tables["empty"] = _empty_table(side.empty.first_end, slots)
    if lane.early is not None:
        tables["early"] = _early_table(lane.early.open, slots)
        tables["early_closed"] = _early_table(lane.early.closed, slots)
    return tables


def load(lane: PartialLane, tables: Mapping[str, pa.Table], slot_map: Any) -> None:
    """Add a dump to a lane; `slot_map[slot in the dump]` is the slot here."""
    names = ("watermark", "last_time", "purged_to")
    found = one_row(read_table(tables, "facts", dict.fromkeys(names, INT64)), "facts")
    facts = {name: value(found[name], name, int) for name in names}
    if lane.last_time > ALWAYS and facts["last_time"] > ALWAYS and lane.watermark != facts["watermark"]:
        raise SnapshotMismatch(
            f"two parts of a snapshot have watermarks {lane.watermark} and {facts['watermark']}: they were taken "
            "at different times"
        )
    lane.watermark = max(lane.watermark, facts["watermark"])
    lane.last_time = max(lane.last_time, facts["last_time"])
    if len(slot_map):
        lane.keys = max(lane.keys, int(slot_map.max()) + 1)
    _load_added(lane, read_table(tables, "added", dict.fromkeys(("query", "start", "after"), INT64)))
    if "complete" in tables:
        complete = read_table(tables, "complete", dict.fromkeys(("query", "start"), INT64))
        _check_queries(numbers(complete, "query"), lane)
        lane.slices.complete_from.update(zip(*(numbers(complete, name).tolist() for name in ("query", "start"))))
    _load_slices(lane, tables, slot_map, facts["purged_to"])
    _load_sessions(lane, read_table(tables, "sessions"), slot_map)
    _load_revisions(lane, read_table(tables, "revisions", dict.fromkeys(_REVISIONS, INT64)), slot_map)
    if lane.slices.empty is not None:
        empty = read_table(tables, "empty", dict.fromkeys(("query", "slot", "end"), INT64))
        of, slots, ends = numbers(empty, "query"), slot_map[numbers(empty, "slot")], numbers(empty, "end")
        _check_queries(of, lane)
        for number in np.unique(of).tolist():
            mine = of == number
            lane.slices.empty.load(number, slots[mine], ends[mine])
    if lane.early is not None:
        lane.early.open = _load_early(lane, lane.early.open, tables, "early", slot_map)
        lane.early.closed = _load_early(lane, lane.early.closed, tables, "early_closed", slot_map)


def _load_revisions(lane: PartialLane, found: pa.Table, slot_map: Any) -> None:
    query, start, end = (numbers(found, name).tolist() for name in ("query", "start", "end"))
    slots = slot_map[numbers(found, "slot")].tolist()
    revisions = numbers(found, "revision", low=0, high=2**31 - 2).tolist()
    for *window, revision in zip(query, slots, start, end, revisions):
        lane.revisions.load((window[0], window[1], window[2], window[3]), revision)


def _load_early(lane: PartialLane, known: Known, tables: Mapping[str, pa.Table], name: str, slot_map: Any) -> Known:
    found = read_table(tables, name, dict.fromkeys(_EARLY, INT64))
    query, slot, start, end = (numbers(found, column) for column in _EARLY[:4])
    _check_queries(query, lane)
    demand((start <= end).all(), "a window that was given early ends before it begins")
    rows, revision = numbers(found, "rows", low=0, high=MANY), numbers(found, "revision", low=0, high=2**31 - 2)
    return Known.concat([known, Known(query, slot_map[slot], start, end, rows, revision)])


def _check_queries(numbers_of: Array, lane: PartialLane) -> None:
    demand(np.isin(numbers_of, [q.number for q in lane.queries]).all(), "there is state of a window that is not there")


def _load_slices(lane: PartialLane, tables: Mapping[str, pa.Table], slot_map: Any, purged_to: int) -> None:
    side = lane.slices
    held = read_table(tables, "cells")
    _check_cells(held, ("slot", "start"), lane.aggs, "cells")
    starts = numbers(read_table(tables, "slices", {"start": INT64}), "start")
    rising(starts, "where slices begin")
    bounds = read_table(tables, "bounds", {"start": INT64, "end": INT64})
    begins, ends = numbers(bounds, "start"), numbers(bounds, "end")
    demand((begins < ends).all(), "a slice ends before it begins")
    at = numbers(held, "start")
    demand(np.isin(at, starts).all(), "there are partials of a slice that is not there")
    demand(bool(side) or not len(starts), "there are slices, and no window has any")
    delta = CellList(at, slot_map[numbers(held, "slot")], _cells_of(lane.aggs, held))
    side.load(starts, dict(zip(begins.tolist(), ends.tolist())), delta, purged_to)


def _check_cells(found: pa.Table, others: Sequence[str], aggs: Sequence[Agg], name: str) -> None:
    """Refuse columns that belong to nothing."""
    fields = [f"agg.{i}.{f.name}" for i, agg in enumerate(aggs) for f in agg.bound.fields]
    odd = sorted(set(found.column_names) - {*others, *fields})
    demand(not odd, f"the table {name!r} has a column {odd[:1]} that belongs to no aggregate")


def _added_table(lane: PartialLane) -> pa.Table:
    rows = [(n, a.start, a.after) for n, a in lane.slices.admissions.items()]
    rows += [(s.query.number, s.clean_after, ALWAYS) for s in lane.sessions.running]
    return _table(("query", "start", "after"), rows)


def _load_added(lane: PartialLane, found: pa.Table) -> None:
    sessions = {s.query.number: s for s in lane.sessions.running}
    _check_queries(numbers(found, "query"), lane)
    for number, begin, after in zip(*(numbers(found, name).tolist() for name in ("query", "start", "after"))):
        if number in sessions:
            sessions[number].clean_after = max(sessions[number].clean_after, begin)
        else:
            known = lane.slices.admissions.get(number)
            start = begin if known is None else max(begin, known.start)
            lane.slices.admissions[number] = Admission(start, after)


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
        aggs, places = lane.sessions.aggs_of(session.query), lane.sessions.shares.of(session.query.number)
        parts.append(_with_cells(columns, aggs, store.cells(ids), places))
    if not parts:
        return pa.table({"query": pa.array([], pa.int64())})
    return pa.concat_tables(parts, promote_options="default")  # what a query does not give is null


def _load_sessions(lane: PartialLane, found: pa.Table, slot_map: Any) -> None:
    if not lane.sessions.running:
        demand(not found.num_rows, "there are sessions, and no window is one")
        return
    _check_cells(found, ("query", "slot", "first", "end", "given"), lane.aggs, "sessions")
    queries = numbers(found, "query")
    demand(np.isin(queries, [s.query.number for s in lane.sessions.running]).all(), "there are sessions of no window")
    for session in lane.sessions.running:
        mine = found.filter(pa.array(queries == session.query.number))
        slots, first, end = slot_map[numbers(mine, "slot")], numbers(mine, "first"), numbers(mine, "end")
        given = numbers(mine, "given", pa.bool_())
        order = np.lexsort((first, slots))
        slots, first, end = slots[order], first[order], end[order]
        same = slots[1:] == slots[:-1]
        demand((first <= end).all(), "a session ends before it begins")
        demand((first[1:] > end[:-1])[same].all(), "two sessions of a key overlap")
        aggs, places = lane.sessions.aggs_of(session.query), lane.sessions.shares.of(session.query.number)
        cells = tuple(c.take(order) for c in _cells_of(aggs, mine, places))
        session.store.load(Pieces(slots, first, end, cells), given[order])


def _revisions_table(lane: PartialLane, slots: Array | None) -> pa.Table:
    chosen = None if slots is None else set(slots.tolist())
    rows = [(*w, r) for w, r in lane.revisions.items() if chosen is None or w[1] in chosen]
    return _table(_REVISIONS, rows)


def _early_table(known: Known, slots: Array | None) -> pa.Table:
    kept = known if slots is None else known.take(np.flatnonzero(np.isin(known.slot, slots)))
    return pa.table(dict(zip(_EARLY, kept.columns, strict=True)))


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


def _with_cells(
    columns: dict[str, Any], aggs: Sequence[Agg], cells: Sequence[Cells], places: Sequence[int] | None = None
) -> pa.Table:
    """`places`: which of the aggregates of the lane these are; None: all."""
    for i, agg, partials in zip(range(len(aggs)) if places is None else places, aggs, cells):
        columns.update({f"agg.{i}.{name}": a for name, a in cells_to_arrow(agg.bound, partials).items()})
    return pa.table(columns)


def _cells_of(aggs: Sequence[Agg], table: pa.Table, places: Sequence[int] | None = None) -> tuple[Cells, ...]:
    found = []
    for i, agg in zip(range(len(aggs)) if places is None else places, aggs):
        prefix = f"agg.{i}."
        arrays = {n[len(prefix) :]: table[n] for n in table.column_names if n.startswith(prefix)}
        found.append(cells_from_arrow(agg.bound, arrays))
    return tuple(found)
