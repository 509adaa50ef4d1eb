"""Programs made wrong: what comes of them is an error with a place in the text, or they are still programs."""

from __future__ import annotations

import random
import re
from typing import Any

from panes.cql.errors import CqlError
from panes.cql.session import QueryRows, Session
from tests.cql_fuzz.generate import generate
from tests.cql_fuzz.programs import Program
from tests.cql_fuzz.run import given, program_text

#: words of the language, signs, and things that do not belong
_WORDS = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "AS", "ON", "[", "]", "(", ")", ",", ";",
    "*", "SIZE", "EVERY", "PARTITIONED BY", "SESSION", "CUMULATE", "MAX", "LANDMARK", "DELTA", "JOIN", "USING",
    "MERGE", "INSERT INTO", "CREATE STREAM", "CREATE SCHEMA", "EXTENDS", "SOURCE", "NULL", "NOT", "AND", "-", "+",
    "/", "=", "'", "`", '"', "0", "-1", "1.5", "9999999999999999999", "sec", "ts", "k", "v", "nope", "s1", "avg(v)",
    "count(*)", "'x'", "DISTINCT", "BETWEEN", "CASE", "END", "--", "/*", "\x00", "é", "::", "{", "window_end",
    "EVALUATE TIME DRIVEN", "WATERMARK", "1 month", "UNION",
)  # fmt: skip


def mutated(program: Program, rng: random.Random) -> str:
    """The text of a program with one to three things changed."""
    text = program_text(program)
    for _ in range(rng.choice((1, 1, 2, 3))):
        pieces = re.findall(r"\w+|\s+|'[^']*'|.", text, re.S) or [""]
        at = rng.randrange(len(pieces))
        pick = rng.randrange(6)
        if pick == 0:
            del pieces[at]
        elif pick == 1:
            pieces.insert(at, f" {rng.choice(_WORDS)} ")
        elif pick == 2:
            pieces[at] = rng.choice(_WORDS)
        elif pick == 3:
            other = rng.randrange(len(pieces))
            pieces[at], pieces[other] = pieces[other], pieces[at]
        elif pick == 4:
            pieces.insert(at, pieces[at])
        else:
            pieces = pieces[:at] if rng.random() < 0.3 else [*pieces[:at], *pieces[at + rng.randint(1, 5) :]]
        text = "".join(pieces)
    return text


def check_mutated(seed: int) -> str | None:
    """None if every statement of a mutated program runs, or is refused as it should be."""
    program = generate(seed)
    text = mutated(program, random.Random(seed))
    session = Session({n: given(d) for n, d in program.data.items()}, clock=lambda: 0)
    try:
        for answer in session.run(text):
            if isinstance(answer, QueryRows):
                ran(answer)
    except CqlError as error:
        if error.span is None:
            return f"no place: {error}\n{text}"
        if not error.span.start <= len(text):
            return f"a place outside of the text: {error}\n{text}"
    except Exception as error:
        where: Any = error.__traceback__
        while where.tb_next is not None:
            where = where.tb_next
        place = f"{where.tb_frame.f_code.co_filename.rsplit('/', 2)[-1]}:{where.tb_lineno}"
        return f"{type(error).__name__} at {place}: {error}\n{text}"
    return None


def ran(answer: QueryRows) -> None:
    """Run a query; what data brings about while it runs is an error of the library, too, but has no place."""
    from panes.errors import PanesError

    try:
        answer.query.to_arrow()
    except PanesError:
        return
