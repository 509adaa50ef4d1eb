"""The workloads that have goals: W1, flatness, median, row windows, sessions, single rows, memory."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import partial

from bench import data
from bench.contenders import ENGINE, Contender, RivalRunner, engine, panes_operator, rival
from bench.harness import RATE, Claim, Goal, Lab, Point, Workload
from bench.rivals import (
    FUNCTIONS,
    AggregateBuckets,
    AggregateTree,
    Cutty,
    Pairs,
    Panes,
    Query,
    Session,
    TupleBuckets,
    TupleBuffer,
)
from bench.rivals.keyed import KeyedBuckets, PerKey
from bench.workloads.common import DISORDER, EVENT_RATE, IN_ORDER, concurrent, due_together, value, w1_queries

#: (keys, order) -> what the issue asks for
W1_GOALS = {
    (1, IN_ORDER): Goal(rows_per_s=200e6, sum_passes=8),
    (1, DISORDER): Goal(rows_per_s=100e6, sum_passes=16),
    (1_000, IN_ORDER): Goal(rows_per_s=100e6),
    (100_000, IN_ORDER): Goal(rows_per_s=30e6),
}
#: rows of a batch in which thousands of windows become due
MANY_AT_ONCE = 65_000


def w1(lab: Lab) -> None:
    queries = w1_queries()
    stream = data.steady(lab.rows(10_000_000, 1_000_000), rate=EVENT_RATE)
    for order in (IN_ORDER, DISORDER):
        ooo = order == DISORDER
        fed = data.late(stream) if ooo else stream
        contenders = [
            engine(queries, "sum", delay=fed.delay),
            rival(AggregateBuckets, queries, "sum", ooo=ooo),
            rival(TupleBuffer, queries, "sum", ooo=ooo),
            rival(AggregateTree, queries, "sum", ooo=ooo),
        ]
        if not ooo:
            contenders += [rival(t, queries, "sum") for t in (Panes, Pairs, Cutty)]
        lab.throughput(fed.batches(), contenders, params={"keys": 1, "order": order}, goal=W1_GOALS.get((1, order)))


def w1_keys(lab: Lab) -> None:
    """With 100,000 keys a row comes with several results (one per key and window), unless events come faster.

    At 100,000 rows/s of event time there are about four results per row, at 1,000,000 about 0.3: the goal is
    judged there, where the rows are the work.
    """
    queries = w1_queries()
    rows = lab.rows(10_000_000, 300_000)
    for keys, rate in ((1_000, EVENT_RATE), (100_000, 10 * EVENT_RATE), (100_000, EVENT_RATE)):
        stream = data.with_keys(data.steady(rows, rate=rate), keys)
        for order in (IN_ORDER, DISORDER):
            ooo = order == DISORDER
            fed = data.late(stream) if ooo else stream
            contenders = [
                engine(queries, "sum", delay=fed.delay, keyed=True),
                Contender("aggregate buckets, cell per key", partial(_keyed_buckets, queries, keys)),
            ]
            if keys == 1_000 and not ooo and not lab.options.quick:  # seconds for its first batch
                contenders.append(Contender("pairs per key", partial(_pairs_per_key, queries, keys)))
            lab.throughput(
                fed.batches(),
                contenders,
                params={"keys": keys, "events/s": rate, "order": order},
                goal=W1_GOALS.get((keys, order)) if (keys, rate) != (100_000, EVENT_RATE) else None,
            )


def _keyed_buckets(queries: Sequence[Query], keys: int) -> RivalRunner:
    return RivalRunner(KeyedBuckets(queries, FUNCTIONS["sum"], keys))


def _pairs_per_key(queries: Sequence[Query], keys: int) -> RivalRunner:
    return RivalRunner(PerKey(lambda: Pairs(queries, FUNCTIONS["sum"]), keys))


def flat(lab: Lab) -> None:
    """Rows are pushed on the clock and results fetched off it: `advance` after each batch is not timed."""
    batches = data.steady(lab.rows(5_000_000, 500_000), rate=EVENT_RATE).batches()
    rows = sum(map(len, batches))
    counts = lab.pick((1, 10, 100, 1000), (1, 1000))
    rowwise: dict[int, list[float]] = {n: [] for n in counts}
    whole: dict[int, list[float]] = {n: [] for n in counts}
    for turn in range(lab.options.repeat + 1):  # the first turn warms up
        for n in counts:
            operator = panes_operator(concurrent(n), "sum", watermark="manual")
            pushing = advancing = 0.0
            for batch in batches:
                began = lab.clock()
                operator.push(batch.arrow)
                pushed = lab.clock()
                operator.advance(batch.watermark)
                pushing += pushed - began
                advancing += lab.clock() - pushed
            if turn:
                rowwise[n].append(pushing / rows)
                whole[n].append((pushing + advancing) / rows)
    for n in counts:
        params = {"queries": n}
        lab.record(ENGINE, "ns/row without results", statistics.median(rowwise[n]) * 1e9, params=params)
        lab.record(ENGINE, "ns/row with results", statistics.median(whole[n]) * 1e9, params=params)
    many = max(counts)
    ratio = statistics.median(rowwise[many]) / statistics.median(rowwise[1])
    lab.record(ENGINE, "cost of all against one", ratio, params={"queries": many}, goal=Goal(most=2))
    fed = data.steady(lab.rows(1_000_000, 300_000), rate=EVENT_RATE).batches()
    for n in counts:
        contenders = [rival(t, concurrent(n), "sum") for t in (Pairs, Cutty, AggregateBuckets)]
        lab.throughput(fed, contenders, params={"queries": n})


def results(lab: Lab) -> None:
    """What a result costs, with all that leads to it, where many windows are due at once."""
    stream = data.steady(lab.rows(1_000_000, 400_000), rate=2_000)
    for size in (1_000, 10_000, MANY_AT_ONCE):
        batches, costs = stream.batches(size), []
        for turn in range(lab.options.repeat + 1):  # the first turn warms up
            operator = panes_operator(due_together(), {"x": "sum(v)", "n": "count(*)"})
            began, found = lab.clock(), 0
            for batch in batches:
                found += len(operator.push(batch.arrow))
            if turn:
                costs.append((lab.clock() - began) / found)
        goal = Goal(most=300) if size == MANY_AT_ONCE else None
        lab.record(ENGINE, "ns/result", statistics.median(costs) * 1e9, params={"rows per batch": size}, goal=goal)


def median(lab: Lab) -> None:
    queries = w1_queries()
    stream = data.steady(lab.rows(10_000_000, 500_000), rate=EVENT_RATE)
    for order in (IN_ORDER, DISORDER):
        ooo = order == DISORDER
        fed = data.late(stream) if ooo else stream
        contenders = [engine(queries, "median", delay=fed.delay)]
        contenders += [rival(t, queries, "median", ooo=ooo) for t in (TupleBuffer, TupleBuckets)]
        goal = None if ooo else Goal(rows_per_s=20e6)
        lab.throughput(fed.batches(), contenders, params={"order": order}, goal=goal)


def count_windows(lab: Lab) -> None:
    """Tumbling windows of 100,000 to 2,000,000 rows: as long as 1..20 s at 100,000 rows/s."""
    stream = data.late(data.steady(lab.rows(10_000_000, 500_000), rate=EVENT_RATE))
    for n in lab.pick((1, 100), (100,)):
        queries = concurrent(n, "rows", EVENT_RATE)
        contenders = [
            engine(queries, "sum", delay=stream.delay),
            rival(TupleBuffer, queries, "sum", ooo=True),
            rival(AggregateTree, queries, "sum", ooo=True),
            rival(AggregateBuckets, queries, "sum", ooo=True),
        ]
        goal = Goal(rows_per_s=20e6) if n == 100 else None
        lab.throughput(stream.batches(), contenders, params={"queries": n, "order": DISORDER}, goal=goal)


def sessions(lab: Lab) -> None:
    """Gap 1 s; silences of 1.5 s, five a minute, end the sessions of all keys."""
    queries: list[Query] = [Session(1000)]
    steady = data.with_gaps(data.steady(lab.rows(10_000_000, 500_000), rate=EVENT_RATE))
    stream = data.with_keys(steady, 1_000)
    for order in (IN_ORDER, DISORDER):
        ooo = order == DISORDER
        fed = data.late(stream) if ooo else stream
        per_key = Contender("aggregate buckets per key", partial(_sessions_per_key, ooo))
        goal = None if ooo else Goal(rows_per_s=30e6)
        contenders = [engine(queries, "sum", delay=fed.delay, keyed=True), per_key]
        lab.throughput(fed.batches(), contenders, params={"keys": 1_000, "order": order}, goal=goal)


def _sessions_per_key(ooo: bool) -> RivalRunner:
    return RivalRunner(PerKey(lambda: AggregateBuckets([Session(1000)], FUNCTIONS["sum"], ooo=ooo), 1_000))


def single_rows(lab: Lab) -> None:
    """Rows pushed one by one as dicts, 21 queries, each row its own watermark."""
    rows = lab.rows(200_000, 10_000)
    stream = data.steady(rows, rate=1_000)
    dicts = [{"ts": t, "v": v} for t, v in zip(stream.times.tolist(), stream.values.tolist())]
    for label, queries in (("sum over 1 query", concurrent(1)), ("sum over 21 queries", w1_queries())):
        rates = []
        for turn in range(lab.options.repeat + 1):
            operator = panes_operator(queries, "sum")
            part = dicts if turn else dicts[:1000]
            began = lab.clock()
            for row in part:
                operator.push(row)
            rates.append(len(part) / (lab.clock() - began))
        goal = Goal(rows_per_s=100e3)
        lab.record(ENGINE, RATE, statistics.median(rates[1:]), params={"pushed": label}, goal=goal, rows=rows)
    cutty = Cutty(w1_queries(), FUNCTIONS["sum"])
    few = min(rows, 5_000)
    began = lab.clock()
    for i in range(few):
        cutty.push(stream.times[i : i + 1], stream.values[i : i + 1])
        cutty.advance(int(stream.times[i]))
    rate = few / (lab.clock() - began)
    lab.record("cutty", RATE, rate, params={"pushed": "sum over 21 queries"}, rows=few, cut=few < rows)


def memory(lab: Lab) -> None:
    """The same 60 s of event time at growing rates: state after the last row (SPEC S-41)."""
    queries = w1_queries()
    sizes = lab.pick((10_000, 100_000, 1_000_000, 10_000_000), (10_000, 200_000))
    for order in (IN_ORDER, DISORDER):
        ooo = order == DISORDER
        for rows in sizes:
            stream = data.steady(rows, rate=max(1, rows // 60))
            fed = data.late(stream) if ooo else stream
            params = {"rows": rows, "order": order}
            operator = panes_operator(queries, "sum", delay=fed.delay)
            buckets = AggregateBuckets(queries, FUNCTIONS["sum"], ooo=ooo)
            buffer = TupleBuffer(queries, FUNCTIONS["sum"], ooo=ooo)
            for batch in fed.batches():
                operator.push(batch.arrow)
                for technique in (buckets, buffer):
                    technique.push(batch.times, batch.values)
                    technique.advance(batch.watermark)
            lab.record(ENGINE, "bytes of state", operator.metrics["bytes"], params=params)
            lab.record(ENGINE, "bytes of snapshot", len(operator.snapshot()), params=params)
            lab.record(AggregateBuckets.name, "bytes of state", buckets.bytes, params=params)
            lab.record(TupleBuffer.name, "bytes of state", buffer.bytes, params=params)
    for order in (IN_ORDER, DISORDER):
        least, most = (value(lab.points, ENGINE, "bytes of state", rows=n, order=order) for n in (sizes[0], sizes[-1]))
        growth = most / least
        lab.record(ENGINE, "growth from fewest to most rows", growth, params={"order": order}, goal=Goal(most=1.1))


def _agree(points: list[Point]) -> tuple[bool, str]:
    checked = [p.extra["agree"] for p in points if p.extra.get("agree") is not None]
    return bool(checked) and all(checked), f"{len(checked)} runs over whole inputs compared"


AGREE = Claim("C-09", "contenders that ran over the whole input gave the same results", _agree)

WORKLOADS = (
    Workload(
        "w1",
        "sum, sliding 60 s/1 s and tumbling 1..20 s, one key, 100,000 rows/s of event time",
        w1,
        claims=(AGREE,),
    ),
    Workload("w1-keys", "the same over 1,000 and 100,000 keys", w1_keys, claims=(AGREE,)),
    Workload("flat", "1 to 1,000 concurrent tumbling queries of 1..20 s", flat, x="queries"),
    Workload("results", "1,000 tumbling windows of 1..21 s, sum and count, 2,000 rows/s of event time", results),
    Workload("median", "median over the windows of w1", median, claims=(AGREE,)),
    Workload("count", "tumbling row windows, 20 % of the rows late", count_windows, claims=(AGREE,)),
    Workload("sessions", "sessions of gap 1 s for each of 1,000 keys", sessions, claims=(AGREE,)),
    Workload("single-rows", "rows pushed one by one as dicts", single_rows),
    Workload("memory", "state after 60 s of event time at growing rates", memory, x="rows"),
)
