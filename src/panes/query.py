"""A query that is ready to run: `Query`, with all the ways to look at its results."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from panes.errors import QueryError

if TYPE_CHECKING:
    import pandas
    import polars
    from pyspark.sql import DataFrame

    from panes.plan.explain import Explanation
    from panes.plan.query import QueryPlan
    from panes.runners.local.runner import Run
    from panes.runners.local.source import Source
    from panes.slicing.operator import SliceOperator


class Query:
    """Windows and aggregates over a stream. Made by `stream(...).window(...).agg(...)`."""

    def __init__(self, plan: QueryPlan, source: Source | None) -> None:
        self._plan = plan
        self._source = source
        self._run: Run | None = None

    def to_arrow(self, *, progress: bool | None = None) -> pa.Table:
        """Run the query over all its data; the results as an Arrow table.

        `progress`: show a progress bar on stderr; None: on runs of over a second, in a terminal.
        """
        run = self._start(progress)
        return run.table()

    def to_pandas(self, *, progress: bool | None = None) -> pandas.DataFrame:
        """Run the query; the results as a pandas frame."""
        _need("pandas", "to_pandas()", "pandas")
        return self.to_arrow(progress=progress).to_pandas()

    def to_polars(self, *, progress: bool | None = None) -> polars.DataFrame:
        """Run the query; the results as a Polars frame."""
        polars = _need("polars", "to_polars()", "polars")
        return polars.from_arrow(self.to_arrow(progress=progress))

    def rows(self, *, progress: bool | None = None) -> Iterator[dict[str, Any]]:
        """Run the query; each result as a dict, as soon as it is there."""
        run = self._start(progress)
        return run.rows()

    def to_spark(
        self,
        *,
        strategy: str | None = None,
        late: bool = False,
        key_groups: int = 16,
        restore: bytes | Sequence[bytes] | None = None,
    ) -> DataFrame:
        """The results as a Spark DataFrame: streaming if the data is, else static.

        - `strategy`: by name, instead of the one that the planner finds cheapest; see `explain()`.
        - `late`: also give rows that no result uses, with `late_reason` and the row itself in `late_row`.
        - `key_groups`: into how many parts the state of a stream is divided; fixed for the life of a checkpoint.
        - `restore`: start from a snapshot of an operator, or from its parts.
        """
        from panes.runners.spark.runner import to_spark
        from panes.runners.spark.source import frame_of

        if self._source is None:
            raise QueryError("to_spark(): this stream has no data of its own; give pn.stream(data, ...) a DataFrame")
        return to_spark(
            self._plan, frame_of(self._source), strategy=strategy, late=late, key_groups=key_groups, restore=restore
        )

    @property
    def late(self) -> pa.Table:
        """Rows of the last run that no result uses, each with its `reason`: late ones and unreadable ones."""
        return self._last("late").late()

    @property
    def metrics(self) -> Any:
        """Counts of the last run: rows in, used, late (by reason), results, slices and more."""
        return self._last("metrics").metrics()

    def plot(self, path: str | os.PathLike[str] | None = None, *, results: pa.Table | None = None) -> Any:
        """The windows, the watermark, late rows and results as a picture; runs the query if it has not run.

        `path` ending in .png gives an image, in .html an interactive page. Without a path the plotly figure
        is returned, which notebooks show. `results`: draw these, which a run elsewhere has given, on Spark
        for instance.
        """
        from panes.runners.local.plot import check_plot, plot

        check_plot(path)
        if results is not None:
            return plot(self._plan, results, None, 0, path)
        run = self._run
        if run is None or run.given is None or (run.trace is None and run.repeatable):
            run = self._start(None, trace=True)
            run.table()
        assert run.given is not None
        return plot(self._plan, run.given, run.trace, run.late().num_rows, path)

    def explain(self) -> Explanation:
        """What the query costs and why: window classes, slices, who shares what, the strategy chosen."""
        from panes.plan.explain import explain
        from panes.runners.spark.source import FrameSource

        explained = explain(self.operator())
        if not isinstance(self._source, FrameSource):
            return explained
        from panes.runners.spark.explain import explain as explain_on_spark
        from panes.runners.spark.strategies.card import Job

        return explain_on_spark(explained, Job(self._plan, self._source.frame))

    def operator(self, restore: bytes | Sequence[bytes] | None = None, *, store: str = "auto") -> SliceOperator:
        """A running operator to push rows to; `restore` continues from a snapshot, or from its parts."""
        from panes.runners.local.runner import make_operator

        return make_operator(self._plan, restore=restore, store=store)

    def _start(self, progress: bool | None, *, trace: bool = False) -> Run:
        from panes.runners.local.runner import Run

        if self._source is None:
            raise QueryError(
                "this stream has no data of its own, so there is nothing to run: give pn.stream(data, ...), "
                "or push rows to query.operator()"
            )
        self._run = Run(self._plan, self._source, progress=progress, trace=trace)
        return self._run

    def _last(self, what: str) -> Run:
        if self._run is None:
            raise QueryError(f"{what} is known after a run: call to_arrow(), to_pandas(), to_polars() or rows() first")
        return self._run

    def __repr__(self) -> str:
        labels = ", ".join(label for label, _ in self._plan.windows)
        outputs = ", ".join(self._plan.aggregation.outputs)
        return f"<Query of {outputs} over {labels}>"


def _need(module: str, what: str, extra: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise QueryError(f"{what} needs {module}: pip install 'panes[{extra}]'") from error
