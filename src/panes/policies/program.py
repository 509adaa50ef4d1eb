"""Built-in policies as rows of numbers, which the loops read (triggers.py, evictions.py).

Nested policies come before the one that combines them; the last line of a side combines the whole list (any trigger,
the largest eviction). In flow resolved policies; out flow tables of numbers and the columns they point into.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from panes.policies.rules import COSINE, MAX, MIN, PRIORITY, SUM
from panes.policies.specs import Active, Count, Delta, Evictions, Punctuation, Time, Triggers, Tumble, clears_after

Array = np.ndarray

# kinds of lines
COUNT, TIME, EUCLID, COSINE_, PUNCT, TUMBLE = 0, 1, 2, 3, 4, 5
ANY, ALL, ONE = 10, 11, 12
RULES = {
    "any_of": ANY, "all_of": ALL, "exactly_one_of": ONE,
    "largest": MAX, "smallest": MIN, "total": SUM, "first_of": PRIORITY,
}  # fmt: skip

# columns of a line
KIND, CHILDREN, A, B, WORD, COLUMN, OPTION, FLOATS = range(8)
WIDTH = 8

# OPTION of a leaf: whether it is asked for timer ticks; of the last line: whether rows leave after the result of one
# what A and B mean: count: size, delete; time: size, mode; delta: number of columns
EXACT, ON_ROW, PASSIVE = 0, 1, 2  # modes of a time trigger

# words of a key (or of the centre, where positions are numbers of rows over all keys)
HEAD, TAIL, TAIL_AT, SEEN = range(4)
FIRST_WORD = 4


@dataclass
class Columns:
    """The columns that policies look at: whole numbers to compare as times, floats, and marks to match."""

    ticks: list[str | None] = field(default_factory=lambda: [None])  # None: event time
    floats: list[tuple[str, Punctuation | None]] = field(default_factory=list)

    def tick(self, on: str | None) -> int:
        if on not in self.ticks:
            self.ticks.append(on)
        return self.ticks.index(on)

    def numbers(self, on: Sequence[str]) -> int:
        self.floats += [(column, None) for column in on]
        return len(self.floats) - len(on)

    def match(self, policy: Punctuation) -> int:
        self.floats.append((policy.on[0], policy))
        return len(self.floats) - 1


@dataclass(frozen=True)
class Side:
    """Triggers or evictions as lines, with their thresholds, and the words of state that each key starts with."""

    lines: Array
    limits: Array

    @property
    def keeps_rows(self) -> bool:
        """Whether an eviction compares rows that are held."""
        return bool(np.isin(self.lines[:, KIND], (TIME, EUCLID, COSINE_)).any())


@dataclass(frozen=True)
class Level:
    """Triggers and evictions of one key, or of the centre."""

    triggers: Side
    evictions: Side
    words: Array  # int64: what a key starts with, from FIRST_WORD on
    floats: Array
    #: words that hold positions of rows (own head of an eviction); the next word points at the row
    own_heads: tuple[int, ...]
    by_clock: bool  # time triggers go by the clock, without waiting for rows


class _Writer:
    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.words: list[int] = []
        self.floats: list[float] = []
        self.own_heads: list[int] = []

    def word(self, *start: int) -> int:
        self.words += start
        return FIRST_WORD + len(self.words) - len(start)

    def side(self, policies: Sequence[Any], rule: int, write: Any) -> Side:
        lines = [line for policy in policies for line in write(policy)]
        lines.append((_line(rule, len(policies), option=any(map(clears_after, policies))), 0.0))
        return Side(np.array([ints for ints, _ in lines], np.int64), np.array([limit for _, limit in lines]))

    def trigger(self, policy: Any) -> Iterator[tuple[list[int], float]]:
        if isinstance(policy, Triggers):
            for inner in policy.nested:
                yield from self.trigger(inner)
            yield _line(RULES[policy.rule], len(policy.nested)), 0.0
        elif isinstance(policy, Count):
            yield _line(COUNT, a=policy.size, word=self.word(policy.start or 0)), 0.0
        elif isinstance(policy, Time):
            mode = PASSIVE if not policy.active else ON_ROW if policy.border_on_row else EXACT
            border = self.word(policy.start + policy.delay + policy.size)
            yield _line(TIME, a=policy.size, b=mode, word=border, column=self.columns.tick(policy.on)), 0.0
        elif isinstance(policy, Delta):
            floats = len(self.floats)
            self.floats += [np.nan] * len(policy.on) if policy.start is None else policy.start
            known = self.word(int(policy.start is not None))
            kind, column = COSINE_ if policy.function == COSINE else EUCLID, self.columns.numbers(policy.on)
            yield _line(kind, a=len(policy.on), word=known, column=column, floats=floats), policy.threshold
        else:
            yield _line(PUNCT, column=self.columns.match(policy)), 0.0

    def eviction(self, policy: Any, *, several: bool, wrapped: bool = False) -> Iterator[tuple[list[int], float]]:
        if isinstance(policy, Evictions):
            for inner in policy.nested:
                yield from self.eviction(inner, several=several)
            yield _line(RULES[policy.rule], len(policy.nested)), 0.0
        elif isinstance(policy, Active):
            yield from self.eviction(policy.eviction, several=several, wrapped=True)
        elif isinstance(policy, Count):
            word, resync = self.word(policy.start or 0), several or wrapped
            yield _line(COUNT, a=policy.size, b=policy.delete or 1, word=word, option=wrapped, floats=resync), 0.0
        elif isinstance(policy, Time):
            yield (
                _line(
                    TIME, a=policy.size, word=self._own_head(), column=self.columns.tick(policy.on),
                    option=policy.active,
                ),
                0.0,
            )  # fmt: skip
        elif isinstance(policy, Delta):
            kind, column = COSINE_ if policy.function == COSINE else EUCLID, self.columns.numbers(policy.on)
            word = self._own_head()
            yield _line(kind, a=len(policy.on), word=word, column=column, option=wrapped), policy.threshold
        elif isinstance(policy, Tumble):
            yield _line(TUMBLE, option=wrapped), 0.0
        else:
            yield _line(PUNCT, column=self.columns.match(policy), option=wrapped), 0.0

    def _own_head(self) -> int:
        word = self.word(0, -1)
        self.own_heads.append(word)
        return word


def _line(
    kind: int, children: int = 0, *, a: int = 0, b: int = 0, word: int = 0, column: int = 0, option: int = 0,
    floats: int = 0,
) -> list[int]:  # fmt: skip
    return [kind, children, a, b, word, column, int(option), int(floats)]


def level(
    triggers: Sequence[Any], evictions: Sequence[Any], columns: Columns, *, several: bool, by_clock: bool
) -> Level:
    """Write down one side of a policy window; `several`: other evictions may remove rows too."""
    writer = _Writer(columns)
    trigger_side = writer.side(triggers, ANY, writer.trigger)
    eviction_side = writer.side(evictions, MAX, lambda p: writer.eviction(p, several=several))
    return Level(
        trigger_side,
        eviction_side,
        np.array(writer.words, np.int64),
        np.array(writer.floats, np.float64),
        tuple(writer.own_heads),
        by_clock,
    )


@dataclass(frozen=True)
class Alone:
    """The only eviction of a key, where timer ticks do not ask it: rows leave when rows come, or at a result."""

    kind: int
    size: int  # of a count or a time; of a delta, the number of its columns
    limit: float
    column: int
    word: int
    start: int = 0  # where a count begins, which `size` has taken into account

    @property
    def queues(self) -> bool:
        """Whether it compares the rows that are held."""
        return self.kind in (TIME, EUCLID, COSINE_)


def alone(level: Level) -> Alone | None:
    """The only eviction of a level, if it is one that `run_alone` knows."""
    lines = level.evictions.lines.tolist()
    if len(lines) != 2 or level.by_clock:
        return None
    kind, _, size, delete, word, column, asked, _ = lines[0]
    ticks = any(line[KIND] == TIME and line[B] != PASSIVE for line in level.triggers.lines.tolist())
    start = int(level.words[word - FIRST_WORD]) if kind == COUNT else 0
    if kind == PUNCT or kind >= ANY or (asked and ticks) or (kind == COUNT and (delete != 1 or start > 0)):
        return None
    return Alone(kind, size - start, float(level.evictions.limits[0]), column, word, start)


def matches(policy: Punctuation, columns: Sequence[Array]) -> Array:
    """Which rows equal the sample, as 0.0 and 1.0."""
    equal = np.ones(len(columns[0]), bool)
    for values, wanted in zip(columns, policy.wanted):
        if values.dtype == object:
            equal &= np.array([v is not None and v == wanted for v in values], bool)
        else:
            equal &= np.asarray(values == wanted, bool) & np.ones(len(values), bool)
    return equal.astype(np.float64)
