"""Queries of the Python API as CQL: the text gives the same results, and the same text again."""

from __future__ import annotations

import re
from typing import Any

import pytest

import panes as pn
from panes.errors import QueryError
from tests.cql.test_statements import cases, streams_of

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
    "early": lambda s: s.window(w=pn.tumbling(10), v=pn.session(3)).agg(n="count(*)").early(4),
    "rows": lambda s: s.where("price > 3").select("price", q="qty * 2.5"),
    "count windows": lambda s: s.window(pn.tumbling(pn.rows(3), partial=True)).agg(n="sum(price)"),
    "mixed": lambda s: s.window(w=pn.sliding(5, every=pn.rows(4), align="end", partial=True)).agg(n="sum(price)"),
    "aligned to the start": lambda s: s.window(w=pn.sliding(7, every=3), e=pn.sliding(7, every=3, align="end")).agg(
        n="sum(price)"
    ),
    "rows aligned to the start": lambda s: s.window(w=pn.sliding(pn.rows(5), every=pn.rows(2))).agg(n="sum(price)"),
    "on change": lambda s: s.window(
        a=pn.sliding(pn.rows(3), every="2 ms"),
        b=pn.sliding(pn.rows(3), every="2 ms", unchanged=True),
        c=pn.on_change(pn.sliding(6, every=2)),
        d=pn.on_change(pn.tumbling(6, offset=1)),
    ).agg(n="sum(price)"),
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
    "punctuated by ends": lambda s: s.window(w=pn.punctuated(end="qty = 2")).agg(n="count(*)"),
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
    "rows of windows": lambda s: s.window(w=pn.tumbling(10)).relation("*"),
    "the best of each window": lambda s: s.window(w=pn.sliding(10, every=5)).relation(
        {"price": "price", "worth": "price * qty"}, order_by=["worth DESC", "price"], limit=2
    ),
    "groups in windows": lambda s: s.window(w=pn.tumbling(pn.rows(6), partial=True)).relation(
        {"q": "qty", "n": "count(*)"}, group_by="qty", having="n > 1", order_by="qty DESC", distinct=True
    ),
    "join": lambda s: pn.join(
        s.key_by().where("qty > 0"),
        s.key_by().select("ts", "qty", low="price / 2"),
        window=pn.tumbling(8),
        how="left",
        on="l.qty = r.qty AND l.price > r.low",
        entries={"k": "l.k", "n": "count(*)", "lowest": "min(r.low)"},
        group_by="l.k",
        having="count(*) > 1",
    ),
    "join of three columns": lambda s: pn.join(
        s.key_by(),
        s.key_by(),
        window={"w": pn.sliding(6, every=3)},
        how="full",
        using=["qty", "k"],
        entries="*",
        where="l.price < 9",
    ),
    "over a join": lambda s: (
        pn.join(
            s.key_by(),
            s.key_by(),
            window=pn.tumbling(4),
            how="inner",
            using="qty",
            entries={"qty": "qty", "p": "r.price"},
        )
        .stream()
        .window(w=pn.tumbling(12))
        .agg(total="sum(p)")
    ),
    "once per instant": lambda s: s.window(w=pn.once_per_instant(pn.tumbling(pn.rows(2), partial=True))).agg(
        n="sum(qty)"
    ),
}


CASES |= {
    "waits": lambda s: (
        s.select("price", t="ts + 1").with_time("t", watermark=5).window(w=pn.session(2)).agg(n="count(*)")
    )
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
        (lambda s: s.window(pn.tumbling(5)).relation("*", where="qty > 1"), "WHERE in CQL comes before windows"),
        (lambda s: s.window(pn.tumbling(5)).relation("count(*)", group_by="qty + 1"), "PARTITIONED BY takes columns"),
        (lambda s: pn.join(s, s, window=pn.tumbling(5), using="qty", entries=["l.price"]), "joins key by key"),
        (lambda s: s.window(pn.policy(trigger=p.count(5, start=-2))).agg(n="count(*)"), "no words for count"),
        (lambda s: s.window(pn.policy(trigger=p.count(5), end=False)).agg(n="count(*)"), "the end of a stream"),
        (lambda s: s.window(pn.policy(central_trigger=p.count(5))).agg(n="count(*)"), "central policies"),
    ],
)
def test_what_cql_can_not_say(build: Any, reason: str) -> None:
    with pytest.raises(QueryError, match=reason):
        build(source()).to_cql()


#: statements over one stream of named rows, without a clock of their own
STATEMENTS = [
    param
    for param in cases()
    if "rows" in param.values[0]
    and "clock" not in param.values[0]
    and len(tables := streams_of(*param.values)) == 1
    and all(isinstance(row, dict) for rows in tables.values() for row in rows)
]


@pytest.mark.parametrize(("case", "data"), STATEMENTS)
def test_statements_are_written_again(case: dict[str, Any], data: dict[str, Any]) -> None:
    """Every query of CQL, as a query, as text again."""
    (rows,) = streams_of(case, data).values()
    query = pn.sql(case["run"], streams_of(case, data))
    text = query.to_cql()
    names = re.findall(r"SOURCE STREAM \('(\w+)'\)", text)
    again = pn.sql(text, dict.fromkeys(names, rows)).to_arrow()
    given = query.to_arrow()
    assert again.schema.equals(given.schema)
    assert sorted(map(repr, again.to_pylist())) == sorted(map(repr, given.to_pylist())), text
