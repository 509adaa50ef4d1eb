"""Errors of the layers below in the user's words: types by the names that the language has for them."""

from __future__ import annotations

from panes.cql.types import type_of
from panes.errors import PanesError, WrongType


def spoken(error: PanesError) -> str:
    """What is wrong, without naming the expression: the piece that it is about is underlined.

    >>> import pyarrow as pa
    >>> spoken(WrongType("there is no operator + for ", pa.int64(), " and ", pa.string(), before="'a + b': "))
    'there is no operator + for Long and String'
    """
    return error.told(lambda kind: type_of(kind).name) if isinstance(error, WrongType) else str(error)
