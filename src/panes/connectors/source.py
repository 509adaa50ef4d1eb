"""The protocol of sources: something with a schema that gives batches, and says what it could not read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from panes.errors import DataError
from panes.runtime.rejects import Rejects

#: Rows per batch from data that is all there: large enough to hide the cost of a batch, small enough to
#: stay in the processor's cache.
BATCH_ROWS = 131_072


class Source(ABC):
    """Where the rows of a run come from."""

    schema: pa.Schema
    #: how many rows there are in all, if that is known before reading
    rows: int | None = None
    #: whether it can be read more than once
    repeatable: bool = True
    #: whether rows come while time passes, so that waiting for them holds up everything else
    live: bool = False
    #: whether the next rows may be a while coming; what is all there, or in files, keeps nobody waiting
    waits: bool = False
    _spent: bool = False

    def retype(self, name: str, kind: pa.DataType) -> None:
        """Give one column another type; called before any batch is read."""
        self.schema = pa.schema([pa.field(f.name, kind if f.name == name else f.type) for f in self.schema])

    def batches(self, rejects: Rejects, *, promptly: bool = False) -> Iterator[pa.Table]:
        """Batches of `schema`, in order of arrival; text that can't be read goes to `rejects`.

        `promptly`: rows that come one by one are handed out one by one, and not gathered.
        """
        self.begin()
        return self.read(rejects, promptly=promptly)

    def arrivals(self, rejects: Rejects) -> Iterator[pa.Table | dict[str, Any]]:
        """What `read` gives promptly, single rows as dicts where they come as such."""
        return self.read(rejects, promptly=True)

    def check_unread(self) -> None:
        """Refuse to be read again, if that can't be."""
        if self._spent and not self.repeatable:
            raise DataError(
                f"{self} can be read only once, and was read before; "
                "give the stream a list, a table or a path, or keep the results"
            )

    def begin(self) -> None:
        """It is read now."""
        self.check_unread()
        self._spent = True

    @abstractmethod
    def read(self, rejects: Rejects, *, promptly: bool = False) -> Iterator[pa.Table]:
        """What `batches` gives, without the check that it is the first time."""

    def __repr__(self) -> str:
        return f"<{self}>"

    @abstractmethod
    def __str__(self) -> str:
        """What the source is, in a few words."""
