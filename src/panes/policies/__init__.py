"""Policy windows: when a window is processed and what leaves it, as values that combine.

In flow rows in order of arrival; out flow the windows that trigger policies emit and eviction policies bound.
`pn.policies` has the policies, `pn.policy(...)` makes a window of them:

    calm = pn.policy(evict=pn.policies.count(100), trigger=pn.policies.time("1 min"))
"""

from __future__ import annotations

from panes.clock import Clock, FakeClock, SystemClock
from panes.policies.live import LiveResult, LiveWindow
from panes.policies.rules import cosine, euclidean
from panes.policies.specs import (
    active,
    all_of,
    any_of,
    count,
    delta,
    exactly_one_of,
    first_of,
    largest,
    punctuation,
    smallest,
    time,
    total,
    tumble,
)
from panes.policies.user import TIME, ActiveEviction, ActiveTrigger, Eviction, Tick, Trigger

__all__ = [
    "TIME",
    "ActiveEviction",
    "ActiveTrigger",
    "Clock",
    "Eviction",
    "FakeClock",
    "LiveResult",
    "LiveWindow",
    "SystemClock",
    "Tick",
    "Trigger",
    "active",
    "all_of",
    "any_of",
    "cosine",
    "count",
    "delta",
    "euclidean",
    "exactly_one_of",
    "first_of",
    "largest",
    "punctuation",
    "smallest",
    "time",
    "total",
    "tumble",
]
