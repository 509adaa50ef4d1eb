"""An operator's whole state as a snapshot, or the part of some key groups, and back.

A part holds the keys of its groups, and says which they are. What belongs to the stream and not to a key (watermark,
windows of now) is in every part and must agree; counters and the late ledger are in the part with the first group that
the operator holds. Parts that were brought on apart are put together too: those that are behind are brought to the
watermark of the others first.

Nothing that a snapshot says is believed before it was looked at (`state/checked.py`), and the operator that it is put
into stays as it was if it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from panes.errors import QueryError, SnapshotMismatch
from panes.slicing.idle_keys import IdleKeys
from panes.slicing.incremental import Part, changes_of, with_changes
from panes.slicing.key_groups import KeyGroups, clash, spread
from panes.slicing.keys import KeyDirectory
from panes.slicing.ledger import LateLedger, RawRows
from panes.slicing.outputs import QueryOutputs, check_types, outputs_from
from panes.slicing.running import RunningQuery
from panes.slicing.spec import OperatorSpec
from panes.state.checked import (
    MANY,
    columns_of,
    counts,
    demand,
    fact,
    numbers,
    read_table,
    reading,
    rising,
    same_identity,
    value,
    whole,
)
from panes.state.entries import SlotMap
from panes.state.pickles import PICKLED, trusting
from panes.state.snapshot import pack, unpack
from panes.windows.base import ALWAYS, Bound, Window
from panes.windows.codec import has_form, window_from_json, window_to_json
from panes.windows.normal_form import normal_form

if TYPE_CHECKING:
    from panes.slicing.operator import SliceOperator

Array = np.ndarray
#: The table of results that are due and not given yet; parts that come from operators apart may have one.
DUE = "due"
#: What is written of a window that the query declares: its reader has it, code and all.
_DECLARED = {"declared": True}
#: What snapshots of format 4 don't say: they were whole, and ended no epoch; and what was not said before windows could
#: have outputs of their own.
_NEW: dict[str, Any] = {"epoch": None, "since": None, "late_held": None, "outputs": {}}
_SHARED = ("watermark", "next_number", "windows", "outputs", "lanes", "finished", "identity")


def snapshot(
    op: SliceOperator, key_groups: range | None = None, *, epoch: int | None = None, since: int | None = None
) -> bytes:
    """The state of the operator, or of the keys in these key groups, or of those of them that have changed."""
    held = KeyGroups.every() if op._groups is None else op._groups
    groups = held if key_groups is None else KeyGroups.of(key_groups)
    if not groups <= held:
        raise QueryError(
            f"key_groups={key_groups}: this operator was restored from parts and holds the key groups {held}"
        )
    for lane in op._query.lanes:
        lane.tidy()  # before anybody asks what has changed
    slots, changed = _slots_of(op, groups), _changed_since(op, since)
    if changed is not None:
        slots = slots[np.isin(slots, changed)]
    tables: dict[str, pa.Table] = {}
    if op._keys is not None:
        tables["keys"] = op._keys.dump(slots)
    for i, lane in enumerate(op._query.lanes):
        tables.update({f"lane.{i}.{name}": each for name, each in lane.dump(slots).items()})
    first = held.first in groups
    if first:
        newest = None if changed is None or since is None else op._journal.changed.late_since(since, len(op._ledger))
        tables["late"] = op._ledger.table(newest)
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
        "next_number": op._query.next_number,
        "keys_used": op._idle_keys.used,
        "windows": [[q.label, q.number, spec] for q, spec in zip(op._query.running, specs, strict=True)],
        "lanes": op._query.facts(),
        "finished": op._finished,
        "counts": op._counts if first else {},
        "late": op._ledger.counts if first else {},
        "on_time": [list(stretch) for stretch in op._query.on_time],
        "missed": [[number, rows] for number, rows in op._missed.items()] if first else [],
        "groups": groups.spans(),
        "outputs": {label: own.facts() for label, own in op._query.own.items()},
        "pickled": any("pickled" in spec for spec in specs) or _has_pickles(op, tables),
        "epoch": epoch,
        "since": None if changed is None else since,
        "late_held": op._ledger.held if first else 0,
    }
    _end_epoch(op, epoch)
    return pack(facts, tables) if changed is None else pack(*changes_of(facts, tables), deflate=True)


def _changed_since(op: SliceOperator, since: int | None) -> Array | None:
    """Slots that have changed since an epoch; None: all may have, or nobody asks."""
    if since is None:
        return None
    changed = op._journal.changed
    if since not in changed.epochs:
        known = f"the last is {changed.epochs[-1]}" if changed.epochs else "snapshot(epoch=...) ends one"
        raise QueryError(f"since={since!r}: no epoch of that number has ended here; {known}")
    if not all(lane.by_key for lane in op._query.lanes):
        return None
    found = changed.since(since, 1 if op._keys is None else len(op._keys))
    # without keys all is of one slot, and a part of it is hardly less than the whole
    return found if found is None or op._keys is not None else np.zeros(1, np.int64)


def _end_epoch(op: SliceOperator, epoch: int | None) -> None:
    if epoch is None:
        return
    changed, now = op._journal.changed, (op._seq, op.watermark, op._finished)
    last = changed.epochs[-1] if changed.epochs else -1
    if type(epoch) is not int or not 0 <= epoch < MANY:
        raise QueryError(f"epoch={epoch!r} must be a whole number, 0 or above")
    if epoch == last and op._epoch_ended_at == now:
        return  # parts of one epoch are taken one after the other
    if epoch <= last:
        raise QueryError(f"epoch={epoch} has ended before: the last that ended here is {last}")
    changed.end(epoch, len(op._ledger))
    op._epoch_ended_at = now


def restore(op: SliceOperator, blobs: Sequence[bytes], *, trusted: bool = False) -> None:
    """Put the state of one whole snapshot, or of parts that make up one, into a fresh operator."""
    if op._seq or op.watermark > ALWAYS or op._finished or any(op._counts.values()):
        raise QueryError("restore() into an operator that has seen rows or watermarks: make a new one")
    before = dict(op.__dict__)
    try:
        with trusting(trusted), reading("the snapshot"):
            _restore(op, blobs)
    except BaseException:
        op.__dict__.clear()
        op.__dict__.update(before)
        raise


def _restore(op: SliceOperator, blobs: Sequence[bytes]) -> None:
    if not blobs:
        raise SnapshotMismatch("restore needs at least one snapshot")
    parts = _up_to_date([_read(blob) for blob in blobs])
    for facts, _ in parts:
        _check_same_query(op, facts)
        _check_facts(facts)
    _restore_parts(op, parts)
    epochs = {facts["epoch"] for facts, _ in parts}
    if len(epochs) == 1 and None not in epochs:
        _end_epoch(op, *epochs)
        if any(facts["identity"] != op.spec.whole_identity for facts, _ in parts):
            op._journal.changed.note_all()  # changes can't follow a snapshot of the query before it was enlarged


def _read(blob: bytes) -> Part:
    """A snapshot of this format or an older one."""
    facts, tables = unpack(blob)
    return {**_NEW, **facts}, tables


def _up_to_date(parts: Sequence[Part]) -> list[Part]:
    """Parts with the changes that follow them."""
    found: list[Part] = []
    for facts, tables in parts:
        epoch, since = (facts[n] if facts[n] is None else whole(facts, n, 0) for n in ("epoch", "since"))
        of = [i for i, (known, _) in enumerate(found) if known["groups"] == fact(facts, "groups", list)]
        before = found[of[0]][0]["epoch"] if of else None
        if since is not None:
            if before != since:
                raise SnapshotMismatch(
                    f"the changes since epoch {since} are to follow the snapshot of that epoch, "
                    f"and come after {'none' if before is None else f'that of epoch {before}'}"
                )
            found[of[0]] = with_changes(found[of[0]], (facts, tables))
        elif epoch is not None and before is not None and before < epoch:
            found[of[0]] = facts, tables  # the whole state, where changes were asked for
        else:
            found.append((facts, tables))
    return found


def _restore_parts(op: SliceOperator, parts: list[Part]) -> None:
    groups = [KeyGroups.read(facts["groups"]) for facts, _ in parts]
    held = KeyGroups.union(groups)
    parts = _together(op, parts)
    if clash([tables for _, tables in parts]):
        _resume(op, parts[0][0])
        aggs = [lane.aggs for lane in op._query.lanes]
        parts = [spread(aggs, part, i, len(parts)) for i, part in enumerate(parts)]
    facts = {**parts[0][0], "seq": max(f["seq"] for f, _ in parts), "keys_used": max(f["keys_used"] for f, _ in parts)}
    _resume(op, facts)
    op._groups = None if held.whole else held
    columns = op._query.expressions.types
    for (part, tables), mine in zip(parts, groups):
        slot_map = _load_keys(op, tables, mine)
        _check_tables(op, tables)
        for i, lane in enumerate(op._query.lanes):
            prefix = f"lane.{i}."
            of_lane = {n[len(prefix) :]: t for n, t in tables.items() if n.startswith(prefix)}
            lane.load(of_lane, slot_map, columns)
        if "late" in tables:
            op._ledger.load(tables["late"], part["late"])
        if DUE in tables:
            op._due.append(tables[DUE])
        if "raw" in tables:
            raw = tables["raw"]
            op._raw.keep(numbers(raw, "panes.seq", low=0), raw.drop_columns(["panes.seq"]))
        for number, rows in part["missed"]:
            op._missed[number] = op._missed.get(number, 0) + rows
        if part["counts"]:
            for name, count in counts(part, "counts", op._counts).items():
                op._counts[name] += count
    op._query.changed(op._seq)
    op._windows_changed()
    _load_due(op)


def _resume(op: SliceOperator, facts: Mapping[str, Any]) -> None:
    """Be where a snapshot was taken, with lanes still empty."""
    spec = op.spec
    op._query = RunningQuery(spec, op._journal)
    op._query.resume(facts, _windows(spec, facts), _outputs(spec, facts))
    op._keys = KeyDirectory([spec.schema.field(k).type for k in spec.keys]) if spec.keys else None
    op._ledger = LateLedger(spec.schema, spec.keep_late, op._journal)
    op._raw, op._held, op._due = RawRows(op._journal), [], []
    op._missed = {}
    op._counts = dict.fromkeys(op._counts, 0)
    op.watermark, op._seq, op._finished = facts["watermark"], facts["seq"], facts["finished"]
    op._idle_keys = IdleKeys(facts["keys_used"])


def _check_facts(facts: Mapping[str, Any]) -> None:
    """Everything that a part says of itself, by type and bounds."""
    whole(facts, "watermark")
    whole(facts, "seq", 0, MANY)
    many = whole(facts, "next_number", 0, MANY)
    whole(facts, "keys_used", 0, MANY)
    fact(facts, "finished", bool)
    fact(facts, "counts", dict)
    for reason, count in fact(facts, "late", dict).items():
        value(count, f"rows late, {reason}", int, low=0, high=MANY)
    for stretch in fact(facts, "on_time", list):
        since, until = value(stretch, "the rows that windows on time were there for", list)
        for number in (since, until):
            value(number, "the arrival number of a row", int, low=0)
    for missed in fact(facts, "missed", list):
        number, rows = value(missed, "rows that a window missed", list)
        value(number, "the number of a window", int, low=0, high=many - 1)
        value(rows, "rows that a window missed", int, low=0, high=MANY)
    seen: tuple[set[str], set[int]] = (set(), set())
    for window in fact(facts, "windows", list):
        label, number, spec = value(window, "a window", list)
        seen[0].add(value(label, "the label of a window", str))
        seen[1].add(value(number, "the number of a window", int, low=0, high=many - 1))
        value(spec, "a window", dict)
    for label, own in fact(facts, "outputs", dict).items():
        demand(label in seen[0], "there are outputs of a window that is not there")
        fact(own, "computed", dict)
        for written in fact(own, "written", list):
            name, _ = value(written, "an output", list)
            value(name, "the name of an output", str)
    lanes = [n for lane in fact(facts, "lanes", list) for n in fact(lane, "numbers", list)]
    total = len(facts["windows"])
    demand(len(seen[0]) == len(seen[1]) == total, "two windows have one label or number")
    demand(len(lanes) == total and set(lanes) == seen[1], "a window is in no lane, or in two")
    demand(bool(facts["lanes"]), "there is no lane")
    for lane in facts["lanes"]:
        fact(lane, "rows", bool)
        for name, kind in fact(lane, "dimensions", dict).items():
            demand(kind in ("<i8", "<f8"), f"the measure {name!r} is of a type that none has")


def _check_tables(op: SliceOperator, tables: Mapping[str, pa.Table]) -> None:
    known = {"keys", "late", "raw", DUE}
    lanes = tuple(f"lane.{i}." for i in range(len(op._query.lanes)))
    odd = [name for name in tables if name not in known and not name.startswith(lanes)]
    demand(not odd, f"there is a table {odd[:1]} that nothing reads")
    fields = {f.name: f.type for f in op.spec.schema}
    if "late" in tables:
        columns_of(tables["late"], "late", {**fields, "reason": pa.string()})
    if "raw" in tables:
        columns_of(tables["raw"], "raw", {**fields, "panes.seq": pa.int64()})
        rising(np.unique(numbers(tables["raw"], "panes.seq", low=0)), "arrival numbers")
        demand(tables["raw"].num_rows > 0, "there is a table of no rows that were kept")


def _load_keys(op: SliceOperator, tables: Mapping[str, pa.Table], groups: KeyGroups) -> SlotMap:
    if op._keys is None:
        demand("keys" not in tables, "there are keys, and the stream has none")
        one = np.zeros(1, np.int64)
        return SlotMap(one, one)
    known = len(op._keys)
    found = op._keys.load(read_table(tables, "keys"))
    demand(len(op._keys) == known + len(found), "two parts have one key")
    fresh = np.arange(known, len(op._keys))
    demand(groups.among(op._keys.groups(fresh)).all(), "a part has keys of key groups that it does not hold")
    return found


def _load_due(op: SliceOperator) -> None:
    """Results that are due are given as they are: they must look as those of this query do."""
    wanted = op._builder.empty().table.schema
    for given in op._due:
        if given.schema.names != wanted.names or given.schema.types != wanted.types:
            raise SnapshotMismatch(
                f"results that are due have the columns {', '.join(given.schema.names)}, and this query gives "
                f"{', '.join(wanted.names)}: restore with the steps that it was read with"
            )


def _together(op: SliceOperator, parts: list[Part]) -> list[Part]:
    """Parts as they are at one watermark; what that makes due goes along."""
    reached = max(facts["watermark"] for facts, _ in parts)
    found = []
    for facts, tables in parts:
        if facts["watermark"] < reached and not facts["finished"]:
            behind = type(op)(op.spec)
            _restore_parts(behind, [(facts, tables)])
            due = behind.advance(reached).table
            facts, tables = unpack(behind.snapshot())
            tables = {**tables, DUE: due} if due.num_rows else tables
        found.append((facts, tables))
    for name in _SHARED:
        if any(facts[name] != found[0][0][name] for facts, _ in found[1:]):
            raise SnapshotMismatch(f"the parts are not of one operator: they differ in {name}")
    return found


def _has_pickles(op: SliceOperator, tables: dict[str, pa.Table]) -> bool:
    """Whether reading these tables runs code: users' own objects can only be pickled."""
    names = (n for each in tables.values() for n in each.column_names)
    user_cells = any(f.python for a in op._query.aggs for f in a.bound.fields)
    return user_cells or any(n.endswith(PICKLED) for n in names)


def _written(op: SliceOperator) -> list[dict[str, Any]]:
    """The windows of now; those declared have been written before, or are left to their declaration."""
    declared, known = dict(op.spec.windows), op.spec.written_windows
    found = []
    for each in op._query.running:
        label, window = each.label, op._query.windows[each.label]
        if window is not declared.get(label):
            found.append(window_to_json(window))
        else:
            found.append(known.get(label, _DECLARED))
    return found


def _windows(spec: OperatorSpec, facts: Mapping[str, Any]) -> dict[str, tuple[Window, Bound]]:
    """The windows of a snapshot; those declared are bound already."""
    declared, known = dict(spec.windows), spec.written_windows
    found = {}
    for label, _, written in facts["windows"]:
        if written == known.get(label, _DECLARED) and label in declared:
            found[label] = declared[label], spec.bound_windows[label]
        else:
            if isinstance(written, Mapping) and "pickled" in written:
                built_in = label in declared and has_form(declared[label])
                demand(
                    facts["pickled"] and not built_in,
                    f"window {label!r} is pickled, though the query has no code there",
                )
            window = window_from_json(written, label)
            found[label] = window, normal_form(window.labelled(label, spec.domain))
    return found


def _outputs(spec: OperatorSpec, facts: Mapping[str, Any]) -> dict[str, QueryOutputs]:
    """What windows of a snapshot give that have outputs of their own; those declared are there already."""
    found = {}
    for label, own in fact(facts, "outputs", dict).items():
        declared = spec.own.get(label)
        if declared is not None and dict(declared.computed) == own["computed"]:
            found[label] = declared
            continue
        for output, written in own["written"]:
            if written is None:
                raise SnapshotMismatch(
                    f"the query {label!r}, added while running, gives {output} = {own['computed'].get(output)}: that "
                    f"is code of your own, which is not in the snapshot. Restore with it: query.add({label!r}, "
                    f"window, {output}=...).operator(restore=...)"
                )
        demand(spec.outputs_for is not None, f"window {label!r} has outputs of its own, and none here can")
        assert spec.outputs_for is not None
        found[label] = spec.outputs_for(label, outputs_from(own["written"]))
        demand(dict(found[label].computed) == own["computed"], f"window {label!r} computes other than it says")
    if spec.shared is not None:
        given = {label: found.get(label, spec.shared) for label, *_ in facts["windows"]}
        for label, own in found.items():
            check_types(label, own, given)
    return found


def _slots_of(op: SliceOperator, groups: KeyGroups) -> Array:
    if op._keys is None:
        return np.arange(1 if 0 in groups else 0)
    slots = np.arange(len(op._keys))
    return slots[groups.among(op._keys.groups(slots))]


def _raw_of(op: SliceOperator, groups: KeyGroups) -> pa.Table | None:
    """Input rows that are kept, with their arrival numbers, of keys in these groups."""
    held = op._raw.held()
    if held is None or (op._keys is None and 0 not in groups):
        return None
    rows = held[1].append_column("panes.seq", pa.array(held[0]))
    if op._keys is None or groups.whole:
        return rows
    keys = KeyDirectory(op._keys.types)  # of its own: rows may be of keys that the operator has forgotten
    of = keys.groups(keys.slots([rows[k] for k in op.spec.keys]))
    mine = rows.filter(pa.array(groups.among(of)))
    return mine if mine.num_rows else None


def _check_same_query(op: SliceOperator, facts: Mapping[str, object]) -> None:
    theirs, ours = fact(facts, "identity", dict), op.spec.whole_identity
    changed = {name for name in {*theirs, *ours} if theirs.get(name) != ours.get(name)}
    if not (changed <= {"windows", "outputs"} and _is_enlarged(op.spec, facts)):
        same_identity(facts, ours, "query")


def _is_enlarged(spec: OperatorSpec, facts: Mapping[str, object]) -> bool:
    """Whether a query declares the windows that were there when a snapshot was taken, those added while running too."""
    theirs, ours = fact(facts, "identity", dict), spec.whole_identity
    given = {label: own["computed"] for label, own in fact(facts, "outputs", dict).items()}
    running = {label: written for label, _, written in fact(facts, "windows", list)}
    if set(running) != set(ours["windows"]) or given != ours.get("outputs", {}):
        return False
    known = fact(theirs, "windows", dict)
    return all(
        known[label] == ours["windows"][label] if label in known and written == _DECLARED
        else "pickled" in written or written == spec.written_windows.get(label)
        for label, written in running.items()
    )  # fmt: skip
