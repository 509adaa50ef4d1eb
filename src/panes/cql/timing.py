"""Which time a query's windows run on: an attribute, or the time at which rows arrive.

A length with a unit and no ON is system time (SPEC Q-15), so one such length makes the whole query run on
arrival times. Otherwise it is the event time that the stream is known to have, or else the first attribute of
a window that can be a time. Lengths on other attributes are lengths on a column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from sqlglot import exp

from panes.cql.catalog import Column, StreamEntry
from panes.cql.names import is_of_windows
from panes.cql.resolved import Input, Joined, ResolvedMerge, ResolvedQuery, ResolvedSelect
from panes.cql.tree import Measure, WindowClause, policy_leaves

#: types that a time may be converted to; what users write as CAST is a TryCast
_TIMES = frozenset(
    {exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPNTZ}
    | {exp.DType.TIMESTAMPLTZ}
)


def measures(window: WindowClause) -> Iterator[Measure]:
    """The lengths that a window has."""
    for one in (window.size, window.every, window.gap, window.longest):
        if isinstance(one, Measure):
            yield one
    for given in (window.keep, window.due):
        yield from (policy.measure for policy in policy_leaves(given) if policy.measure is not None)


def attributes(window: WindowClause) -> Iterator[str]:
    """The attributes that its lengths and points are on."""
    for measure in measures(window):
        if measure.on is not None:
            yield measure.on.text
    if window.kind != "delta" and isinstance(window.on, exp.Column):
        yield window.on.name


def can_be_time(column: Column) -> bool:
    kind = column.type.arrow
    return bool(pa.types.is_timestamp(kind) or pa.types.is_integer(kind))


def time_of(source: Input) -> str | None:
    """The column of an input that its windows run on; None: the time of arrival."""
    if any(m.kind == "system" for w in source.windows for m in measures(w)):
        return None
    known = known_times(source.origin)
    wanted: Iterable[str] = [name for w in source.windows for name in attributes(w)]
    if known:
        return next((name for name in wanted if name in known), known[0])
    columns = {c.name: c for c in source.columns}
    return next((name for name in wanted if can_be_time(columns[name])), None)


def time_type(source: Input) -> pa.DataType:
    """The type of the bounds of its windows."""
    name = time_of(source)
    kind = next((c.type.arrow for c in source.columns if c.name == name), pa.timestamp("us"))
    return pa.int64() if pa.types.is_integer(kind) else kind


def known_time(origin: StreamEntry | ResolvedQuery) -> str | None:
    """The column that is the event time of a stream, or of what a query gives; None if none is."""
    return next(iter(known_times(origin)), None)


def known_times(origin: StreamEntry | ResolvedQuery) -> tuple[str, ...]:
    """All columns that are the event time: a query may show it under several names."""
    if isinstance(origin, StreamEntry):
        if origin.time is not None or origin.query is None:
            return () if origin.time is None else (origin.time,)
        inner = known_times(origin.query)
        given = origin.query.columns
        return tuple(c.name for c, below in zip(origin.columns, given, strict=True) if below.name in inner)
    if isinstance(origin, ResolvedMerge):
        first, *others = [known_times(entry) for entry in origin.inputs]
        return tuple(name for name in first if all(name in names for names in others))
    return _times_of_results(origin)


def _times_of_results(query: ResolvedSelect) -> tuple[str, ...]:
    if isinstance(query.source, Input) and not query.source.windows:
        known = known_times(query.source.origin)
        return tuple(o.name for o in query.outputs if (c := _converted(o.tree)) is not None and c.name in known)
    if isinstance(query.source, Input) and not end_in_time(query):
        return ()
    return tuple(o.name for o in query.outputs if (c := _converted(o.tree)) is not None and is_window_end(c))


def is_window_end(tree: exp.Expr) -> bool:
    """Whether a resolved tree, of a select with windows, is the end of these."""
    return is_of_windows(tree) and tree.name.lower() == "window_end"


def _converted(tree: exp.Expr) -> exp.Column | None:
    """The column that an output is, also where a declared stream has it as another type of time (Int as Long)."""
    if type(tree) is exp.Cast and tree.to.this in _TIMES:
        tree = tree.this
    return tree if isinstance(tree, exp.Column) else None


def is_time_based(window: WindowClause) -> bool:
    """Whether its edges lie on time or an attribute alone, whatever rows there are."""
    return window.kind in ("size", "cumulate", "fixed", "landmark", "band") and all(
        m.kind != "rows" for m in measures(window)
    )


def is_mixed(window: WindowClause) -> bool:
    """Whether size and slide are on different measures: rows, system time, or one attribute and another."""
    size, every = window.size, window.every
    if window.kind != "size" or size is None or every is None:
        return False
    on = [None if m.on is None else m.on.text.lower() for m in (size, every)]
    return size.kind != every.kind or on[0] != on[1]


def on_time(window: WindowClause, time: str | None) -> bool:
    """Whether the bounds of a window lie on the time that its query runs on, so that they are times."""
    if window.kind in ("delta", "punctuated", "threshold", "policy"):
        return False
    return all(m.kind != "rows" for m in measures(window)) and all(name == time for name in attributes(window))


def end_in_time(query: ResolvedSelect) -> bool:
    """Whether every result of a windowed query has a window_end."""
    first = query.source
    while isinstance(first, Joined):
        first = first.left
    return all(on_time(w, time_of(first)) for w in first.windows)


def hides_end(query: ResolvedSelect) -> bool:
    """Whether a column of the result is called window_end and is not the end of the window."""
    return any(o.name == "window_end" and not is_window_end(o.tree) for o in query.outputs)


def same_for_parts(window: WindowClause) -> bool:
    """Whether windows of a part of the rows are that part of the windows of all rows.

    Not where a window is given only if its last step holds a row (SPEC Q-17), or if its rows have changed.
    """
    if window.changes:
        return False
    if window.kind == "size" and window.size is not None and window.every is not None:
        return is_time_based(window) and window.size.on == window.every.on
    return is_time_based(window) and window.kind != "landmark"
