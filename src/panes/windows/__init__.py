"""Where windows begin and end: specs as small frozen values, one family a file; what they are bound to (base.py)."""

from __future__ import annotations

from panes.windows.anchored import cumulate, fixed, fixed_band, landmark
from panes.windows.conditions import punctuated, threshold
from panes.windows.delta import delta
from panes.windows.models import on_change, once_per_instant
from panes.windows.periodic import sliding, tumbling
from panes.windows.session import session
from panes.windows.user import ContextFreeWindow, DeterministicWindow, FreeFormWindow, WindowDue, WindowEvents

__all__ = [
    "ContextFreeWindow", "DeterministicWindow", "FreeFormWindow", "WindowDue", "WindowEvents", "cumulate", "delta",
    "fixed", "fixed_band", "landmark", "on_change", "once_per_instant", "punctuated", "session", "sliding", "threshold",
    "tumbling",
]  # fmt: skip
