"""What the planner knows of a strategy: when it applies, what it costs, what it can't do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from panes.plan.query import QueryPlan
from panes.runners.spark.group_operator import GroupQuery, used_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class StrategyJob:
    """A query, the frame it reads, and what was asked for."""

    plan: QueryPlan
    frame: DataFrame
    late: bool = False  # late rows too
    key_groups: int = 16
    restore: tuple[bytes, ...] = ()
    trusted: bool = False
    #: the frame has its watermark already, one for each of the streams that it is merged of
    marked: bool = False
    #: the rows are results of windows, which come when the watermark has passed them
    passed: bool = False
    #: the results are rows of another query
    inside: bool = False
    #: a column that gives rows of the same time their order
    sequence: str | None = None
    #: of what a micro-batch gives, only the newest revision of each identity
    latest: bool = False
    #: windows are given with the rows that close them, and not when Spark's own would be
    at_once: bool = False
    #: frames by the name of the strategy that was tried: trying is building, and needs doing once
    built: dict[str, DataFrame] = field(default_factory=dict, compare=False, repr=False)

    @property
    def streaming(self) -> bool:
        return bool(self.frame.isStreaming)

    @property
    def clocked(self) -> bool:
        """Whether the clock moves the watermark, when no rows come, of a stream."""
        alone = not (self.marked or self.passed or self.inside)
        return self.streaming and alone and self.plan.stream.silence.patience is not None

    @property
    def clock_file(self) -> str | None:
        """Where a clock for tests has the time for other processes."""
        clock = self.plan.stream.silence.clock
        return None if clock is None else str(clock.path)  # type: ignore[attr-defined]


def _facts(job: StrategyJob) -> dict[str, Any]:
    return GroupQuery(job.plan, used_columns(job.plan, job.sequence), job.sequence).facts(job.key_groups)


@dataclass(frozen=True)
class Strategy:
    """One way to run a query on Spark. `refuses` says why it can't run a job; None: it can."""

    name: str
    summary: str
    applies: str
    costs: str
    limits: str
    refuses: Callable[[StrategyJob], str | None]
    cost: Callable[[StrategyJob], float]
    build: Callable[[StrategyJob], Any]
    #: what must stay the same for the checkpoint of a stream to be of use
    facts: Callable[[StrategyJob], dict[str, Any]] = _facts

    def card(self) -> str:
        return "\n".join(
            [
                f"{self.name}: {self.summary}",
                f"  applies  {self.applies}",
                f"  costs    {self.costs}",
                f"  limits   {self.limits}",
            ]
        )
