"""The protocol of sources: something with a schema that gives batches, and says what it could not read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from panes.errors import DataError
from panes.plan.silence import Silence
from panes.runners.local.listening import Beat, Ear
from panes.runners.local.rejects import Rejects

#: Rows per batch from data that is all there: large enough to hide the cost of a batch, small enough to
#: stay in the processor's cache.
BATCH_ROWS = 131_072


class Source(ABC):
    """Where the rows of an embedded run come from."""

    schema: pa.Schema
    #: how many rows there are in all, if that is known before reading
    rows: int | None = None
    #: whether `batches` can be called more than once
    repeatable: bool = True
    #: whether rows come while time passes, so that waiting for them holds up everything else
    live: bool = False
    #: whether the next rows may be a while coming; what is all there, or in files, keeps nobody waiting
    waits: bool = False
    #: what the streams inside do when nothing comes
    silences: tuple[Silence, ...] = ()
    _ear: Ear | None = None
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

    def hand_out(self, *, promptly: bool, ear: Ear | None = None) -> None:
        """Someone waits for each row (or not), and listens with this ear: called before the first batch is read."""
        self.promptly = promptly
        self._ear = ear

    @property
    def ear(self) -> Ear | None:
        """Listens for whoever reads, in runs that go by a clock; asked for when reading begins."""
        return None if self._ear is None or self._ear.closed else self._ear

    def batches(self, rejects: Rejects) -> Iterator[Any]:
        """Batches of `schema`, in order of arrival; text that can't be read goes to `rejects`.

        If there is an ear, with beats between them (`listening.py`).
        """
        self._begin()
        return self._heard(self.read(rejects))

    def arrivals(self, rejects: Rejects) -> Iterator[Any]:
        """What `batches` gives, or single rows as dicts as they come, if they are to be handed out promptly."""
        return self.batches(rejects)

    def _heard(self, items: Iterator[Any]) -> Iterator[Any]:
        """Items, with beats if someone listens and they may be a while coming; asked only now, see `hand_out`."""
        ear = self.ear
        yield from items if ear is None or not self.waits else ear.listen(items)

    def _begin(self) -> None:
        if self._spent and not self.repeatable:
            raise DataError(
                f"{self} can be read only once, and was read before; "
                "give the stream a list, a table or a path, or keep the results"
            )
        self._spent = True

    @abstractmethod
    def read(self, rejects: Rejects) -> Iterator[pa.Table | Beat]:
        """What `batches` gives, without the check that it is the first time, and beats only of sources inside."""

    def __repr__(self) -> str:
        return f"<{self}>"

    @abstractmethod
    def __str__(self) -> str:
        """What the source is, in a few words."""
