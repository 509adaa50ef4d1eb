"""Short ways to run a query on a few rows and look at what came out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import panes as pn
from panes.api.stream import Query

#: NaN is not equal to itself, so expected results say this instead.
NAN = "NaN"


def plain(value: Any) -> Any:
    return NAN if isinstance(value, float) and math.isnan(value) else value


def picked(rows: Iterable[dict[str, Any]], names: Sequence[str]) -> list[tuple[Any, ...]]:
    """The named columns of each row, NaN readable."""
    return [tuple(plain(row[name]) for name in names) for row in rows]


def query(rows: Any, windows: dict[str, Any], aggregates: dict[str, Any], *, time: str = "ts", **options: Any) -> Query:
    return pn.stream(rows, time=time, **options).window(**windows).agg(**aggregates)


def late(result: Query) -> list[tuple[Any, str]]:
    """(time, reason) of each row on the ledger."""
    return [(row["ts"], row["reason"]) for row in result.late.to_pylist()]


def balanced(metrics: Any) -> bool:
    """Rows in = rows used + rows late."""
    return metrics["rows_in"] == metrics["rows_used"] + metrics["rows_late"]
