"""Window clauses to the specs of tests/oracle/windows.py, as SPEC Q-15 and docs/semantics.md define them."""

from __future__ import annotations

from typing import Any

from panes.cql.tree import Extent, Quantity
from panes.cql.windows.clause import WindowClause
from panes.cql.windows.content import DeltaClause, PunctuatedClause, SessionClause, ThresholdClause
from panes.cql.windows.sized import BandClause, CumulateClause, FixedClause, LandmarkClause, SizeClause
from tests.cql_fuzz.evaluate import Scope, ticks_of, value_of
from tests.cql_fuzz.terms import Term
from tests.oracle.windows import Spec

#: microseconds
_UNITS = {"ms": 1_000, "sec": 1_000_000, "min": 60_000_000, "hour": 3_600_000_000, "day": 86_400_000_000}

#: names under which what a window computes of each row is kept beside its columns
GAP, BEGIN, UNTIL, VALUE = "#gap", "#begin", "#until", "#value"


def measures(clause: WindowClause) -> list[Extent]:
    found = (getattr(clause, name, None) for name in ("size", "every", "gap", "step", "longest"))
    return [m for m in found if isinstance(m, Extent)]


def attributes(clause: WindowClause) -> list[str]:
    """The attributes that lengths and points of a window are on, in order."""
    found = [m.on.text.lower() for m in measures(clause) if m.on is not None]
    on: Any = None if isinstance(clause, DeltaClause) else getattr(clause, "on", None)
    return found if on is None else [*found, on.args[1].lower()]


def is_time_based(clause: WindowClause) -> bool:
    kinds = (SizeClause, CumulateClause, FixedClause, LandmarkClause, BandClause)
    return isinstance(clause, kinds) and all(m.kind != "rows" for m in measures(clause))


def ticks(length: Quantity, whole: bool) -> Any:
    """A length in ticks: of whole numbers as they are, or in milliseconds; else in microseconds."""
    if length.unit is None:
        return length.number
    return _UNITS[length.unit] // (1_000 if whole else 1) * length.number


def modelled(clause: WindowClause, spec: Spec, model: str | None) -> Spec:
    """A window as other engines evaluate it (SPEC Q-40..Q-44)."""
    if model in (None, "tuple"):
        # a tick without new rows is one, too (SPEC K-12); on rows there is none
        ticks_on = spec[3] if spec[0] == "mixed" else "rows"
        changes = isinstance(clause, SizeClause) and clause.changes
        return spec if ticks_on == "rows" or changes else ("ticking", *spec[1:5])
    assert isinstance(clause, SizeClause)
    if spec[0] == "on_change":
        spec = spec[1:]
    if spec[0] == "whole_and_rest":
        return ("per_instant", "rows", spec[1], spec[1], True) if model == "time" else spec
    if spec[0] == "mixed":
        return ("per_instant", *spec[1:3], *spec[4:]) if model == "time" else spec
    if clause.every is None and clause.offset is None:
        return ("on_change", "first_row", *spec[1:3])
    return ("on_change", *spec)


def kind_of(clause: WindowClause, time: str | None, whole: bool) -> str:
    """Which kind of windows a clause makes, on change or not."""
    spec = spec_of(clause, time, whole)
    return str(spec[1] if spec[0] == "on_change" else spec[0])


def spec_of(clause: WindowClause, time: str | None, whole: bool) -> Spec:
    """`time`: the column that is the time (None: arrival); `whole`: it is a whole number."""

    def place(measure: Extent) -> tuple[str, Any]:
        if measure.kind == "rows":
            return "rows", measure.length.number
        on = None if measure.on is None else measure.on.text.lower()
        return ("time", ticks(measure.length, whole)) if on == time else (str(on), ticks(measure.length, True))

    if isinstance(clause, SizeClause):
        offset = 0 if clause.offset is None else ticks(clause.offset, whole)
        spec = _sized(*place(clause.size), *place(clause.every or clause.size), offset, clause.align)
        return ("on_change", *spec) if clause.changes and spec[0] in ("sliding", "column") else spec
    if isinstance(clause, SessionClause):
        if not isinstance(clause.gap, Extent):
            return ("session_by", GAP)
        on, gap = place(clause.gap)
        return ("session", gap) if on == "time" else ("session_on", on, gap)
    if isinstance(clause, CumulateClause):
        return ("cumulate", place(clause.step)[1], place(clause.longest)[1])
    if isinstance(clause, LandmarkClause):
        return ("landmark", _point(clause.start), place(clause.every)[1])
    if isinstance(clause, FixedClause):
        return ("fixed", _point(clause.start), _point(clause.end))
    if isinstance(clause, BandClause):
        return ("fixed_band", _point(clause.start), place(clause.size)[1])
    if isinstance(clause, DeltaClause):
        return ("delta", clause.threshold, VALUE)
    if isinstance(clause, PunctuatedClause):
        return ("punctuated", None if clause.begin is None else BEGIN, None if clause.until is None else UNTIL)
    assert isinstance(clause, ThresholdClause)
    return ("threshold", BEGIN, 0, clause.min_rows or 1)


def _sized(size_on: str, size: Any, every_on: str, every: Any, offset: Any, align: str | None) -> Spec:
    """Windows end at multiples of the slide, and begin `size` before (SPEC K-11); ALIGN START says otherwise."""
    if (size_on, size) == (every_on, every) and size_on == "rows":
        return ("whole_and_rest", size)
    start = offset if align == "start" else offset - size
    if size_on == every_on == "time":
        return ("sliding", size, every, start)
    if size_on == every_on and size_on != "rows":
        return ("column", size_on, size, every, start)
    if size_on == every_on and align == "start":
        return ("rows", size, every)
    # windows on rows hold what there is, and the end of the stream ends the last one (SPEC)
    return ("mixed", size_on, size, every_on, every, True)


def columns_that_advance(spec: Spec) -> set[str]:
    """Columns that a window runs on besides the time; rows that go back on them are not used."""
    if spec[0] == "on_change":
        return columns_that_advance(spec[1:])
    if spec[0] in ("column", "session_on"):
        return {spec[1]}
    if spec[0] == "mixed":
        return {on for on in (spec[1], spec[3]) if on not in ("rows", "time")}
    return set()


def computed(clause: WindowClause, scope: Scope) -> Scope:
    """What the window looks at in a row besides its columns."""
    made: Scope = {}
    if isinstance(clause, SessionClause) and isinstance(clause.gap, Term):
        made[GAP] = value_of(clause.gap, scope)
    if isinstance(clause, DeltaClause):
        made[VALUE] = value_of(clause.on, scope)
    if isinstance(clause, ThresholdClause):
        made[BEGIN] = int(value_of(clause.condition, scope) is True)
    if isinstance(clause, PunctuatedClause):
        if clause.begin is not None:
            made[BEGIN] = value_of(clause.begin, scope)
        if clause.until is not None:
            made[UNTIL] = value_of(clause.until, scope)
    return made


def _point(term: Any) -> Any:
    from datetime import datetime

    value = value_of(term, {})
    return ticks_of(datetime.fromisoformat(value)) if isinstance(value, str) else value
