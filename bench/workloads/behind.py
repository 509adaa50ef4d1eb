"""Rows behind the watermark: what one costs beside one in time (docs/semantics.md, "Which rows a window takes").

The same rows, a tenth of them up to 2 s late, once with a watermark that waits for them and once with none that does:
then those rows are judged window by window, and taken by the windows that are open.
"""

from __future__ import annotations

from bench import data
from bench.contenders import ENGINE, engine
from bench.harness import Goal, Lab, Workload
from bench.rivals import Periodic, Query, Session
from bench.workloads.common import EVENT_RATE, w1_queries

SHARE = 0.1
IN_TIME, BEHIND = "in time", "a tenth behind"
#: a row behind the watermark may cost so many rows in time
HARDLY_MORE = 10

WINDOWS: dict[str, list[Query]] = {
    "tumbling 10 s": [Periodic(10_000, 10_000)],
    "sliding 60 s / 1 s": [Periodic(60_000, 1_000)],
    "sliding 10 s / 100 ms": [Periodic(10_000, 100)],
    "21 windows": w1_queries(),
    "session": [Session(1000)],
}


def behind(lab: Lab) -> None:
    rows = lab.rows(4_000_000, 400_000)
    for keys in (0, 1_000):
        stream = data.steady(rows, rate=EVENT_RATE)
        stream = data.with_keys(data.with_gaps(stream), keys) if keys else stream
        fed = data.late(stream, share=SHARE)
        for name, queries in WINDOWS.items():
            _compare(lab, fed, queries, {"windows": name, "keys": keys})


def _compare(lab: Lab, fed: data.Stream, queries: list[Query], params: dict[str, object]) -> None:
    keyed = bool(params["keys"])
    waits = engine(queries, "sum", delay=fed.delay, keyed=keyed, name=IN_TIME)
    judges = engine(queries, "sum", delay=0, keyed=keyed, name=BEHIND)
    rates = lab.throughput(fed.batches(), [waits, judges], params=params, alike=False)
    alone, mixed = 1 / rates[IN_TIME].value, 1 / rates[BEHIND].value
    cost = (mixed - (1 - SHARE) * alone) / SHARE / alone
    lab.record(ENGINE, "cost of a row behind, in rows in time", cost, params=params, goal=Goal(most=HARDLY_MORE))


WORKLOADS = (Workload("behind", "rows behind the watermark beside rows in time", behind),)
