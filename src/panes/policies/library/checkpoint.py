"""A container's whole state as a snapshot and back: subwindows, tuples, and what is due.

Windows that were restored go on as if nothing had happened: moments that were due are those of the snapshot, whatever
clock they continue on. Handlers are code and are registered again by whoever restores.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from panes.errors import QueryError, SnapshotMismatch
from panes.policies.library.codec import has_pickles, objects, table
from panes.policies.library.deadlines import EVICT, FORGET, TRIGGER
from panes.policies.library.specs import Delta
from panes.policies.library.subwindow import NEVER, Subwindow
from panes.state.snapshot import pack, unpack

if TYPE_CHECKING:
    from panes.policies.library.window import Window

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


def restore(window: Window, blob: bytes) -> None:
    """Put a snapshot into a window of the same configuration that has seen no tuple."""
    if window._partitions.updates:
        raise QueryError("restore() into a window that has seen tuples: make a new one")
    facts, tables = unpack(blob)
    ours, theirs = identity(window), facts["identity"]
    changed = [name for name in sorted({*ours, *theirs}) if ours.get(name) != theirs.get(name)]
    if changed:
        said = "; ".join(f"{n} was {theirs.get(n)}, is {ours.get(n)}" for n in changed)
        raise SnapshotMismatch(f"the snapshot belongs to another window: {said}")
    lines = objects(tables["subs"])
    subs = []
    for i, key in enumerate(lines["key"]):
        sub = Subwindow(key, lines["created"][i], 0)
        for name in _PLAIN:
            setattr(sub, name, lines[name][i])
        subs.append(sub)
    for name in _QUEUES:
        queues: list[deque[Any]] = [getattr(sub, name) for sub in subs]
        entries = objects(tables[name])
        for i, entry in zip(entries["sub"], entries["entry"]):
            queues[i].append(entry)
    window._partitions.restore(subs, facts["updates"])
    for sub in subs:
        if sub.evict_due != NEVER:
            window._await(sub.evict_due, EVICT, sub)
        if sub.trigger_due != NEVER:
            window._await(sub.trigger_due, TRIGGER, sub)
    periods = objects(tables["periods"])
    for key, due in zip(periods["key"], periods["due"]):
        window._periods[key] = due
        window._await(due, FORGET, Subwindow(key, 0, 0))


def identity(window: Any) -> dict[str, Any]:
    """What makes a window this window."""
    policies = {name: _said(getattr(window, name, None)) for name in ("evict", "trigger", "partition_evict")}
    return {
        "kind": window.kind, "partitioned": window.partitioned, "select": window.select, **policies,
        "summarizer": getattr(window, "_factory", None) is not None, "discard": getattr(window, "discard", None),
    }  # fmt: skip


def _said(policy: Any) -> str:
    if isinstance(policy, Delta) and callable(policy.attribute):  # its repr would name a place in memory
        return f"delta({getattr(policy.attribute, '__qualname__', type(policy.attribute).__name__)}, {policy.delta})"
    return repr(policy)
