"""What users give as `data`, to a `Source`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from panes.errors import QueryError
from panes.plan.batches import is_batch
from panes.runners.local.files import FileSource, looks_like_path
from panes.runners.local.memory import IterableSource, ReaderSource, TableSource
from panes.runners.local.source import Source


def open_source(data: Any, declared: pa.Schema | None) -> Source:
    """The source that `data` is; `declared` are column types that the user gave."""
    if isinstance(data, Source):
        return data
    if looks_like_path(data):
        return FileSource(data, declared)
    if type(data).__module__.partition(".")[0] == "pyspark":
        from panes.runners.spark.source import FrameSource

        return FrameSource(data)
    if isinstance(data, pa.RecordBatchReader):
        return ReaderSource(data, declared)
    if is_batch(data):
        return TableSource(data, declared)
    if isinstance(data, Iterable):
        return IterableSource(data, declared)
    raise QueryError(
        "data must be a pandas or Polars frame, an Arrow table, batch or reader, a list of dicts, a dict of "
        f"columns, an iterator of those, the path of a file, or a source; got {type(data).__name__}"
    )
