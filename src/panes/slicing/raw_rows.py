"""Input rows by arrival number, for windows that can reject a row long after it came."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from panes.state.journal import Journal, Replaced

Array = np.ndarray


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
