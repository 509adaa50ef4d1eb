"""The formatter: what it gives reads as before, keeps every comment, and stays as it is when formatted again."""

from __future__ import annotations

import random
import re

import pytest

from panes.cql.dialect import Cql
from panes.cql.errors import CqlError
from panes.cql.layout import format_text
from panes.cql.parse import parse
from tests.cql.fixtures import fixtures

VALID = [fixture.text for fixture in fixtures() if fixture.valid]
COMMENTS = (
    "-- note %d\n",
    "/* note %d */",
    "\n-- note %d\n",
    "\n/* note %d\n   second line */\n",
    "\n\n  -- note %d\n\n\n",
)

SAMPLES = {
    "short statements are one line": (
        "select a,avg( b ) as m from t[size 10 min on ts]group   by a",
        "SELECT a, avg(b) AS m FROM t [SIZE 10 min ON ts] GROUP BY a;\n",
    ),
    "long ones have a clause per line": (
        "select symbol, avg(price) as mean from trades [size 10 min on ts] where price > 10 and quantity between 1 "
        "and 5 group by symbol having mean > 3 order by symbol limit 5;",
        "SELECT symbol, avg(price) AS mean\nFROM trades [SIZE 10 min ON ts]\n"
        "WHERE price > 10 AND quantity BETWEEN 1 AND 5\nGROUP BY symbol\nHAVING mean > 3\nORDER BY symbol\nLIMIT 5;\n",
    ),
    "definitions": (
        "create stream trades(symbol string, price decimal( 10,2 ), ts timestamp) source file('trades/*.csv') "
        "watermark 2sec on ts",
        "CREATE STREAM trades (symbol string, price decimal(10, 2), ts timestamp)\n"
        "SOURCE FILE ('trades/*.csv')\nWATERMARK 2 sec ON ts;\n",
    ),
    "long lists, queries in queries and windows": (
        "select aaaaaaaaaaaaaaaaaaaaaa, bbbbbbbbbbbbbbbbbbbbbbbbbbbb, cccccccccccccccccccccccc, ddddddddddddddddddddd "
        "from (select aaaaaaaaaaaaaaaaaaaaaa, b from eeeeeeeeeeeeeeeeeeeeeeeeeeee where f > 3) [size 10 min every "
        "5 sec on ts partitioned by gggggggggggggggg where hhhhhhhhhhhhhhhhhh > 100000 as iiiiiii] as x join y using k",
        "SELECT\n    aaaaaaaaaaaaaaaaaaaaaa,\n    bbbbbbbbbbbbbbbbbbbbbbbbbbbb,\n    cccccccccccccccccccccccc,\n"
        "    ddddddddddddddddddddd\nFROM (SELECT aaaaaaaaaaaaaaaaaaaaaa, b FROM eeeeeeeeeeeeeeeeeeeeeeeeeeee "
        "WHERE f > 3) [\n    SIZE 10 min\n    EVERY 5 sec ON ts\n    PARTITIONED BY gggggggggggggggg\n"
        "    WHERE hhhhhhhhhhhhhhhhhh > 100000\n    AS iiiiiii\n] AS x\nJOIN y USING k;\n",
    ),
    "comments stay": (
        "-- first\n\n\nselect a, -- of a\n b /* of b */ from t; -- behind\n\n-- last\nmerge a,b -- no end",
        "-- first\n\nSELECT\n    a, -- of a\n    b /* of b */\nFROM t; -- behind\n\n-- last\nMERGE a, b; -- no end\n",
    ),
    "splits": (
        "on s insert into a select x where x>3;insert into b select y where y<-3;show streams",
        "ON s INSERT INTO a SELECT x WHERE x > 3;\n    INSERT INTO b SELECT y WHERE y < -3;\nSHOW STREAMS;\n",
    ),
    "names are left as they are": (
        "select Size, t.Left, Max(First), `From` from Stream t where a- -1 > - .5 and not b<<2=1",
        "SELECT Size, t.Left, Max(First), `From` FROM Stream t WHERE a - -1 > -.5 AND NOT b << 2 = 1;\n",
    ),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_statement_is_laid_out_in_one_way(name: str) -> None:
    text, expected = SAMPLES[name]
    assert format_text(text) == expected
    assert format_text(expected) == expected


def statements(text: str) -> list[str]:
    return [found.statement.cql() for found in parse(text)]


@pytest.mark.parametrize("width", [30, 100])
def test_formatting_twice_changes_nothing(width: int) -> None:
    for text in VALID:
        formatted = format_text(text, width)
        assert statements(formatted) == statements(text)
        assert format_text(formatted, width) == formatted


@pytest.mark.parametrize("seed", range(60))
def test_comments_anywhere_stay_in_order(seed: int) -> None:
    dice = random.Random(seed)
    plain = "; ".join(dice.choices(VALID, k=3))
    commented = with_comments(plain, dice)
    assert statements(commented) == statements(plain)
    for width in (40, 100):
        formatted = format_text(commented, width)
        assert statements(formatted) == statements(plain)
        assert re.findall(r"note \d+", formatted) == re.findall(r"note \d+", commented)
        assert format_text(formatted, width) == formatted


def with_comments(text: str, dice: random.Random) -> str:
    """`text` with comments put between its tokens."""
    pieces, last = [], 0
    for token in Cql().tokenize(text):
        # keywords of two words are one token, and << is two that must stay together
        if dice.random() < 0.2 and text[token.start - 1 : token.start] not in ("<", ">"):
            pieces += [text[last : token.start], dice.choice(COMMENTS) % len(pieces)]
            last = token.start
    return "".join([*pieces, text[last:]])


def test_text_that_can_not_be_read_is_left_to_its_author() -> None:
    with pytest.raises(CqlError, match="did you mean FROM"):
        format_text("select a form t")


def test_text_without_statements_keeps_its_comments() -> None:
    assert format_text("") == ""
    assert format_text("  ;;\n") == ""
    assert format_text("-- only this\n\n\n/* and that */") == "-- only this\n\n/* and that */\n"


@pytest.mark.parametrize(
    "text",
    [
        "/* a */ /* b */ /* c */",
        "/* a */ /* b */ select a from t",
        "select a\n/* b */ /* c */ from t",
        "on t insert into a select * where b\n--\n/* c */ ; insert into c select * where d",
        "select a from t -- a\n/* b */ ; -- c\n/* d */ ; /* e */ select b from t /* f */\n/* g */",
    ],
)
def test_comments_on_lines_of_their_own(text: str) -> None:
    formatted = format_text(text)
    assert format_text(formatted) == formatted
    assert re.findall(r"/\* . \*/", formatted) == re.findall(r"/\* . \*/", text)
