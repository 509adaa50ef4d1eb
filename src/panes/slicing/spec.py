"""What an operator is built from: a query with everything resolved, and nothing of any engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from panes.slicing.lane import Agg
from panes.units import TimeDomain
from panes.windows.base import Window

MANUAL = "manual"


class Expressions(Protocol):
    """Row expressions compiled elsewhere: their types, and their values for a batch."""

    @property
    def types(self) -> Mapping[str, pa.DataType]: ...

    def including(self, texts: Iterable[str]) -> Expressions: ...

    def evaluate(self, table: pa.Table) -> Mapping[str, pa.ChunkedArray]: ...


@dataclass(frozen=True)
class OperatorSpec:
    """A query, resolved. Times and sizes are ticks of `domain`."""

    schema: pa.Schema  # of the rows that the windows see
    time: str
    domain: TimeDomain
    aggs: tuple[Agg, ...]
    windows: tuple[tuple[str, Window], ...]
    expressions: Expressions
    read: Callable[[Any], pa.Table]  # any batch a user pushes -> a table of `schema`
    keys: tuple[str, ...] = ()
    watermark: int | str | None = None  # bound in ticks, MANUAL, or None: declared in order
    lateness: int | None = None
    emit_empty: bool = False
    store: str = "auto"
    #: aggregates to result columns (expressions over aggregates); None: they are the result columns
    finalize: Callable[[pa.Table], pa.Table] | None = None
    #: facts that tell one query from another, for snapshots
    identity: Mapping[str, Any] = field(default_factory=dict)

    @property
    def in_order(self) -> bool:
        return self.watermark is None

    @property
    def bound(self) -> int:
        """How far the watermark stays behind the largest time seen."""
        return self.watermark if isinstance(self.watermark, int) else 0
