"""The operator of a query, ready to run: the same in this process and in Spark's workers."""

from __future__ import annotations

from collections.abc import Sequence

from panes.errors import QueryError
from panes.plan.query import QueryPlan
from panes.runtime.rejects import Rejects
from panes.slicing.operator import SliceOperator


def make_operator(
    plan: QueryPlan,
    *,
    restore: bytes | Sequence[bytes] | None = None,
    store: str = "auto",
    trusted: bool = False,
    keep_late: int | None = None,
) -> SliceOperator:
    """An operator for the plan, empty or as it was when a snapshot (or its parts by key group) was taken.

    `keep_late`: how many rows that no result uses are held; None: all, for whoever takes them after each batch.
    """
    if plan.early is not None and plan.early.by_batch:
        raise QueryError(
            "early('batch'): micro-batches are Spark's, and this run has none; say how often, as in early('10 s')"
        )
    operator = SliceOperator(plan.operator_spec(store=store, keep_late=keep_late))
    return operator if restore is None else operator.restore(restore, trusted=trusted)


def pass_on(op: SliceOperator, rejects: Rejects) -> None:
    """What the query has not used, to whoever runs it."""
    for row in op.take_late().to_pylist():
        reason = row.pop("reason")
        rejects.add(f"{reason} in a query inside", str(row))
