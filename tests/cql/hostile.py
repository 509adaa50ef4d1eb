"""Hostile text against the parser: `python -m tests.cql.hostile --strings 100000 --seed 1 --jobs 2`.

Each string must be read or refused with a CqlError, in less than 100 ms of computing. One that is read must be
written and read again as the same tree, and be formatted twice with the same outcome. String number N of seed
S is made again by `hostile(S, N)`.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from panes.cql.errors import CqlError
from panes.cql.layout import lay_out
from panes.cql.layout_atoms import KEYWORDS
from panes.cql.lexing import MAX_STATEMENT
from panes.cql.parse import Located, parse, parse_all, parse_one
from panes.cql.tree import Statement
from panes.plan.functions import SCALAR_FUNCTIONS
from tests.cql.fixtures import fixtures

LIMIT = 0.1
CHUNK = 500

TEXTS = tuple(fixture.text for fixture in fixtures())
SIGNS = (*"()[]{},.;*+-/%=<>!~|&^?@#$:\\'\"`", *"<< >> || <=> <> != == => -- /* */ ::".split())
VALUES = r"""1 0 -1 .5 3. 1e9 1e999 1e 999999999999999999999999999 'x' "y" `z` '' 'a''b' '\'' '\u0000'""".split()
TYPES = "INT STRING TIMESTAMP DECIMAL(10,2) DECIMAL CHAR DATE STRUCT<a:INT> ARRAY<INT> MAP".split()
NAMES = "a b t ts window window_start Ünï 中文 count avg sec min hour month".split()
#: Pieces of the languages of engines, one per line.
ENGINE = """
PRAGMA
ATTACH 'x' AS y
COPY t TO 'x.csv'
INSTALL httpfs
LOAD 'x'
DELETE FROM t
UPDATE t SET a = 1
DROP TABLE t
UNION ALL SELECT * FROM t
read_csv('/etc/passwd')
(SELECT * FROM 'x.parquet')
EXISTS
WITH x AS (SELECT 1)
VALUES (1)
OVER (PARTITION BY a)
LATERAL VIEW explode(a)
EXECUTE IMMEDIATE 'x'
SET a = 1
USE x
CALL f()
TRUNCATE t
{{ x }}
{# x #}
{% x %}
/*+ hint */
$$x$$
@x
:x
?
a -> a + 1
a::INT
PIVOT
QUALIFY
TABLESAMPLE
ARRAY[1]
ANY (1)
ALL (1)
CURRENT_DATE
NEXT VALUE FOR s
""".strip().split("\n")
#: What may be put into itself: how it begins, and behind a bar how it ends.
NESTED = """
(|)
[|]
{|}
f(|)
int(|)
decimal(|)
char(|)
cast(| as int)
case when | then 1 end
case | end
not |
-|
- |
~|
a = (|)
(select a from |)
a in (|)
if(|, 1, 2)
interval | day
a between | and 1
(a, |)
/*|*/
explain |
trim(both | from a)
a.|
timestamp(|)
coalesce(|, 1)
""".strip("\n").split("\n")
ODD = "\x00\x01\x07\x08\x0b\x0c\x1b\x7f\x85\xa0\u200b\u202e\u2028\ufeff\ud800\udfff\U0001f600\u0301\r\t\n"
WORDS = (*sorted(KEYWORDS), *sorted(SCALAR_FUNCTIONS), *SIGNS, *VALUES, *TYPES, *NAMES, *ENGINE)


# --- strings ----------------------------------------------------------------------------------------------


def hostile(seed: int, number: int) -> str:
    dice = random.Random(f"{seed}/{number}")
    makers: tuple[Callable[[random.Random], str], ...] = (mutated, soup, nested, repeated, injected, noise, huge)
    (make,) = dice.choices(makers, weights=(40, 25, 8, 8, 12, 6, 1))
    return make(dice)


def mutated(dice: random.Random) -> str:
    """A statement with a few pieces of it removed, doubled, moved or put in from elsewhere."""
    text = dice.choice(TEXTS)
    for _ in range(dice.randint(1, 6)):
        start, end = sorted(dice.randrange(len(text) + 1) for _ in range(2))
        end = min(end, start + dice.choice((1, 1, 2, 5, 20)))
        other = dice.choice(TEXTS)
        cut = dice.randrange(len(other) + 1)
        piece = dice.choice((
            "", "", text[start:end] * 2, text[start:end][::-1], text[start:end].swapcase(), other[cut : cut + 15],
            f" {dice.choice(WORDS)} ", dice.choice(SIGNS), dice.choice(ODD),
        ))  # fmt: skip
        text = text[:start] + piece + text[end:]
        if dice.random() < 0.05:
            text = text[: dice.randrange(len(text) + 1)]
        text = text or " "
    return text


def soup(dice: random.Random) -> str:
    """Words in no order, in the place of an expression, a window or a statement."""
    words = dice.choices(WORDS, k=dice.choice((1, 2, 3, 5, 8, 20, 100)))
    inner = dice.choice(("", " ", " ")).join(words)
    frames = ("%s", "select %s from t", "select a from t where %s", "select a from t [%s]", "create %s")
    more = ("select a from t [size 3 %s]", "select f(%s) from t", "on t insert into %s")
    return dice.choice((*frames, *more)).replace("%s", inner)


def nested(dice: random.Random) -> str:
    """Something in itself, many times, closed or not."""
    pair = dice.choice(NESTED) if dice.random() < 0.8 else f"{dice.choice(WORDS)} |{dice.choice(SIGNS)}"
    opening, _, closing = pair.partition("|")
    count = dice.choice((3, 10, 31, 33, 64, 66, 200, 1000, 10_000))
    middle = dice.choice(("a", "", "1", "'x'"))
    text = opening * count + middle + closing * dice.choice((count, 0, count - 1))
    return dice.choice(("%s", "select %s from t", "select a from %s", "select a from t [size 3 where %s]")).replace(
        "%s", text
    )


def repeated(dice: random.Random) -> str:
    """A chain of the same thing."""
    sign = dice.choice(
        (*SIGNS, " and ", " or ", " not ", " is null ", " between ", " like ", " ", ", ", " join ", "; ", " as ")
    )
    item = dice.choice((*NAMES, *VALUES, *WORDS))
    text = sign.join([item] * dice.choice((2, 10, 100, 250, 900, 5000)))
    return dice.choice(
        ("%s", "select %s from t", "select a from %s", "select a from t group by %s", "merge %s")
    ).replace("%s", text)


def injected(dice: random.Random) -> str:
    """A statement with a piece of an engine's language in it."""
    text, piece = dice.choice(TEXTS), dice.choice(ENGINE)
    if dice.random() < 0.5:
        place = dice.choice([i for i, c in enumerate(text) if c == " "] or [0])
        return f"{text[:place]} {piece} {text[place:]}"
    before, after = dice.choice(
        ((";", ""), ("'; ", " --"), ("/* */", "/*"), ("\n--\n", ""), ("`", "`"), ("') ", "('"), ("]", "["))
    )
    place = dice.randrange(len(text) + 1)
    return f"{text[:place]}{before}{piece}{after}{text[place:]}"


def noise(dice: random.Random) -> str:
    """Characters of all kinds."""
    size = dice.choice((1, 5, 50, 500))
    kind = dice.random()
    if kind < 0.4:
        return "".join(chr(dice.randrange(256)) for _ in range(size))
    if kind < 0.7:
        return "".join(chr(dice.randrange(0x3000)) for _ in range(size))
    return "".join(dice.choice(ODD + "abc ;'\"`()[]-*/1.") for _ in range(size))


def huge(dice: random.Random) -> str:
    """Very much of something."""
    size = dice.choice((2_000, 19_900, 25_000, 300_000, 999_000, 1_100_000))
    unit = dice.choice(
        (
            "a",
            "1",
            "'",
            '"',
            "`",
            "(",
            "[",
            ";",
            " ",
            "\n",
            "a ",
            "a,",
            "a+",
            "-",
            "/*",
            "*/",
            "--",
            "\\",
            "é",
            "x;",
            "''",
        )
    )
    text = (unit * (size // len(unit) + 1))[:size]
    return dice.choice(
        ("%s", "select '%s' from t", "select %s from t", "select `%s` from t", "/*%s*/", "-- %s")
    ).replace("%s", text)


# --- what becomes of them ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """`kind` is read, refused, or what went wrong; seconds are of computing and of the clock."""

    kind: str
    seconds: float
    clock: float
    detail: str = ""

    @property
    def failed(self) -> bool:
        return self.kind not in ("read", "refused")


def outcome(text: str) -> Outcome:
    found, problem, seconds, clock = _parsed(text)
    for _ in range(2):
        if seconds > LIMIT:  # if it is the text, and not the machine, it takes as long again
            seconds, clock = min((seconds, clock), _parsed(text)[2:])
    try:
        detail = _wrong_error(problem, text) if problem else _wrong_reading(text, [f.statement for f in found])
    except (Exception, RecursionError) as error:
        detail = f"{type(error).__name__}: {error}"
    if detail:
        return Outcome("foreign" if problem and not isinstance(problem, CqlError) else "wrong", seconds, clock, detail)
    if seconds > LIMIT and problem:
        return Outcome("slow", seconds, clock, f"{seconds * 1000:.0f} ms")
    return Outcome("refused" if problem else "read", seconds, clock)


def _parsed(text: str) -> tuple[tuple[Located, ...], BaseException | None, float, float]:
    """What is read or raised, and the seconds that it took: of computing, and of the clock."""
    found: tuple[Located, ...] = ()
    problem: BaseException | None = None
    started, clock = time.thread_time(), time.perf_counter()
    try:
        found = parse(text)
    except (Exception, RecursionError) as error:
        problem = error
    return found, problem, time.thread_time() - started, time.perf_counter() - clock


def _wrong_error(error: BaseException, text: str) -> str:
    if not isinstance(error, CqlError):
        return f"{type(error).__name__}: {error}"
    str(error).encode()
    if error.span is not None and not 0 <= error.span.start <= len(text):
        return f"a place outside of the text: {error.span}"
    if len(str(error)) > 2000:
        return "the message is very long"
    # of one statement, `parse` is `parse_all`
    return "" if ";" not in text or parse_all(text)[1] else "parse_all finds no error"


def _wrong_reading(text: str, statements: Sequence[Statement]) -> str:
    for statement in statements:
        written = statement.cql()
        # escapes can make a text longer than a statement may be
        if len(written) <= MAX_STATEMENT and parse_one(written) != statement:
            return f"read otherwise when written: {written}"
    formatted, found = lay_out(text)
    if len(formatted) > MAX_STATEMENT:  # as blanks and line ends can
        return ""
    twice, again = lay_out(formatted)
    if [f.statement for f in found] != statements or [f.statement for f in again] != statements:
        return f"read otherwise when formatted: {formatted}"
    return "" if twice == formatted else f"formatted otherwise the second time: {formatted}"


def chunk(seed: int, first: int, count: int) -> list[tuple[int, Outcome]]:
    # what the strings before have left behind is none of a string's time
    gc.collect()
    gc.freeze()
    gc.disable()
    found = []
    for number in range(first, first + count):
        found.append((number, outcome(hostile(seed, number))))
        if number % 100 == 0:
            gc.collect()
    gc.enable()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cql.hostile", description=__doc__)
    parser.add_argument("--strings", type=int, required=True, help="how many strings")
    parser.add_argument("--seed", type=int, help="seed of the strings (a fresh one if not given)")
    parser.add_argument("--start", type=int, default=0, help="number of the first string")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(10**9) if options.seed is None else options.seed
    firsts = range(options.start, options.start + options.strings, CHUNK)
    sizes = [min(CHUNK, options.start + options.strings - first) for first in firsts]
    kinds: Counter[str] = Counter()
    slowest: list[tuple[float, float, int]] = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for outcomes in pool.map(chunk, [seed] * len(sizes), firsts, sizes):
            for number, found in outcomes:
                kinds[found.kind] += 1
                slowest.append((found.seconds, found.clock, number))
                if found.failed:
                    print(f"seed {seed} string {number}: {found.kind}: {found.detail[:300]!r}", flush=True)
            slowest = sorted(slowest, reverse=True)[:5]
    print(f"seed {seed}: {kinds.total():,} strings, " + ", ".join(f"{n:,} {kind}" for kind, n in sorted(kinds.items())))
    print(
        "slowest: " + ", ".join(f"{s * 1000:.0f} ms ({c * 1000:.0f} by the clock, string {n})" for s, c, n in slowest)
    )
    return 1 if kinds["foreign"] + kinds["wrong"] + kinds["slow"] else 0


if __name__ == "__main__":
    sys.exit(main())
