"""A query that is ready to run: `Query`, with all the ways to look at its results."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from panes.answers import Answers
from panes.errors import QueryError
from panes.plan.hints import QUERY_HABITS, Hinted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from panes.plan.explain import Explanation
    from panes.plan.query import QueryPlan
    from panes.plan.steps import Shape, Step
    from panes.plan.streams import Duration
    from panes.runners.local.arrival import Arrival
    from panes.runners.local.runner import Run
    from panes.runners.local.source import Source
    from panes.slicing.operator import SliceOperator
    from panes.slicing.results import Result
    from panes.stream import Stream

#: Where to look for what a run in this process would have known.
_ON_SPARK = {
    "late": "; of a stream on Spark, to_spark(late=True) gives late rows, each with its reason",
    "metrics": "; of a stream on Spark, pn.progress(running) has it, where running is what writeStream.start() gave",
}


class Query(Answers, Hinted):
    """Windows and aggregates over a stream. Made by `stream(...).window(...).agg(...)`."""

    _habits = QUERY_HABITS
    _called = "a query"

    def __init__(self, plan: QueryPlan, source: Source | None) -> None:
        self._plan = plan
        self._source = source
        self._run: Run | None = None

    def where(self, condition: str) -> Query:
        """Only results for which the SQL condition is true, as HAVING does: `where("total > 100")`.

        It may look at every column of the results: keys, outputs, window, window_start and so on. A correction
        that makes a result fail is given as a withdrawal (`void`), so that nobody keeps what was given before.
        """
        from panes.plan.steps import Having

        return self._then(lambda shape: Having.of(shape, condition))

    def select(self, /, *columns: str, **expressions: str) -> Query:
        """Only these columns of the results, in this order; new ones as SQL: `select("symbol", mean="total / n")`."""
        from panes.plan.steps import Select

        return self._then(lambda shape: Select.of(shape, columns, expressions))

    def order_by(self, *keys: str) -> Query:
        """Order results that are due at the same time, that is with the same `window_end`: `order_by("total DESC")`.

        Those due earlier stay before them, so that a stream without end can be ordered, too. Each key is SQL, with
        ASC or DESC, NULLS FIRST or NULLS LAST after it.
        """
        from panes.plan.steps import Order

        return self._then(lambda shape: Order.of(shape, keys))

    def early(self, every: Duration, *, clock: bool = False) -> Query:
        """Give windows before they close, too: open ones as they stand, those that have changed since the last time.

        - `early("10 s")`: whenever the watermark passes a multiple of 10 s of event time.
        - `early("1 s", clock=True)`: every second by the clock, in a run that reads rows as they come (`rows()`). Of an
          operator, ask with `op.early()`.
        - `early("batch")`: on Spark, at the end of every micro-batch, as in Spark's update mode.

        Results get a column `final`: false as long as the window is open. `revision` counts everything that was given
        of a window, `void` withdraws a session whose bounds have changed. `latest()` has the newest of each.

        >>> import panes as pn
        >>> rows = [{"t": t, "v": 1} for t in (1, 4, 12, 14, 25)]
        >>> q = pn.stream(rows, time="t").window(pn.tumbling(20)).agg(n="count(*)").early(5)
        >>> [(r["window_start"], r["n"], r["revision"], r["final"]) for r in q.rows()]
        [(0, 3, 0, False), (0, 4, 1, True), (20, 1, 0, False), (20, 1, 1, True)]
        """
        from panes.plan.query import early_plan

        return Query(early_plan(self._plan, every, clock=clock), self._source)

    def stream(
        self,
        *,
        time: str | Arrival = "window_end",
        key: str | Sequence[str] | None = None,
        watermark: Duration | None = None,
        lateness: Duration | None = None,
        time_unit: str | None = None,
    ) -> Stream:
        """The results as a stream, to put windows over.

        `time` may be any column of the results; `window_end` also if `select` has left it out. Results come in its
        order. Those without one, of windows still open at the end, go to `late` if there are windows over them.
        The other arguments are those of `pn.stream`. Rows that this query does not use are in `late` of the run,
        as text.
        """
        from panes.composed import stream_of_query

        return stream_of_query(
            self._plan, self._source, time=time, key=key, watermark=watermark, lateness=lateness, time_unit=time_unit
        )

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
        return Result(newest(self.to_arrow(progress=progress), identity, withdrawn=False), lambda: identity)

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
        from panes.runners.spark.runner import to_spark

        if self._source is None:
            raise QueryError("to_spark(): this stream has no data of its own; give pn.stream(data, ...) a DataFrame")
        return to_spark(
            self._plan,
            self._source,
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

        return query_text(self._plan, self._source, name)

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

        `path` ending in .png gives an image, in .html an interactive page. Without a path the plotly figure
        is returned, which notebooks show. `results`: draw these, which a run elsewhere has given, on Spark
        for instance.

        Drawn are the results that `where` (or HAVING) leaves. What follows a `select` is not drawn, since its columns
        need not be those of windows: the picture shows the results as they were before it, and says so.
        """
        from panes.runners.local.plot import check_plot, plot, steps_drawn, steps_said

        check_plot(path)
        if results is not None:
            return plot(self._plan, results, None, 0, path)
        steps = steps_drawn(self._plan)
        query = self if len(steps) == len(self._plan.steps) else Query(replace(self._plan, steps=steps), self._source)
        run = query._run
        if run is None or run.given is None or (run.trace is None and run.repeatable):
            run = query._start(None, trace=True)
            run.table()
        assert run.given is not None
        return plot(query._plan, run.given, run.trace, run.unused, path, said=steps_said(self._plan))

    def explain(self) -> Explanation:
        """What the query costs and why: window classes, slices, who shares what, the strategy chosen."""
        from panes.plan.explain import explain
        from panes.runners.local.derived import explain_inputs

        silence = self._plan.stream.silence
        explained = explain(self.operator(), self._plan.steps, explain_inputs(self._source), silence)
        if self._source is None or not self._source.on_spark:
            return explained
        from panes.runners.spark.explain import explain as explain_on_spark
        from panes.runners.spark.operator_frames import over_operators
        from panes.runners.spark.source import frame_of
        from panes.runners.spark.strategies.card import Job

        job = Job(replace(self._plan, steps=()), frame_of(self._source))
        return explain_on_spark(explained, job, over_operators=over_operators(self._source))

    def operator(
        self, restore: bytes | Sequence[bytes] | None = None, *, trusted: bool = False, store: str = "auto"
    ) -> SliceOperator:
        """A running operator to push rows to; `restore` continues from a snapshot, or from parts by key group.

        It gives results after `where`, `select` and `order_by`. These hold no state: a snapshot of a query can be
        restored with others. Restored from parts, it holds their key groups and refuses rows of others.

        - `trusted`: the bytes are as you wrote them. What your own windows, aggregates and policies keep is pickled,
          and reading a pickle runs whatever code is in it; without `trusted` such bytes are refused.
        """
        from panes.runners.local.runner import make_operator

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

    def _then(self, step: Callable[[Shape], Step]) -> Query:
        return Query(self._plan.then(step(self._plan.shape)), self._source)

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
            elsewhere = _ON_SPARK[what] if self._source is not None and self._source.on_spark else ""
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
        data = "pushed rows" if self._source is None else str(self._source)
        windows = html_rows(("window", ""), [(label, repr(window)) for label, window in plan.windows])
        columns = html_rows(("gives", "type"), [(f.name, str(f.type)) for f in plan.shape.schema])
        steps = "".join(f"<p>{escape(str(step))}</p>" for step in plan.steps)
        return f"<p>Query over {escape(data)}</p>{windows}{columns}{steps}"
