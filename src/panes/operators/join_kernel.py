"""The loop of the join: arrivals in order, what each evicts, and which rows of the other window it may match.

Rows of a side are lines of an array, in order of arrival. Two linked lists run through them, both oldest first: the
rows of a partition (what count and delta evict from) and the rows of a code (partition and values of the equality
parts: what an arrival can match). A row leaves both at their heads, since a partition loses its oldest row first.
Time evicts over all partitions alike, so it needs no list, only the place of the oldest row.

Plain Python over arrays: run as it is for few rows, compiled for many.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from panes.operators.clauses import Clause
from panes.policies.loop import one_source
from panes.policies.rules import is_beyond
from panes.slicing.key_index import use_kernels

SIDES = ("left", "right")
#: What evicts rows of a side.
NOTHING_KEPT, BY_COUNT, BY_DELTA, BY_TIME = range(4)
#: The numbers of a side: what evicts, how many rows or ticks stay, rows that have arrived, the oldest row that time
#: has left, and the row at which the attribute of a delta fell, if it did.
KIND, LIMIT, ARRIVED, OLDEST, FELL = range(5)
#: Fields of a row: when it arrived, code (NONE: it can match nothing), partition, next row of each, whether it is in
#: the window.
TIME, CODE, PART, NEXT_OF_CODE, NEXT_OF_PART, ALIVE, ROW_FIELDS = range(7)
#: Fields of a code or partition: its first and last row in the window, and how many there are.
FIRST, LAST, SIZE, LIST_FIELDS = range(4)
#: When, within one arrival, something happens: time passes, the row pushes others out, it matches, it is gone.
PASSING, PUSHED, MATCHING, GONE = range(4)
NONE = -1


@dataclass(frozen=True)
class SideSpec:
    """One side: columns of its rows, its window in ticks, key columns, and columns of the equality parts."""

    rows: pa.Schema
    clause: Clause
    keys: tuple[str, ...] = ()
    equal: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()  # columns that are given of a row without a partner, on a port of its own


def _leave(row: int, rows: Any, of_code: Any, of_part: Any) -> None:
    rows[row, ALIVE] = 0
    part = rows[row, PART]
    of_part[part, FIRST] = rows[row, NEXT_OF_PART]
    of_part[part, SIZE] -= 1
    code = rows[row, CODE]
    if code >= 0:
        of_code[code, FIRST] = rows[row, NEXT_OF_CODE]
        of_code[code, SIZE] -= 1


def _record(out: Any, n: int, arrival: int, phase: int, when: int, side: int, row: int) -> int:
    """Note an eviction, if anybody wants to know; returns how many there are."""
    if len(out):
        out[n, 0] = arrival
        out[n, 1] = phase
        out[n, 2] = when
        out[n, 3] = side
        out[n, 4] = row
        return n + 1
    return n


def _pass_time(
    side: int, arrival: int, now: int, numbers: Any, rows: Any, of_code: Any, of_part: Any, out: Any, n: int
) -> int:
    """Evict the rows that are older than the side keeps them."""
    row, limit = numbers[OLDEST], numbers[LIMIT]
    while row < numbers[ARRIVED] and is_beyond(now, rows[row, TIME], limit):
        _leave(row, rows, of_code, of_part)
        n = _record(out, n, arrival, PASSING, rows[row, TIME] + limit + 1, side, row)
        row += 1
    numbers[OLDEST] = row
    return n


def _append(row: int, rows: Any, following: int, lists: Any, number: int) -> None:
    """Put a row at the end of a list."""
    rows[row, following] = NONE
    if lists[number, SIZE]:
        rows[lists[number, LAST], following] = row
    else:
        lists[number, FIRST] = row
    lists[number, LAST] = row
    lists[number, SIZE] += 1


def _enter(
    side: int, arrival: int, now: int, numbers: Any, rows: Any, of_code: Any, of_part: Any, values: Any, known: Any,
    bound: Any, out: Any, n: int,
) -> int:  # fmt: skip
    """Evict what the arriving row pushes out of its window, then insert it.

    `known`: by partition, the attribute of its last row, after a 1 if there was one.
    """
    row = numbers[ARRIVED]
    numbers[ARRIVED] = row + 1
    kind = numbers[KIND]
    if kind == NOTHING_KEPT:
        return n
    part = rows[row, PART]
    if kind == BY_COUNT:
        if of_part[part, SIZE] >= numbers[LIMIT]:
            oldest = of_part[part, FIRST]
            _leave(oldest, rows, of_code, of_part)
            n = _record(out, n, arrival, PUSHED, now, side, oldest)
    elif kind == BY_DELTA:
        if known[part, 0] and values[row] < known[part, 1]:
            numbers[FELL] = row
        known[part, 0] = 1
        known[part, 1] = values[row]
        while of_part[part, SIZE] and is_beyond(values[row], values[of_part[part, FIRST]], bound[0]):
            oldest = of_part[part, FIRST]
            _leave(oldest, rows, of_code, of_part)
            n = _record(out, n, arrival, PUSHED, now, side, oldest)
    rows[row, ALIVE] = 1
    _append(row, rows, NEXT_OF_PART, of_part, part)
    if rows[row, CODE] >= 0:
        _append(row, rows, NEXT_OF_CODE, of_code, rows[row, CODE])
    return n


def _matches(arrival: int, side: int, row: int, code: int, rows: Any, of_code: Any, pairs: Any, n: int) -> int:
    """Pairs of an arriving row with all rows of its code on the other side."""
    if of_code[code, SIZE]:
        match = of_code[code, FIRST]
        while match != NONE:
            pairs[n, 0] = arrival
            pairs[n, 1 + side] = row
            pairs[n, 2 - side] = match
            n += 1
            match = rows[match, NEXT_OF_CODE]
    return n


@one_source(is_beyond, _leave, _record, _pass_time, _append, _enter, _matches)
def _step(
    ports: Any, nows: Any, start: int, pairs: Any, evicted: Any,
    numbers0: Any, rows0: Any, of_code0: Any, of_part0: Any, values0: Any, known0: Any, bound0: Any,
    numbers1: Any, rows1: Any, of_code1: Any, of_part1: Any, values1: Any, known1: Any, bound1: Any,
) -> tuple[int, int, int]:  # fmt: skip
    """Arrivals from `start` on, as far as their pairs have room; returns (arrivals done, pairs, evictions).

    `pairs`: arrival, left row, right row. `evicted`: see `_record`; without room at all, none are recorded.
    Ports other than 0 and 1 only let time pass.
    """
    n, gone = 0, 0
    for arrival in range(start, len(ports)):
        port, now = ports[arrival], nows[arrival]
        if numbers0[KIND] == BY_TIME:
            gone = _pass_time(0, arrival, now, numbers0, rows0, of_code0, of_part0, evicted, gone)
        if numbers1[KIND] == BY_TIME:
            gone = _pass_time(1, arrival, now, numbers1, rows1, of_code1, of_part1, evicted, gone)
        if port == 0:
            row = numbers0[ARRIVED]
            code = rows0[row, CODE]
            if code >= 0 and n + of_code1[code, SIZE] > len(pairs):
                return arrival, n, gone
            gone = _enter(0, arrival, now, numbers0, rows0, of_code0, of_part0, values0, known0, bound0, evicted, gone)
            if code >= 0:
                n = _matches(arrival, 0, row, code, rows1, of_code1, pairs, n)
            if numbers0[KIND] == NOTHING_KEPT:
                gone = _record(evicted, gone, arrival, GONE, now, 0, row)
        elif port == 1:
            row = numbers1[ARRIVED]
            code = rows1[row, CODE]
            if code >= 0 and n + of_code0[code, SIZE] > len(pairs):
                return arrival, n, gone
            gone = _enter(1, arrival, now, numbers1, rows1, of_code1, of_part1, values1, known1, bound1, evicted, gone)
            if code >= 0:
                n = _matches(arrival, 1, row, code, rows0, of_code0, pairs, n)
            if numbers1[KIND] == NOTHING_KEPT:
                gone = _record(evicted, gone, arrival, GONE, now, 1, row)
    return len(ports), n, gone


def loop(rows: int) -> Callable[..., tuple[int, int, int]]:
    """The loop, compiled if that pays for so many rows."""
    return _step.compiled if use_kernels(rows) else _step.plain
