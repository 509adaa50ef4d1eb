"""Queries of the Python API as CQL: the text gives the same results, and the same text again."""

from __future__ import annotations

from typing import Any

import pytest

import panes as pn
from panes.errors import QueryError

p = pn.policies
DATA = [{"ts": i, "k": "ab"[i % 2], "price": 1.5 * i, "qty": i % 3} for i in range(40)]


def source() -> pn.stream:
    return pn.stream(DATA, time="ts", key="k", watermark=2)


CASES: dict[str, Any] = {
    "aggregates": lambda s: (
        s.with_columns(z="price * 1.05")
        .window(f=pn.sliding(10, every=5))
        .agg(
            vwap="sum(price * qty) / sum(qty)",
            p=pn.quantile("z", 0.9),
            d="count(distinct qty)",
            m=pn.median("price"),
            f="sum(price) filter (where qty > 1)",
            a=pn.arg_max("price", "qty"),
        )
    ),
    "steps": lambda s: (
        s.where("qty > 0")
        .window(a=pn.tumbling("10 ms"), b=pn.session(2))
        .agg(n="count(*)")
        .where("n > 1")
        .order_by("n desc")
        .select("k", "window", x="n + 1")
    ),
    "rows": lambda s: s.where("price > 3").select("price", q="qty * 2.5"),
    "count windows": lambda s: s.window(pn.tumbling(pn.rows(3), partial=True)).agg(n="sum(price)"),
    "mixed": lambda s: s.window(w=pn.sliding(5, every=pn.rows(4), align="end", partial=True)).agg(n="sum(price)"),
    "over a query": lambda s: (
        s.window(a=pn.tumbling(10)).agg(n="sum(price)").stream(key="k").window(b=pn.tumbling(20)).agg(m="max(n)")
    ),
    "merge": lambda s: (
        pn.merge(s.where("qty = 1"), s.where("qty = 2")).window(w=pn.delta(5, on="price")).agg(n="count(*)")
    ),
    "computed key": lambda s: (
        s.with_columns(g="qty + 1").key_by("g").window(w=pn.cumulate(5, max=20)).agg(n="count(*)")
    ),
    "landmark": lambda s: s.window(w=pn.landmark(3, every=10)).agg(n="count(*)"),
    "fixed": lambda s: s.window(w=pn.fixed(3, 12), v=pn.fixed_band(0, size=7)).agg(n="count(*)"),
    "punctuated": lambda s: s.window(w=pn.punctuated(begin="qty = 0", end="qty = 2")).agg(n="count(*)"),
    "threshold": lambda s: s.window(w=pn.threshold("qty > 0", min_rows=2)).agg(n="count(*)"),
    "policies": lambda s: s.window(
        counts=pn.policy(evict=p.count(4), trigger=p.count(3)),
        times=pn.policy(evict=[p.count(3), p.time("9 ms")], trigger=[p.time(4), p.punctuation(2, on="qty")]),
        nested=pn.policy(
            evict=p.smallest(p.count(5), p.largest(p.time(6), p.delta(2, on="price + 1"))),
            trigger=p.all_of(p.count(1), p.any_of(p.delta(1, on="price"), p.punctuation(True, on="qty > 1"))),
        ),
        tumbling=pn.policy(trigger=p.punctuation(1, on="qty")),
    ).agg(n="count(*)", total="sum(price)"),
    "once per instant": lambda s: s.window(w=pn.once_per_instant(pn.tumbling(pn.rows(2), partial=True))).agg(
        n="sum(qty)"
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_text_gives_the_same(name: str) -> None:
    query = CASES[name](source())
    text = query.to_cql()
    again = pn.sql(text, {"data": DATA})
    given, found = query.to_arrow(), again.to_arrow()
    assert given.num_rows
    assert found.schema.equals(given.schema)
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, given.to_pylist()))
    assert pn.sql(again.to_cql(), {"data": DATA}).to_arrow().num_rows == given.num_rows


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (lambda s: s.window(pn.tumbling(pn.rows(3))).agg(n="count(*)"), "partial=True"),
        (lambda s: s.window(pn.tumbling(5), emit_empty=True).agg(n="count(*)"), "emit_empty"),
        (lambda s: s.window(pn.tumbling(5)).relation("*"), "relations"),
        (lambda s: s.window(pn.policy(trigger=p.count(5, start=-2))).agg(n="count(*)"), "no words for count"),
        (lambda s: s.window(pn.policy(trigger=p.count(5), end=False)).agg(n="count(*)"), "the end of a stream"),
        (lambda s: s.window(pn.policy(central_trigger=p.count(5))).agg(n="count(*)"), "central policies"),
    ],
)
def test_what_cql_can_not_say(build: Any, reason: str) -> None:
    with pytest.raises(QueryError, match=reason):
        build(source()).to_cql()
