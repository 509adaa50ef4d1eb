"""Queries with aggregates of their own, declared and added while running: what they give, share, refuse and restore."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import panes as pn
from panes.errors import QueryError, SnapshotMismatch
from panes.slicing.operator import SliceOperator

SCHEMA = {"t": "bigint", "k": "string", "v": "bigint", "w": "double"}


def stream(**options: object) -> pn.Stream:
    return pn.stream(None, schema=SCHEMA, time="t", key="k", **options)


def rows(*times: int, k: str = "x") -> list[dict[str, object]]:
    return [{"t": t, "k": k, "v": t, "w": t / 2} for t in times]


def counting(**options: object) -> pn.Query:
    return stream(**options).window(a=pn.tumbling(10)).agg(n="count(*)")


def got(result: pn.Result, *columns: str) -> list[tuple[object, ...]]:
    return [tuple(row[c] for c in columns) for row in result.rows()]


class Spread(pn.UserAggregate):
    commutative = True
    returns = "bigint"

    def lift(self, v: int) -> tuple[int, int]:
        return v, v

    def combine(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return min(a[0], b[0]), max(a[1], b[1])

    def lower(self, a: tuple[int, int]) -> int:
        return a[1] - a[0]


def test_each_label_has_its_own_columns_and_the_whole_has_all_of_them() -> None:
    op = counting().operator()
    op.add("b", pn.tumbling(5), top="max(v)", mid=pn.quantile("w", 0.5))
    out = op.push(rows(*range(11)))
    assert out.column_names == ["k", "window", "window_start", "window_end", "n", "top", "mid", "revision"]
    assert out["a"].column_names == ["k", "window", "window_start", "window_end", "n", "revision"]
    assert out["b"].column_names == ["k", "window", "window_start", "window_end", "top", "mid", "revision"]
    assert got(out["b"], "window_start", "top", "mid") == [(0, 4, 1.0), (5, 9, 3.5)]
    assert got(out, "window", "n", "top") == [("b", None, 4), ("a", 10, None), ("b", None, 9)]


def test_a_label_without_positions_has_no_columns_for_them() -> None:
    op = counting().operator()
    op.add("two", pn.tumbling(pn.rows(2)), total="sum(v)")
    out = op.push(rows(*range(11)))
    assert "window_from" not in out["a"].column_names
    assert got(out["two"], "window_from", "window_to", "total")[:2] == [(0, 2, 1), (2, 4, 5)]


def test_an_unknown_label_is_named_with_those_there_are() -> None:
    out = counting().operator().push(rows(1, 11))
    with pytest.raises(QueryError, match=r"no query 'z' among these results; there are a"):
        out["z"]


def test_an_aggregate_that_is_there_starts_warm_and_a_new_one_with_rows_to_come() -> None:
    op = counting().operator()
    op.push(rows(*range(25)))
    op.add("warm", pn.tumbling(5), rows="count(*)")
    op.add("cold", pn.tumbling(5), top="max(v)")
    out = op.push(rows(*range(25, 41)))
    assert got(out["warm"], "window_start", "rows")[0] == (20, 5)  # the slice that was open had just that row
    assert got(out["cold"], "window_start", "top")[0] == (25, 29)
    op2 = stream().window(a=pn.tumbling(10)).agg(n="count(*)", top="max(v)").operator()
    op2.push(rows(*range(22)))
    op2.add("five", pn.tumbling(20), most="max(v)")  # a slice of [20, 30) is open: [20, 40) has all its rows
    assert got(op2.push(rows(*range(22, 41)))["five"], "window_start", "most") == [(20, 39)]
    op3 = counting().operator()
    op3.push(rows(*range(22)))
    op3.add("five", pn.tumbling(20), most="max(v)")  # nothing is known of the rows of 20 and 21
    assert got(op3.push(rows(*range(22, 61)))["five"], "window_start", "most") == [(40, 59)]


def test_equal_aggregates_are_kept_once_whatever_they_are_called() -> None:
    op = counting().operator()
    op.add("b", pn.tumbling(5), m="sum(v) / count(*)")
    op.add("c", pn.tumbling(7), total=pn.sum("v"), k2="count(*)")
    assert {repr(a.aggregate) for a in op.lanes[0].aggs} == {"count(*)", "sum(v)"}
    op.remove("b")
    assert len(op.lanes[0].aggs) == 2
    op.remove("c")
    assert [repr(a.aggregate) for a in op.lanes[0].aggs] == ["count(*)"]


def test_a_store_of_numbers_becomes_one_of_lists_and_numbers_again() -> None:
    op = counting().operator()
    op.push(rows(*range(15)))
    assert op.metrics["store"].startswith("dense")
    op.add("mid", pn.tumbling(10), mid=pn.median("v"))
    assert op.metrics["store"].startswith("sparse")
    out = op.push(rows(*range(15, 31)))
    assert got(out["a"], "window_start", "n") == [(10, 10), (20, 10)]
    assert got(out["mid"], "window_start", "mid") == [(20, 24.5)]
    op.remove("mid")
    assert op.metrics["store"].startswith("dense")
    assert got(op.finish(), "window_start", "n") == [(30, 1)]


def test_windows_are_not_charged_for_what_they_do_not_give(monkeypatch: pytest.MonkeyPatch) -> None:
    query = counting().add("all", pn.tumbling(1000), mid=pn.median("v"))
    op = query.operator()
    asked: list[int] = []
    median = next(a for a in op.lanes[0].aggs if "median" in repr(a.aggregate))
    lower = median.bound.lower_ranges
    monkeypatch.setattr(median.bound, "lower_ranges", lambda c, i, o: (asked.append(len(o) - 1), lower(c, i, o))[1])
    op.push(rows(*range(55)))
    assert sum(asked) == 0
    assert got(op.finish()["all"], "mid") == [(27.0,)]


def test_one_name_with_two_types_is_refused_by_name() -> None:
    op = counting().operator()
    before = op.snapshot()
    with pytest.raises(QueryError, match=r"add\('b'\): the output 'n' is double here and int64 in 'a'.*another name"):
        op.add("b", pn.tumbling(5), n="avg(v)")
    assert op.snapshot() == before
    with pytest.raises(QueryError, match=r"the output 'n' is double here and int64 in 'a'"):
        counting().add("b", pn.tumbling(5), n="avg(v)")
    op.add("b", pn.tumbling(5), n="max(v)")  # another aggregate of the same type: each window fills its own
    assert got(op.push(rows(*range(11))), "window", "n") == [("b", 4), ("a", 10), ("b", 9)]


@pytest.mark.parametrize(
    ("aggregates", "message"),
    [
        ({"window": "count(*)"}, "'window' is a column of every result"),
        ({"k": "count(*)"}, "'k' is a key column already"),
        ({"x": "max(zz)"}, r"add\('b'\): .*zz"),
        ({"x": 5}, "must be SQL text"),
    ],
)
def test_what_can_not_be_added_is_refused_and_changes_nothing(aggregates: dict[str, str], message: str) -> None:
    op = counting().operator()
    op.push(rows(*range(5)))
    before = op.snapshot()
    with pytest.raises(QueryError, match=message):
        op.add("b", pn.tumbling(5), **aggregates)
    assert op.snapshot() == before
    assert list(op.windows) == ["a"]


def test_a_label_that_is_there_is_refused() -> None:
    with pytest.raises(QueryError, match="query 'a' is there already"):
        counting().operator().add("a", pn.tumbling(3))
    with pytest.raises(QueryError, match=r"add\('a'\): there is a window of that label already"):
        counting().add("a", pn.tumbling(3))


def test_the_old_names_warn_and_do_the_same() -> None:
    op = counting().operator()
    with pytest.warns(DeprecationWarning, match="is called add"):
        op.add_window("b", pn.tumbling(5))
    assert list(op.windows) == ["a", "b"]
    with pytest.warns(DeprecationWarning, match="is called remove"):
        op.remove_window("b")
    assert list(op.windows) == ["a"]


def test_a_query_inherits_from_where_on_there_are_partials_of_what_it_shares() -> None:
    op = stream().window(two=pn.tumbling(pn.rows(2))).agg(n="count(*)").operator()
    op.push([*rows(1, 2, 3), *rows(3, 4, k="y")])
    op.add("first", pn.sliding(pn.rows(8), every=4), total="sum(v)")
    op.push([*rows(5, 6, 7, 8), *rows(8, 9, k="y")])
    op.add("second", pn.tumbling(pn.rows(4)), total="sum(v)", n="count(*)")
    out = op.push([*rows(10), *rows(10, k="y")])
    assert got(out["second"], "k", "window_from", "total") == [("x", 4, 6 + 7 + 8 + 10)]
    assert got(out["first"], "k") == []  # three of its eight rows came before it


def test_rows_kept_for_a_last_window_go_with_the_query_that_would_give_it() -> None:
    windows = {
        "a": pn.once_per_instant(pn.sliding(pn.rows(3), every=pn.rows(1), align="end")),
        "last": pn.sliding(pn.rows(3), every=pn.rows(2), align="end", partial=True),
    }
    query = stream(watermark=1).window(**windows).agg(n="count(*)")
    op = query.operator()
    op.push(rows(17, 18))
    op.remove("last")
    assert query.operator(restore=op.snapshot()).finish().table == op.finish().table


def test_rows_held_back_one_by_one_are_counted_before_a_query_comes() -> None:
    op = counting().operator()
    for row in rows(1, 2, 3):
        op.push(row)
    op.add("b", pn.tumbling(5), top="max(v)")
    for row in rows(4, 5):
        op.push(row)
    out = op.finish()
    assert got(out["a"], "n") == [(5,)]
    assert got(out["b"], "window_start", "top") == [(5, 5)]


def test_with_lateness_a_new_aggregate_of_rows_in_order_starts_after_the_rows_that_came() -> None:
    op = stream(watermark=5, lateness=20).window(two=pn.tumbling(pn.rows(2))).agg(n="count(*)").operator()
    op.push(rows(1, 2, 3, 8, 9))
    op.add("sums", pn.tumbling(pn.rows(2)), total="sum(v)", most="max(w)")
    columns = ("window_from", "total", "most", "revision", "void")
    given = op.push(rows(12, 13, 14, 15, 4, 21))["sums"]
    assert got(given, *columns) == [(6, 25, 6.5, 0, False), (8, 29, 7.5, 0, False)]
    # a row before all these: now a row that came before the query is in the first of them
    given = op.push(rows(5))["sums"]
    assert got(given, *columns) == [(6, None, None, 1, True), (8, 27, 7.0, 1, False)]


def distance(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    return abs(a[0] - b[0])


AFRESH = {
    "policy by count": pn.policy(trigger=pn.policies.count(1)),
    "policy of two counts": pn.policy(trigger=pn.policies.count(1), evict=pn.policies.count(1)),
    "policy in Python": pn.policy(trigger=pn.policies.count(1), evict=pn.policies.delta(0, on="v", function=distance)),
    "delta": pn.delta(0, on="v"),
    "punctuated": pn.punctuated(begin="v >= 0"),
}


@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize("window", AFRESH.values(), ids=AFRESH)
@pytest.mark.parametrize("own", [{}, {"vs": pn.collect_list("v"), "top": "max(w)"}], ids=["shared", "own"])
def test_windows_that_start_afresh_hold_no_row_of_before_though_late_ones_come(
    own: dict[str, object], window: object, restored: bool
) -> None:
    """Each of them gives one row; 5 and 6 are there before, 7 and 5 come late, 20 in time."""
    base = stream(watermark="manual", lateness=30).window(two=pn.tumbling(pn.rows(2)))
    query = base.agg(vs=pn.collect_list("v"), n="count(*)")
    op = query.operator()
    op.push(rows(5, 6))
    op.advance(10)
    op.add("w", window, **own)
    op.advance(15)

    def gives(*times: int) -> list[tuple[object, ...]]:
        nonlocal op
        found = got(op.push(rows(*times))["w"], "window_from", "window_to", "vs", "void")
        if restored:
            op = query.operator(restore=op.snapshot(), trusted=True)
        return found

    assert gives(7) == []
    assert gives(5) == []  # before those that were there: nothing but the position of 7 changes
    op.push(rows(20))
    assert got(op.advance(25)["w"], "window_from", "window_to", "vs") == [(3, 4, [7])]
    assert gives(5) == [(3, 4, None, True), (4, 5, [7], False)]
    found = gives(8)
    assert (5, 6, [8], False) in found
    assert all(vs is None or vs in ([7], [8]) for _, _, vs, _ in found)
    assert got(op.finish()["w"], "window_from", "window_to", "vs") == [(6, 7, [20])]


def test_a_window_on_a_column_that_rows_which_wait_lack_starts_after_them() -> None:
    """Their values are not known any more, so they are neither far from each other nor near."""
    query = stream(watermark=5).window(two=pn.tumbling(pn.rows(2))).agg(n="count(*)")
    op = query.operator()
    op.push(rows(1, 2, 8, 9, 10))
    op.add("gone", pn.delta(0, on="v"))
    op.remove("gone")
    op = query.operator(restore=op.snapshot())
    op.add("d", pn.delta(0, on="v"))
    op.add("p", pn.policy(trigger=pn.policies.count(1)))
    out = op.push(rows(9, 10, 11, 12, 30, 40))
    assert got(out["d"], "window_start", "window_end", "window_from", "n") == [(11, 12, 7, 1), (12, 30, 8, 1)]
    assert got(out["p"], "window_start", "window_from")[0] == (8, 2)  # it looks at no column


def test_rows_of_a_snapshot_have_the_columns_of_windows_that_were_removed() -> None:
    """Rows that come after it have them, too, since the query was declared with these windows."""
    query = stream(watermark="manual", lateness=30).window(two=pn.tumbling(pn.rows(2)), b=pn.threshold("v > 2"))
    query = query.agg(n="count(*)")
    op = query.operator()
    op.push(rows(1, 2, 3))
    op.remove("b")
    op = query.operator(restore=op.snapshot())
    op.push(rows(4, 5))
    op.advance(4)
    op.add("c", pn.threshold("v > 2"))
    op = query.operator(restore=op.snapshot())
    op.push(rows(6))
    assert got(op.finish()["c"], "window_start", "n") == [(5, 2)]


def test_a_late_row_that_nobody_looks_at_has_no_position() -> None:
    op = stream(lateness=30).window(two=pn.tumbling(pn.rows(2))).agg(vs=pn.collect_list("v")).operator()
    op.push(rows(1, 2, 3))
    op.remove("two")
    op.push(rows(1))
    assert op.metrics["rows_late"] == 1
    op.push(rows(4))
    op.add("again", pn.tumbling(pn.rows(2)))
    assert got(op.push(rows(5, 6)), "window_from", "vs") == [(4, [5, 6])]


def test_empty_windows_of_a_query_with_aggregates_of_its_own() -> None:
    query = stream().window(a=pn.tumbling(10), emit_empty=True).agg(n="count(*)")
    op = query.add("b", pn.tumbling(10), top="max(v)", m="count(v)").operator()
    out = op.push(rows(1, 35))
    assert got(out["a"], "window_start", "n") == [(0, 1), (10, 0), (20, 0)]
    assert got(out["b"], "window_start", "top", "m") == [(0, 1, 1), (10, None, 0), (20, None, 0)]


def test_early_results_of_a_query_that_was_added() -> None:
    op, query = counting().early(5).operator(), counting()
    op.push(rows(1, 2))
    for label, window, aggregates in (
        ("b", pn.session(3), {"top": "max(v)"}),
        ("c", pn.tumbling(20), {"top": "max(v)", "mid": pn.median("v")}),
    ):
        op.add(label, window, **aggregates)
        query = query.add(label, window, **aggregates)
    declared = query.early(5).operator()
    declared.push(rows(1, 2))
    out, want = op.push(rows(21, 22, 26, 41)), declared.push(rows(21, 22, 26, 41))
    assert out["b"].column_names[-4:] == ["top", "revision", "final", "void"]
    for label in "bc":
        assert len(out[label]) > 2
        assert out[label].table == want[label].table.filter(pc.field("window_start") >= 20)


@pytest.mark.parametrize("watermark", [None, 3])
@pytest.mark.parametrize("lateness", [None, 10])
def test_a_snapshot_restores_into_the_query_of_before_and_into_the_enlarged_one(
    watermark: int | None, lateness: int | None
) -> None:
    query = stream(watermark=watermark, lateness=lateness).window(a=pn.tumbling(10)).agg(n="count(*)")
    added = {
        "b": (pn.sliding(10, every=5), {"m": "sum(v) / count(*)", "mid": pn.quantile("w", 0.25)}),
        "s": (pn.session(4), {"d": "count(distinct v)", "all": pn.collect_list("v")}),
        "r": (pn.tumbling(pn.rows(3)), {"first": pn.first("v"), "ps": pn.quantiles("w", [0.1, 0.9])}),
    }
    op, enlarged = query.operator(), query
    op.push(rows(*range(13)))
    for label, (window, aggregates) in added.items():
        op.add(label, window, **aggregates)
        enlarged = enlarged.add(label, window, **aggregates)
    op.push(rows(20, 21, 23, 30, 29))
    blob = op.snapshot()
    others = [query.operator(restore=blob), enlarged.operator(restore=blob)]
    parts = [op.snapshot(key_groups=range(64)), op.snapshot(key_groups=range(64, 128))]
    others.append(enlarged.operator(restore=parts))
    for more in (rows(31, 44, 38, 60), rows(61, 62, 70)):
        want = op.push(more)
        assert all(other.push(more).table == want.table for other in others)
    want = op.finish()
    assert len(want)
    assert all(other.finish().table == want.table for other in others)


def test_an_aggregate_of_the_users_own_restores_only_with_its_code() -> None:
    query = counting()
    op = query.operator()
    op.add("b", pn.tumbling(5), d=Spread("v"))
    op.push(rows(*range(13)))
    blob = op.snapshot()
    with pytest.raises(SnapshotMismatch, match=r"'b'.*gives d = Spread\(v\).*query\.add\('b', window, d=\.\.\.\)"):
        query.operator(restore=blob, trusted=True)
    again = query.add("b", pn.tumbling(5), d=Spread("v")).operator(restore=blob, trusted=True)
    assert again.finish().table == op.finish().table


def test_a_query_enlarged_otherwise_is_another_query() -> None:
    op = counting().operator()
    op.add("b", pn.tumbling(5), top="max(v)")
    blob = op.snapshot()
    for other in (
        counting().add("b", pn.tumbling(5), top="min(v)"),
        counting().add("b", pn.tumbling(6), top="max(v)"),
        counting().add("c", pn.tumbling(5), top="max(v)"),
        counting().add("b", pn.tumbling(5)),
    ):
        with pytest.raises(SnapshotMismatch, match="belongs to another query"):
            other.operator(restore=blob)


def test_a_declared_query_runs_explains_itself_and_is_told_apart() -> None:
    data = pa.Table.from_pylist(rows(*range(21)))
    query = pn.stream(data, time="t", key="k").window(a=pn.tumbling(10)).agg(n="count(*)")
    both = query.add("b", pn.tumbling(5), m="sum(v) / count(*)")
    table = both.to_arrow()
    assert table.schema.names == ["k", "window", "window_start", "window_end", "n", "m", "revision"]
    assert table.filter(pc.equal(table["window"], "a"))["m"].null_count == 3
    assert both.identity == ("k", "window", "window_start", "window_end")
    assert got(both.latest()["b"], "m") == [(2.0,), (7.0,), (12.0,), (17.0,), (20.0,)]
    assert "b  m = sum(v) / NULLIF(count(*), 0)" in str(both.explain())
    assert both.where("m > 10").to_arrow().num_rows == 3
    assert both.select("window", x="coalesce(m, n)").to_arrow().num_rows == 8
    with pytest.raises(QueryError, match=r"to_cql\(\): the window 'b' has aggregates of its own"):
        both.to_cql()
    with pytest.raises(QueryError, match="before where, select and order_by"):
        both.where("m > 1").add("c", pn.tumbling(3))


def test_steps_of_a_query_are_done_to_what_is_added_later() -> None:
    op = counting().where("coalesce(n, 9) > 1").operator()
    op.add("b", pn.tumbling(5), top="max(v)")
    assert got(op.push(rows(*range(11)))["b"], "top") == [(4,), (9,)]
    op.remove("a")  # the condition still looks at what it gave
    assert got(op.finish(), "n", "top") == [(None, 10)]
    op = counting().select("window", "window_end", twice="2 * n").operator()
    op.add("b", pn.tumbling(5), top="max(v)")
    out = op.push(rows(*range(11)))
    assert got(out["b"], "window_end", "twice") == [(5, None), (10, None)]


def test_a_relation_gives_no_aggregates_of_one_window() -> None:
    op = stream().window(a=pn.tumbling(10)).relation("v").operator()
    with pytest.raises(QueryError, match="leave the aggregates out"):
        op.add("b", pn.tumbling(5), n="count(*)")
    assert isinstance(op, SliceOperator)


def test_one_key_is_looked_at_though_its_windows_are_in_both_lanes_and_give_different_aggregates() -> None:
    op = counting().operator()
    op.add("top", pn.tumbling(5), top="max(v)")
    op.add("two", pn.tumbling(pn.rows(2)), low="min(v)", mid=pn.median("w"))
    op.add("visit", pn.session(3), low="min(v)")
    op.push(rows(6, 7, 8))
    out = op.peek("x")
    assert got(out["a"], "n") == [(3,)]
    assert got(out["top"], "top") == [(8,)]
    assert got(out["two"], "window_from", "low", "mid") == [(2, 8, 4.0)]
    assert got(out["visit"], "low") == [(6,)]
    assert out["two"].column_names[-3:] == ["low", "mid", "revision"]


def test_what_belongs_to_a_label_is_known_by_the_windows_that_were_there_when_results_were_given() -> None:
    op = counting().operator()
    op.add("b", pn.tumbling(5), top="max(v)")
    out = op.push(rows(*range(11)))
    want = out["a"].table, out["b"].table
    op.remove("a")
    op.add("c", pn.tumbling(pn.rows(2)), low="min(v)")
    assert (out["a"].table, out["b"].table) == want
    with pytest.raises(QueryError, match=r"no query 'c' among these results; there are a, b"):
        out["c"]


def test_one_name_has_one_type_also_when_the_window_that_gave_it_first_is_gone() -> None:
    op = counting().operator()
    op.remove("a")
    op.add("b", pn.tumbling(5), n="avg(v)")
    with pytest.raises(QueryError, match=r"add\('c'\): the output 'n' is int64 here and double in 'b'"):
        op.add("c", pn.tumbling(5))
    assert got(op.push(rows(*range(6))), "n") == [(2.0,)]
    op = counting().where("n > 1").operator()
    op.remove("a")
    with pytest.raises(QueryError, match=r"the output 'n' is double here and int64 in 'agg\(\)'"):  # where looks at it
        op.add("b", pn.tumbling(5), n="avg(v)")


@pytest.mark.parametrize("sets", [1, 2])
def test_partials_put_together_are_counted_whoever_gives_what(sets: int) -> None:
    own = {"n": "count(*)", "total": "sum(v)", "top": "max(v)"} if sets == 2 else {"n": "count(*)"}
    query = counting().add("b", pn.sliding(40, every=5), **own).add("c", pn.sliding(50, every=5))
    op = query.operator()
    op.push(rows(*range(100)))
    folded = op.metrics["combines"]
    assert folded > 100
    op.add("d", pn.tumbling(10), mid=pn.median("v"))  # the store becomes another one
    assert op.metrics["combines"] >= folded


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ("10 s", "the window 'b' must be a window such as"),
        (pn.session("nowhere"), "window 'b': there is no column 'nowhere'"),
        (pn.policy(central_trigger=pn.policies.count(3), central_evict=pn.policies.count(5)), "'b': .*lateness="),
    ],
)
def test_a_window_is_refused_with_the_same_words_in_a_query_and_while_it_runs(window: object, message: str) -> None:
    query = counting(lateness=5)
    with pytest.raises(QueryError, match=message) as declared:
        query.add("b", window)
    with pytest.raises(QueryError, match=message) as running:
        query.operator().add("b", window)
    assert str(declared.value) == str(running.value)


def test_aggregates_are_written_as_in_agg_and_not_as_in_a_snapshot() -> None:
    with pytest.raises(QueryError, match="as SQL text, not as a dict"):
        counting().operator().add("b", pn.tumbling(5), top={"sql": "max(v)"})


def test_a_relation_is_refused_by_name() -> None:
    query = stream().window(a=pn.tumbling(10)).relation("v")
    for aggregates in ({}, {"n": "count(*)"}):
        with pytest.raises(QueryError, match=r"add\('b'\): this query gives relations or rows of its windows"):
            query.add("b", pn.tumbling(5), **aggregates)
    op = query.operator()
    op.add("b", pn.tumbling(5))  # while it runs a window comes along, and gives what the others give
    assert list(op.windows) == ["a", "b"]


def test_rows_that_wait_serve_whoever_is_left_also_after_a_restore() -> None:
    query = stream(watermark=3).window(one=pn.tumbling(pn.rows(1))).agg(most=pn.mode("w"))
    op = query.operator()
    op.add("two", pn.tumbling(pn.rows(2)), total="sum(v)")
    op.push(rows(3))
    op.remove("one")  # from here on nobody looks at w
    op = query.operator(restore=op.snapshot())
    op.remove("two")  # no window is left, and what comes next may give what the query gives
    op = query.operator(restore=op.snapshot())
    op.add("again", pn.tumbling(pn.rows(1)))
    assert got(op.push(rows(8, 12)), "window", "window_from", "most") == [("again", 0, 1.5), ("again", 1, 4.0)]


@pytest.mark.parametrize("watermark", [None, 3])
def test_empty_windows_of_a_query_that_is_gone_are_in_no_snapshot(watermark: int | None) -> None:
    query = stream(watermark=watermark).window(a=pn.tumbling(10), emit_empty=True).agg(n="count(*)")
    op = query.operator()
    op.add("b", pn.tumbling(5), top="max(v)")
    op.push(rows(1, 23))
    op.remove("b")
    again = query.operator(restore=op.snapshot())
    assert again.push(rows(60)).table == op.push(rows(60)).table
    assert again.finish().table == op.finish().table


def test_changes_since_an_epoch_follow_a_restore_into_the_enlarged_query() -> None:
    query = counting()
    op = query.operator()
    op.add("b", pn.tumbling(5), top="max(v)")
    op.push(rows(1, 2))
    whole, enlarged = op.snapshot(epoch=1), query.add("b", pn.tumbling(5), top="max(v)")
    op = enlarged.operator(restore=whole)
    op.push(rows(3))
    more = op.snapshot(epoch=2, since=1)
    op.push(rows(4))
    again = enlarged.operator(restore=[whole, more, op.snapshot(epoch=3, since=2)])
    assert got(again.finish(), "window", "n", "top") == [("b", None, 4), ("a", 4, None)]
