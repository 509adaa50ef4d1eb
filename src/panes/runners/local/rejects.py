"""Input that could not be read as rows: kept with its reason, so that nothing vanishes silently."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import pyarrow as pa

#: How many rejected pieces are kept in full; beyond that they are only counted.
KEEP = 100_000
_SHOWN = 200


@dataclass
class Rejects:
    """Lines of text that are no rows of the stream. `count` has them all, `reasons` the first `KEEP`."""

    count: int = 0
    reasons: list[str] = field(default_factory=list)
    #: sources that are merged live are read in threads of their own
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def add(self, reason: str, text: str) -> None:
        shown = text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
        with self._lock:
            self.count += 1
            if len(self.reasons) < KEEP:
                self.reasons.append(f"{reason}: {shown}")

    def table(self, schema: pa.Schema) -> pa.Table:
        """The rejected lines as rows of `schema`, all null, with one more column, `reason`."""
        n = len(self.reasons)
        columns = [pa.nulls(n, f.type) for f in schema]
        fields = [*schema, pa.field("reason", pa.string())]
        return pa.Table.from_arrays([*columns, pa.array(self.reasons, pa.string())], schema=pa.schema(fields))
