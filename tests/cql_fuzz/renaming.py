"""A window by other names of the columns that it looks at."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from panes.cql.tree import Extent, Name
from panes.cql.windows.clause import WindowClause
from tests.cql_fuzz.terms import Term, col

FIELDS = ("size", "every", "step", "longest", "gap", "on", "condition", "begin", "until", "where")


def by_names(window: WindowClause, shown: dict[str, str]) -> WindowClause:
    """`shown` gives the new name of each column, in lower case; KeyError for one that has none."""

    def change(part: Any) -> Any:
        if isinstance(part, Term):
            return col(_new(part.args[1])) if part.op == "col" else Term(part.op, tuple(map(change, part.args)))
        if isinstance(part, Name):
            return Name(_new(part.text))
        if isinstance(part, Extent):
            return replace(part, on=change(part.on))
        return part

    def _new(name: str) -> str:
        return shown[name.lower()]

    return replace(window, **{f: change(getattr(window, f)) for f in FIELDS if hasattr(window, f)})
