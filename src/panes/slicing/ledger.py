"""The late-row ledger: rows that no result uses, each with the reason. Nothing leaves a stream silently."""

from __future__ import annotations

import pyarrow as pa

TOO_LATE = "too late"
NULL_TIME = "null time"
BAD_GAP = "bad gap"
OUT_OF_RANGE = "time out of range"


class LateLedger:
    """Rows put aside, in the order in which that was decided."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema.append(pa.field("reason", pa.string()))
        self._parts: list[pa.Table] = []
        self.counts: dict[str, int] = {}

    def __len__(self) -> int:
        return sum(self.counts.values())

    def put(self, rows: pa.Table, reason: str) -> None:
        if rows.num_rows:
            self.counts[reason] = self.counts.get(reason, 0) + rows.num_rows
            self._parts.append(rows.append_column("reason", pa.array([reason] * rows.num_rows, pa.string())))

    def table(self) -> pa.Table:
        """All rows put aside, with a column `reason`."""
        if len(self._parts) > 1:
            self._parts = [pa.concat_tables(self._parts).combine_chunks()]
        return self._parts[0] if self._parts else self._schema.empty_table()

    def take(self) -> pa.Table:
        """All rows put aside, which are no longer held; they stay counted."""
        taken, self._parts = self.table(), []
        return taken

    def load(self, table: pa.Table) -> None:
        """Take in the table of another ledger."""
        if table.num_rows:
            self._parts.append(table.cast(self._schema))
            for entry in table["reason"].value_counts().to_pylist():
                self.counts[entry["values"]] = self.counts.get(entry["values"], 0) + entry["counts"]
