"""`[POLICY KEEP ... EVERY ...]`: windows whose rows are kept and given by policies, of which several make one.

[POLICY KEEP 100 ROWS AND 10 min EVERY 1 min OR WHEN (kind = 'end') ON ts]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from sqlglot import exp
from sqlglot.tokens import TokenType

from panes.cql.dialect import part_text, worded
from panes.cql.tree import Extent, Name, Quantity
from panes.cql.windows.clause import (
    Change,
    ClausePart,
    ClauseWriter,
    Fields,
    WindowClause,
    built_extent,
    cannot_write,
    held,
)
from panes.plan.expressions import parse, text_of
from panes.policies.policy import PolicyWindow, policy
from panes.policies.rules import EUCLIDEAN
from panes.policies.specs import (
    Count,
    Delta,
    Evictions,
    Punctuation,
    Time,
    Triggers,
    all_of,
    any_of,
    count,
    delta,
    largest,
    punctuation,
    smallest,
)
from panes.policies.specs import time as time_policy
from panes.windows.base import Window

if TYPE_CHECKING:
    from panes.cql.grammar.windows import WindowReader

Rule = Literal["AND", "OR"]
_RULES: dict[str, Rule] = {"any_of": "OR", "all_of": "AND", "smallest": "OR", "largest": "AND"}
_LENGTH = ClausePart("length", "", "POLICY")
_DISTANCE = ClausePart("number or time", "ON", "DELTA ... ON", folded=True)
_CONDITION = ClausePart("condition", "WHEN", "WHEN", folded=True)


@dataclass(frozen=True)
class Policy:
    """One policy: `100 ROWS` or `10 min ON ts`, `DELTA 5 ON price`, `WHEN (kind = 'end')`."""

    extent: Extent | None = None
    #: DELTA: how far values may be apart
    threshold: float | None = None
    #: DELTA: by which expression; WHEN and UNTIL: the condition
    value: exp.Expr | None = None

    def contents(self) -> Iterator[tuple[ClausePart, Any]]:
        """The lengths and expressions inside, as they are written."""
        if self.extent is not None:
            yield _LENGTH, self.extent
        if self.value is not None:
            yield self._part, self.value

    def changed(self, change: Change) -> Policy:
        """The same with other lengths and expressions."""
        value = None if self.value is None else change(self._part, self.value)
        return replace(self, extent=None if self.extent is None else change(_LENGTH, self.extent), value=value)

    @property
    def _part(self) -> ClausePart:
        return _CONDITION if self.threshold is None else _DISTANCE


@dataclass(frozen=True)
class Policies:
    """Several policies as one: `100 ROWS AND 10 min ON ts`."""

    rule: Rule
    parts: tuple[Policy | Policies, ...]

    def contents(self) -> Iterator[tuple[ClausePart, Any]]:
        for part in self.parts:
            yield from part.contents()

    def changed(self, change: Change) -> Policies:
        return replace(self, parts=tuple(part.changed(change) for part in self.parts))


@dataclass(frozen=True)
class PolicyClause(WindowClause):
    """`[POLICY KEEP 100 ROWS EVERY 1 min ON ts]`"""

    word = "POLICY"
    words = ("UNTIL", "ROWS", "DELTA")
    windows = (PolicyWindow,)
    has_bounds = knows_bounds = False

    #: which rows are kept (None: those since the last result), and when they are a result
    keep: Policy | Policies | None = field(metadata=held("policies", "KEEP"))
    due: Policy | Policies = field(metadata=held("policies", "EVERY"))
    on: exp.Expr | None = field(default=None, metadata=held("column", "ON"))

    @classmethod
    def read(cls, reader: WindowReader) -> Fields:
        if not (reader.at("KEEP") or reader.at("EVERY")):
            reader.fail_expecting("KEEP", "EVERY")
        keep = _read_several(reader, "UNTIL") if reader.take("KEEP") else None
        reader.expect("EVERY")
        return {"keep": keep, "due": _read_several(reader, "WHEN")}

    @classmethod
    def with_one_time(cls, fields: Fields, reader: WindowReader) -> Fields:
        """Policies by time that have no ON have the last one that is there."""
        policies = {name: fields[name] for name in ("keep", "due") if fields[name] is not None}
        lengths = [m for part in policies.values() for _, m in part.contents() if _is_timed(m)]
        given = [m.on for m in lengths if m.on is not None]
        named = fields.get("on")
        last = given[-1] if given else None if named is None else Name(named.name)

        def timed(_: ClausePart, value: Any) -> Any:
            return replace(value, on=last) if _is_timed(value) and value.on is None else value

        return {**fields, **{name: part.changed(timed) for name, part in policies.items()}}

    def pieces(self) -> Iterator[str]:
        if self.keep is not None:
            yield f"KEEP {_text(self.keep, 'UNTIL')}"
        yield f"EVERY {_text(self.due, 'WHEN')}"
        yield worded("ON", self.on)

    def window(self, time: str | None) -> Window:
        """KEEP a AND b: rows that both let stay; EVERY a OR b: when either says so. Python's lists mean the same."""
        keep = None if self.keep is None else _built(self.keep, time, "AND", {"AND": largest, "OR": smallest})
        return policy(evict=keep, trigger=_built(self.due, time, "OR", {"AND": all_of, "OR": any_of}))

    @classmethod
    def of(cls, window: PolicyWindow, writer: ClauseWriter) -> PolicyClause:
        if window.central_trigger or window.central_evict:
            raise cannot_write(window, "it has no clause for central policies")
        if not window.end:
            raise cannot_write(window, "the end of a stream gives a result there")
        found = _PolicyWriter(window, writer)
        keep = None if window.tumbling else found.several(window.evict, "AND")
        return cls(keep, found.several(window.trigger, "OR"))


def _is_timed(value: Any) -> bool:
    return isinstance(value, Extent) and value.length.unit is not None


def _read_several(reader: WindowReader, condition: str) -> Policy | Policies:
    """Policies with AND and OR between them; `condition` is the word before a condition."""

    def together() -> Policy | Policies:
        return _read_combined(reader, "AND", lambda: _read_one(reader, condition))

    return _read_combined(reader, "OR", together)


def _read_combined(reader: WindowReader, rule: Rule, read: Callable[[], Policy | Policies]) -> Policy | Policies:
    parts = [read()]
    while reader.take(rule):
        parts.append(read())
    return parts[0] if len(parts) == 1 else Policies(rule, tuple(parts))


def _read_one(reader: WindowReader, condition: str) -> Policy | Policies:
    if reader.at_sign(TokenType.L_PAREN):
        return reader.in_parentheses(lambda: _read_several(reader, condition))
    if reader.take(condition):
        return Policy(value=reader.in_parentheses(reader.condition))
    if reader.take("DELTA"):
        threshold = reader.distance()
        reader.expect("ON")
        bracket = reader.at_sign(TokenType.L_PAREN)
        return Policy(
            threshold=threshold, value=reader.in_parentheses(reader.expression_here) if bracket else reader.column()
        )
    length = reader.duration(f"a policy such as 100 ROWS, 5 min, DELTA 3 ON a or {condition} (a = 1)")
    if length.unit is None and reader.take("ROWS"):
        return Policy(Extent(length))
    return Policy(Extent(length, reader.name("a column") if reader.take("ON") else None))


def _text(given: Policy | Policies, condition: str, *, inside: bool = False) -> str:
    if isinstance(given, Policies):
        text = f" {given.rule} ".join(_text(part, condition, inside=True) for part in given.parts)
        return f"({text})" if inside else text
    if given.extent is not None:
        return f"{part_text(given.extent)} ROWS" if given.extent.kind == "rows" else part_text(given.extent)
    assert given.value is not None
    value = part_text(given.value)
    if given.threshold is None:
        return f"{condition} ({value})"
    return f"DELTA {given.threshold:.17g} ON {value if isinstance(given.value, exp.Column) else f'({value})'}"


def _built(given: Policy | Policies, time: str | None, listed: str, rules: Mapping[str, Any]) -> Any:
    if isinstance(given, Policies):
        parts = [_built(part, time, "", rules) for part in given.parts]
        return parts if given.rule == listed else rules[given.rule](*parts)
    if given.extent is not None:
        size, on = built_extent(given.extent, time)
        return count(size) if given.extent.kind == "rows" else time_policy(size, on=on)
    assert given.value is not None
    if given.threshold is None:
        return punctuation(True, on=text_of(given.value))
    return delta(given.threshold, on=text_of(given.value))


@dataclass(frozen=True)
class _PolicyWriter:
    window: PolicyWindow
    writer: ClauseWriter

    def several(self, given: Sequence[Any], rule: Rule) -> Policy | Policies:
        parts = tuple(self._one(policy) for policy in given)
        return parts[0] if len(parts) == 1 else Policies(rule, parts)

    def _one(self, given: Any) -> Policy | Policies:
        if isinstance(given, Triggers | Evictions) and given.rule in _RULES:
            return self.several(given.nested, _RULES[given.rule])
        if isinstance(given, Count) and given == Count(given.size):
            return Policy(Extent(Quantity(given.size)))
        if isinstance(given, Time) and given == Time(given.size, on=given.on):
            return Policy(self.writer.extent(given.size, given.on))
        if isinstance(given, Delta) and given.function == EUCLIDEAN and given.start is None and len(given.on) == 1:
            return Policy(threshold=float(given.threshold), value=parse(given.on[0]))
        if isinstance(given, Punctuation) and len(given.on) == 1:
            return Policy(value=self._condition(parse(given.on[0]), given.sample))
        raise cannot_write(self.window, f"it has no words for {given!r}")

    def _condition(self, value: exp.Expr, sample: Any) -> exp.Expr:
        if sample is True:
            return value
        if isinstance(sample, str):
            return exp.EQ(this=exp.Paren(this=value), expression=exp.Literal.string(sample))
        if isinstance(sample, int) and not isinstance(sample, bool) and sample >= 0:
            return exp.EQ(this=exp.Paren(this=value), expression=exp.Literal.number(sample))
        raise cannot_write(self.window, f"it has no words for {sample!r}")
