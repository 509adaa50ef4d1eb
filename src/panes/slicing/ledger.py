"""The late-row ledger: rows that no result uses, each with the reason. Nothing leaves a stream silently.

All are counted. Those held are the newest so many, since a stream without end may have late rows without end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import pyarrow as pa

from panes.state.journal import Journal, Replaced

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

    def table(self) -> pa.Table:
        """The rows held, with a column `reason`."""
        parts = self._newest.tables()
        return pa.concat_tables(parts).combine_chunks() if parts else self._schema.empty_table()

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
