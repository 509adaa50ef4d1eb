"""Names that columns may have: any, but for what libraries on the way cut off, and what Panes uses itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from panes.errors import QueryError

#: What columns inside begin with.
_OWN = "panes."


def check_columns(names: Iterable[str]) -> None:
    """Refuse columns of data that can't be told apart, or that meet columns inside."""
    counted = Counter(names)
    for name, times in counted.items():
        check_name(name, "the data")
        if times > 1:
            raise QueryError(f"the data has {times} columns named {name!r}; rename or leave out all but one")
        if name.startswith(_OWN):
            raise QueryError(f"the data has a column {name!r}: names that begin with {_OWN!r} are for Panes; rename it")


def check_name(name: str, where: str) -> None:
    """Refuse names that are not the same everywhere: many libraries end a text where a NUL is."""
    if "\0" in name:
        raise QueryError(f"{where}: column name {name!r} has a NUL character, where many libraries cut it; rename it")
