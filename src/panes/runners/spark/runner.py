"""`query.to_spark()`: chooses a strategy and builds the frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from panes.errors import QueryError
from panes.plan.graph import given_at_end, queries_in
from panes.plan.hints import did_you_mean
from panes.plan.identity import told_apart
from panes.plan.query import QueryPlan, StreamPlan
from panes.runners.spark.check import check_session, check_silence
from panes.runners.spark.event_time import EventTime
from panes.runners.spark.flows import step_frame
from panes.runners.spark.operator_frames import GraphRows, one_step, operator_frame
from panes.runners.spark.strategies.card import Strategy, StrategyJob
from panes.runners.spark.strategies.key_groups import KEY_GROUPS
from panes.runners.spark.strategies.native import NATIVE
from panes.runners.spark.strategies.native_overlaps import NATIVE_OVERLAPS
from panes.runners.spark.strategies.native_sessions import NATIVE_SESSIONS
from panes.runners.spark.strategies.policy_central import POLICY_CENTRAL
from panes.runners.spark.strategies.policy_parallel import POLICY_PARALLEL
from panes.runners.spark.stream_frames import watched
from panes.slicing.keys import KEY_GROUPS as MOST_GROUPS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: What `close` may be: windows are given with the micro-batch that closes them, one sooner than Spark's own.
AT_ONCE = "at once"
STRATEGIES = (NATIVE, NATIVE_OVERLAPS, NATIVE_SESSIONS, KEY_GROUPS, POLICY_PARALLEL, POLICY_CENTRAL)


def to_spark(
    plan: QueryPlan,
    rows: GraphRows,
    *,
    strategy: str | None = None,
    late: bool = False,
    key_groups: int = 16,
    restore: bytes | Sequence[bytes] | None = None,
    trusted: bool = False,
    inside: bool = False,
    sequence: str | None = None,
    latest: bool = False,
    close: str | None = None,
) -> DataFrame:
    """The results of a query as a Spark frame."""
    if close not in (None, AT_ONCE):
        raise QueryError(
            f"close={close!r}: leave it out, and windows of a stream are given when Spark's own would be, or say "
            f"{AT_ONCE!r}, and they are given with the rows that close them"
        )
    if latest:
        told_apart(plan, "to_spark(latest=True)")  # or it says which column is missing
    if not isinstance(key_groups, int) or not 1 <= key_groups <= MOST_GROUPS:
        raise QueryError(f"key_groups must be a whole number from 1 to {MOST_GROUPS}; got {key_groups!r}")
    _check_early(plan, rows)
    blobs = () if restore is None else (restore,) if isinstance(restore, bytes) else tuple(restore)
    if one_step(rows):
        _check_step(strategy, restore)
        given = operator_frame(
            rows,
            sequence,
            windows=replace(plan, steps=()),
            late=late,
            key_groups=key_groups,
            inside=inside,
            latest=latest,
        )
        return _with_steps(plan, given)
    frame, marked = _data(plan, rows)
    _check_sequence(plan, sequence)
    marked, passed = marked and bool(frame.isStreaming), rows.node.windowed and bool(frame.isStreaming)
    if passed:
        _check_passed(plan.stream, rows)
    bare = replace(plan, steps=())
    job = StrategyJob(
        bare, frame, late, key_groups, blobs, trusted, marked, passed, inside, sequence, latest, close == AT_ONCE
    )
    if job.streaming:
        check_silence(plan.stream, rows.node, alone=not (marked or passed or inside))
        check_session(frame.sparkSession, key_groups=key_groups)
    chosen = choose(job, strategy)
    given = chosen.build(job)
    if job.streaming and not inside:

        def remake(name: str) -> DataFrame:
            return to_spark(
                bare, rows, strategy=name, late=late, key_groups=key_groups, restore=restore, trusted=trusted,
                sequence=sequence, latest=latest, close=close,
            )  # fmt: skip

        facts = {
            **chosen.facts(job),
            "strategy": chosen.name,
            "inside": [each.plan.operator_spec().whole_identity for each in queries_in(rows.node)],
        }
        return _with_steps(plan, watched(given, facts, remake if strategy is None else None))
    return _with_steps(plan, given)


def _with_steps(plan: QueryPlan, given: DataFrame) -> DataFrame:
    return step_frame(plan.steps, plan.given.schema, given) if plan.steps else given


def _check_early(plan: QueryPlan, rows: GraphRows) -> None:
    if plan.early is None:
        return
    if plan.early.clock is not None:
        raise QueryError(
            "early(..., clock=True): on Spark micro-batches come by the clock: say early('batch'), and how often with "
            ".trigger(processingTime='1 second')"
        )
    if plan.early.by_batch and one_step(rows):
        raise QueryError(
            "early('batch'): windows over what operators give of a stream, or over results of windows that are put "
            "together, can't be given by micro-batch"
        )


def _check_step(strategy: str | None, restore: Any) -> None:
    what = "windows over what operators give of a stream, or over results of windows that are put together,"
    if strategy not in (None, KEY_GROUPS.name):
        raise QueryError(f"strategy={strategy!r}: {what} run as one step, which is {KEY_GROUPS.name!r}")
    if restore is not None:
        raise QueryError(f"restore=: {what} can't begin with a snapshot")


def _check_sequence(plan: QueryPlan, sequence: str | None) -> None:
    if sequence is None:
        return
    schema = plan.stream.schema
    if sequence not in schema.names:
        raise QueryError(f"sequence={sequence!r}: there is no such column{did_you_mean(str(sequence), schema.names)}")
    if pa.types.is_nested(schema.field(sequence).type):
        raise QueryError(f"sequence={sequence!r} must be a column of single values, which have an order")


def _data(plan: QueryPlan, rows: GraphRows) -> tuple[DataFrame, bool]:
    """The rows, and whether each of the streams that they are merged of has its watermark.

    Times of arrival are those of one clock, whichever stream rows come from, so there one watermark will do.
    """
    frame = None if plan.stream.silence.arrives else rows.marked(rows.node, plan.stream)
    return rows.frame() if frame is None else frame, frame is not None


def _check_passed(stream: StreamPlan, rows: GraphRows) -> None:
    """Refuse windows over results of windows on a stream, unless these come when the watermark passes their time."""
    inside = given_at_end(rows.node, stream.time)
    if isinstance(inside, StreamPlan):
        times = [replace(EventTime.of(each), bound=0) for each in (inside, stream)]
        inside = "the times of the two are not in the same unit" if times[0] != times[1] else ""
    if inside:
        raise QueryError(
            f"to_spark(): windows over the results of these windows can't be one streaming query: {inside}. Write "
            "those of the inner query to a table, and read it as a stream of its own"
        )


def choose(job: StrategyJob, name: str | None = None) -> Strategy:
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
