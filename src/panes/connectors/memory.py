"""Sources that are Python objects: tables, frames, lists of dicts, and iterators of any of those."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import pyarrow as pa

from panes.connectors.source import BATCH_ROWS, Source
from panes.errors import DataError
from panes.plan.batches import conform, infer_rows, is_batch, to_table
from panes.plan.types import canonical_schema
from panes.runtime.rejects import Rejects

_NOTHING = object()
#: Single rows that are gathered into one batch, where nobody waits for them.
GATHERED = BATCH_ROWS // 16


class TableSource(Source):
    """All rows at once, handed out in batches."""

    def __init__(self, data: Any, declared: pa.Schema | None) -> None:
        sparse = isinstance(data, list | tuple)
        found = canonical_schema(infer_rows(data, declared) if sparse else to_table(data).schema)
        self.schema = overridden(found, declared, sparse=sparse)
        self._table = conform(data, self.schema)
        self.rows = self._table.num_rows
        self._kind = type(data).__name__

    def retype(self, name: str, kind: pa.DataType) -> None:
        super().retype(name, kind)
        self._table = conform(self._table, self.schema)

    def read(self, rejects: Rejects, *, promptly: bool = False) -> Iterator[pa.Table]:
        for start in range(0, self._table.num_rows, BATCH_ROWS):
            yield self._table.slice(start, BATCH_ROWS)

    def __str__(self) -> str:
        return f"{self._kind} of {self.rows:,} rows"


class IterableSource(Source):
    """Batches as they come from an iterable. Without a declared schema the first batch is read at once."""

    def __init__(self, data: Iterable[Any], declared: pa.Schema | None) -> None:
        iterator = iter(data)
        self.repeatable = iterator is not data
        self.waits = not isinstance(data, list | tuple)
        self._kind = type(data).__name__
        self._data = data
        if declared is not None and not self.repeatable:
            self.schema = declared
            return
        first = next(iterator, _NOTHING)
        if first is _NOTHING:
            if declared is None:
                raise DataError(f"the {self._kind} given as data is empty, so its columns are not known; give schema=")
            self.schema = declared
            return
        sparse = isinstance(first, list | tuple | dict)
        self.schema = overridden(canonical_schema(to_table(_batch(first)).schema), declared, sparse=sparse)
        if not self.repeatable:
            self._data = chain([first], iterator)

    def read(self, rejects: Rejects, *, promptly: bool = False) -> Iterator[pa.Table]:
        gathered = 1 if promptly else GATHERED
        waiting: list[Any] = []
        count = 0
        for item in self._data:
            row = _is_row(item)
            if row:
                # gathered, since a batch costs far more than a row; whoever gives rows may fill the same dict again
                waiting.append(item.copy())
                if len(waiting) < gathered:
                    continue
            if waiting:
                yield conform(waiting, self.schema, first=count)
                count += len(waiting)
                waiting = []
            if not row:
                table = conform(_batch(item), self.schema, first=count)
                count += len(table)
                yield table
        if waiting:
            yield conform(waiting, self.schema, first=count)

    def arrivals(self, rejects: Rejects) -> Iterator[pa.Table | dict[str, Any]]:
        for item in self._data:
            yield item if _is_row(item) else conform(_batch(item), self.schema)

    def __str__(self) -> str:
        return f"{self._kind} of batches"


class ReaderSource(IterableSource):
    """An Arrow record batch reader: knows its schema, can be read once."""

    def __init__(self, data: pa.RecordBatchReader, declared: pa.Schema | None) -> None:
        self.schema = overridden(canonical_schema(data.schema), declared)
        self.repeatable = False
        self.waits = True
        self._data = data
        self._kind = "RecordBatchReader"


def overridden(found: pa.Schema, declared: pa.Schema | None, *, sparse: bool = False) -> pa.Schema:
    """The schema found in the data, with the types that the user declared.

    `sparse`: rows that lack a column are no error (dicts, JSON), so a declared one need not be found.
    """
    if declared is None:
        return found
    missing = [name for name in declared.names if name not in found.names]
    if missing and len(found) and not sparse:
        raise DataError(
            f"schema names the column {missing[0]!r}, which the data does not have; it has: {', '.join(found.names)}"
        )
    types = dict(zip(declared.names, declared.types, strict=True))
    fields = [pa.field(f.name, types.get(f.name, f.type)) for f in found]
    return pa.schema([*fields, *(declared.field(name) for name in missing)])


def _is_row(item: Any) -> bool:
    return isinstance(item, dict) and not is_columns(item)


def is_columns(data: dict[str, Any]) -> bool:
    return bool(data) and all(isinstance(v, list | tuple) or hasattr(v, "__array__") for v in data.values())


def _batch(item: Any) -> Any:
    if not is_batch(item):
        raise DataError(
            f"the iterator given as data must yield tables, frames, dicts or lists of dicts; got {type(item).__name__}"
        )
    return item
