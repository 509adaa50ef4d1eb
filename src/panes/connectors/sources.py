"""What users give as `data`, to a `Source`, and to a node of the graph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from panes.connectors.files import FileSource, looks_like_path
from panes.connectors.memory import IterableSource, ReaderSource, TableSource
from panes.connectors.source import Source
from panes.errors import QueryError
from panes.plan.batches import is_batch
from panes.plan.graph import Node, PushedNode, ReadNode


def open_data(data: Any, declared: pa.Schema | None) -> Node:
    """The node that reads `data`: what users give, or a node that is there; None: rows will be pushed."""
    if isinstance(data, Node):
        return data
    if data is None and declared is not None:
        return PushedNode.of(declared)
    return ReadNode.of(open_source(data, declared))


def open_source(data: Any, declared: pa.Schema | None) -> Source:
    """The source that `data` is; `declared` are column types that the user gave."""
    if isinstance(data, Source):
        return data
    if looks_like_path(data):
        return FileSource(data, declared)
    if type(data).__module__.partition(".")[0] == "pyspark":
        from panes.connectors.frames import FrameSource

        return FrameSource.of(data)
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
