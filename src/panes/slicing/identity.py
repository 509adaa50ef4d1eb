"""What tells one result from another, and what follows from it: withdrawals come first, the newest revision counts.

In: tables of results. Out: the same rows in another order, or fewer of them. A result is given again under the same
identity when late rows correct it, with the next revision; null is a value of an identity like any other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panes.windows.base import NEVER

Array = np.ndarray
#: Codes of several columns are put together in one number as long as that stays below this.
_ROOM = 1 << 62


@dataclass(frozen=True)
class Identity:
    """The columns by which results are told apart, and those that say what became of one since."""

    columns: tuple[str, ...]
    revision: str | None = None  # None, as is `void`: nothing is ever given again
    void: str | None = None


def newest(table: pa.Table, identity: Identity, *, withdrawn: bool = True) -> pa.Table:
    """The rows of the newest revision of each identity, in their order; `withdrawn`: those of void ones, too."""
    if identity.revision is None or identity.void is None:
        return table
    revisions = table.column(identity.revision).to_numpy()
    if not revisions.any():  # the first of each, so all different and none void
        return table
    groups = _groups([table.column(name) for name in identity.columns], len(revisions))
    last = np.zeros(groups.max() + 1, revisions.dtype)
    np.maximum.at(last, groups, revisions)
    kept = revisions == last[groups]
    if not withdrawn:
        kept &= ~table.column(identity.void).to_numpy()
    return table if kept.all() else table.filter(pa.array(kept))


def voids_first(table: pa.Table, void: str | None) -> pa.Table:
    """Rows of withdrawn results, then the others, each in their order."""
    if void is None:
        return table
    gone = table.column(void).to_numpy()
    if not np.count_nonzero(gone[1:] > gone[:-1]):  # no withdrawal comes after a result
        return table
    return table.take(pa.array(np.argsort(~gone, kind="stable")))


def by_end(table: pa.Table, end: str) -> pa.Table:
    """The rows in the order of this column, which holds times; those without one come last."""
    ends = table.column(end).cast(pa.int64()).fill_null(NEVER).to_numpy()
    if not np.count_nonzero(ends[1:] < ends[:-1]):
        return table
    return table.take(pa.array(np.argsort(ends, kind="stable")))


def _groups(columns: list[pa.ChunkedArray], n: int) -> Array:
    """A number for each row, the same for rows that have the same values in all columns."""
    found, size = np.zeros(n, np.int64), 1
    for column in columns:
        codes, distinct = _codes(column)
        if size * distinct >= _ROOM:
            found, size = _dense(found)
        found, size = found * distinct + codes, size * distinct
    return _dense(found)[0]


def _dense(numbers: Array) -> tuple[Array, int]:
    known, found = np.unique(numbers, return_inverse=True)
    return found, len(known)


def _codes(column: pa.ChunkedArray) -> tuple[Array, int]:
    """A number for each value, and how many there are. Null is a value, NaN is one, and so are 0.0 and -0.0."""
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.int64), 1
    if pa.types.is_floating(column.type):
        column = pc.add(column, pa.scalar(0.0, column.type))
    # all chunks have one dictionary
    chunks = pc.dictionary_encode(column, null_encoding="encode").chunks
    return np.concatenate([chunk.indices.to_numpy() for chunk in chunks]), len(chunks[0].dictionary)
