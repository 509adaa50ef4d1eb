"""Statements of the fixtures with words changed: whatever comes of it, only Panes raises errors."""

from __future__ import annotations

import random
import re

import pytest

from panes.cql.session import QueryRows, Session
from panes.errors import PanesError
from tests.cql.test_statements import FOLDER, cases, session_of

WORDS = re.compile(r"\d+\.\d+|\w+|'[^']*'|[<>!]=|<>|[^\s\w]")


LIKE_KINDS = (
    ("1", "2", "3", "7", "60", "0.5"),
    ("sum", "min", "max", "avg", "count", "median", "first", "last", "collect_list"),
    ("+", "-", "*", "/", "%"),
    ("<", ">", "=", "<>", "<=", ">="),
    ("sec", "ms", "min", "hour"),
)


def alike(word: str, rng: random.Random) -> str | None:
    """Another word of the same kind, so that many programs stay valid."""
    kind = next((kind for kind in LIKE_KINDS if word.lower() in kind or (word.isdigit() and "1" in kind)), None)
    return None if kind is None else rng.choice(kind)


def mutated(words: list[str], known: list[str], rng: random.Random) -> str:
    words = list(words)
    gentle = rng.random() < 0.6
    for _ in range(rng.randint(1, 3)):
        place, change = rng.randrange(len(words)), rng.random()
        if gentle:
            words[place] = alike(words[place], rng) or words[place]
        elif change < 0.4:
            words[place] = rng.choice(known)
        elif change < 0.6 and len(words) > 1:
            del words[place]
        elif change < 0.8:
            words.insert(place, rng.choice(known))
        else:
            other = rng.randrange(len(words))
            words[place], words[other] = words[other], words[place]
    return " ".join(words)


@pytest.mark.parametrize("seed", range(4))
def test_only_panes_raises(seed: int) -> None:
    assert FOLDER.is_dir()
    rng = random.Random(seed)
    given = [param.values for param in cases()]
    known = [word for case, _ in given for word in WORDS.findall(case["run"])]
    ran = 0
    for _ in range(200):
        case, data = rng.choice(given)
        text = mutated(WORDS.findall(case["run"]), known, rng)
        session: Session = session_of({**case, "clock": range(0, 10**9, 10**6)}, data)
        try:
            for answer in session.run(text):
                if isinstance(answer, QueryRows) and "socket" not in text.lower():
                    answer.query.to_arrow()
                    ran += 1
        except PanesError:
            continue
    assert ran > 20
