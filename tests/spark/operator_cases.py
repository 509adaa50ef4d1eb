"""Streams that operators give, for tests of both runners: by name, made of the data of two streams."""

from __future__ import annotations

import random
from typing import Any, ClassVar

import pyarrow as pa

import panes as pn
from panes.operators import InputPort, Model, Operator, OutputPort, count, delta, punct, sliding, time, tumbling

SCHEMA = pa.schema({"t": pa.int64(), "k": pa.string(), "v": pa.int64(), "seq": pa.int64()})


def table(n: int, seed: int, keys: str = "abc") -> pa.Table:
    rng = random.Random(seed)
    at, rows = 0, []
    for i in range(n):
        at += rng.choice((0, 1, 1, 3))
        rows.append({"t": at, "k": rng.choice(keys), "v": rng.randint(0, 9), "seq": i})
    return pa.Table.from_pylist(rows, SCHEMA)


class Changes(Operator):
    """Rows whose value is not that of the row before."""

    model = Model("Changes", inputs=(InputPort("in"),), outputs=(OutputPort("out"),))
    schema: ClassVar = {"v": "bigint", "was": "bigint"}

    def __init__(self) -> None:
        self.last: int | None = None

    def on_row(self, port: str, row: Any) -> None:
        last, self.last = self.last, row["v"]
        if last is not None and last != row["v"]:
            self.emit(v=row["v"], was=last)


def plain(data: Any, **options: Any) -> Any:
    return pn.stream(data, **{"time": "t", "watermark": 4, **options})


def keyed(data: Any) -> Any:
    return plain(data, key="k")


def _merged(a: Any, b: Any) -> Any:
    return pn.merge(plain(a).select("t", "v"), plain(b).select("t", "v"))


def _outer(a: Any, b: Any, how: str = "full", **options: Any) -> Any:
    entries = {"k": "k", "x": "l.v", "y": "r.v"}
    return plain(a).match(
        plain(b), **{"window": sliding(time("6 ms")), "using": "k", "how": how, "entries": entries, **options}
    )


def _apart(a: Any, b: Any) -> Any:
    return keyed(a).match_apart(keyed(b), window=sliding(count(2)), on="l.v = r.v", how="full")


def _counts(stream: Any) -> Any:
    """How many rows there are every five ticks, as a stream."""
    return stream.window(pn.tumbling(5)).agg(n="count(*)").stream()


#: by name: the stream; whether rows of static frames are spread by key; whether those of streams are
CASES: dict[str, tuple[Any, bool, bool]] = {
    "aggregate by rows": (
        lambda a, b: keyed(a).aggregate(window=sliding(count(5), every=count(2)), total="sum(v)", n="count(*)"),
        True,
        True,
    ),
    "aggregate by time": (
        lambda a, b: keyed(a).aggregate(
            window=sliding(time("10 ms"), every=time("4 ms")), partial=True, total="sum(v)"
        ),
        False,
        True,
    ),
    "aggregate of all": (
        lambda a, b: (
            plain(a).where("v <> 4").aggregate(window=tumbling(time("7 ms")), group_by={"odd": "v % 2"}, total="sum(v)")
        ),
        False,
        False,
    ),
    "aggregate, keys forgotten": (
        lambda a, b: keyed(a).aggregate(
            window=sliding(count(3), every=count(1), partition_evict=pn.operators.partition_count(2)), n="sum(v)"
        ),
        False,
        False,
    ),
    "match by key": (lambda a, b: keyed(a).match(keyed(b), window=sliding(count(3)), on="l.v = r.v"), True, True),
    "match by key and time": (
        lambda a, b: (
            keyed(a)
            .match(keyed(b), window=(sliding(time("5 ms")), sliding(count(2))), on="l.v > r.v", how="full")
            .select("k", "l_v", "r_v", "result_time")
        ),
        False,
        True,
    ),
    "match, full": (lambda a, b: _outer(a, b), False, True),
    "match, left": (lambda a, b: _outer(a, b, "left").select("k", "x", "y", "result_time"), False, True),
    "match, inner": (
        lambda a, b: plain(a).match(plain(b), window=sliding(time("6 ms")), on="l.k = r.k AND l.v + 1 = r.v"),
        True,
        True,
    ),
    "match, one-sided": (
        lambda a, b: _outer(a, b, "right", window=(sliding(count(4)), sliding(count(0)))),
        False,
        False,
    ),
    "match, as of, with ties": (
        lambda a, b: keyed(a).match(keyed(b), window=(sliding(count(0)), sliding(count(1))), ties="include"),
        True,
        True,
    ),
    "match, as of, without ties": (
        lambda a, b: _outer(b, a, "inner", window=(sliding(count(1)), sliding(count(0))), ties="exclude"),
        False,
        False,
    ),
    "match, by any condition": (
        lambda a, b: _outer(a, b, using=(), on=lambda x, y: x["v"] + y["v"] == 9, entries={"x": "l.v", "y": "r.v"}),
        False,
        False,
    ),
    "match apart, left": (lambda a, b: _apart(a, b).left, False, True),
    "match apart, matches": (lambda a, b: _apart(a, b).matches, False, True),
    "dedupe": (lambda a, b: keyed(a).dedupe("v", window=sliding(delta("t", 12))), True, True),
    "dedupe by time": (lambda a, b: plain(a).dedupe("k", "v", window=sliding(time("9 ms"))), True, True),
    "dedupe, tumbling": (lambda a, b: keyed(a).dedupe("v", window=tumbling(time("5 ms"))), True, True),
    "dedupe by rows": (lambda a, b: plain(a).dedupe("v", window=sliding(count(6))), False, False),
    "sort": (
        lambda a, b: keyed(a).sort("v DESC", window=tumbling(count(4))).select("k", "v", "result_time"),
        False,
        True,
    ),
    "sort as it goes": (lambda a, b: plain(a).sort("v", "seq", window=sliding(count(5))), False, False),
    "chain with punctuations": (
        lambda a, b: (
            _merged(a, b)
            .punctuate("v = 0")
            .where("v <> 3")
            .sort("v", window=tumbling(punct()))
            .aggregate(window=tumbling(count(3)), vs="collect_list(v)")
        ),
        False,
        False,
    ),
    "match of operators": (
        lambda a, b: (
            plain(a)
            .aggregate(window=sliding(time("4 ms"), every=time("2 ms")), n="count(*)")
            .match(plain(b).dedupe("v", window=sliding(count(3))), window=sliding(time("3 ms")), how="left")
        ),
        False,
        False,
    ),
    "match with itself": (
        lambda a, b: (lambda s: s.match(s, window=sliding(count(2)), on="l.v < r.v"))(plain(a)),
        False,
        False,
    ),
    "of results of windows": (
        lambda a, b: _counts(keyed(a)).aggregate(window=sliding(count(3), every=count(1)), total="sum(n)"),
        False,
        False,
    ),
    "of a user": (lambda a, b: plain(a).apply(Changes()).where("v > was"), False, False),
}
#: windows over what operators give
WINDOWS: dict[str, Any] = {
    "of rows": lambda a, b: (
        keyed(a)
        .dedupe("v", window=sliding(count(2)))
        .window(ten=pn.tumbling(10), three=pn.tumbling(pn.rows(3)))
        .agg(n="count(*)", total="sum(v)")
    ),
    "by policy": lambda a, b: (
        _outer(a, b, "inner")
        .window(w=pn.policy(evict=pn.policies.count(4), trigger=pn.policies.time(6)))
        .agg(total="sum(x + y)")
    ),
    "of a join": lambda a, b: pn.join(
        plain(a).dedupe("v", window=sliding(count(2))),
        plain(b),
        window=pn.tumbling(8),
        on="l.k = r.k",
        entries=["l.v", "r.seq"],
    ),
    "of a join with results of windows": lambda a, b: pn.join(
        _counts(keyed(a)), plain(b), window=pn.tumbling(10), how="left", on="l.k = r.k", entries=["l.n", "r.seq"]
    ),
    "of results put together": lambda a, b: (
        pn.merge(*(_counts(each).select("window_end", "n") for each in (plain(a), keyed(b))))
        .window(pn.sliding(20, every=10))
        .agg(total="sum(n)", parts="count(*)")
    ),
}
