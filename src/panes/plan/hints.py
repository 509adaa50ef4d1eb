"""Hints for messages: the name the user probably meant, and where in a text something is."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`"; did you mean 'price'?"`, or the known names if none is near, or nothing if there are too many."""
    names = list(known)
    by_lower = {n.lower(): n for n in names}
    near = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    if near:
        return f"; did you mean {by_lower[near[0]]!r}?"
    if 0 < len(names) <= 12:
        return f"; there are: {', '.join(names)}"
    return ""


def position(text: str, start: int | None) -> str:
    """Where in `text` an error is: `"at character 5 of 'a + foo(b)'"`."""
    shown = text if len(text) <= 120 else text[:117] + "..."
    return f"in {shown!r}" if start is None else f"at character {start + 1} of {shown!r}"
