"""The protocol of sources: something with a schema that gives batches, and says what it could not read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from panes.errors import DataError
from panes.runners.local.rejects import Rejects

#: Rows per batch from data that is all there: large enough to hide the cost of a batch, small enough to
#: stay in the processor's cache.
BATCH_ROWS = 131_072
#: Seconds that whoever waits for rows waits in one go: a Ctrl-C just before a wait begins does not end it.
HEARING = 1.0


class Source(ABC):
    """Where the rows of an embedded run come from."""

    schema: pa.Schema
    #: how many rows there are in all, if that is known before reading
    rows: int | None = None
    #: whether `batches` can be called more than once
    repeatable: bool = True
    #: whether rows come while time passes, so that waiting for them holds up everything else
    live: bool = False
    #: whether the data is in Spark, in whole or in part
    on_spark: bool = False
    #: whether there are windows inside, whose results the rows are
    windowed: bool = False
    #: whether rows that come one by one are handed out one by one, and not gathered
    promptly: bool = False
    _spent: bool = False

    def retype(self, name: str, kind: pa.DataType) -> None:
        """Give one column another type; called before any batch is read."""
        self.schema = pa.schema([pa.field(f.name, kind if f.name == name else f.type) for f in self.schema])

    def hand_out(self, *, promptly: bool) -> None:
        """Someone waits for each row (or not): called before the first batch is read."""
        self.promptly = promptly

    def batches(self, rejects: Rejects) -> Iterator[pa.Table]:
        """Batches of `schema`, in order of arrival; text that can't be read goes to `rejects`."""
        self._begin()
        return self.read(rejects)

    def arrivals(self, rejects: Rejects) -> Iterator[pa.Table | dict[str, Any]]:
        """What `batches` gives, or single rows as dicts as they come, if they are to be handed out promptly."""
        return self.batches(rejects)

    def _begin(self) -> None:
        if self._spent and not self.repeatable:
            raise DataError(
                f"{self} can be read only once, and was read before; "
                "give the stream a list, a table or a path, or keep the results"
            )
        self._spent = True

    @abstractmethod
    def read(self, rejects: Rejects) -> Iterator[pa.Table]:
        """What `batches` gives, without the check that it is the first time."""

    def __repr__(self) -> str:
        return f"<{self}>"

    @abstractmethod
    def __str__(self) -> str:
        """What the source is, in a few words."""
