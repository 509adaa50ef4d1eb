"""`query.to_spark()`: chooses a strategy and builds the frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from panes.errors import QueryError
from panes.plan.query import QueryPlan
from panes.runners.spark.check import check_session
from panes.runners.spark.strategies.card import Job, Strategy
from panes.runners.spark.strategies.key_groups import KEY_GROUPS
from panes.runners.spark.strategies.native import NATIVE
from panes.runners.spark.strategies.native_sessions import NATIVE_SESSIONS
from panes.slicing.keys import KEY_GROUPS as MOST_GROUPS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STRATEGIES = (NATIVE, NATIVE_SESSIONS, KEY_GROUPS)


def to_spark(
    plan: QueryPlan,
    frame: DataFrame,
    *,
    strategy: str | None = None,
    late: bool = False,
    key_groups: int = 16,
    restore: bytes | Sequence[bytes] | None = None,
) -> DataFrame:
    """The results of a query over a Spark frame, as a Spark frame."""
    if not isinstance(key_groups, int) or not 1 <= key_groups <= MOST_GROUPS:
        raise QueryError(f"key_groups must be a whole number from 1 to {MOST_GROUPS}; got {key_groups!r}")
    blobs = () if restore is None else (restore,) if isinstance(restore, bytes) else tuple(restore)
    job = Job(plan, frame, late, key_groups, blobs)
    if job.streaming:
        check_session(frame.sparkSession, key_groups=key_groups)
    return choose(job, strategy).build(job)


def choose(job: Job, name: str | None = None) -> Strategy:
    """The cheapest strategy that can run the job, or the one that was asked for by name."""
    if name is not None:
        named = next((s for s in STRATEGIES if s.name == name), None)
        if named is None:
            raise QueryError(f"strategy={name!r}: there are {', '.join(s.name for s in STRATEGIES)}")
        reason = named.refuses(job)
        if reason is not None:
            raise QueryError(f"strategy={name!r} can't run this query: {reason}")
        return named
    return min((s for s in STRATEGIES if s.refuses(job) is None), key=lambda s: s.cost(job))
