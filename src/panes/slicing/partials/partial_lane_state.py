"""What the partial lane holds of the stream, and not of keys, as Arrow tables and back.

Watermark, bounds of slices, and which windows of added queries count are in every dump, so that dumps of different keys
can be loaded into one lane. What it holds of keys is in banks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from panes.errors import SnapshotMismatch
from panes.slicing.partials.slice_partials import Admission
from panes.state.checked import INT64, demand, numbers, one_row, read_table, rising, value
from panes.windows.base import ALWAYS

if TYPE_CHECKING:
    from panes.slicing.partials.partial_lane import PartialLane

Array = np.ndarray
_FACTS = ("watermark", "last_time", "purged_to")
_ADDED = ("query", "start", "after")
_COMPLETE = ("query", "start")


def dump(lane: PartialLane, slots: Array) -> dict[str, pa.Table]:
    """What belongs to the stream, in a dump of these keys."""
    side = lane.slices
    starts = side.slices.starts
    added = [(n, a.start, a.after) for n, a in side.admissions.items()]
    added += [(s.query.number, s.clean_after, ALWAYS) for s in lane.sessions.running]
    tables = {
        "facts": _table(_FACTS, [(lane.watermark, lane.last_time, side.known_purged(lane.last_time))]),
        # without keys every slice is that of all rows, so that a part without them has none
        "slices": pa.table({"start": starts if lane.keyed or len(slots) else starts[:0]}),
        "bounds": _table(("start", "end"), list(side.odd_bounds().items())),
        "added": _table(_ADDED, added),
    }
    if side.complete_from:
        tables["complete"] = _table(_COMPLETE, [*side.complete_from.items()])
    return tables


def load(lane: PartialLane, tables: Mapping[str, pa.Table], slot_map: Any) -> None:
    """Be where a dump was made, or stay there; what it holds of keys is to follow."""
    found = one_row(read_table(tables, "facts", dict.fromkeys(_FACTS, INT64)), "facts")
    watermark, last_time, purged_to = (value(found[name], name, int) for name in _FACTS)
    if lane.last_time > ALWAYS and last_time > ALWAYS and lane.watermark != watermark:
        raise SnapshotMismatch(
            f"two parts of a snapshot have watermarks {lane.watermark} and {watermark}: they were taken "
            "at different times"
        )
    lane.watermark = max(lane.watermark, watermark)
    lane.last_time = max(lane.last_time, last_time)
    if len(slot_map):
        lane.keys = max(lane.keys, int(slot_map.max()) + 1)
    _load_added(lane, read_table(tables, "added", dict.fromkeys(_ADDED, INT64)))
    if "complete" in tables:
        complete = read_table(tables, "complete", dict.fromkeys(_COMPLETE, INT64))
        _check_queries(numbers(complete, "query"), lane)
        lane.slices.complete_from.update(zip(*(numbers(complete, name).tolist() for name in _COMPLETE)))
    starts = numbers(read_table(tables, "slices", {"start": INT64}), "start")
    rising(starts, "where slices begin")
    bounds = read_table(tables, "bounds", {"start": INT64, "end": INT64})
    begins, ends = numbers(bounds, "start"), numbers(bounds, "end")
    demand((begins < ends).all(), "a slice ends before it begins")
    at = numbers(read_table(tables, "cells"), "start")
    demand(np.isin(at, starts).all(), "there are partials of a slice that is not there")
    demand(bool(lane.slices) or not len(starts), "there are slices, and no window has any")
    lane.slices.load_slices(starts, dict(zip(begins.tolist(), ends.tolist())), purged_to)
    for name in ("sessions", "empty", "early", "early_closed"):
        if name in tables:
            _check_queries(numbers(tables[name], "query"), lane)


def _check_queries(numbers_of: Array, lane: PartialLane) -> None:
    demand(np.isin(numbers_of, [q.number for q in lane.queries]).all(), "there is state of a window that is not there")


def _load_added(lane: PartialLane, found: pa.Table) -> None:
    sessions = {s.query.number: s for s in lane.sessions.running}
    _check_queries(numbers(found, "query"), lane)
    for number, begin, after in zip(*(numbers(found, name).tolist() for name in _ADDED)):
        if number in sessions:
            sessions[number].clean_after = max(sessions[number].clean_after, begin)
        else:
            known = lane.slices.admissions.get(number)
            start = begin if known is None else max(begin, known.start)
            lane.slices.admissions[number] = Admission(start, after)


def _table(names: Sequence[str], rows: Sequence[tuple[int, ...]]) -> pa.Table:
    columns = np.array(rows, np.int64).reshape(len(rows), len(names))
    return pa.table({name: columns[:, i] for i, name in enumerate(names)})
