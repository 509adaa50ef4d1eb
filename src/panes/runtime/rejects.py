"""Input that could not be read as rows: kept with its reason, so that nothing vanishes silently."""

from __future__ import annotations

import threading
from collections import deque

import pyarrow as pa

from panes.slicing.ledger import KEEP_LATE

_SHOWN = 200


class Rejects:
    """Lines of text that are no rows of the stream: all are counted, the newest `keep` are held (None: all)."""

    def __init__(self, keep: int | None = KEEP_LATE) -> None:
        self.count = 0
        self._reasons: deque[str] = deque(maxlen=keep)
        #: sources that are merged live are read in threads of their own
        self._lock = threading.Lock()

    def add(self, reason: str, text: str) -> None:
        shown = text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
        with self._lock:
            self.count += 1
            self._reasons.append(f"{reason}: {shown}")

    @property
    def reasons(self) -> list[str]:
        """Of those that are held, oldest first."""
        with self._lock:
            return list(self._reasons)

    def clear(self) -> None:
        """Whoever has taken them counts on from 0."""
        with self._lock:
            self.count = 0
            self._reasons.clear()

    def table(self, schema: pa.Schema) -> pa.Table:
        """The rejected lines as rows of `schema`, all null, with one more column, `reason`."""
        reasons = self.reasons
        columns = [pa.nulls(len(reasons), f.type) for f in schema]
        fields = [*schema, pa.field("reason", pa.string())]
        return pa.Table.from_arrays([*columns, pa.array(reasons, pa.string())], schema=pa.schema(fields))
