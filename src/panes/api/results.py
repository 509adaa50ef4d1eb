"""What a query gives, and all the ways to look at it: run here or on Spark, explained, drawn, pushed to."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from panes.api.collecting import Collectable
from panes.errors import QueryError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from panes.plan.explain import Explanation
    from panes.plan.graph import Node, WindowsNode
    from panes.plan.query import QueryPlan
    from panes.runners.local.runner import Run
    from panes.slicing.operator import SliceOperator
    from panes.slicing.outputs import Labels
    from panes.slicing.results import Result

R = TypeVar("R", bound="QueryResults")

#: Where to look for what a run in this process would have known.
_ON_SPARK = {
    "late": "; of a stream on Spark, to_spark(late=True) gives late rows, each with its reason",
    "metrics": "; of a stream on Spark, pn.progress(running) has it, where running is what writeStream.start() gave",
}


class QueryResults(Collectable):
    """The results of windows over a stream."""

    def __init__(self, node: WindowsNode) -> None:
        self._node = node
        self._run: Run | None = None

    @classmethod
    def of(cls: type[R], source: Node, plan: QueryPlan) -> R:
        """Those of a plan over the rows of a node."""
        from panes.plan.graph import WindowsNode

        return cls(WindowsNode.of(source, plan))

    @property
    def _plan(self) -> QueryPlan:
        return self._node.plan

    def _over(self: R, plan: QueryPlan) -> R:
        """The same data under another plan."""
        return self.of(self._node.source, plan)

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns that tell one result from another: keys, `window`, bounds. See docs/storing.md.

        Columns that a `select` has renamed have their new names here; one that it left out is an error. Null is a
        value like any other: windows without an end differ in the rest. Of a relation or a join, all rows of a window
        have the same identity.
        """
        from panes.plan.identity import identity_columns

        return identity_columns(self._plan, "identity")

    def latest(self, *, progress: bool | None = None) -> Result:
        """Run over all the data; of each result only the newest revision, and none that was withdrawn.

        What an operator's `push` gives has a `latest()`, too, to keep a table up to date with.
        """
        from panes.plan.identity import told_apart
        from panes.slicing.identity import newest
        from panes.slicing.results import Result

        identity = told_apart(self._plan, "latest()")
        found = newest(self.to_arrow(progress=progress), identity, withdrawn=False)
        return Result(found, lambda: identity, self._labels)

    def _labels(self) -> Labels:
        from panes.slicing.running import RunningQuery
        from panes.state.journal import Journal

        return RunningQuery(self._plan.operator_spec(), Journal()).labels()

    def to_spark(
        self,
        *,
        strategy: str | None = None,
        late: bool = False,
        key_groups: int = 16,
        restore: bytes | Sequence[bytes] | None = None,
        trusted: bool = False,
        sequence: str | None = None,
        latest: bool = False,
        close: str | None = None,
    ) -> DataFrame:
        """The results as a Spark DataFrame: streaming if the data is, else static.

        - `strategy`: by name, instead of the one that the planner finds cheapest; see `explain()`.
        - `late`: also give rows that no result uses, with `late_reason` and the row itself in `late_row`.
        - `key_groups`: into how many parts the state of a stream is divided; fixed for the life of a checkpoint.
        - `restore`: start from a snapshot of an operator, or from its parts.
        - `trusted`: these bytes are as you wrote them, and pickles of your own code in them may be read.
        - `sequence`: a column by which rows with the same time are ordered, within a micro-batch or a static frame;
          without it Spark's input partitions give the order.
        - `latest`: of what a micro-batch gives, only the newest revision of each identity, void ones too: delete what
          a table has of these identities, then insert those that are not void. See docs/storing.md.
        - `close`: windows of a stream are given when Spark's own would be: rows are judged by the watermark of the
          micro-batch before. `"at once"` gives them with the micro-batch whose rows close them, one sooner, and calls
          late what comes behind.
        """
        from panes.runners.spark.frames import query_frame

        if self._node.pushed:
            raise QueryError("to_spark(): this stream has no data of its own; give pn.stream(data, ...) a DataFrame")
        return query_frame(
            self._node,
            strategy=strategy,
            late=late,
            key_groups=key_groups,
            restore=restore,
            trusted=trusted,
            sequence=sequence,
            latest=latest,
            close=close,
        )

    def to_cql(self, name: str = "data") -> str:
        """The query as CQL: `pn.sql(text, {name: data})` gives the same results."""
        from panes.cql.write import query_text

        return query_text(self._node, name)

    @property
    def late(self) -> pa.Table:
        """Rows of the last run that no result uses, each with its `reason`: late ones and unreadable ones.

        The newest `keep_late` of the stream are held; `metrics` counts all.

        If the stream is made of other queries (`query.stream()`), also rows that those did not use: their columns
        are null here, and the reason holds the row as text.
        """
        return self._last("late").late()

    @property
    def metrics(self) -> Any:
        """Counts of the last run: rows in, used, late (by reason), results, slices and more."""
        return self._last("metrics").metrics()

    def plot(self, path: str | os.PathLike[str] | None = None, *, results: pa.Table | None = None) -> Any:
        """Results over time, rows behind them where they are few, and late rows; runs the query if it has not run.

        `path` ending in .png gives an image, in .html a page whose marks say what they are when the pointer is on
        them. Without a path the matplotlib figure is returned, which notebooks show. `results`: draw these, which a
        run elsewhere has given, on Spark for instance.

        Drawn are the results that `where` (or HAVING) leaves. What follows a `select` is not drawn, since its columns
        need not be those of windows: the picture shows the results as they were before it, and says so.
        """
        from panes.runners.local.plot import check_plot, plot, steps_drawn, steps_said

        check_plot(path)
        if results is not None:
            return plot(self._plan, results, None, 0, path)
        steps = steps_drawn(self._plan)
        query = self if len(steps) == len(self._plan.steps) else self._over(replace(self._plan, steps=steps))
        run = query._run
        if run is None or run.given is None or (run.trace is None and run.repeatable):
            run = query._start(None, trace=True)
            run.table()
        assert run.given is not None
        return plot(query._plan, run.given, run.trace, run.unused, path, said=steps_said(self._plan))

    def explain(self) -> Explanation:
        """What the query costs and why: window classes, slices, who shares what, the strategy chosen."""
        from panes.connectors.frames import in_spark
        from panes.plan.explain import explain_query

        explained = explain_query(self._node)
        if not in_spark(self._node):
            return explained
        from panes.runners.spark.frames import explain_on_spark

        return explain_on_spark(explained, self._node)

    def operator(
        self, restore: bytes | Sequence[bytes] | None = None, *, trusted: bool = False, store: str = "auto"
    ) -> SliceOperator:
        """A running operator to push rows to; `restore` continues from a snapshot, or from parts by key group.

        It gives results after `where`, `select` and `order_by`. These hold no state: a snapshot of a query can be
        restored with others. Restored from parts, it holds their key groups and refuses rows of others.

        - `trusted`: the bytes are as you wrote them. What your own windows, aggregates and policies keep is pickled,
          and reading a pickle runs whatever code is in it; without `trusted` such bytes are refused.
        """
        from panes.runtime.nodes import make_operator

        return make_operator(
            self._plan, restore=restore, store=store, trusted=trusted, keep_late=self._plan.stream.keep_late
        )

    def key_group(self, *key: Any, **named: Any) -> int:
        """The key group, 0..127, of a key: its values in the order of the key columns, or by their names.

        The same in every process: it says which part of a snapshot, or which operator, a row belongs to. Without a
        key, all rows are in group 0.
        """
        from panes.slicing.key_groups import key_group

        stream = self._plan.stream
        return key_group({name: stream.schema.field(name).type for name in stream.keys}, key, named)

    def _start(self, progress: bool | None, *, trace: bool = False) -> Run:
        from panes.runners.local.runner import Run

        if self._node.pushed:
            raise QueryError(
                "this stream has no data of its own, so there is nothing to run: give pn.stream(data, ...), "
                "or push rows to query.operator()"
            )
        self._run = Run(self._node, progress=progress, trace=trace)
        return self._run

    def _last(self, what: str) -> Run:
        from panes.connectors.frames import in_spark

        if self._run is None:
            elsewhere = _ON_SPARK[what] if in_spark(self._node) else ""
            raise QueryError(
                f"{what} is known after a run: call to_arrow(), to_pandas(), to_polars() or rows() first{elsewhere}"
            )
        return self._run

    def __repr__(self) -> str:
        labels = ", ".join(label for label, _ in self._plan.windows)
        outputs = ", ".join(self._plan.outputs)
        steps = "".join(f"; {step}" for step in self._plan.steps)
        return f"<Query of {outputs} over {labels}{steps}>"

    def _repr_html_(self) -> str:
        from panes.slicing.showing import html_rows

        plan = self._plan
        data = str(self._node.source)
        windows = html_rows(("window", ""), [(label, repr(window)) for label, window in plan.windows])
        columns = html_rows(("gives", "type"), [(f.name, str(f.type)) for f in plan.shape.schema])
        steps = "".join(f"<p>{escape(str(step))}</p>" for step in plan.steps)
        return f"<p>Query over {escape(data)}</p>{windows}{columns}{steps}"
