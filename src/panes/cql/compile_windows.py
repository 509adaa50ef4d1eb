"""Window clauses to the windows of the Python API.

Windows with a SIZE end at every slide (SPEC K-11), also if no row has come since the last one (K-12); ALIGN START
and ON CHANGE say otherwise. Those on rows hold what there is at the start, and the end of a stream ends the last of
them (Q-17, Q-34).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlglot import exp

from panes import windows as pn
from panes.cql.timing import is_mixed
from panes.cql.tree import Duration, Measure, Model, Policies, Policy, WindowClause
from panes.errors import QueryError
from panes.plan.expressions import text_of
from panes.policies.policy import policy
from panes.policies.specs import all_of, any_of, count, delta, largest, punctuation, smallest
from panes.policies.specs import time as time_policy
from panes.units import TimeDomain, rows
from panes.windows.base import Window
from panes.windows.periodic import Tumbling


def window_of(clause: WindowClause, time: str | None, model: Model | None, domain: TimeDomain) -> Window:
    """The window; `time` is the column that the stream's time is (None: arrival)."""
    clause = _with_units(clause, time, domain)
    if model in (None, "tuple"):
        made = _KINDS[clause.kind](clause, time)
        return pn.on_change(made) if clause.changes and not is_mixed(clause) else made
    return _evaluated(clause, _KINDS[clause.kind](replace(clause, changes=True), time), model)


def _with_units(clause: WindowClause, time: str | None, domain: TimeDomain) -> WindowClause:
    """The clause with units for a bare slide on the time, which Python would take to be on the column of the size."""
    every = clause.every
    bare = every is not None and every.on is not None and every.length.unit is None
    if every is None or not (bare and is_mixed(clause) and every.on is not None and every.on.text == time):
        return clause
    return replace(clause, every=replace(every, length=replace(every.length, unit=domain.unit)))


def window_label(clause: WindowClause, place: int) -> str:
    return clause.label.text if clause.label is not None else f"w{place + 1}" if place else "window"


def length(measure: Measure, time: str | None) -> tuple[Any, str | None]:
    """A length as the Python API takes it, and the column it is on if that is not the time."""
    size = duration(measure.length)
    if measure.on is None:
        return (rows(int(measure.length.number)), None) if measure.kind == "rows" else (size, None)
    return (size, None) if measure.on.text == time else (size, measure.on.text)


def duration(given: Duration) -> Any:
    number = given.number
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    return number if given.unit is None else f"{number} {given.unit}"


def _size(clause: WindowClause, time: str | None) -> Window:
    assert clause.size is not None
    size, on = length(clause.size, time)
    options: dict[str, Any] = {"tz": clause.time_zone}
    if clause.offset is not None:
        options["offset"] = duration(clause.offset)
    if clause.every is None or clause.every == clause.size:
        return pn.tumbling(size, on=on, partial=clause.size.kind == "rows", **options)
    every, every_on = length(clause.every, time)
    if clause.every.kind == "rows":
        if not is_mixed(clause) and clause.align == "start":
            return pn.sliding(size, every=every, **options)
        return pn.sliding(size, every=every, on=on, align="end", partial=True, **options)
    if not is_mixed(clause):
        return pn.sliding(size, every=every, on=on, align=clause.align or "end", **options)
    return pn.sliding(size, every=every, on=on, every_on=every_on, unchanged=not clause.changes, **options)


def _session(clause: WindowClause, time: str | None) -> Window:
    if isinstance(clause.gap, Measure):
        gap, on = length(clause.gap, time)
        return pn.session(gap, on=on)
    assert clause.gap is not None
    return pn.session(text_of(clause.gap))


def _landmark(clause: WindowClause, time: str | None) -> Window:
    assert clause.every is not None
    assert clause.start is not None
    every, on = length(clause.every, time)
    return pn.landmark(point(clause.start), every=every, on=on)


def _fixed(clause: WindowClause, time: str | None) -> Window:
    assert clause.start is not None
    assert clause.end is not None
    return pn.fixed(point(clause.start), point(clause.end), on=_column(clause.on, time))


def _band(clause: WindowClause, time: str | None) -> Window:
    assert clause.start is not None
    assert clause.size is not None
    size, on = length(clause.size, time)
    return pn.fixed_band(point(clause.start), size=size, on=on)


def _delta(clause: WindowClause, time: str | None) -> Window:
    assert clause.threshold is not None
    assert clause.on is not None
    return pn.delta(clause.threshold, on=text_of(clause.on))


def _punctuated(clause: WindowClause, time: str | None) -> Window:
    begin, end = (None if given is None else text_of(given) for given in (clause.begin, clause.until))
    return pn.punctuated(begin=begin, end=end)


def _cumulate(clause: WindowClause, time: str | None) -> Window:
    assert clause.size is not None
    assert clause.longest is not None
    step, on = length(clause.size, time)
    longest, _ = length(clause.longest, time)
    return pn.cumulate(step, max=longest, on=on, offset=None if clause.offset is None else duration(clause.offset))


def _threshold(clause: WindowClause, time: str | None) -> Window:
    assert clause.begin is not None
    return pn.threshold(text_of(clause.begin), min_rows=clause.min_rows or 1)


def _policy(clause: WindowClause, time: str | None) -> Window:
    """KEEP a AND b: rows that both let stay; EVERY a OR b: when either says so. Python's lists mean the same."""
    assert clause.due is not None
    keep = None if clause.keep is None else _policies(clause.keep, time, "AND", {"AND": largest, "OR": smallest})
    due = _policies(clause.due, time, "OR", {"AND": all_of, "OR": any_of})
    return policy(evict=keep, trigger=due)


def _policies(given: Policy | Policies, time: str | None, listed: str, rules: Mapping[str, Any]) -> Any:
    if isinstance(given, Policy):
        return _one_policy(given, time)
    parts = [_policies(part, time, "", rules) for part in given.parts]
    return parts if given.rule == listed else rules[given.rule](*parts)


def _one_policy(given: Policy, time: str | None) -> Any:
    if given.measure is not None:
        size, on = length(given.measure, time)
        return count(size) if given.measure.kind == "rows" else time_policy(size, on=on)
    assert given.value is not None
    if given.threshold is None:
        return punctuation(True, on=text_of(given.value))
    return delta(given.threshold, on=text_of(given.value))


_KINDS = {
    "size": _size,
    "session": _session,
    "landmark": _landmark,
    "fixed": _fixed,
    "band": _band,
    "delta": _delta,
    "punctuated": _punctuated,
    "cumulate": _cumulate,
    "threshold": _threshold,
    "policy": _policy,
}


def point(tree: exp.Expr) -> Any:
    """A literal: a date and time as text, or a number."""
    if isinstance(tree, exp.Neg):
        return -point(tree.this)
    if isinstance(tree, exp.Literal) and tree.is_string:
        return tree.this
    number = float(tree.name)
    return int(number) if number.is_integer() else number


def _column(on: exp.Expr | None, time: str | None) -> str | None:
    return None if on is None or on.name == time else on.name


def _evaluated(clause: WindowClause, made: Window, model: Model) -> Window:
    """The models of other engines (SPEC Q-40..Q-44).

    Time-driven: windows on time start at the first row, and are given when their content changes; windows on rows
    are looked at once per instant. Batch-driven: the same on time, but every row counts.
    """
    if clause.kind != "size" or clause.size is None:
        raise QueryError(f"EVALUATE {model.upper()} DRIVEN is for windows with a SIZE, not for {clause.kind.upper()}")
    every = clause.every or clause.size
    if every.kind == "rows":
        return pn.once_per_instant(made) if model == "time" else made
    if clause.offset is None and clause.every is None and isinstance(made, Tumbling):
        made = pn.tumbling(made.size, on=made.on, offset="first row")
    return pn.on_change(made)
