"""Hostile text in short form; `python -m tests.cql.hostile --strings 1000000` is the long one."""

from __future__ import annotations

import pytest

from panes.cql.errors import CqlError
from panes.cql.parse import parse
from tests.cql.hostile import hostile, outcome

TEXTS = {
    "brackets": "(" * 10_000,
    "closing brackets": "select " + ")" * 10_000,
    "square brackets": "select a from t " + "[" * 10_000,
    "deep expression": "select " + "(" * 500 + "a" + ")" * 500 + " from t",
    "deep query": "select a from " + "(select a from " * 500 + "t" + ")" * 500,
    "deep cases": "select " + "case when " * 300 + "a" + " then 1 end" * 300 + " from t",
    "many signs": "select " + "- " * 1_900 + "a from t",
    "long chain": "select " + " + ".join(["a"] * 900) + " from t",
    "calls behind points": "select " + ".".join(["f(1)"] * 390) + " from t",
    "long list": "select " + ", ".join(["a"] * 5_000) + " from t",
    "large text": "select '" + "x" * 1_000_000,
    "large literal": "select '" + "x" * 900_000 + "' from t",
    "large number": "select " + "9" * 10_000 + " from t",
    "large name": "select " + "n" * 10_000 + " from t",
    "NUL": "select a\x00 from t",
    "escape": "select \x1b[31m from t",
    "half a surrogate pair": "select '\ud800' from t",
    "half a surrogate pair, alone": "\udfff",
    "reversed text": "select a from t -- \u202e",
    "quote": "select 'a from t; select 'b from t",
    "double quote": 'select "a from t',
    "backquote": "select `a from t",
    "comment": "select a /* from t",
    "injection": "select a from t; PRAGMA database_list; ATTACH 'x' AS y; COPY t TO 'x'",
    "injection behind a quote": "select a from t where b = ''; DROP TABLE t; --'",
    "file": "select * from 'x.parquet'",
    "table function": "select * from read_csv('/etc/passwd')",
    "template": "select {{ x }} from t",
    "a unit that is none": "select f(INTERVAL 1e9 DELTA / TIMESTAMP) from t",
    "a unit that is a keyword": "select interval '3 AS ays' - interval 2 hours from t",
    "a sign before a gap": "select a from s [session +'30 minutes'^s]",
    "a size of a type that has none": "select try_cast(a as DATETIME (10, 2)) from t",
    "types that look like functions": "select " + "decimal(" * 30 + "a" + ")" * 30 + " from t where",
}


@pytest.mark.parametrize("name", TEXTS)
def test_hostile_text_is_refused_with_a_place(name: str) -> None:
    with pytest.raises(CqlError) as raised:
        parse(TEXTS[name])
    str(raised.value).encode()
    assert outcome(TEXTS[name]).kind in ("refused", "slow")


@pytest.mark.parametrize("start", range(0, 2000, 500))
def test_random_strings_never_crash_the_parser(start: int) -> None:
    bad = {}
    for number in range(start, start + 500):
        found = outcome(hostile(4, number))
        # time is for the command to judge, on a machine that does nothing else
        if found.failed and found.kind != "slow":
            bad[number] = found
    assert not bad


def test_a_deep_stack_of_the_caller_is_no_crash() -> None:
    def call(depth: int) -> None:
        if depth:
            call(depth - 1)
        else:
            parse("select " + "(" * 30 + "a" + ")" * 30 + " from t")

    with pytest.raises(CqlError, match="nested too deeply"):
        call(700)
