"""Who meets whom in a join, by linked lists through arrays: for windows whose keys stay.

Rows of a side are lines of an array, in order of arrival. Two linked lists run through them, both oldest first: the
rows of a partition (what count and delta evict from) and the rows of a code (partition and values of the equality
parts: what an arrival can match). A row leaves both at their heads, since a partition loses its oldest row first.
Time evicts over all partitions alike, so it needs no list, only the place of the oldest row.

The loop takes arrivals in order: what each evicts, and which rows of the other window it may match. It is plain Python
over arrays: run as it is for few rows, compiled for many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from panes.aggregates.columns import column_from_arrow
from panes.errors import DataError
from panes.operators.clauses import Clause
from panes.operators.machine import RowStore
from panes.policies.library.arrays import grown
from panes.policies.library.specs import Count, Delta, Time, text
from panes.policies.loop import one_source
from panes.policies.rules import is_beyond
from panes.slicing.key_index import use_kernels
from panes.slicing.keys import KeyDirectory
from panes.state.checked import INT64, demand, numbers, read_table

Array = np.ndarray
#: Room for candidate pairs per chunk, at first.
_PAIRS = 1 << 16
_FEWEST = 1024
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


class ListMechanism:
    """Arrays by place, grown by doubling; lists are rebuilt when places move."""

    @staticmethod
    def takes(sides: tuple[SideSpec, SideSpec]) -> bool:
        """Whether the windows can be kept so: no key is forgotten, and differences of both are of one kind."""
        if any(side.clause.partition_evict is not None for side in sides):
            return False
        kinds = {_value_kind(side) for side in sides} - {None}
        return "" not in kinds and len(kinds) < 2

    def __init__(self, sides: tuple[SideSpec, SideSpec], stores: tuple[RowStore, ...], records: bool) -> None:
        self._sides = sides
        self._stores = stores
        self._records = records
        kind = next((k for k in map(_value_kind, sides) if k), "i8")
        self._lists = [_Lists(side, kind) for side in sides]
        types = [[side.rows.field(name).type for name in (*side.keys, *side.equal)] for side in sides]
        self._codes = KeyDirectory(types[0]) if types[0] else None
        self._parts = KeyDirectory(types[0][: len(sides[0].keys)]) if sides[0].keys else None
        self._room = _PAIRS

    @property
    def keys(self) -> int:
        live = [self._lists[i].field(PART)[self.held(i)] for i in range(2)]
        return len(np.unique(np.concatenate(live)))

    def chunks(self, ports: Array, times: Array, tables: tuple[pa.Table, ...]) -> Iterator[tuple[Array, Array]]:
        for i, table in enumerate(tables):
            self._take_in(i, table, times[ports == i])
        for lists in self._lists:
            lists.room_for(*self._numbers())
        run = loop(len(ports))
        arrays = [array for lists in self._lists for array in lists.arrays()]
        rows = sum(len(store) for store in self._stores)
        evicted = np.empty((rows if self._records else 0, 5), np.int64)
        done = 0
        while done < len(ports):
            pairs = np.empty((self._room, 3), np.int64)
            before = done
            done, n, m = run(ports, times, done, pairs, evicted, *arrays)
            self._check()
            yield pairs[:n], evicted[:m].copy()
            if done == before:
                self._room *= 2

    def _take_in(self, i: int, table: pa.Table, times: Array) -> None:
        side = self._sides[i]
        if not table.num_rows:
            return
        names = (*side.keys, *side.equal)
        codes = parts = np.zeros(table.num_rows, np.int64)
        if self._codes is not None:
            codes = self._codes.slots([table.column(name) for name in names])
        if self._parts is not None:
            parts = self._parts.slots([table.column(name) for name in side.keys])
        for name in side.equal:
            if table.column(name).null_count:  # null is equal to nothing
                codes = np.where(table.column(name).is_null().to_numpy(), NONE, codes)
        self._lists[i].add(codes, parts, times, self._values(i, table))

    def _values(self, i: int, table: pa.Table) -> Array | None:
        evict = self._sides[i].clause.evict
        if not isinstance(evict, Delta):
            return None
        column = column_from_arrow(table.column(str(evict.attribute)))
        bad = np.zeros(len(column), bool) if column.valid is None else ~column.valid
        if column.values.dtype.kind == "f":
            bad = bad | np.isnan(column.values)
        if bad.any():
            number = len(self._stores[i]) - table.num_rows + int(np.argmax(bad))
            row = self._stores[i].at(np.array([number])).to_pylist()[0]
            raise DataError(f"{text(evict)}: there is no value, so no difference, in the row {row}")
        return column.values

    def _check(self) -> None:
        for i, lists in enumerate(self._lists):
            place = int(lists.numbers[FELL])
            if place != NONE:
                evict = self._sides[i].clause.evict
                row = self._stores[i].at(np.array([place])).to_pylist()[0]
                raise DataError(
                    f"{text(evict)}: a delta policy needs an attribute that never decreases; it fell at {row}"
                )

    def held(self, side: int) -> Array:
        return np.flatnonzero(self._lists[side].field(ALIVE))

    def moved(self, side: int, kept: Array) -> None:
        self._lists[side].keep(kept)
        self._forget_codes()

    def _forget_codes(self) -> None:
        """Forget values that no row has any more, once they are the most of them."""
        if self._codes is not None:
            self._forget(self._codes, CODE)
        if self._parts is not None:
            self._forget(self._parts, PART)

    def _forget(self, directory: KeyDirectory, field: int) -> None:
        if len(directory) < 2 * sum(lists.n for lists in self._lists) + _FEWEST:
            return
        used = [lists.field(field) for lists in self._lists]
        live = np.unique(np.concatenate(used))
        moved = directory.compact(live[live >= 0])
        for lists, of_rows in zip(self._lists, used):
            of_rows[:] = np.where(of_rows >= 0, moved[of_rows], of_rows)
            if field == PART:
                known, stay = lists.known.copy(), np.flatnonzero(moved >= 0)
                lists.known[:] = 0
                lists.known[moved[stay]] = known[stay]
            lists.all_in()

    def dump(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        tables = {} if self._parts is None else {"parts": self._parts.dump()}
        for side, lists in zip(SIDES, self._lists):
            tables[f"times.{side}"] = pa.table({"time": lists.field(TIME)})
            known = lists.known[: self._numbers()[1]]
            tables[f"known.{side}"] = pa.table({"is": known[:, 0], "value": known[:, 1]})
        return {"mechanism": "columns"}, tables

    def load(self, facts: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> None:
        if self._parts is not None:
            self._parts.load_all(read_table(tables, "parts"))
        parts = self._numbers()[1]
        for i, side in enumerate(SIDES):
            times = numbers(read_table(tables, f"times.{side}", {"time": INT64}), "time")
            demand(len(times) == len(self._stores[i]), "there are more times of rows than rows, or fewer")
            self._take_in(i, self._stores[i].all(), times)
        demand(self._numbers()[1] == parts, "rows are of keys that are not there")
        for side, lists in zip(SIDES, self._lists):
            kind = pa.from_numpy_dtype(lists.known.dtype)
            known = read_table(tables, f"known.{side}", {"is": kind, "value": kind})
            demand(known.num_rows <= parts, "there are more last values than keys")
            lists.room_for(*self._numbers())
            columns = (numbers(known, "is", kind, low=0, high=1), numbers(known, "value", kind))
            lists.known[: known.num_rows] = np.column_stack(columns)
            lists.all_in()

    def _numbers(self) -> tuple[int, int]:
        """How many codes and partitions there are."""
        return tuple(1 if d is None else len(d) for d in (self._codes, self._parts))  # type: ignore[return-value]


class _Lists:
    """The arrays of one side."""

    def __init__(self, side: SideSpec, kind: str) -> None:
        evict = side.clause.evict
        self.n = 0  # rows
        self.numbers = np.array([0, 0, 0, 0, NONE], np.int64)
        self.bound = np.zeros(1, kind)
        if isinstance(evict, Count):
            self.numbers[: LIMIT + 1] = BY_COUNT if evict.size else NOTHING_KEPT, evict.size
        elif isinstance(evict, Time):
            self.numbers[: LIMIT + 1] = BY_TIME, evict.us
        else:
            assert isinstance(evict, Delta)
            self.numbers[KIND] = BY_DELTA
            self.bound[0] = np.floor(evict.threshold) if kind == "i8" else evict.threshold
        self.rows = np.zeros((0, ROW_FIELDS), np.int64)
        self.values = np.zeros(0, kind)
        self.of_code, self.of_part = (np.zeros((0, LIST_FIELDS), np.int64) for _ in range(2))
        self.known = np.zeros((0, 2), kind)  # the last value of each partition

    def arrays(self) -> tuple[Array, ...]:
        """As the loop takes them."""
        return self.numbers, self.rows, self.of_code, self.of_part, self.values, self.known, self.bound

    def field(self, number: int) -> Array:
        """A field of all rows."""
        return self.rows[: self.n, number]

    def add(self, codes: Array, parts: Array, times: Array, values: Array | None) -> None:
        """Rows that are about to arrive."""
        n, end = self.n, self.n + len(codes)
        self.rows = grown(self.rows, end)
        fresh = self.rows[n:end]
        fresh[:, CODE], fresh[:, PART], fresh[:, TIME] = codes, parts, times
        fresh[:, ALIVE] = 0
        if values is not None:
            self.values = grown(self.values, end)
            self.values[n:end] = values
        self.n = end

    def room_for(self, codes: int, parts: int) -> None:
        self.of_code = grown(self.of_code, codes)
        self.of_part = grown(self.of_part, parts)
        self.known = grown(self.known, parts)

    def keep(self, kept: Array) -> None:
        """Only these rows are left; all of them have arrived and are in the window."""
        n = len(kept)
        self.rows[:n] = self.rows[kept]
        if len(self.values):
            self.values[:n] = self.values[kept]
        self.n = n
        self.all_in()

    def all_in(self) -> None:
        """All rows have arrived, and are in the window."""
        self.field(ALIVE)[:] = 1
        self.numbers[ARRIVED] = self.n
        self.numbers[OLDEST] = 0
        _link(self.field(CODE), self.field(NEXT_OF_CODE), self.of_code)
        _link(self.field(PART), self.field(NEXT_OF_PART), self.of_part)


def _link(of: Array, following: Array, lists: Array) -> None:
    """Lists of rows by number, oldest first."""
    lists[:, SIZE] = 0
    order = np.argsort(of, kind="stable")
    order = order[of[order] >= 0]
    if not len(order):
        return
    number = of[order]
    begins = np.concatenate(([True], number[1:] != number[:-1]))
    ends = np.concatenate((begins[1:], [True]))
    following[order[~ends]] = order[1:][~begins[1:]]
    following[order[ends]] = NONE
    lists[number[begins], FIRST], lists[number[ends], LAST] = order[begins], order[ends]
    lists[: int(number[-1]) + 1, SIZE] = np.bincount(number)


def _value_kind(side: SideSpec) -> str | None:
    """How the attribute of a delta is kept; None: there is none; "": it can't be kept in an array of numbers."""
    evict = side.clause.evict
    if not isinstance(evict, Delta):
        return None
    kind = side.rows.field(str(evict.attribute)).type
    if pa.types.is_floating(kind):
        return "f8"
    return "i8" if pa.types.is_timestamp(kind) or (pa.types.is_integer(kind) and kind != pa.uint64()) else ""
