"""Several streams as one: merged, or joined in the same windows.

Streams that are merged have the same columns. The rows of the sides of a join become rows of one stream, each with the
number of its side and nulls in the columns of the others. One operator collects them window by window, and a
`WindowRelation` joins the sides of each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from panes.errors import ExpressionError, QueryError
from panes.plan.expressions import Expression, Scope, column_node
from panes.plan.flow import Flow
from panes.plan.hints import did_you_mean
from panes.plan.names import Given, JoinSide, Names, inside
from panes.plan.query import StreamPlan
from panes.plan.relation_query import SIDE, JoinClause
from panes.plan.silence import merged as merged_silence
from panes.plan.tagged import JoinedSide
from panes.slicing.spec import MANUAL
from panes.slicing.workload import order_free
from panes.units import TimeDomain
from panes.windows.base import Bound

TIME = "panes_time"
KINDS = {"inner": "INNER", "left": "LEFT", "right": "RIGHT", "full": "FULL", "cross": "INNER"}
_UNITS = ("s", "ms", "us", "ns")


@dataclass(frozen=True)
class Tagging:
    """How rows of one stream become rows of the stream of all sides."""

    number: int
    columns: Mapping[str, str]  # name there -> name of the column here
    schema: pa.Schema

    def apply(self, rows: pa.Table) -> pa.Table:
        columns = []
        for field in self.schema:
            if field.name in self.columns:
                columns.append(rows.column(self.columns[field.name]).cast(field.type))
            elif field.name == SIDE:
                columns.append(pa.repeat(pa.scalar(self.number, field.type), rows.num_rows))
            else:
                columns.append(pa.nulls(rows.num_rows, field.type))
        return pa.table(columns, schema=self.schema)


def stream_of_sides(streams: Sequence[StreamPlan], sides: Sequence[JoinSide]) -> tuple[StreamPlan, list[Tagging]]:
    """One stream of the rows of all, and how the rows of each become its rows."""
    domain, kind = common_time(streams)
    keys = _keys(streams)
    first = streams[0].schema
    names = Names(tuple(sides), pa.schema([]))
    fields = [pa.field(SIDE, pa.int8()), pa.field(TIME, kind), *(pa.field(k, first.field(k).type) for k in keys)]
    fields += [f for side in names.side_schemas for f in side]
    taken = [f.name for f in fields]
    twice = next((n for n in taken if taken.count(n) > 1), None)
    if twice is not None:
        raise QueryError(f"join: two columns would be named {twice!r} inside; give the streams other names")
    schema = pa.schema(fields)
    plan = _most_patient(StreamPlan(Scope(schema), TIME, domain, keys), streams, "join")
    taggings = []
    for i, stream in enumerate(streams):
        columns = dict(zip(names.side_schemas[i].names, sides[i].schema.names))
        taggings.append(Tagging(i, {TIME: stream.time, **{k: k for k in keys}, **columns}, schema))
    return plan, taggings


def common_time(streams: Sequence[StreamPlan]) -> tuple[TimeDomain, pa.DataType]:
    """The time of all: the same kind, in the finest unit of any."""
    first = streams[0].domain
    for stream in streams[1:]:
        ours, theirs = (f"{s.time!r} ({_spoken(s.domain)})" for s in (streams[0], stream))
        alike = stream.domain.integer == first.integer and bool(stream.domain.tz) == bool(first.tz)
        if not alike or (first.integer and stream.domain.unit != first.unit):
            raise QueryError(f"join: windows hold rows of both streams, so times must be of one kind: {ours}, {theirs}")
    if first.integer:
        return first, pa.int64()
    finest = max((s.domain for s in streams), key=lambda d: _UNITS.index(d.unit))
    return replace(first, unit=finest.unit), pa.timestamp(finest.unit, first.tz)


def _spoken(domain: TimeDomain) -> str:
    kind = "integer" if domain.integer else "timestamp"
    return f"{kind} in {domain.unit}" + (f", zone {domain.tz}" if domain.tz else "")


def _scaled(ticks: int, given: TimeDomain, wanted: TimeDomain) -> int:
    return ticks * int(given.nanos_per_tick) // int(wanted.nanos_per_tick)


def _most_patient(plan: StreamPlan, streams: Sequence[StreamPlan], what: str) -> StreamPlan:
    """The plan, waiting for and holding as much as any of the streams that it is of. One in order waits for nothing."""
    domain = plan.domain
    manual = [s.watermark == MANUAL for s in streams]
    if any(manual) and not all(manual):
        raise QueryError(f"{what}: watermark='manual' must hold for all streams, or for none")
    waits = [_scaled(int(s.watermark), s.domain, domain) for s in streams if s.watermark not in (None, MANUAL)]
    lateness = [_scaled(s.lateness, s.domain, domain) for s in streams if s.lateness is not None]
    kept = [s.keep_late for s in streams if s.keep_late is not None]
    return replace(
        plan,
        watermark=MANUAL if any(manual) else max(waits, default=None),
        lateness=max(lateness, default=None),
        keep_late=max(kept) if len(kept) == len(streams) else None,
        silence=merged_silence(s.silence for s in streams),
    )


def _keys(streams: Sequence[StreamPlan]) -> tuple[str, ...]:
    keys = streams[0].keys
    for stream in streams:
        if stream.keys != keys:
            raise QueryError(
                "join: windows are kept apart by key, so the streams must have the same keys, or none: "
                f"{list(keys)} and {list(stream.keys)}"
            )
        for key in keys:
            ours, theirs = streams[0].schema.field(key).type, stream.schema.field(key).type
            if ours != theirs:
                raise QueryError(f"join: the key {key!r} must be of one type in both streams: {ours} and {theirs}")
    return keys


def check_windows(windows: Sequence[tuple[str, Bound]]) -> None:
    """Refuse windows whose edges depend on the rows of one side."""
    for label, bound in windows:
        if not order_free(bound) or bound.columns:
            raise QueryError(
                f"join: the window {label!r} must be on time alone, so that both streams have the same windows; "
                "rows and columns of two streams have no common count or measure"
            )


def check_clauses(clauses: Sequence[JoinClause], keyed: bool) -> None:
    for clause in clauses:
        if clause.how not in KINDS:
            raise QueryError(f"how={clause.how!r}: there are {', '.join(KINDS)}{did_you_mean(str(clause.how), ())}")
        conditions = (clause.on is not None) + bool(clause.using)
        if clause.how == "cross" and conditions:
            raise QueryError("join: a cross join has all pairs of a window, so it takes neither on= nor using=")
        if conditions > 1:
            raise QueryError("join: give on= or using=, not both")
        if clause.how != "cross" and not conditions and not keyed:
            raise QueryError(
                f"join: how={clause.how!r} needs on='l.x = r.x' or using='x'; how='cross' gives all pairs of a window"
            )


class JoinClauses:
    """Clauses to joins, once the names are known."""

    def __init__(self, clauses: Sequence[JoinClause], keys: Sequence[str]) -> None:
        self.clauses = tuple(clauses)
        self._keys = tuple(keys)

    def __call__(self, names: Names) -> tuple[Names, tuple[JoinedSide, ...]]:
        names = names.merging({key: column_node(key) for key in self._keys})
        joined = []
        for side, clause in enumerate(self.clauses, start=1):
            on = None
            if clause.using:
                names, on = self._using(names, side, clause)
            elif clause.on is not None:
                on = self._on(names, side, clause.on)
            joined.append(JoinedSide(KINDS[clause.how], on))
        return names, tuple(joined)

    def _on(self, names: Names, side: int, given: Given) -> Expression:
        try:
            on = names.resolve(given)
        except ExpressionError as error:
            raise ExpressionError(f"join, on: {error}") from error
        later = {n for schema in names.side_schemas[side + 1 :] for n in schema.names}
        early = next((n for n in on.columns if n in later), None)
        if early is not None:
            raise ExpressionError(f"join, on={on.text!r}: {early} is of a stream that is joined only later")
        return on

    def _using(self, names: Names, side: int, clause: JoinClause) -> tuple[Names, Expression]:
        """Equality of columns of one name, which are one column from then on."""
        pairs: list[exp.Expr] = []
        merged: dict[str, exp.Expr] = {}
        before = replace(names, sides=names.sides[:side])
        for name in clause.using:
            key = next((k for k in self._keys if k.lower() == name.lower()), None)
            # a key is a column of the window, which is not there when its rows are joined: that of a side is
            left = self._before(before, name) if key is None else column_node(inside(names.sides[0].alias, key))
            right = names.tree(exp.column(name, table=names.sides[side].alias))[0]
            pairs.append(exp.EQ(this=exp.Paren(this=left.copy()), expression=right.copy()))
            if key is not None:
                continue  # it is one column already
            either = exp.Coalesce(this=left.copy(), expressions=[right.copy()])
            merged[name] = {"right": right, "full": either}.get(clause.how, left)
        on = pairs[0] if len(pairs) == 1 else exp.and_(*pairs)
        return names.merging(merged), names.scope.resolve(on, f"using {', '.join(clause.using)}")

    def _before(self, before: Names, name: str) -> exp.Expr:
        if len(before.sides) == 1:
            # the only side before has no alias inside its own names, so it is named here
            alias = before.sides[0].alias
            found = next((n for n in before.sides[0].schema.names if n.lower() == name.lower()), None)
            if found is None:
                raise ExpressionError(
                    f"join, using: {alias} has no column {name!r}{did_you_mean(name, before.sides[0].schema.names)}"
                )
            return before.merged.get(found, column_node(inside(alias, found))).copy()
        return before.tree(exp.column(name))[0]


def merge_plans(plans: Sequence[StreamPlan]) -> tuple[StreamPlan, tuple[str, ...]]:
    """The plan of the merged stream, and the columns that each of the streams has to bring.

    Raises QueryError that names the first difference between the first stream and another.
    """
    if len(plans) < 2:
        raise QueryError(f"merge() needs at least two streams; got {len(plans)}")
    first = plans[0]
    schema = Flow.of(first).schema
    for i, plan in enumerate(plans[1:], 2):
        _same_columns(schema, Flow.of(plan).schema, i)
        for what, one, other in (
            ("time", first.time, plan.time),
            ("time unit", str(first.domain.unit), str(plan.domain.unit)),
            ("key", ", ".join(first.keys) or "none", ", ".join(plan.keys) or "none"),
        ):
            if one != other:
                advice = {"time": "; see with_time()", "key": "; see key_by()"}.get(what, "")
                raise QueryError(f"merge: the {what} of stream 1 is {one}, that of stream {i} is {other}{advice}")
    names = tuple(dict.fromkeys((*schema.names, first.time, *first.keys)))
    whole = Flow.of(first, names).schema
    for i, plan in enumerate(plans[1:], 2):
        _same_columns(whole, Flow.of(plan, names).schema, i)
    merged = replace(first, scope=Scope(whole), where=(), shown=tuple(schema.names))
    return _most_patient(merged, plans, "merge"), names


def _same_columns(one: pa.Schema, other: pa.Schema, number: int) -> None:
    for field in one:
        if field.name not in other.names:
            hint = did_you_mean(field.name, other.names)
            raise QueryError(f"merge: stream 1 has a column {field.name!r}, stream {number} has none{hint}")
        kind = other.field(field.name).type
        if kind != field.type:
            raise QueryError(f"merge: column {field.name!r} is {field.type} in stream 1, {kind} in stream {number}")
    for name in other.names:
        if name not in one.names:
            hint = did_you_mean(name, one.names)
            raise QueryError(f"merge: stream {number} has a column {name!r}, stream 1 has none{hint}")
