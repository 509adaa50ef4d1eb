"""What streams and queries have in common: the ways to run them here and look at what they give."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

if TYPE_CHECKING:
    import pandas
    import polars


class RunningRead(Protocol):
    """One run over the data; it goes on as far as what it gives is asked for."""

    #: rows of the data that were read so far
    rows_read: int

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def unused(self) -> int: ...

    def facts(self) -> str: ...

    def tables(self) -> Iterator[pa.Table]: ...

    def table(self) -> pa.Table: ...

    def rows(self) -> Iterator[dict[str, Any]]: ...


class Collectable(ABC):
    """Runs in this process, as a table or row by row."""

    def to_arrow(self, *, progress: bool | None = None) -> pa.Table:
        """Run over all the data; what it gives as an Arrow table.

        `progress`: show a progress bar on stderr; None: on runs of over a second, in a terminal or a notebook.
        """
        return self._start(progress).table()

    def to_pandas(self, *, progress: bool | None = None) -> pandas.DataFrame:
        """Run; what it gives as a pandas frame."""
        from panes.slicing.results import needed

        needed("pandas", "to_pandas()", "pandas")
        return self.to_arrow(progress=progress).to_pandas()

    def to_polars(self, *, progress: bool | None = None) -> polars.DataFrame:
        """Run; what it gives as a Polars frame."""
        from panes.slicing.results import needed

        polars = needed("polars", "to_polars()", "polars")
        return polars.from_arrow(self.to_arrow(progress=progress))

    def rows(self, *, progress: bool | None = None) -> Iterator[dict[str, Any]]:
        """Run; each row of what it gives as a dict, as soon as it is there."""
        return self._start(progress).rows()

    @abstractmethod
    def _start(self, progress: bool | None) -> RunningRead:
        """A new run."""
