"""Streams put together: `pn.merge(...)`, and `pn.join(trades, quotes, window=pn.tumbling("1 s"), using="symbol")`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from panes.api.stream import Query, Stream
from panes.errors import QueryError

if TYPE_CHECKING:
    from panes.plan.clauses import RelationClauses
    from panes.plan.names import Given
    from panes.plan.relation_query import JoinClause
    from panes.windows.base import Window


def merge(*streams: Stream) -> Stream:
    """The rows of several streams as one, in the order in which they arrive.

    All must have the same columns, time and keys. Streams that are in order give one that is in order of time.
    """
    from panes.plan.graph import MergeNode
    from panes.plan.together import merge_plans

    for i, given in enumerate(streams):
        if not isinstance(given, Stream):
            raise QueryError(f"merge: argument {i + 1} must be a stream; got {type(given).__name__}")
    plan, names = merge_plans([s._plan for s in streams])
    sides = [s._selected(f"merge: stream {i + 1}", names) for i, s in enumerate(streams)]
    return Stream(MergeNode.of(sides, plan.time), plan)


def join(
    left: Stream,
    right: Stream,
    *,
    window: Window | Mapping[str, Window],
    how: str = "inner",
    on: Given | None = None,
    using: str | Sequence[str] = (),
    entries: Given | Sequence[Given] | Mapping[str, Given] = "*",
    where: Given | None = None,
    group_by: Given | Sequence[Given] = (),
    having: Given | None = None,
    order_by: Given | Sequence[Given] = (),
    limit: int | None = None,
    distinct: bool = False,
    names: tuple[str, str] = ("l", "r"),
    emit_empty: bool = False,
) -> Query:
    """Rows of two streams that lie in the same window, joined.

    - `window`: on time, for both streams; or several, by label.
    - `how`: inner, left, right, full or cross.
    - `on`: a condition, columns qualified by the names of the streams: "l.id = r.id AND l.price > r.low".
    - `using`: columns of the same name that must be equal; they are one column of the result.
    - `names`: what the streams are called in expressions.
    - the others: as in `relation`, over the joined rows of each window.

    Streams with keys are joined key by key, and must have the same ones. A window is given once it is complete in
    both streams. Null is equal to nothing, as in SQL.

    >>> import panes as pn
    >>> trades = pn.stream([{"ts": 1, "id": 1, "price": 10}, {"ts": 2, "id": 2, "price": 20}], time="ts")
    >>> quotes = pn.stream([{"ts": 2, "id": 2, "bid": 19}], time="ts")
    >>> joined = pn.join(trades, quotes, window=pn.tumbling(3), how="left", using="id", entries=["id", "price", "bid"])
    >>> [(row["id"], row["price"], row["bid"]) for row in joined.rows()]
    [(1, 10, None), (2, 20, 19)]
    """
    from panes.plan.clauses import RelationClauses
    from panes.plan.relation_query import JoinClause

    if not (isinstance(names, tuple | list) and len(names) == 2):
        raise QueryError(f"join: names must be two names, for instance ('l', 'r'); got {names!r}")
    columns = (using,) if isinstance(using, str) else tuple(using)
    asked = RelationClauses(entries, where, group_by, having, order_by, limit, distinct)
    sides = list(zip(names, (left, right)))
    return join_streams(sides, [JoinClause(how, on, columns)], window, asked, emit_empty=emit_empty)


def join_streams(
    streams: Sequence[tuple[str, Stream]],
    clauses: Sequence[JoinClause],
    window: Window | Mapping[str, Window],
    asked: RelationClauses,
    *,
    emit_empty: bool = False,
) -> Query:
    """Two or more named streams, each after the first joined to those before it as its clause says."""
    from panes.plan.graph import MergeNode, PushedNode, TagNode
    from panes.plan.names import JoinSide
    from panes.plan.relation_query import plan_sides
    from panes.plan.together import JoinClauses, check_clauses, check_windows, stream_of_sides

    for i, (name, stream) in enumerate(streams):
        if not isinstance(stream, Stream):
            raise QueryError(f"join: argument {i + 1} must be a stream; got {type(stream).__name__}")
        if not isinstance(name, str) or not name or name.lower() in [n.lower() for n, _ in streams[:i]]:
            raise QueryError(f"join: every stream needs a name of its own; got {[n for n, _ in streams]}")
    plans = [stream._plan for _, stream in streams]
    sides = tuple(JoinSide.of(stream._plan, name) for name, stream in streams)
    plan, taggings = stream_of_sides(plans, sides)
    check_clauses(clauses, bool(plan.keys))
    windows = dict(window) if isinstance(window, Mapping) else {str(window): window}
    query = plan_sides(plan, windows, asked, sides, JoinClauses(clauses, plan.keys), emit_empty=emit_empty)
    check_windows(query.bound)
    nodes = [stream._node for _, stream in streams]
    pushed = [node.pushed for node in nodes]
    if all(pushed):
        return Query.of(PushedNode.of(plan.schema), query)
    if any(pushed):
        raise QueryError("join: one stream has data and the other does not; give both data, or neither")
    tagged = [TagNode.of(node, tagging, stream) for node, tagging, stream in zip(nodes, taggings, plans)]
    return Query.of(MergeNode.of(tagged, plan.time), query)
