"""Arrival numbers of parts that were apart: each part counted its rows on its own.

Spread out, they keep their order within a part, and no two are alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

#: Arrival numbers beyond this are marks, not numbers.
_NO_NUMBER = 2**60


def clash(parts: Sequence[Mapping[str, pa.Table]]) -> bool:
    """Whether rows that are found by their number have one number in two parts."""
    found = [tables["raw"]["panes.seq"].to_numpy() for tables in parts if "raw" in tables and "panes.seq" in
             tables["raw"].column_names]  # fmt: skip
    every = np.concatenate(found) if found else np.empty(0)
    return len(np.unique(every)) < len(every)


def spread(
    part: tuple[Mapping[str, Any], Mapping[str, pa.Table]], number: int, parts: int
) -> tuple[dict[str, Any], dict[str, pa.Table]]:
    """Part `number` of so many parts, with numbers that no other part has."""
    facts, tables = part
    on_time = [[parts * n if n < _NO_NUMBER else n for n in stretch] for stretch in facts["on_time"]]
    spread = {**facts, "seq": parts * (1 + facts["seq"]), "on_time": on_time}
    return spread, {n: _spread(n, t, number, parts) for n, t in tables.items()}


def _spread(name: str, table: pa.Table, number: int, parts: int) -> pa.Table:
    for i, field in enumerate(table.schema):
        if _is_arrival_number(name, field):
            old = table.column(i).to_numpy()
            new = np.where((old >= 0) & (old < _NO_NUMBER), old * parts + number, old)
            table = table.set_column(i, field, pa.chunked_array([pa.array(new, field.type)]))
    return table


def _is_arrival_number(table: str, field: pa.Field) -> bool:
    """Input rows have columns of any name, all else those that the engine gives them."""
    if table in ("late", "raw"):
        return field.name == "panes.seq"
    return field.type == pa.int64() and field.name.endswith("seq") and not field.name.startswith("column.")
