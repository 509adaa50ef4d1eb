"""The grammar in docs/cql.md is that of the parser: sentences made from it parse, and it has every keyword."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from typing import get_args

import pytest

from panes.cql.grammar import functions, queries, statements
from panes.cql.grammar.windows import OPTIONS
from panes.cql.parse import parse
from panes.cql.tree import Model
from panes.cql.windows import KINDS
from tests.docs.pages import ROOT

#: What the page says in words below the grammar: examples of each.
WORDS = {
    "name": ("a", "b_2", "`two words`"),
    "stream": ("s",),
    "column": ("ts", "k"),
    "function": ("max", "avg"),
    "text": ("'x'", '"its"'),
    "period": ("'10 minutes'", "'1 h 30 min'"),
    "quoted_number": ("'10'",),
    "quoted_sign": ("'!'",),
    "unit": ("sec", "minutes", "MONTH"),
    "cast_type": ("INT", "STRING", "DECIMAL(10, 2)"),
    "integer": ("1", "20"),
    "number": ("3", "2.5", ".5", "3E-1"),
}
TOKEN = re.compile(r'"[^"]+"|[A-Z]+|[a-z_]+|[\[\]{}()|]')
CLOSING = {"[": "]", "{": "}", "(": ")"}

# A rule is a choice of sequences; an item is a word, or a bracket and the choice inside of it.
Choice = list[list["Item"]]
Item = str | tuple[str, Choice]


def read_rules() -> dict[str, Choice]:
    page = (ROOT / "docs" / "cql.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```ebnf\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    rules = {}
    for rule in re.split(r"\n(?=[a-z])", block):
        name, _, right = rule.partition("=")
        tokens = TOKEN.findall(right)
        rules[name.strip()] = read_choice(tokens)
        assert not tokens, f"{name} has a bracket too many"
    return rules


def read_choice(tokens: list[str]) -> Choice:
    found: Choice = [[]]
    while tokens and tokens[0] not in CLOSING.values():
        token = tokens.pop(0)
        if token == "|":
            found.append([])
        elif token in CLOSING:
            found[-1].append((token, read_choice(tokens)))
            assert tokens.pop(0) == CLOSING[token]
        else:
            found[-1].append(token)
    return found


RULES = read_rules()


def words_of(choice: Choice) -> set[str]:
    found: set[str] = set()
    for sequence in choice:
        for item in sequence:
            found |= {item} if isinstance(item, str) else words_of(item[1])
    return found


def sentence(rules: Mapping[str, Choice], rule: str, chance: random.Random, depth: int = 0) -> str:
    """A random sentence of a rule; the deeper, the plainer."""

    def of_choice(choice: Choice) -> list[str]:
        plain = depth > 12
        return of_sequence(choice[0] if plain else chance.choice(choice))

    def of_sequence(sequence: list[Item]) -> list[str]:
        made: list[str] = []
        for item in sequence:
            if isinstance(item, tuple):
                bracket, choice = item
                times = 1 if bracket == "(" else int(depth <= 12 and chance.random() < 0.35)
                for _ in range(times):
                    made += of_choice(choice)
            elif item.startswith('"'):
                made.append(item[1:-1])
            elif item in WORDS:
                made.append(chance.choice(WORDS[item]))
            elif item.isupper():
                made.append(item if chance.random() < 0.5 else item.lower())
            else:
                made.append(sentence(rules, item, chance, depth + 1))
        return made

    return " ".join(of_choice(rules[rule]))


@pytest.mark.parametrize("seed", range(20))
def test_sentences_of_the_page_are_read(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(20):
        text = sentence(RULES, "program", chance)
        assert parse(text), text


def test_every_name_is_defined_and_used() -> None:
    used = set().union(*map(words_of, RULES.values()))
    names = {word for word in used if not word.isupper() and not word.startswith('"')}
    assert names == (set(RULES) | set(WORDS)) - {"program"}


def test_every_keyword_of_the_parser_is_there() -> None:
    used = {word for choice in RULES.values() for word in words_of(choice)}
    tables = [
        [word for kind in KINDS.values() for word in kind.keywords()],
        [word for option in OPTIONS for text in option.spellings for word in text.split()],
        [word for words in queries._JOINS for word in words],
        [word for words in queries.CLAUSES for word in words.split()],
        [model.upper() for model in get_args(Model)],
        functions._LENGTHS,
        statements.PHASES,
        statements._SHOWN,
        statements._DROPPED,
        statements._STREAM_PARTS,
    ]
    # PARTITION BY is another spelling of PARTITIONED BY
    assert {word for table in tables for word in table} - used == {"PARTITION"}
