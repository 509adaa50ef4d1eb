"""Results that can be stored: what tells them apart, withdrawals first, the newest of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import panes as pn
from panes.api.stream import Query
from panes.connectors.sources import open_data
from panes.errors import NoSuchMethod, QueryError
from tests.fuzz.compare import difference
from tests.fuzz.engine import Engine
from tests.fuzz.programs import generate
from tests.oracle.oracle import Result

TIME = ("window_start", "window_end")
BOTH = (*TIME, "window_from", "window_to")
Row = dict[str, Any]

KINDS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "tumbling": (pn.tumbling(10), TIME),
    "sliding": (pn.sliding(10, every=5), TIME),
    "end": (pn.sliding(10, every=5, align="end"), TIME),
    "first row": (pn.tumbling(10, offset="first row"), TIME),
    "cumulate": (pn.cumulate(step=5, max=20), TIME),
    "landmark": (pn.landmark(start=0, every=10), TIME),
    "fixed": (pn.fixed(5, 40), TIME),
    "session": (pn.session(4), TIME),
    "rows": (pn.tumbling(pn.rows(3)), BOTH),
    "sliding rows": (pn.sliding(pn.rows(4), every=pn.rows(2)), BOTH),
    "column": (pn.tumbling(5, on="m"), BOTH),
    "column session": (pn.session(2, on="m"), BOTH),
    "rows by time": (pn.sliding(pn.rows(3), every=10), BOTH),
    "time by rows": (pn.sliding(10, every=pn.rows(2)), BOTH),
    "punctuated": (pn.punctuated(begin="v > 6"), BOTH),
    "delta": (pn.delta(3, on="v"), BOTH),
    "threshold": (pn.threshold("v > 3"), BOTH),
    "policy": (pn.policy(trigger=pn.policies.count(3), evict=pn.policies.count(2)), BOTH),
}


def random_rows(seed: int, n: int = 120) -> list[Row]:
    """Rows of two keys in some disorder; `m` advances with time."""
    rng = Random(seed)
    times = [t // 2 for t in range(n)]
    rows = [{"ts": t, "k": rng.choice(("a", None)), "v": rng.randrange(9), "m": t} for t in times if rng.random() < 0.6]
    return sorted(rows, key=lambda row: row["ts"] + rng.choice((0, 0, 3, 20)))


def stream(rows: list[Row] | None, lateness: int | None = 100) -> pn.stream:
    schema = {"ts": "bigint", "k": "string", "v": "bigint", "m": "bigint"}
    return pn.stream(rows, time="ts", key="k", schema=schema, watermark=0, lateness=lateness)


def batches(rows: list[Row], seed: int) -> Iterable[list[Row]]:
    rng = Random(seed)
    while rows:
        size = rng.choice((1, 2, 7, 30))
        yield rows[:size]
        rows = rows[size:]


class Stored:
    """A table that is kept up to date as docs/storing.md says: delete by identity, then insert."""

    def __init__(self, query: Query) -> None:
        self.identity = query.identity
        self.void = query._plan.shape.called("void")
        self.rows: dict[tuple[Any, ...], list[Row]] = {}

    def take(self, given: pa.Table) -> None:
        rows = [(tuple(row[c] for c in self.identity), row) for row in given.to_pylist()]
        for identity, _ in rows:
            self.rows.pop(identity, None)
        for identity, row in rows:
            if self.void is None or not row[self.void]:
                self.rows.setdefault(identity, []).append(row)

    def table(self) -> list[Row]:
        return [row for rows in self.rows.values() for row in rows]


def fold(query: Query, rows: list[Row], seed: int) -> list[Row]:
    """What is stored in the end, of what every push gives."""
    op, stored = query.operator(), Stored(query)
    for batch in batches(rows, seed):
        stored.take(op.push(batch).latest().to_arrow())
    stored.take(op.finish().latest().to_arrow())
    return stored.table()


def alike(rows: Iterable[Row]) -> list[str]:
    return sorted(map(repr, rows))


@pytest.mark.parametrize("name", KINDS)
def test_identity_of_each_kind(name: str) -> None:
    window, bounds = KINDS[name]
    rows = random_rows(1)
    query = stream(rows).window(w=window).agg(n="count(*)", total="sum(v)")
    assert query.identity == ("k", "window", *bounds)
    given = query.to_arrow().to_pylist()
    once = [(*(row[c] for c in query.identity), row["revision"]) for row in given]
    assert len(given) > 5
    assert len({*once}) == len(once)


@pytest.mark.parametrize("name", KINDS)
def test_what_is_stored_is_the_latest(name: str) -> None:
    for seed in range(6):
        rows = random_rows(seed)
        query = stream(rows).window(w=KINDS[name][0], t=pn.tumbling(10)).agg(n="count(*)", total="sum(v)")
        latest = query.latest()
        assert alike(fold(query, rows, seed)) == alike(latest.rows())
        assert not any(row["void"] for row in latest.rows())


RENAMED = {"gone": "void", "number": "revision"}
CHANGED: dict[str, Callable[[Any], Query]] = {
    "where": lambda windows: windows.agg(n="count(*)", total="sum(v)").where("total > 8"),
    "renamed": lambda windows: (
        windows.agg(n="count(*)")
        .select("window", "window_to", "n", s="k", a="window_start", b="window_end", c="window_from", **RENAMED)
        .where("n <> 3")
    ),
    "ordered": lambda windows: windows.agg(n="count(*)").order_by("n DESC"),
    "relation": lambda windows: windows.relation(["ts", "v"], where="v > 2", order_by="v", limit=3),
    "groups": lambda windows: windows.relation({"v": "v", "n": "count(*)"}, group_by="v", having="count(*) > 1"),
    "relation, where": lambda windows: windows.relation("*").where("v > 4"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGED)
def test_what_is_stored_is_the_latest_after_steps(name: str) -> None:
    for seed in range(3):
        rows = random_rows(seed)
        windows = stream(rows).window(visit=pn.session(3), four=pn.tumbling(pn.rows(4)), high=pn.threshold("v > 3"))
        query = CHANGED[name](windows)
        assert alike(fold(query, rows, seed)) == alike(query.latest().rows())


def test_joins_are_stored_window_by_window() -> None:
    for seed in range(2):
        rows = [random_rows(seed), random_rows(seed + 50)]
        sides = [stream(each) for each in rows]
        query = pn.join(*sides, window={"visit": pn.session(3), "ten": pn.tumbling(10)}, how="left", on="l.v = r.v")
        assert query.identity == ("k", "window", *TIME)
        stored = Stored(query)
        for given in query._start(None).results(promptly=False):
            stored.take(given.latest().to_arrow())
        assert alike(stored.table()) == alike(query.latest().rows())


def test_random_programs_are_stored_as_the_latest() -> None:
    """Every window kind of the fuzz programs, batches cut as these say."""
    checked = 0
    for seed in range(400):
        program = generate(seed)
        steps = [step for step in program.steps if step[0] in ("push", "advance", "finish")]
        if program.lateness is None or program.watermark == "manual" or program.time_unit is not None:
            continue
        engine = Engine(program)
        stored = Stored(engine.query)
        pushed: list[Row] = []
        for step in steps:
            if step[0] == "push":
                pushed += [{"id": None, **row} for row in step[1]]
                stored.take(engine.op.push([{"id": None, **row} for row in step[1]]).latest().to_arrow())
        stored.take(engine.op.finish().latest().to_arrow())
        data = pa.Table.from_pylist(pushed, schema=engine.schema)
        latest = Query.of(open_data(data, None), engine.query._plan).latest()
        schema = latest.schema
        found: list[list[Result]] = [
            engine.results(table) for table in (latest.table, pa.Table.from_pylist(stored.table(), schema=schema))
        ]
        wrong = difference(found[0], found[1], program.aggregates, program.own)
        assert wrong is None, f"seed {seed}: {wrong}"
        checked += 1
    assert checked > 30


def test_a_session_that_merges_is_withdrawn_before_its_successor_comes() -> None:
    query = stream(None).window(visit=pn.session(5)).agg(n="count(*)")
    op = query.operator()
    row = {"k": "a", "v": 1, "m": 0}
    op.push([{"ts": 0, **row}, {"ts": 10, **row}, {"ts": 50, **row}])
    given = op.push([{"ts": 5, **row}])
    shown = [(r["window_start"], r["window_end"], r["n"], r["revision"], r["void"]) for r in given]
    assert shown == [(0, 5, None, 1, True), (10, 15, None, 1, True), (0, 15, 3, 0, False)]
    assert given.latest().table.equals(given.table)


def test_in_one_call_the_revision_says_what_is_the_newest() -> None:
    row = {"k": "a", "v": 1, "m": 0}
    given = stream(None).window(visit=pn.session(5)).agg(n="count(*)").operator()
    result = given.push([{"ts": 0, **row}, {"ts": 50, **row}, {"ts": 4, **row}])
    assert [(r["window_end"], r["revision"], r["void"]) for r in result] == [(5, 1, True), (5, 0, False), (9, 0, False)]
    assert [(r["window_end"], r["revision"], r["void"]) for r in result.latest()] == [(5, 1, True), (9, 0, False)]


def test_windows_of_rows_stay_the_same_when_rows_move_on() -> None:
    op = stream(None).window(pair=pn.tumbling(pn.rows(2))).agg(v="sum(v)").operator()
    op.push([{"ts": t, "k": "a", "v": t, "m": 0} for t in (10, 20, 30, 40, 50)])
    given = op.push([{"ts": 15, "k": "a", "v": 15, "m": 0}])
    shown = [(r["window_from"], r["window_to"], r["v"], r["revision"], r["void"]) for r in given]
    assert shown == [(0, 2, 25, 1, False), (2, 4, 50, 1, False), (4, 6, 90, 0, False)]


def test_the_last_rows_at_a_time_are_others_when_rows_move_on() -> None:
    op = stream(None).window(last=pn.sliding(pn.rows(2), every=10)).agg(v="sum(v)").operator()
    op.push([{"ts": t, "k": "a", "v": t, "m": 0} for t in (1, 2, 11, 12, 30)])
    given = op.push([{"ts": 3, "k": "a", "v": 3, "m": 0}])
    shown = [(r["window_from"], r["window_to"], r["window_end"], r["v"], r["void"]) for r in given]
    assert shown == [
        (0, 2, 10, None, True), (2, 4, 20, None, True), (1, 3, 10, 5, False), (3, 5, 20, 23, False),
    ]  # fmt: skip


def test_open_windows_differ_though_their_ends_are_null() -> None:
    rows = [{"ts": t, "k": k, "v": v, "m": 0} for t, k, v in [(0, "a", 9), (1, "b", 9), (2, "a", 9)]]
    query = stream(rows).window(up=pn.threshold("v > 3"), jump=pn.delta(3, on="v")).agg(n="count(*)")
    latest = query.latest().to_arrow().to_pylist()
    assert [row["window_end"] for row in latest] == [None] * 4
    assert len({tuple(row[c] for c in query.identity) for row in latest}) == 4
    assert alike(fold(query, rows, 0)) == alike(latest)


def test_a_void_window_is_void_in_a_relation_with_empty_windows_too() -> None:
    rows = [{"ts": t, "k": "a", "v": 1, "m": 0} for t in (0, 50, 4)]
    query = stream(rows).window(visit=pn.session(5), emit_empty=True).relation({"n": "count(*)"})
    assert next((r["window_end"], r["n"], r["void"]) for r in query.rows()) == (5, None, True)
    assert alike(fold(query, rows, 0)) == alike(query.latest().rows())


def test_without_lateness_everything_is_the_latest() -> None:
    rows = sorted(random_rows(3), key=lambda row: row["ts"])
    query = (
        stream(rows, lateness=None).window(pn.tumbling(10)).agg(n="count(*)").select("k", "window_start", "window_end")
    )
    assert query.identity == ("k", *TIME)
    assert query.latest().table.equals(query.to_arrow())


def test_identity_follows_the_names_that_select_gives() -> None:
    query = stream(None).window(a=pn.tumbling(10), b=pn.session(3)).agg(n="count(*)")
    assert query.select("window", "n", s="k", since="window_start", till="window_end").identity == (
        "s", "window", "since", "till",
    )  # fmt: skip
    assert query.select("k", "window", *TIME, s="k").identity == ("k", "window", *TIME)
    alone = stream(None).window(a=pn.tumbling(10)).agg(n="count(*)")
    assert alone.select("k", *TIME).identity == ("k", *TIME)  # all results have one label


def select(*columns: str, **named: str) -> Query:
    return stream(None).window(a=pn.tumbling(10), b=pn.tumbling(pn.rows(2))).agg(n="count(*)").select(*columns, **named)


LOST: list[tuple[Sequence[str], dict[str, str], str]] = [
    (("window", *BOTH), {}, "leaves out k,"),
    (("k", *BOTH), {}, "leaves out window,"),
    (("k", "window", "window_start"), {}, "leaves out window_end, window_from, window_to,"),
    (("k", "window", *TIME, "window_from"), {}, "leaves out window_to,"),
    (("window", *BOTH), {"k": "upper(k)"}, "leaves out k,"),
    (("k", "window", *BOTH[1:]), {"window_start": "window_start + 1"}, "leaves out window_start,"),
]


@pytest.mark.parametrize(("columns", "named", "said"), LOST)
def test_a_select_that_drops_identity_is_refused_by_name(columns: Any, named: Any, said: str) -> None:
    query = select(*columns, "revision", "void", **named)
    with pytest.raises(QueryError, match=f"^identity: the select {said}"):
        _ = query.identity
    with pytest.raises(QueryError, match=rf"^latest\(\): the select {said}"):
        query.latest()
    with pytest.raises(QueryError, match=rf"^latest\(\): the select {said}"):
        query.operator().push([]).latest()


def test_latest_needs_revision_and_void() -> None:
    query = select("k", "window", *BOTH, "void", "n")
    assert query.identity == ("k", "window", *BOTH)
    with pytest.raises(QueryError, match="leaves out revision, which says what is the newest"):
        query.latest()
    with pytest.raises(QueryError, match="leaves out revision, which says what is the newest"):
        query.operator().finish().latest()


def test_identity_of_a_cql_query_needs_its_columns() -> None:
    rows = [{"ts": t, "k": "a", "v": 1} for t in range(30)]
    one = pn.sql("SELECT k, window_start, window_end, sum(v) AS total FROM t [SIZE 10 ON ts] GROUP BY k", {"t": rows})
    assert one.identity == ("k", *TIME)
    other = pn.sql("SELECT k, window_end, sum(v) AS total FROM t [SIZE 10 ON ts] GROUP BY k", {"t": rows})
    with pytest.raises(QueryError, match="leaves out window_start"):
        _ = other.identity


REPEATED = [
    (pn.sliding(10, every=5, every_on="m", unchanged=True), "windows at every step of m"),
    (pn.policy(trigger=[pn.policies.count(2), pn.policies.time(5, thread=True)]), "two triggers"),
]  # fmt: skip


@pytest.mark.parametrize(("window", "said"), REPEATED)
def test_windows_that_may_give_the_same_twice_have_none(window: Any, said: str) -> None:
    query = stream(None, None).window(w=window).agg(n="count(*)")
    with pytest.raises(QueryError, match=f"results of the window 'w' can't be told apart: {said}"):
        _ = query.identity


def test_rows_without_windows_have_no_identity() -> None:
    rows = stream([{"ts": 1, "k": "a", "v": 1, "m": 1}])
    for what in ("identity", "latest"):
        with pytest.raises(NoSuchMethod, match="rows have no identity"):
            getattr(rows, what)
        with pytest.raises(NoSuchMethod, match="first: only then there is a query"):
            getattr(rows.window(pn.tumbling(1)), what)
    matched = rows.dedupe("v", window=pn.operators.sliding(pn.operators.count(3)))
    with pytest.raises(QueryError, match="only results of windows have an identity"):
        matched.operator().push([{"ts": 1, "k": "a", "v": 1, "m": 1}]).latest()


def test_windows_that_are_added_have_their_bounds_in_it() -> None:
    query = stream(None).window(ten=pn.tumbling(10)).agg(n="count(*)")
    op = query.operator()
    op.add("two", pn.tumbling(pn.rows(2)))
    row = {"k": "a", "v": 1, "m": 0}
    result = op.push([{"ts": t, **row} for t in (1, 3, 5, 7, 30, 4)])
    kept = [(r["window"], r["window_from"], r["window_start"], r["n"], r["revision"]) for r in result.latest()]
    assert kept == [("ten", None, 0, 5, 1), ("two", 0, None, 2, 0), ("two", 2, None, 2, 1), ("two", 4, None, 2, 0)]
    narrow = query.select("k", *TIME, "revision", "void").operator()
    narrow.add("two", pn.tumbling(pn.rows(2)))
    with pytest.raises(QueryError, match="leaves out window, window_from, window_to"):
        narrow.finish().latest()
