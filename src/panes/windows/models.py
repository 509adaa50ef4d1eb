"""How often windows are given: wrappers around window specs, for the execution models of stream engines.

Engines differ in when they look at a window (SPEC Q-40..Q-44). By itself a window is given at every end. With
`on_change` only if its rows are not those of the window given before it; with `once_per_instant` windows that
end after so many rows are looked at once all rows of an instant are there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from panes.errors import QueryError
from panes.units import TimeDomain
from panes.windows.base import ROWS, TIME, Bound, LookBack, Window
from panes.windows.periodic import Periodic


def _window(value: object, name: str) -> Window:
    if not isinstance(value, Window):
        raise QueryError(f"{name}({value!r}): it takes a window such as pn.tumbling('1 min')")
    return value


@dataclass(frozen=True, repr=False)
class OnChange(Window):
    """See `on_change`."""

    window: Window

    def __post_init__(self) -> None:
        _window(self.window, "on_change")

    def __repr__(self) -> str:
        return f"on_change({self.window!r})"

    def bind(self, domain: TimeDomain) -> Bound:
        return replace(self.window.bind(domain), changes_only=True)


@dataclass(frozen=True, repr=False)
class OncePerInstant(Window):
    """See `once_per_instant`."""

    window: Window

    def __post_init__(self) -> None:
        _window(self.window, "once_per_instant")

    def __repr__(self) -> str:
        return f"once_per_instant({self.window!r})"

    def bind(self, domain: TimeDomain) -> Bound:
        inner = self.window.bind(domain)
        back, size, every = ROWS, 0.0, None
        if isinstance(inner, LookBack) and isinstance(inner.ticks, Periodic) and inner.measure == ROWS:
            back, size, every = inner.back, inner.size, inner.ticks
        elif isinstance(inner, Periodic) and inner.measure == ROWS and inner.size == inner.slide:
            size, every = inner.size, inner
        if every is None or every.offset:
            raise QueryError(
                f"once_per_instant({self.window!r}): only windows that end after every n-th row can end more than "
                'once in an instant: pn.tumbling(pn.rows(n)), or pn.sliding(..., every=pn.rows(n), align="end")'
            )
        instants = Periodic(TIME, size=1, slide=1)
        return LookBack(
            TIME,
            back=back,
            size=size,
            ticks=instants,
            passing=int(every.slide),
            at_end=getattr(inner, "at_end", False) or getattr(inner, "partial", False),
            columns=inner.columns,
            changes_only=inner.changes_only,
        )


def on_change(window: Window) -> OnChange:
    """The windows of `window`, but none whose rows are the same as those of the one given before it, per key.

    >>> from panes.windows import sliding
    >>> on_change(sliding("5 s", every="1 s"))
    on_change(sliding("5 s", every="1 s"))
    """
    return OnChange(window)


def once_per_instant(window: Window) -> OncePerInstant:
    """Windows that end after every n-th row, looked at when all rows of an instant are there.

    At most one window per instant (and key) is given: if one or more n-th rows were among its rows, the window
    as it is after the last of them all.

    >>> from panes.units import rows
    >>> from panes.windows import tumbling
    >>> once_per_instant(tumbling(rows(1)))
    once_per_instant(tumbling(rows(1)))
    """
    return OncePerInstant(window)
