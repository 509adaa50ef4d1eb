"""What operators make of streams: `stream.sort(...)`, `dedupe`, `aggregate`, `match`, `punctuate`, `apply`.

Each gives a stream, to put further operators or windows on. Operators look at rows as they arrive, with windows that
hold the last so many rows, or rows of the last so much time (`pn.operators`); the windows of `stream.window(...)` are
stretches of event time, and wait for late rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from panes.errors import QueryError

if TYPE_CHECKING:
    from panes.aggregates.base import Aggregate
    from panes.api.stream import Stream
    from panes.operators.clauses import Clause
    from panes.operators.user import Operator
    from panes.plan.graph import Node, OperateNode
    from panes.plan.matching import Predicate
    from panes.plan.names import Given
    from panes.plan.operator_plan import OperatorPlan
    from panes.plan.query import StreamPlan
    from panes.runners.local.push_operator import PushOperator


class Matched(NamedTuple):
    """The streams of a match that keeps rows without a partner apart."""

    matches: Stream
    left: Stream
    right: Stream


class StreamOperators(ABC):
    """The operators of a stream."""

    _node: Node
    _plan: StreamPlan

    @abstractmethod
    def _of_operator(self, node: OperateNode) -> Stream:
        """The stream that an operator gives."""

    def sort(self, *by: str, window: Clause) -> Stream:
        """The rows in order of some columns, as far as a window sees: `sort("ts", window=sliding(count(100)))`.

        - `by`: columns or SQL, with ASC or DESC, NULLS FIRST or NULLS LAST after it.
        - `window`: tumbling gives each window in order when it is full; sliding holds rows back, and gives the first
          in order each time one leaves, so that rows come in order if their disorder is less than the window.

        No row is lost: at the end all that wait are given. Sorted by its time, the stream is in order from here on;
        otherwise its time is `result_time`, when rows were given. (`query.order_by` orders the results of windows.)
        """
        from panes.plan.operator_plan import plan_sort

        return self._apply(plan_sort(self._plan, window, by))

    def dedupe(self, *on: str, window: Clause) -> Stream:
        """Rows that are the first of their values in a window: `dedupe("id", window=sliding(time("10 min")))`.

        - `on`: columns or SQL whose values make rows equal; none: all columns of the stream.
        - `window`: every row enters it, given or not.
        """
        from panes.plan.operator_plan import plan_dedupe

        return self._apply(plan_dedupe(self._plan, window, on or self._plan.columns))

    def aggregate(
        self,
        /,
        *,
        window: Clause,
        group_by: str | Sequence[str] | Mapping[str, str] = (),
        partial: bool = False,
        **outputs: str | Aggregate,
    ) -> Stream:
        """Aggregates of a window of the last rows, each time it is full or triggers.

        - `window`: `tumbling(count(100))`, `sliding(count(100), every=count(10))` and so on.
        - `group_by`: one result for each group of rows in the window.
        - `partial`: also give sliding windows before they are first full, and what tumbling ones hold at the end.
        - `outputs`: SQL or aggregates, as in `agg`.

        The result has the keys of the stream, the groups and the outputs; its time is `result_time`. Rows count in
        order of arrival; for windows of event time with late rows use `stream.window(...).agg(...)`.
        """
        from panes.plan.operator_plan import plan_aggregate

        return self._apply(plan_aggregate(self._plan, window, outputs, group_by=group_by, partial=partial))

    def match(
        self,
        other: Stream,
        *,
        window: Clause | tuple[Clause, Clause],
        on: Predicate | None = None,
        using: str | Sequence[str] = (),
        how: str = "inner",
        entries: Given | Sequence[Given] | Mapping[str, Given] = "*",
        names: tuple[str, str] = ("l", "r"),
        ties: str = "arrival",
    ) -> Stream:
        """Each row, when it arrives, with the rows of the other stream's window that it matches.

        - `window`: sliding, for both streams or one for each: `sliding(time("10 s"))`. `sliding(count(0))` keeps
          nothing: its rows look up those of the other stream, and are never looked up.
        - `on`: SQL over both rows, "l.id = r.id AND l.price > r.low", or a function of two dicts. Parts that say
          that something of one row equals something of the other are found and indexed.
        - `using`: columns of the same name that must be equal; they are one column of the result.
        - `how`: inner, left, right or full: also rows that leave their window without ever having matched, with
          nulls in the columns of the other stream. `match_apart` gives them as streams of their own.
        - `entries`: what to select, as in `pn.join`.
        - `ties`: of a one-sided match, whether a row that looks up sees rows with its very own time: "include",
          "exclude", or "arrival": as they come, of two streams the left one first. Rows that are pushed, and those
          of sockets, meet in the order in which they come.

        Streams with keys have a window for each key, and only rows of the same key match. The time of the result is
        `result_time`. Unlike `pn.join`, which joins rows that lie in the same window of event time once it is
        complete, a match gives each pair as soon as the later row arrives.
        """
        plan = _match(self, other, window, on, using, how, "inline", entries, names, ties)
        return self._apply(plan, other)

    def match_apart(
        self,
        other: Stream,
        *,
        window: Clause | tuple[Clause, Clause],
        on: Predicate | None = None,
        using: str | Sequence[str] = (),
        how: str = "full",
        entries: Given | Sequence[Given] | Mapping[str, Given] = "*",
        names: tuple[str, str] = ("l", "r"),
        ties: str = "arrival",
    ) -> Matched:
        """`match` with rows that never matched as streams of their own: `.matches`, `.left` and `.right`.

        Each of the streams runs the match by itself when it is read.
        """
        plan = _match(self, other, window, on, using, how, "apart", entries, names, ties)
        first = _operate(plan, [self, other])
        return Matched(*(self._of_operator(first.output(port)) for port in range(3)))

    def punctuate(self, when: str, *, before: bool = False) -> Stream:
        """The same rows with a window punctuation after (or before) each for which the SQL condition is true.

        Punctuations end the windows `tumbling(punct())` of operators that read the stream.
        """
        from panes.plan.operator_plan import plan_punctuate

        return self._apply(plan_punctuate(self._plan, when, before))

    def apply(
        self,
        operator: Operator,
        *others: Stream,
        window: Clause | Mapping[str, Clause] | None = None,
    ) -> Stream:
        """An operator of your own over this stream and others; see `pn.operators.Operator`.

        - `window`: for the first input, or by the names of inputs.
        """
        from panes.plan.user_operator import plan_user

        _check_streams([self, *others], "apply")
        return self._apply(plan_user([s._plan for s in (self, *others)], operator, window), *others)

    def operator(self, restore: bytes | None = None, *, trusted: bool = False, mechanism: str = "auto") -> PushOperator:
        """The operator that gives this stream, to push rows to; `restore` continues from a snapshot.

        Rows are those of the streams that it reads: of a chain of operators it is the last. `mechanism`: "columns"
        (compiled, over batches) or "windows" (row by row) instead of what is faster; a snapshot goes on with the
        mechanism that it was taken with. `trusted`: the bytes are as you wrote them, and what your own operator keeps,
        which is pickled, may be read.
        """
        from panes.plan.flow import Flow
        from panes.plan.graph import OperateNode
        from panes.runners.local.push_operator import PushOperator

        node = self._node
        if not isinstance(node, OperateNode):
            raise QueryError(
                "operator(): this stream is not the result of an operator; windows have one, too: "
                "stream.window(...).agg(...).operator()"
            )
        return PushOperator(node.plan, node.port, Flow.of(self._plan), restore, mechanism, trusted)

    def _apply(self, plan: OperatorPlan, *others: StreamOperators) -> Stream:
        return self._of_operator(_operate(plan, [self, *others]))


def _check_streams(streams: Sequence[Any], what: str) -> None:
    for i, each in enumerate(streams):
        if not isinstance(each, StreamOperators):
            raise QueryError(f"{what}: argument {i} must be a stream; got {type(each).__name__}")


def _match(
    left: StreamOperators,
    right: Any,
    window: Clause | tuple[Clause, Clause],
    on: Predicate | None,
    using: str | Sequence[str],
    how: str,
    outer: str,
    entries: Any,
    names: tuple[str, str],
    ties: str,
) -> OperatorPlan:
    from panes.plan.matching import MatchClauses, plan_match

    _check_streams([left, right], "match")
    windows = tuple(window) if isinstance(window, tuple | list) else (window, window)
    if len(windows) != 2:
        raise QueryError(f"match: window must be one window for both streams, or two; got {len(windows)}")
    valid = isinstance(names, tuple | list) and len(names) == 2 and all(isinstance(n, str) and n for n in names)
    if not valid or names[0].lower() == names[1].lower():
        raise QueryError(f"match: names must be two names, for instance ('l', 'r'); got {names!r}")
    columns = (using,) if isinstance(using, str) else tuple(using)
    asked = MatchClauses(on, columns, how, outer, entries, (names[0], names[1]), ties)
    return plan_match([left._plan, right._plan], windows, asked)


def _operate(plan: OperatorPlan, streams: Sequence[StreamOperators]) -> OperateNode:
    from panes.plan.graph import OperateNode

    nodes = [stream._node for stream in streams]
    if any(node.pushed for node in nodes) and not all(node.pushed for node in nodes):
        raise QueryError("one stream has data and the other does not; give all of them data, or none")
    return OperateNode.of(nodes, plan)
