"""Rows that no result uses, each with the reason, and rows that may yet be turned away. Nothing leaves silently.

In the late-row ledger all are counted. Those held are the newest so many, since a stream without end may have late rows
without end. Windows that can reject a row long after it came find it by its arrival number (`RawRows`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from panes.state.journal import Journal, Replaced

Array = np.ndarray

TOO_LATE = "too late"
NULL_TIME = "null time"
BAD_GAP = "bad gap"
OUT_OF_RANGE = "time out of range"

#: How many rows a ledger holds unless told otherwise.
KEEP_LATE = 100_000
#: So many small tables are made one, which takes less memory.
_MANY = 256


class Newest:
    """The newest rows of tables that come one after the other: at most `limit` of them; None: all."""

    replaced = Replaced("_held")

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self._parts: deque[pa.Table] = deque()
        self._held = 0

    def __len__(self) -> int:
        return self._held if self.limit is None else min(self._held, self.limit)

    def keep(self, journal: Journal) -> None:
        """Rows are about to come."""
        journal.keep_container(self._parts)
        journal.keep_attributes(self)

    def put(self, rows: pa.Table) -> None:
        """Rows that come after all others."""
        if self.limit is not None and rows.num_rows > self.limit:
            rows = rows.take(pa.array(range(rows.num_rows - self.limit, rows.num_rows), pa.int64()))
        if not rows.num_rows:
            return
        self._parts.append(rows)
        self._held += rows.num_rows
        while self.limit is not None and self._held - self._parts[0].num_rows >= self.limit:
            self._held -= self._parts.popleft().num_rows
        if len(self._parts) > _MANY:  # the older half is left alone, so that rows are not copied over and over
            newer = [self._parts.pop() for _ in range(_MANY // 2)][::-1]
            self._parts.append(pa.concat_tables(newer, promote_options="default").combine_chunks())

    def tables(self) -> list[pa.Table]:
        """The rows held, oldest first; tables may differ in their columns."""
        over = self._held - len(self)
        first, *others = self._parts or [None]
        return [] if first is None else [first.slice(over), *others]

    def clear(self) -> None:
        self._parts.clear()
        self._held = 0


class LateLedger:
    """Rows put aside, in the order in which that was decided. `keep`: how many are held; None: all."""

    def __init__(self, schema: pa.Schema, keep: int | None = None, journal: Journal | None = None) -> None:
        self._journal = journal or Journal()
        self._schema = schema.append(pa.field("reason", pa.string()))
        self._newest = Newest(keep)
        self.counts: dict[str, int] = {}

    def __len__(self) -> int:
        """How many there were, held or not."""
        return sum(self.counts.values())

    def put(self, rows: pa.Table, reason: str) -> None:
        if rows.num_rows:
            self._journal.keep_container(self.counts)
            self._newest.keep(self._journal)
            self.counts[reason] = self.counts.get(reason, 0) + rows.num_rows
            self._newest.put(rows.append_column("reason", pa.array([reason] * rows.num_rows, pa.string())))

    @property
    def held(self) -> int:
        return len(self._newest)

    def table(self, newest: int | None = None) -> pa.Table:
        """The rows held, or the newest so many of them, with a column `reason`."""
        parts = self._newest.tables()
        if not parts:
            return self._schema.empty_table()
        rows = pa.concat_tables(parts)
        return (rows if newest is None else rows.slice(max(rows.num_rows - newest, 0))).combine_chunks()

    def take(self) -> pa.Table:
        """The rows held, which are so no longer; they stay counted."""
        taken = self.table()
        self._newest.clear()
        return taken

    def load(self, table: pa.Table, counts: Mapping[str, int]) -> None:
        """Take in the table of another ledger, and what it has counted."""
        self._newest.put(table.cast(self._schema))
        for reason, count in counts.items():
            self.counts[reason] = self.counts.get(reason, 0) + count


class RawRows:
    """Batches as they were read, kept while one of their rows may still be rejected."""

    replaced = Replaced("_parts")

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._parts: list[tuple[Array, pa.Table]] = []  # arrival numbers (increasing), rows

    def keep(self, seq: Array, table: pa.Table) -> None:
        self._journal.keep_attributes(self)
        self._parts = [*self._parts, (seq, table)]

    def forget(self, before: int) -> None:
        """Rows that arrived before this number are settled."""
        self._journal.keep_attributes(self)
        self._parts = [(seq, table) for seq, table in self._parts if seq[-1] >= before]

    def find(self, wanted: Array) -> pa.Table:
        """The rows with these arrival numbers."""
        found = []
        for seq, table in self._parts:
            hit = np.flatnonzero(np.isin(seq, wanted))
            if len(hit):
                found.append(table.take(pa.array(hit)))
        return pa.concat_tables(found)

    def held(self) -> tuple[Array, pa.Table] | None:
        """All rows kept."""
        if not self._parts:
            return None
        return np.concatenate([s for s, _ in self._parts]), pa.concat_tables([t for _, t in self._parts])
