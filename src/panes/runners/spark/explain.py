"""`query.explain()` on Spark: also the strategy chosen and why, and what Spark makes of the watermark."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, fields

from panes.errors import QueryError
from panes.plan.explain import Explanation
from panes.runners.spark.check import check_session
from panes.runners.spark.columns import session_problems
from panes.runners.spark.event_time import EventTime
from panes.runners.spark.runner import STRATEGIES, choose
from panes.runners.spark.session import SHUFFLE_PARTITIONS
from panes.runners.spark.strategies.card import Strategy, StrategyJob
from panes.runners.spark.strategies.key_groups import stream_groups


@dataclass(frozen=True)
class Choice:
    """A strategy, and what it would cost or why it can't run the query."""

    strategy: Strategy
    cost: float
    refusal: str | None

    def __str__(self) -> str:
        if self.refusal is not None:
            return f"can't: {self.refusal}"
        if math.isinf(self.cost):
            return "can, but only if asked for: on a stream it may call other rows late"
        return f"can, at {self.cost:.2g} times the cost of key_groups"


@dataclass(frozen=True)
class SparkExplanation(Explanation):
    """An explanation with the parts that only Spark has."""

    choices: tuple[Choice, ...]
    chosen: str
    key_groups: str
    watermark: str
    settings: tuple[str, ...]

    def __str__(self) -> str:
        width = max(len(c.strategy.name) for c in self.choices)
        settings = self.settings or ("nothing need change",)
        lines = [
            super().__str__(),
            "",
            "On Spark",
            f"  Chosen      {self.chosen}",
            *(f"  {'Strategies' * (i == 0):<10}  {c.strategy.name:<{width}}  {c}" for i, c in enumerate(self.choices)),
            f"  Key groups  {self.key_groups}",
            f"  Watermark   {self.watermark}",
            *(f"  {'Settings' * (i == 0):<10}  {said}" for i, said in enumerate(settings)),
            "",
            "Strategies of the Spark runner",
            *("  " + line for c in self.choices for line in c.strategy.card().splitlines()),
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)


def explain(embedded: Explanation, job: StrategyJob, *, in_one_step: bool = False) -> SparkExplanation:
    """What is known of a query, and how Spark would run it; `in_one_step`: with all that its stream is made of."""
    refusals = [s.refuses(job) for s in STRATEGIES]
    choices = tuple(Choice(s, math.inf if r else s.cost(job), r) for s, r in zip(STRATEGIES, refusals))
    return SparkExplanation(
        **{f.name: getattr(embedded, f.name) for f in fields(Explanation)},
        choices=choices,
        chosen=_chosen(job, choices),
        key_groups=_key_groups(job, in_one_step),
        watermark=_watermark(job),
        settings=_settings(job),
    )


def _chosen(job: StrategyJob, choices: tuple[Choice, ...]) -> str:
    name = choose(job).name
    able = [c for c in choices if c.refusal is None]
    if len(able) == 1:
        return f"{name}, the only one that can run this query"
    return f"{name}, the cheapest of the {len(able)} that can run this query"


def _key_groups(job: StrategyJob, in_one_step: bool) -> str:
    partitions = job.frame.sparkSession.conf.get(SHUFFLE_PARTITIONS, "200")
    kept = "fixed for the life of a checkpoint" if job.streaming else "a static frame keeps no state"
    if in_one_step:
        return f"1 for key_groups, with the operators or windows whose results these windows are over; {kept}"
    groups = stream_groups(job.plan, job.key_groups)
    if groups < job.key_groups:
        kept = f"central policies look at the rows of all keys; {kept}"
    return f"{groups} for key_groups, over {partitions} shuffle partitions; {kept}"


def _watermark(job: StrategyJob) -> str:
    if not job.streaming:
        return "a static frame has none: no row is late, and the end of the data makes all windows due"
    try:
        time = EventTime.of(job.plan.stream)
    except QueryError as error:
        return f"can't be: {error}"
    column = job.plan.stream.time
    stands = f"{column} as milliseconds, shifted to be positive" if time.shift else column
    return (
        f"largest {stands} of all micro-batches before, minus {time.bound} ms; "
        "a row is late if it is behind the watermark of its micro-batch"
    )


def _settings(job: StrategyJob) -> tuple[str, ...]:
    """Settings of the session that should change, each with the reason."""
    said = [f"{problem}; the native strategies are refused" for problem in session_problems(job.frame.sparkSession)]
    if job.streaming:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            try:
                check_session(job.frame.sparkSession, key_groups=job.key_groups)
            except QueryError as error:
                said.append(str(error))
        said += [str(warning.message) for warning in found]
    return tuple(said)
