"""Policy windows of the Python API as POLICY clauses: the way back of `compile_windows`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from sqlglot import exp

from panes.cql.tree import Duration, Measure, Policies, Policy, WindowClause
from panes.errors import QueryError
from panes.plan.expressions import parse
from panes.policies.distances import EUCLIDEAN
from panes.policies.policy import PolicyWindow
from panes.policies.specs import Count, Delta, Evictions, Punctuation, Time, Triggers

Rule = Literal["AND", "OR"]
_RULES: dict[str, Rule] = {"any_of": "OR", "all_of": "AND", "smallest": "OR", "largest": "AND"}


def policy_clause(window: PolicyWindow, measure: Callable[[Any, str | None], Measure]) -> WindowClause:
    """The clause of a window; `measure` writes a length on a column, or on the time of the stream."""
    if window.central_trigger or window.central_evict:
        raise QueryError(f"to_cql(): {window!r} can't be written as CQL: it has no clause for central policies")
    if not window.end:
        raise QueryError(f"to_cql(): {window!r} can't be written as CQL: the end of a stream gives a result there")
    writer = _Writer(window, measure)
    keep = None if window.tumbling else writer.several(window.evict, "AND")
    return WindowClause("policy", keep=keep, due=writer.several(window.trigger, "OR"))


class _Writer:
    def __init__(self, window: PolicyWindow, measure: Callable[[Any, str | None], Measure]) -> None:
        self._window = window
        self._measure = measure

    def several(self, given: Sequence[Any], rule: Rule) -> Policy | Policies:
        parts = tuple(self._one(policy) for policy in given)
        return parts[0] if len(parts) == 1 else Policies(rule, parts)

    def _one(self, given: Any) -> Policy | Policies:
        if isinstance(given, Triggers | Evictions) and given.rule in _RULES:
            return self.several(given.nested, _RULES[given.rule])
        if isinstance(given, Count) and given == Count(given.size):
            return Policy(Measure(Duration(given.size)))
        if isinstance(given, Time) and given == Time(given.size, on=given.on):
            return Policy(self._measure(given.size, given.on))
        if isinstance(given, Delta) and given.function == EUCLIDEAN and given.start is None and len(given.on) == 1:
            return Policy(threshold=float(given.threshold), value=parse(given.on[0]))
        if isinstance(given, Punctuation) and len(given.on) == 1:
            return Policy(value=self._condition(parse(given.on[0]), given.sample))
        raise self._cannot(given)

    def _condition(self, value: exp.Expr, sample: Any) -> exp.Expr:
        if sample is True:
            return value
        if isinstance(sample, str):
            return exp.EQ(this=exp.Paren(this=value), expression=exp.Literal.string(sample))
        if isinstance(sample, int) and not isinstance(sample, bool) and sample >= 0:
            return exp.EQ(this=exp.Paren(this=value), expression=exp.Literal.number(sample))
        raise self._cannot(sample)

    def _cannot(self, given: Any) -> QueryError:
        return QueryError(f"to_cql(): {self._window!r} can't be written as CQL: it has no words for {given!r}")
