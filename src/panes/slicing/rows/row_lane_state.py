"""The state of the row lane that is not held of keys, as Arrow tables and back.

What is held of keys is in banks, and so is how it is written; here is what belongs to the stream, and what readers ask
of all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from panes.slicing.rows.ordered import OrderedSlicer
from panes.slicing.rows.slice_table import SliceTable
from panes.state.checked import INT64, demand, numbers, one_row, read_table, within
from panes.windows.base import NEVER, Discretizer

if TYPE_CHECKING:
    from panes.slicing.rows.row_lane import RowLane

Array = np.ndarray


def dump(lane: RowLane) -> dict[str, pa.Table]:
    """What belongs to the stream."""
    tables = {
        "facts": pa.table(
            {
                "live": [lane.live.watermark],
                "base": [lane.base.watermark],
                "last_time": [lane.last_time],
                "given_from": [_scalar_starts(lane.live.keys.given_from)],
                "base_given_from": [_scalar_starts(lane.base.keys.given_from)],
            }
        )
    }
    complete = _scalar_starts(lane.live.keys.complete_from)
    if complete:
        tables["complete"] = pa.Table.from_pylist(complete)
    if lane.lacking:
        tables["lacking"] = pa.table({"column": list(lane.lacking), "until": list(lane.lacking.values())})
    return tables


def load_facts(lane: RowLane, tables: Mapping[str, pa.Table]) -> None:
    """What belongs to the stream."""
    facts = one_row(read_table(tables, "facts"), "facts")
    known = {q.number for q in lane.queries}
    for name, slicer in zip(("live", "base"), lane.slicers()):
        slicer.watermark = int(facts[name])
        key = "given_from" if name == "live" else "base_given_from"
        slicer.keys.given_from.update({int(e["number"]): int(e["start"]) for e in facts[key]})
        demand(known.issuperset(slicer.keys.given_from), "a window that is not there is given from somewhere on")
        if "complete" in tables:
            complete = read_table(tables, "complete", dict.fromkeys(("number", "start"), INT64))
            slicer.keys.complete_from.update(zip(*(numbers(complete, name).tolist() for name in ("number", "start"))))
            demand(known.issuperset(slicer.keys.complete_from), "a window that is not there lacks partials")
    if "lacking" in tables:
        lacking = read_table(tables, "lacking", {"column": pa.string(), "until": INT64})
        lane.lacking = dict(zip(lacking["column"].to_pylist(), numbers(lacking, "until").tolist()))
    lane.last_time = max(lane.last_time, int(facts["last_time"]))


def check(lane: RowLane, tables: Mapping[str, pa.Table], slot_map: Any) -> None:
    """Add what is in no bank, and see that all of it agrees."""
    demand(lane.lateness is not None or "log" not in tables, "rows are kept for corrections that can't come")
    for name, slicer in zip(("live", "base"), lane.slicers()):
        slots = slot_map[numbers(tables[f"{name}.keys"], "slot")]
        for each in (f"{name}.slices", f"{name}.rest"):
            of = slot_map[numbers(tables[each], "slot")] if each in tables else slots
            demand(np.isin(of, slots).all(), "there are slices of a key of which nothing else is known")
        _load_policies_of_before(slicer, tables, f"{name}.machine.", slot_map)
        for machine in slicer.keys.machines.values():
            machine.check(slots)
        _check_positions(slicer, slots)
        _check_rest(slicer, slots)


def _scalar_starts(starts: Mapping[int, Array | int]) -> list[dict[str, int]]:
    return [{"number": n, "start": int(s)} for n, s in starts.items() if not isinstance(s, np.ndarray)]


def _check_positions(slicer: OrderedSlicer, slots: Array) -> None:
    """Slices of a key follow each other up to its last row, and windows begin among them."""
    if not len(slots):
        return
    keys, slices = slicer.keys, slicer.slices
    seen = keys.rows_seen[slots]
    within(seen, "the number of rows of a key", low=0, high=NEVER)
    mine = np.isin(slices.slot, slots)
    slot, pos, stop = slices.slot[mine], slices.pos[mine], slices.stop[mine]
    same = slot[1:] == slot[:-1]
    demand((pos[1:] >= stop[:-1])[same].all(), "slices of a key lie on each other")
    lasts = np.append(~same, True)[: len(slot)]
    within(stop[lasts], "a slice", high=keys.rows_seen[slot[lasts]])
    for d, (first, last) in enumerate(zip(slices.first, slices.last)):
        first, last = first[mine], last[mine]
        demand((first <= last).all(), "a slice ends before it begins")
        demand((first[1:] >= last[:-1])[same].all(), f"slices are out of order on measure {d}")
    held = np.full(len(keys), NEVER)
    firsts = np.append(True, ~same)[: len(slot)]
    held[slot[firsts]] = pos[firsts]
    held = np.minimum(held[slots], seen)
    for query in slicer.queries:
        if not isinstance(query.window, Discretizer):
            continue
        state = {name: column[slots] for name, column in keys.windows[query.number].items()}
        _check_open(query.window.open_from(state), held, seen)
        for name in ("seen", "others"):
            if name in state:
                within(state[name], f"{name!r} of a window", low=0, high=seen)
        for name in query.window.packed:
            for i, data in enumerate(state[name]):
                pairs = np.frombuffer(data or b"", np.int64).reshape(-1, 2)
                within(pairs[:, 0], "an open window", low=held[i], high=max(seen[i] - 1, 0))
                others = state["others"][i] if "others" in state else len(pairs)
                demand(others == len(pairs), "more windows are open than are known, or fewer")
    for _, heads in keys.free_forms.values():
        _check_open(heads[slots], held, seen)
    for machine in keys.machines.values():
        _check_open(machine.needed(len(keys))[slots], held, seen)
        reached = machine.reached(len(keys))[slots]
        demand((reached[reached != NEVER] == seen[reached != NEVER]).all(), "a policy has seen other rows than its key")


def _load_policies_of_before(slicer: OrderedSlicer, tables: Mapping[str, pa.Table], prefix: str, slot_map: Any) -> None:
    """Windows at borders were other kinds once: state of their own said with which row they begin, and the rows of a
    last window were slices of one row each."""
    keys, table = slicer.keys, slicer.slices
    for number in slicer.borders.origins():
        state = tables.get(f"{prefix}{number}.keys")
        if state is None or not state.num_rows:
            continue
        slots, origin = slot_map[numbers(state, "slot")], numbers(state, "origin")
        # of a key that it had not seen, it begins with the next row
        origin = np.where(numbers(state, "word.1") < 0, keys.rows_seen[slots], origin)
        within(origin, "the first row of a key", low=0, high=keys.rows_seen[slots])
        if number in keys.given_from or origin.any():
            keys.given_from.setdefault(number, np.zeros(len(keys), np.int64))[slots] = origin
    if slicer.borders.keep_rows and len(table):
        held = keys.rows_seen.copy()
        np.minimum.at(held, slicer.rest.slot, slicer.rest.pos)
        needed = slicer.borders.last_from(table, slicer.rest, keys, afresh=False)
        lacking = (table.rows == 1) & (table.pos >= needed[table.slot]) & (table.pos < held[table.slot])
        both = SliceTable.concat([slicer.rest, table.take(lacking)])
        slicer.rest = both.take(np.lexsort((both.pos, both.slot)))


def _check_rest(slicer: OrderedSlicer, slots: Array) -> None:
    """Rows that a last window may hold are all there, one by one."""
    keys, rest = slicer.keys, slicer.rest
    needed = slicer.driven.needed_at_end(keys)
    if slicer.borders.keep_rows:
        of_borders = slicer.borders.last_from(slicer.slices, rest, keys, afresh=True)
        needed = of_borders if needed is None else np.minimum(needed, of_borders)
    if needed is None:
        demand(not len(rest), "rows are kept for a last window that no policy has")
        return
    mine = np.isin(rest.slot, slots)
    slot, pos = rest.slot[mine], rest.pos[mine]
    same = slot[1:] == slot[:-1]
    demand((rest.rows[mine] == 1).all(), "a row of the last window is not a single one")
    demand((np.diff(pos) == 1)[same].all(), "rows of the last window don't follow each other")
    lasts = np.append(~same, True)[: len(slot)]
    demand((pos[lasts] == keys.rows_seen[slot[lasts]] - 1).all(), "the last window does not go up to the last row")
    firsts = np.append(True, ~same)[: len(slot)]
    held = keys.rows_seen.copy()
    held[slot[firsts]] = pos[firsts]
    demand((held[slots] <= needed[slots]).all(), "rows that the last window may hold are missing")


def _check_open(begins: Array, held: Array, seen: Array) -> None:
    """Windows that are open begin among the rows that are held, or with the next one."""
    some = begins != NEVER
    within(begins[some], "an open window", low=held[some], high=seen[some])
