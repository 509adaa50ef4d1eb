"""Extractors over Python rows: `v`, `v[1]`, `m['speed'][0]` as functions of a row (SPEC P-26).

Queries evaluate SQL over columns; rows of a live window are Python objects, so there a path is walked. Elements are
counted from 0, as in Spark SQL, and what is not there is None.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

_STEP = r"""\[\s*(?:(\d+)|'([^']*)'|"([^"]*)")\s*\]"""
_PATH = re.compile(rf"\s*([^\W\d]\w*)((?:{_STEP})+)\s*")


def extractor(column: str) -> Callable[[Mapping[str, Any]], Any] | None:
    """What reaches into a row for a path with steps; None for a plain column.

    >>> extractor("v[1]")({"v": [10, 20]})
    20
    """
    found = _PATH.fullmatch(column)
    if found is None:
        return None
    steps = [int(place) if place else one or other for place, one, other in re.findall(_STEP, found[2])]

    def extract(row: Mapping[str, Any]) -> Any:
        value = row[found[1]]
        for step in steps:
            value = _element(value, step)
        return value

    return extract


def extractors(columns: Iterable[str]) -> dict[str, Callable[[Mapping[str, Any]], Any]]:
    """Those of the columns that are paths."""
    made = {column: extractor(column) for column in columns}
    return {column: extract for column, extract in made.items() if extract is not None}


def _element(value: Any, step: int | str) -> Any:
    if isinstance(value, Mapping):
        return value.get(step)
    if isinstance(step, int) and isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return value[step] if step < len(value) else None
    if isinstance(step, int) and hasattr(value, "shape"):  # NumPy's arrays
        return value[step] if step < len(value) else None
    return None
