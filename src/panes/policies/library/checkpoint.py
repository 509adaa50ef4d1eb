"""A container's whole state as a snapshot and back: subwindows, tuples, and what is due.

Windows that were restored go on as if nothing had happened: moments that were due are those of the snapshot, whatever
clock they continue on. Handlers are code and are registered again by whoever restores.

Tuples and keys are Python objects, and come back as what they were, in type and value: Arrow itself where it is exact,
JSON where values of one column differ in type, and only users' own objects are pickled. The end of a column's name says
how it is to be read.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from panes.errors import QueryError, SnapshotDamaged
from panes.policies.library.partitions import EVICT, FORGET, NEVER, TRIGGER, Subwindow
from panes.policies.library.specs import Delta, Time, text
from panes.state import pickles
from panes.state.checked import MANY, demand, read_table, reading, same_identity, value, whole
from panes.state.pickles import PICKLED, trusting
from panes.state.snapshot import pack, unpack
from panes.units import is_number

if TYPE_CHECKING:
    from panes.policies.library.window import Window

TUPLES, JSON = ".tuples", ".json"
_REFUSED = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, TypeError, ValueError)
#: Fields of a subwindow that stand for themselves.
_PLAIN = (
    "created", "updated", "updates", "updated_at", "size", "full", "counter", "baseline", "last_value",
    "last_trigger_value", "evict_due", "trigger_due", "summarizer",
)  # fmt: skip
#: Queues of a subwindow: one entry per tuple, or none.
_QUEUES = ("tuples", "values", "arrivals")


def snapshot(window: Window) -> bytes:
    """All of the window's state."""
    subs = list(window._partitions.subs.values())
    columns: dict[str, list[Any]] = {"key": [s.key for s in subs]}
    columns.update({name: [getattr(s, name) for s in subs] for name in _PLAIN})
    tables = {"subs": table(columns)}
    for name in _QUEUES:
        entries = [(i, entry) for i, s in enumerate(subs) for entry in getattr(s, name)]
        tables[name] = table({"sub": [i for i, _ in entries], "entry": [e for _, e in entries]})
    periods = list(window._periods.items())
    tables["periods"] = table({"key": [key for key, _ in periods], "due": [due for _, due in periods]})
    facts = {
        "identity": identity(window),
        "updates": window._partitions.updates,
        "pickled": has_pickles(*tables.values()),
    }
    return pack(facts, tables)


def restore(window: Window, blob: bytes, *, trusted: bool = False) -> None:
    """Put a snapshot into a window of the same configuration that has seen no tuple; it changes only if all is well."""
    if window._partitions.updates:
        raise QueryError("restore() into a window that has seen tuples: make a new one")
    facts, tables = unpack(blob)
    same_identity(facts, identity(window), "window", str)
    with trusting(trusted), reading("the snapshot of a window"):
        subs = _subwindows(window, tables)
        updates = whole(facts, "updates", max((s.updated for s in subs), default=0), MANY)
        periods = _columns(tables, "periods", ("key", "due"))
        due = {key: value(at, "a period", int) for key, at in zip(periods["key"], periods["due"])}
        demand(len(due) == len(periods["due"]), "two periods are of one key")
        demand(not due or isinstance(window.evict, Time), "a period ends, and none began")
    window._partitions.restore(subs, updates)
    for sub in subs:
        if sub.evict_due != NEVER:
            window._await(sub.evict_due, EVICT, sub)
        if sub.trigger_due != NEVER:
            window._await(sub.trigger_due, TRIGGER, sub)
    for key, at in due.items():
        window._periods[key] = at
        window._await(at, FORGET, Subwindow(key, 0, 0))


def _columns(tables: Mapping[str, pa.Table], name: str, names: Sequence[str]) -> dict[str, list[Any]]:
    """The columns of a table, which must be these."""
    found = objects(read_table(tables, name))
    demand(
        set(found) == set(names) and read_table(tables, name).num_columns == len(names), f"{name!r} has other columns"
    )
    return found


def _subwindows(window: Window, tables: Mapping[str, pa.Table]) -> list[Subwindow]:
    """The subwindows of a snapshot, each as its policies can have left it."""
    lines = _columns(tables, "subs", ("key", *_PLAIN))
    made = getattr(window, "_factory", None)
    calls = ("on_open_window", "on_tuple_insertion", "on_close_window")
    for each in lines["summarizer"]:
        fits = each is None if made is None else all(callable(getattr(each, call, None)) for call in calls)
        demand(fits, "tuples are summarized by what is no summarizer")
    subs = []
    for i, key in enumerate(lines["key"]):
        sub = Subwindow(key, lines["created"][i], 0)
        for name in _PLAIN:
            setattr(sub, name, lines[name][i])
        subs.append(sub)
    demand(len({sub.key for sub in subs}) == len(subs), "two subwindows are of one key")
    demand(window.partitioned or all(sub.key is None for sub in subs), "a window without keys has one")
    for name in _QUEUES:
        queues: list[deque[Any]] = [getattr(sub, name) for sub in subs]
        entries = _columns(tables, name, ("sub", "entry"))
        for i, entry in zip(entries["sub"], entries["entry"]):
            queues[value(i, "the number of a subwindow", int, low=0, high=len(subs) - 1)].append(entry)
    for sub in subs:
        _check(window, sub)
    return subs


def _check(window: Window, sub: Subwindow) -> None:
    for name in ("created", "updated", "updates", "size", "counter"):
        value(getattr(sub, name), name, int, low=0, high=MANY)
    for name in ("updated_at", "evict_due", "trigger_due"):
        value(getattr(sub, name), name, int, low=NEVER, high=2**63 - 1)
    value(sub.full, "full", bool)
    evict, trigger = window.evict, getattr(window, "trigger", None)
    demand(sub.evict_due == NEVER or isinstance(evict, Time), "something leaves by time, and nothing does")
    demand(sub.trigger_due == NEVER or isinstance(trigger, Time), "something is due by time, and nothing is")
    for number in (*sub.values, sub.last_value, sub.baseline, sub.last_trigger_value):
        demand(number is None or is_number(number), "a difference is of what is not a number")
    for moment in sub.arrivals:
        value(moment, "the time of a tuple", int, low=NEVER, high=2**63 - 1)
    summed = getattr(window, "_factory", None) is not None
    first_only = window.kind == "tumbling"
    sizes = {
        "tuples": 0 if summed else sub.size,
        "values": (min(sub.size, 1) if first_only else sub.size) if isinstance(evict, Delta) else 0,
        "arrivals": sub.size if isinstance(evict, Time) and not first_only else 0,
    }
    for name, size in sizes.items():
        demand(
            len(getattr(sub, name)) == size, f"a subwindow of {sub.size} tuples has {len(getattr(sub, name))} {name}"
        )
    demand(None not in sub.values, "a difference is of what is not a number")


def identity(window: Any) -> dict[str, Any]:
    """What makes a window this window."""
    policies = {name: _said(getattr(window, name, None)) for name in ("evict", "trigger", "partition_evict")}
    return {
        "kind": window.kind, "partitioned": window.partitioned, "select": window.select, **policies,
        "summarizer": getattr(window, "_factory", None) is not None, "discard": getattr(window, "discard", None),
    }  # fmt: skip


def _said(policy: Any) -> str:
    if isinstance(policy, Delta) and callable(policy.attribute):  # its repr would name a place in memory
        name = getattr(policy.attribute, "__qualname__", type(policy.attribute).__name__)
        return f"delta({name}, {policy.threshold})"
    return text(policy)


def encode(name: str, objects: Sequence[Any]) -> tuple[str, pa.Array]:
    """A column for the objects, and its name.

    >>> encode("row", [{"v": 1}, {"v": 2}])[0]
    'row'
    >>> encode("row", [1, 2.5])[0]
    'row.json'
    """
    objects = list(objects)
    try:
        found = pa.array(objects)
        if repr(found.to_pylist()) == repr(objects):
            return name, found
    except _REFUSED:
        found = None
    if objects and all(type(o) is tuple and len(o) == len(objects[0]) > 0 for o in objects):
        parts = [encode(str(i), [o[i] for o in objects]) for i in range(len(objects[0]))]
        if not any(part.endswith(PICKLED) for part, _ in parts):
            return name + TUPLES, pa.StructArray.from_arrays([a for _, a in parts], names=[n for n, _ in parts])
    try:
        texts = [json.dumps(o) for o in objects]
        if repr([json.loads(text) for text in texts]) == repr(objects):
            return name + JSON, pa.array(texts, pa.string())
    except _REFUSED:
        texts = []
    return name + PICKLED, pa.array([pickles.dumps(o) for o in objects], pa.binary())


def decode(name: str, column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The objects of a column of `encode`."""
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if name.endswith(TUPLES):
        fields = [column.type.field(i).name for i in range(column.type.num_fields)]
        if any(field.endswith(PICKLED) for field in fields):
            raise SnapshotDamaged(f"the column {name!r} says that a part of a tuple is pickled, which none is")
        return list(zip(*(decode(field, column.field(i)) for i, field in enumerate(fields))))
    if name.endswith(JSON):
        return [json.loads(text) for text in column.to_pylist()]
    if name.endswith(PICKLED):
        return [pickles.loads(data, f"the column {name!r} of a window") for data in column.to_pylist()]
    return column.to_pylist()


def table(columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    """All columns, encoded."""
    encoded = dict(encode(name, objects) for name, objects in columns.items())
    return pa.table(encoded)


def objects(table: pa.Table) -> dict[str, list[Any]]:
    """The columns of `table`, by their first names."""
    return {name.split(".")[0]: decode(name, table[name]) for name in table.column_names}


def has_pickles(*tables: pa.Table) -> bool:
    """Whether reading them runs code of whoever wrote them."""
    return any(name.endswith(PICKLED) for table in tables for name in table.column_names)
