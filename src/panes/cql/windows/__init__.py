"""The kinds of windows that stand in brackets: one class each, and here the table of them.

`clause` has what they share and what each kind says of itself. A new kind is such a class and a row of KINDS.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from panes.cql.tree import Model
from panes.cql.windows.clause import ClauseWriter, WindowClause, cannot_write
from panes.cql.windows.content import DeltaClause, PunctuatedClause, SessionClause, ThresholdClause
from panes.cql.windows.policy import PolicyClause
from panes.cql.windows.sized import BandClause, CumulateClause, FixedClause, LandmarkClause, SizeClause
from panes.units import TimeDomain
from panes.windows.base import Window
from panes.windows.models import OncePerInstant, OnChange
from panes.windows.periodic import Tumbling

#: Every kind by the word that it begins with, in the order in which messages name them.
KINDS: Mapping[str, type[WindowClause]] = {
    kind.word: kind
    for kind in (
        SizeClause,
        SessionClause,
        LandmarkClause,
        FixedClause,
        BandClause,
        DeltaClause,
        PunctuatedClause,
        ThresholdClause,
        CumulateClause,
        PolicyClause,
    )
}


def clause_of(window: Window, time: str | None, domain: TimeDomain) -> tuple[WindowClause, Model | None]:
    """The clause of a window, and the model of execution that it stands for; `time` None: arrival."""
    writer = ClauseWriter(time, domain)
    if isinstance(window, OncePerInstant):
        return _plain_clause(window.window, writer), "time"
    if not isinstance(window, OnChange):
        return _plain_clause(window, writer), None
    inner = window.window
    if isinstance(inner, Tumbling) and inner.offset == "first row":
        return _plain_clause(replace(inner, offset=None), writer), "time"
    if not isinstance(inner, SizeClause.windows):
        raise cannot_write(window, "ON CHANGE is for windows with a size there")
    return replace(SizeClause.of(inner, writer), changes=True), None


def _plain_clause(window: Window, writer: ClauseWriter) -> WindowClause:
    kind = next((kind for kind in KINDS.values() if isinstance(window, kind.windows)), None)
    if kind is None:
        raise cannot_write(window, "it has no clause for windows of the program")
    return kind.of(window, writer)
