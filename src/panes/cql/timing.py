"""Which time a query's windows run on, an attribute or the time at which rows arrive; and what follows from that.

A length with a unit and no ON is system time (SPEC Q-15), so one such length makes the whole query run on
arrival times. Otherwise it is the event time that the stream is known to have, or else the first attribute of
a window that can be a time. Lengths on other attributes are lengths on a column. Not all windows have all columns
that results can have: see `absent_columns`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
from sqlglot import exp

from panes.cql.catalog import (
    Catalog,
    ResolvedInput,
    ResolvedMerge,
    ResolvedQuery,
    ResolvedSelect,
    StreamColumn,
    StreamEntry,
    inputs_of,
)
from panes.cql.clauses import Lateness, QueryClause, absent_without
from panes.cql.sources import plan_of_data
from panes.plan.expressions import text_of
from panes.plan.steps import WINDOW_COLUMNS

#: types that a time may be converted to; what users write as CAST is a TryCast
_TIMES = frozenset(
    {exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPNTZ}
    | {exp.DType.TIMESTAMPLTZ}
)
_NO_PLACES = "windows on time have window_start and window_end; places are for windows on rows or on columns"
_NOT_VOID = "results are withdrawn only where late rows correct them: give the stream a LATENESS"


def is_of_windows(tree: exp.Expr) -> bool:
    """Whether a resolved tree, in a select with windows, is a column of these."""
    return isinstance(tree, exp.Column) and tree.name in WINDOW_COLUMNS


def can_be_time(column: StreamColumn) -> bool:
    kind = column.type.arrow
    return bool(pa.types.is_timestamp(kind) or pa.types.is_integer(kind))


def by_clock(source: ResolvedInput) -> bool:
    """Whether a window of an input is on system time."""
    return any(length.kind == "system" for window in source.windows for length in window.extents())


def time_of(source: ResolvedInput) -> str | None:
    """The column of an input that its windows run on; None: the time of arrival."""
    if by_clock(source):
        return None
    known = known_times(source.origin)
    wanted: Iterable[str] = [name for w in source.windows for name in w.attributes()]
    if known:
        return next((name for name in wanted if name in known), known[0])
    columns = {c.name: c for c in source.columns}
    return next((name for name in wanted if can_be_time(columns[name])), None)


def time_type(source: ResolvedInput) -> pa.DataType:
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
    if isinstance(query.source, ResolvedInput) and not query.source.windows:
        known = known_times(query.source.origin)
        return tuple(o.name for o in query.outputs if (c := _converted(o.tree)) is not None and c.name in known)
    if isinstance(query.source, ResolvedInput) and not end_in_time(query):
        return ()
    return tuple(o.name for o in query.outputs if (c := _converted(o.tree)) is not None and is_window_end(c))


def is_window_end(tree: exp.Expr) -> bool:
    """Whether a resolved tree, of a select with windows, is the end of these."""
    return isinstance(tree, exp.Column) and tree.name == "window_end"


def _converted(tree: exp.Expr) -> exp.Column | None:
    """The column that an output is, also where a declared stream has it as another type of time (Int as Long)."""
    if type(tree) is exp.Cast and tree.to.this in _TIMES:
        tree = tree.this
    return tree if isinstance(tree, exp.Column) else None


def end_in_time(query: ResolvedSelect) -> bool:
    """Whether every result of a windowed query has a window_end."""
    first = inputs_of(query.source)[0]
    return all(w.on_time(time_of(first)) for w in first.windows)


def hides_end(query: ResolvedSelect) -> bool:
    """Whether a column of the result is called window_end and is not the end of the window."""
    return any(o.name == "window_end" and not is_window_end(o.tree) for o in query.outputs)


def absent_columns(
    inputs: Sequence[ResolvedInput], catalog: Catalog, clauses: Sequence[QueryClause] = ()
) -> dict[str, str]:
    """Columns that windows can have and those of these inputs have not, under these clauses, with the reason."""
    absent = absent_without(clauses)
    if not any(clause.revises for clause in clauses) and not any(_is_correctable(one, catalog) for one in inputs):
        absent["void"] = _NOT_VOID
    # windows that see different rows are a query each, and every one of them must have what is asked for
    apart = len({None if w.where is None else text_of(w.where) for w in inputs[0].windows}) > 1
    placed = [not w.on_time(time_of(one)) for one in inputs for w in one.windows]
    if not (all(placed) if apart else any(placed)):
        absent |= dict.fromkeys(("window_from", "window_to"), _NO_PLACES)
    return absent


def _is_correctable(one: ResolvedInput, catalog: Catalog) -> bool:
    """Whether late rows correct what the windows of an input gave."""
    entry, time = one.origin, time_of(one)
    if time is None or not isinstance(entry, StreamEntry):
        return False
    entry = catalog.streams.find(entry.name) or entry
    plan = plan_of_data(catalog, entry, time) if entry.query is None else None
    return entry.clause(Lateness) is not None or (plan is not None and plan.lateness is not None)
