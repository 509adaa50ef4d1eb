"""The main workloads of `make bench`, Panes only, sized so that a pass takes some tenths of a second."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from bench import data
from bench.against.work import Pass, Work, timed
from bench.contenders import Contender, EngineRunner, engine, panes_operator
from bench.rivals import Query, Session
from bench.workloads.common import concurrent, due_together, w1_queries

#: Rows of event time per second, as in the other workloads.
RATE = 100_000
SMALL = 1_000


def _contender(make: Callable[[int], tuple[Any, Any]], own: int, rows: int | None) -> Callable[[], Pass]:
    """Passes over batches by a contender, which `make` gives for a number of rows."""
    contender, batches = make(rows or own)
    return lambda: timed(contender.start(), batches)


def _windows(
    rows: int,
    *,
    queries: Callable[[], list[Query]],
    aggregate: str = "sum",
    keys: int = 0,
    late: bool = False,
    rate: int = RATE,
    gaps: bool = False,
    batch: int = 100_000,
) -> tuple[Any, Any]:
    stream = data.steady(rows, rate=rate)
    if gaps:
        stream = data.with_gaps(stream)
    if keys:
        stream = data.with_keys(stream, keys)
    if late:
        stream = data.late(stream)
    return engine(queries(), aggregate, delay=stream.delay, keyed=bool(keys)), stream.batches(batch)


def _session() -> list[Query]:
    return [Session(1000)]


class _Pushing(EngineRunner):
    """What is pushed are not batches of the benchmark, but dicts or Arrow."""

    def step(self, batch: Any) -> Any:
        return self.operator.push(batch)

    def digest(self, outputs: Sequence[Any]) -> tuple[int, float]:
        return super().digest([out for out in outputs if len(out)])  # most rows give nothing


def _pushed_alone(rows: int | None, *, queries: Callable[[], list[Query]], own: int) -> Callable[[], Pass]:
    """Rows pushed one by one as dicts."""
    stream = data.steady(rows or own, rate=1_000)
    dicts = [{"ts": t, "v": v} for t, v in zip(stream.times.tolist(), stream.values.tolist())]
    return lambda: timed(_Pushing(panes_operator(queries(), "sum")), dicts)


def _policy(rows: int | None, *, window: str, own: int) -> Callable[[], Pass]:
    import panes as pn
    from bench.workloads import policies

    batches = list(policies.batches(rows or own))

    def start() -> _Pushing:
        stream = pn.stream(None, schema={"ts": "bigint", "v": "double"}, time="ts")
        return _Pushing(stream.window(w=policies.WINDOWS[window]).agg(x="max(v)").operator())

    return lambda: timed(start(), batches)


def _form(rows: int | None, *, group: str, window: str, own: int) -> Callable[[], Pass]:
    """A window of which there are others, written with other words."""
    import panes as pn
    from bench import forms

    parts = forms.batches(rows or own, 100, forms.BATCH)

    def start() -> _Pushing:
        stream = pn.stream(None, schema={"ts": "bigint", "k": "bigint", "v": "double"}, time="ts", key="k")
        return _Pushing(stream.window(w=forms.GROUPS[group][window]).agg(n="count(*)", x="sum(v)").operator())

    return lambda: timed(start(), parts)


def _late(kept: int | None, *, window: str, keys: int, own: int) -> Callable[[], Pass]:
    """Late rows one at a time and in batches, with so much kept; what came before them is off the clock."""
    from bench.workloads.late import MANY, Case

    case = Case(window, "sum, count, mean", keys, kept or MANY)
    inputs = [*([row] for row in case.late(own)), *case.mixed(1 + own // 100)]
    return lambda: timed(_Pushing(case.filled(), "s"), inputs)


def _join(rows: int) -> tuple[Any, Any]:
    from bench.workloads.operators import PanesRunner, pairs

    return Contender("join", lambda: PanesRunner("auto")), pairs(rows)


def _aggregate(rows: int) -> tuple[Any, Any]:
    from bench.workloads.operators import KEYS, AggregateRunner

    stream = data.with_keys(data.steady(rows, rate=RATE), KEYS)
    return Contender("aggregate", lambda: AggregateRunner("auto")), stream.batches()


def _work(name: str, title: str, rows: int, **options: Any) -> Work:
    return Work(name, title, partial(_contender, partial(_windows, **options), rows))


WORKS: tuple[Work, ...] = (
    _work("w1", "21 windows, sum", 10_000_000, queries=w1_queries),
    _work("w1-late", "21 windows, sum, 20 % late", 5_000_000, queries=w1_queries, late=True),
    _work("w1-keys", "21 windows, 1,000 keys", 5_000_000, queries=w1_queries, keys=1_000),
    _work("w1-many-keys", "21 windows, 100,000 keys", 3_000_000, queries=w1_queries, keys=100_000, rate=10 * RATE),
    _work("many-results", "100,000 keys, 4 results per row", 1_000_000, queries=w1_queries, keys=100_000),
    _work("flat", "one tumbling window", 20_000_000, queries=partial(concurrent, 1)),
    _work("flat-1000", "1,000 tumbling windows", 5_000_000, queries=partial(concurrent, 1000)),
    _work(
        "results", "1,000 windows, 5,000 due at once", 2_000_000,
        queries=due_together, rate=2_000, batch=65_000,
    ),
    _work("many-windows", "1,000 windows, 100 keys", 500_000, queries=partial(concurrent, 1000), keys=100),
    _work("median", "21 windows, median", 3_000_000, queries=w1_queries, aggregate="median"),
    _work("median-late", "21 windows, median, 20 % late", 2_000_000, queries=w1_queries, aggregate="median", late=True),
    _work("count", "100 row windows, 20 % late", 3_000_000, queries=partial(concurrent, 100, "rows", RATE), late=True),
    _work("sessions", "1,000 keys", 3_000_000, queries=_session, keys=1_000, gaps=True),
    _work("sessions-late", "1,000 keys, 20 % late", 2_000_000, queries=_session, keys=1_000, gaps=True, late=True),
    Work("single-rows", "dicts, 21 windows", partial(_pushed_alone, queries=w1_queries, own=50_000)),
    Work("single-rows-1", "dicts, one window", partial(_pushed_alone, queries=partial(concurrent, 1), own=50_000)),
    _work("small", "batches of 1,000, 21 windows", 1_000_000, queries=w1_queries, batch=SMALL),
    _work("small-late", "batches of 1,000, 20 % late", 500_000, queries=w1_queries, batch=SMALL, late=True),
    _work("small-keys", "batches of 1,000, 1,000 keys", 300_000, queries=w1_queries, batch=SMALL, keys=1_000),
    _work(
        "small-sessions", "batches of 1,000, 100 keys", 300_000,
        queries=_session, batch=SMALL, keys=100, gaps=True, rate=1_000,
    ),
    Work("policies", "a common pair", partial(_policy, window="pair of policies", own=8_000_000)),
    Work("policies-general", "general form", partial(_policy, window="general form", own=4_000_000)),
    Work("policies-python", "policies in Python", partial(_policy, window="policies in Python", own=400_000)),
    Work(
        "policies-time", "time and time, 100 keys",
        partial(_form, group="by time", window="policy(time, time)", own=500_000),
    ),
    Work(
        "policies-count", "count and count, 100 keys",
        partial(_form, group="by rows", window="policy(count, count)", own=2_000_000),
    ),
    Work(
        "brackets-rows", "[SIZE 100 EVERY 50], 100 keys",
        partial(_form, group="by rows", window="[SIZE 100 EVERY 50]", own=1_000_000),
    ),
    Work("late-rows", "row windows, 200,000 kept", partial(_late, window="sliding rows", keys=1_000, own=300)),
    Work("late-sessions", "200,000 sessions kept", partial(_late, window="session", keys=1_000, own=300)),
    Work("operators", "join by key within 10 s", partial(_contender, _join, 500_000)),
    Work("operators-aggregate", "last 100 rows of 1,000 keys", partial(_contender, _aggregate, 2_000_000)),
)  # fmt: skip
