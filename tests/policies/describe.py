"""Policies described by tuples (oracle.py) as policies of the library."""

from __future__ import annotations

from typing import Any

import panes as pn

p = pn.policies


def spec(policy: tuple) -> Any:
    """The value of the library that a tuple describes."""
    kind, *rest = policy
    if kind == "user":
        return rest[0]
    if kind == "tumble":
        return p.tumble()
    if kind in ("any_of", "all_of", "exactly_one_of", "largest", "smallest", "total", "first_of", "active"):
        return getattr(p, kind)(*(spec(inner) for inner in rest))
    options = dict(rest[0])
    if kind == "count":
        return p.count(options.pop("size"), **options)
    if kind == "time":
        return p.time(options.pop("z"), **options)
    if kind == "delta":
        return p.delta(options.pop("threshold"), **options)
    return p.punctuation(options.pop("sample"), **options)


def window(
    trigger: list[tuple] = (),  # type: ignore[assignment]
    evict: list[tuple] = (),  # type: ignore[assignment]
    central_trigger: list[tuple] = (),  # type: ignore[assignment]
    central_evict: list[tuple] = (),  # type: ignore[assignment]
    *,
    end: bool = True,
) -> Any:
    """`pn.policy` of lists of tuples."""
    sides = {
        "trigger": trigger,
        "evict": evict,
        "central_trigger": central_trigger,
        "central_evict": central_evict,
    }
    return pn.policy(**{n: [spec(q) for q in side] or None for n, side in sides.items()}, end=end)
