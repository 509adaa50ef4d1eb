"""The one state variable of a key group: a map from numbers to texts, declared without the engine."""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import LongType, StringType, StructField, StructType

#: One variable only: every further one costs time in each task. Pieces are numbered from 0 on; the head and the
#: facts of the query have numbers of their own.
STATE, KEY, VALUE = "panes", "number", "data"
HEAD, QUERY = -1, -2


def state_map(handle: Any) -> Any:
    """The map of the group that Spark's handle stands at."""
    return handle.getMapState(STATE, _schema(KEY, LongType()), _schema(VALUE, StringType()))


def _schema(name: str, kind: Any) -> StructType:
    """A schema as an object: a text would be parsed in every task."""
    return StructType([StructField(name, kind)])
