"""`pn.policy(...)`: windows by trigger and eviction policies, as a window spec like any other (SPEC P-01..P-47).

For each row, in event-time order: triggers are asked whether the rows held are a result, evictions how many of the
oldest rows leave, then the row enters. In flow policies as values; out flows a `MachineWindow`: loops over arrays where
all policies are built in, row by row where one is written in Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from panes.errors import DataError, QueryError
from panes.policies.borders import PLANS, Borders, borders, borders_of
from panes.policies.specs import (
    Active,
    Count,
    Time,
    Tumble,
    check_eviction,
    check_trigger,
    columns_of,
    is_active,
    leaves,
    resolved,
    too_many,
    written_in_python,
)
from panes.policies.user import ActiveTrigger, UserPolicy
from panes.units import TimeDomain
from panes.windows.base import DATA, ROWS, KeyBorders, MachineWindow, Part, Running, Window
from panes.windows.normal_form import FORMS, Form
from panes.windows.spec import call


@dataclass(frozen=True, repr=False)
class PolicyWindow(Window):
    """Windows by policies: see `policy`. Triggers and evictions of one key, and central ones that see all keys."""

    trigger: tuple[Any, ...] = ()
    evict: tuple[Any, ...] = ()
    central_trigger: tuple[Any, ...] = ()
    central_evict: tuple[Any, ...] = ()
    end: bool = True
    #: evictions were not given: all rows leave when a result is due
    tumbling: bool = False

    def __repr__(self) -> str:
        shown = {n: getattr(self, n) for n in ("evict", "trigger", "central_evict", "central_trigger")}
        if self.tumbling:
            shown["evict"] = shown["central_evict"] = ()
        one = {n: p[0] if len(p) == 1 else list(p) for n, p in shown.items() if p}
        return call("policy", **one, end=None if self.end else False)

    def bind(self, domain: TimeDomain) -> PolicyMachine:
        sides: dict[str, Any] = {
            name: tuple(resolved(p, domain) for p in getattr(self, name))
            for name in ("trigger", "evict", "central_trigger", "central_evict")
        }
        everything = [leaf for side in sides.values() for p in side for leaf in leaves(p)]
        columns = dict.fromkeys(c for leaf in everything for c in columns_of(leaf))
        counting = any(isinstance(getattr(leaf, "eviction", leaf), Count | UserPolicy) for leaf in everything)
        return PolicyMachine(ROWS if counting else DATA, columns=tuple(columns), end=self.end, **sides)

    def over_all_keys(self) -> PolicyWindow:
        """The same policies, asked once for all keys instead of once per key."""
        if self.central_trigger or self.central_evict:
            raise QueryError(f"{self!r} has central policies already")
        return PolicyWindow((), (), self.trigger, self.evict, self.end, self.tumbling)


@dataclass(frozen=True)
class PolicyMachine(MachineWindow):
    """A policy window with all units resolved."""

    trigger: tuple[Any, ...] = field(default=(), kw_only=True)
    evict: tuple[Any, ...] = field(default=(), kw_only=True)
    central_trigger: tuple[Any, ...] = field(default=(), kw_only=True)
    central_evict: tuple[Any, ...] = field(default=(), kw_only=True)
    end: bool = field(default=True, kw_only=True)

    @property
    def central(self) -> bool:  # type: ignore[override]
        """Whether a policy looks at the rows of all keys."""
        return bool(self.central_trigger or self.central_evict)

    @property
    def clocked(self) -> bool:  # type: ignore[override]
        return any(isinstance(leaf, Time) and leaf.thread for leaf in self.leaves())

    def leaves(self) -> list[Any]:
        """All policies that are not made of others."""
        sides = (self.trigger, self.evict, self.central_trigger, self.central_evict)
        return [leaf for side in sides for policy in side for leaf in leaves(policy)]

    @property
    def interpreted(self) -> bool:
        """Whether a user's own Python code is among the policies."""
        return any(written_in_python(leaf) for leaf in self.leaves())

    @property
    def may_fail(self) -> bool:
        """Counts of rows take whatever comes; others look at values, or at how far time has jumped."""
        return not all(isinstance(leaf, Count | Tumble) for leaf in self.leaves())

    @property
    def no_lateness(self) -> str | None:  # type: ignore[override]
        if self.central:
            return "central policies see all keys, and a late row is put in its place key by key"
        return self.repeats and f"{self.repeats}, and corrections could not be told apart"

    @property
    def repeats(self) -> str | None:
        if self.central:
            return "a central policy may give the rows of a key twice at the same time, for two rows of other keys"
        fakes = [p for t in self.trigger for p in leaves(t) if is_active(p)]
        if len(fakes) > 1 or (fakes and len([p for t in self.trigger for p in leaves(t)]) > 1):
            return "two triggers may give the same rows twice at the same time"
        if any(isinstance(p, ActiveTrigger) for p in fakes):
            return "timer ticks of your own may give the same rows twice"
        return None

    def too_many(self, time: int) -> DataError:
        """What to say when timer ticks up to a time give more windows than anybody can want."""
        senders = [p for t in (*self.trigger, *self.central_trigger) for p in leaves(t) if is_active(p)]
        return too_many(senders or (*self.trigger, *self.central_trigger), time)

    def start(self, *, reduces: bool) -> Running:
        if self.interpreted:
            from panes.policies.interpreted import Interpreted

            return Interpreted(self, reduces=reduces)
        from panes.policies.built_in import BuiltInPolicies

        return BuiltInPolicies(self, reduces=reduces)


def _known_borders(machine: PolicyMachine) -> KeyBorders | None:
    """Counts with counts, or times with times, of one key: windows end at regular borders and reach so far back.

    Not where a policy looks at a column, timer ticks come by the clock or not at all, or a row on a border triggers.
    """
    known = borders_of(machine)
    return _at(known, machine, known.size, "borders") if isinstance(known, Borders) else None


def _known_tumbling(machine: PolicyMachine) -> KeyBorders | None:
    """A count or a time of one key, whose rows all leave at its borders; under the same conditions."""
    if machine.central or len(machine.trigger) != 1 or len(machine.evict) != 1:
        return None
    trigger, evict = machine.trigger[0], machine.evict[0]
    leave = evict == Active(Tumble()) or (evict == Tumble() and isinstance(trigger, Count))
    known = borders(trigger, Time(1) if isinstance(trigger, Time) else Count(1)) if leave else None
    return None if known is None else _at(known, machine, known.slide, "tumbling")


def _at(known: Borders, machine: PolicyMachine, size: int, plan: str) -> KeyBorders | None:
    if machine.clocked:
        return None
    return KeyBorders(
        machine.measure,
        by_time=known.by_time,
        first=known.first,
        slide=known.slide,
        size=size,
        tumbling=plan == "tumbling",
        at_end="always" if machine.end else "never",
        too_many=machine.too_many if known.by_time else None,
        plan=PLANS[plan],
    )


FORMS += [
    Form("policies of count and count, or of time and time", PolicyMachine, _known_borders),
    Form("a policy of count or of time, tumbling", PolicyMachine, _known_tumbling),
]


def policy(
    *,
    trigger: Any = None,
    evict: Any = None,
    central_trigger: Any = None,
    central_evict: Any = None,
    end: bool = True,
) -> PolicyWindow:
    """Windows by policies: `trigger` says when the rows held are a result, `evict` how many of the oldest leave.

    Both may be one policy or a list: any of the triggers will do, and the greediest of the evictions decides.
    Without an eviction all rows leave when a result is due. On a stream with a key, `trigger` and `evict` are asked per
    key; `central_trigger` and `central_evict` are asked for the rows of all keys, and a central trigger gives a result
    for every key. `end`: rows that are held when the stream ends are one last result per key.

    >>> from panes.policies import count, time
    >>> policy(evict=count(100), trigger=time("1 min"))
    policy(evict=count(100), trigger=time("1 min"))
    """
    sides = {
        "trigger": _several(trigger, "trigger", check_trigger),
        "evict": _several(evict, "evict", check_eviction),
        "central_trigger": _several(central_trigger, "central_trigger", check_trigger),
        "central_evict": _several(central_evict, "central_evict", check_eviction),
    }
    if not sides["trigger"] and not sides["central_trigger"]:
        raise QueryError("policy() needs a trigger=, for instance pn.policies.count(10): nothing else says when")
    if not isinstance(end, bool):
        raise QueryError(f"policy: end={end!r} must be True or False")
    tumbling = not sides["evict"] and not sides["central_evict"]
    if tumbling:
        which = "trigger" if sides["trigger"] else "central_trigger"
        if sides["trigger"] and sides["central_trigger"]:
            raise QueryError("policy() with triggers of both kinds needs an eviction: it is not clear whose rows leave")
        fakes = any(is_active(p) for t in sides[which] for p in leaves(t))
        sides[which.replace("trigger", "evict")] = (Active(Tumble()) if fakes else Tumble(),)
    _check_scales([leaf for side in sides.values() for policy in side for leaf in leaves(policy)])
    _check_threads(sides["trigger"], sides["central_trigger"], bool(sides["central_trigger"] or sides["central_evict"]))
    return PolicyWindow(**sides, end=end, tumbling=tumbling)


def as_window(value: Any, argument: str) -> Any:
    """A single policy as the window that it means by itself; anything else as it is."""
    if isinstance(value, Part):
        return policy(trigger=check_trigger(value, argument))
    return value


def with_slide(window: Any, every: Any) -> PolicyWindow:
    """`window(X).every(Y)`: what was a trigger by itself becomes the eviction, and `every` the trigger."""
    if not isinstance(window, PolicyWindow) or not window.tumbling or window.central_trigger:
        raise QueryError(
            f"every(...) follows window(policy) with one policy, such as pn.policies.count(3); got {window!r}"
        )
    return policy(evict=list(window.trigger), trigger=every, end=window.end)


def central(window: Any) -> PolicyWindow:
    """`window(...).key_by(...)`: the same policies, asked for the rows of all keys."""
    if not isinstance(window, PolicyWindow):
        raise QueryError(f"window(...).key_by(...) is for policies; {window!r} has none: write key_by before window")
    return window.over_all_keys()


def _several(given: Any, argument: str, check: Any) -> tuple[Any, ...]:
    if given is None:
        return ()
    if isinstance(given, Sequence) and not isinstance(given, str):
        if not given:
            raise QueryError(f"{argument}=[] is empty: give at least one policy, or leave it out")
        return tuple(check(p, argument) for p in given)
    return (check(given, argument),)


def _check_scales(policies: list[Any]) -> None:
    """A timer tick is a border of a time trigger, and means nothing to an eviction that goes by another column."""
    asked = ((p.eviction, True) if isinstance(p, Active) else (p, is_active(p)) for p in policies)
    timers = [p for p, is_asked in asked if isinstance(p, Time) and is_asked]
    if len({p.on for p in timers}) > 1:
        both = f"{timers[0]!r}, {timers[-1]!r}"
        raise QueryError(f"{both}: each is on another scale, so borders of one say nothing to the other")


def _check_threads(own: tuple[Any, ...], central: tuple[Any, ...], any_central: bool) -> None:
    """Timer ticks must come in one order however rows are cut into batches."""
    threads = [p for t in own for p in leaves(t) if isinstance(p, Time) and p.thread]
    if threads and any_central:
        raise QueryError(f"{threads[0]!r}: thread=True of one key's trigger can't be combined with central policies")
    for side in (own, central):
        timers = [p for t in side for p in leaves(t) if isinstance(p, Time) and p.active]
        if any(p.thread for p in timers) and not all(p.thread for p in timers):
            raise QueryError(f"{timers[0]!r}: either all time triggers have thread=True or none: they share one clock")
