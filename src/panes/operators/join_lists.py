"""Who meets whom in a join, by linked lists through arrays (`join_kernel`): for windows whose keys stay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from panes.aggregates.columns import column_from_arrow
from panes.errors import DataError
from panes.operators import join_kernel as kernel
from panes.operators.join_kernel import SIDES, SideSpec
from panes.operators.row_store import RowStore
from panes.policies.library.specs import Count, Delta, Time, text
from panes.slicing.keys import KeyDirectory
from panes.state.checked import INT64, demand, numbers, read_table

Array = np.ndarray
#: Room for candidate pairs per chunk, at first.
_PAIRS = 1 << 16
_FEWEST = 1024


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
        live = [self._lists[i].field(kernel.PART)[self.held(i)] for i in range(2)]
        return len(np.unique(np.concatenate(live)))

    def chunks(self, ports: Array, times: Array, tables: tuple[pa.Table, ...]) -> Iterator[tuple[Array, Array]]:
        for i, table in enumerate(tables):
            self._take_in(i, table, times[ports == i])
        for lists in self._lists:
            lists.room_for(*self._numbers())
        run = kernel.loop(len(ports))
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
                codes = np.where(table.column(name).is_null().to_numpy(), kernel.NONE, codes)
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
            place = int(lists.numbers[kernel.FELL])
            if place != kernel.NONE:
                evict = self._sides[i].clause.evict
                row = self._stores[i].at(np.array([place])).to_pylist()[0]
                raise DataError(
                    f"{text(evict)}: a delta policy needs an attribute that never decreases; it fell at {row}"
                )

    def held(self, side: int) -> Array:
        return np.flatnonzero(self._lists[side].field(kernel.ALIVE))

    def moved(self, side: int, kept: Array) -> None:
        self._lists[side].keep(kept)
        self._forget_codes()

    def _forget_codes(self) -> None:
        """Forget values that no row has any more, once they are the most of them."""
        if self._codes is not None:
            self._forget(self._codes, kernel.CODE)
        if self._parts is not None:
            self._forget(self._parts, kernel.PART)

    def _forget(self, directory: KeyDirectory, field: int) -> None:
        if len(directory) < 2 * sum(lists.n for lists in self._lists) + _FEWEST:
            return
        used = [lists.field(field) for lists in self._lists]
        live = np.unique(np.concatenate(used))
        moved = directory.compact(live[live >= 0])
        for lists, of_rows in zip(self._lists, used):
            of_rows[:] = np.where(of_rows >= 0, moved[of_rows], of_rows)
            if field == kernel.PART:
                known, stay = lists.known.copy(), np.flatnonzero(moved >= 0)
                lists.known[:] = 0
                lists.known[moved[stay]] = known[stay]
            lists.all_in()

    def dump(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        tables = {} if self._parts is None else {"parts": self._parts.dump()}
        for side, lists in zip(SIDES, self._lists):
            tables[f"times.{side}"] = pa.table({"time": lists.field(kernel.TIME)})
            known = lists.known[: self._numbers()[1]]
            tables[f"known.{side}"] = pa.table({"is": known[:, 0], "value": known[:, 1]})
        return {"mechanism": "columns"}, tables

    def load(self, facts: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> None:
        if self._parts is not None:
            self._parts.load(read_table(tables, "parts"))
            demand((numbers(tables["parts"], "slot") == np.arange(len(self._parts))).all(), "keys are out of order")
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
        self.numbers = np.array([0, 0, 0, 0, kernel.NONE], np.int64)
        self.bound = np.zeros(1, kind)
        if isinstance(evict, Count):
            self.numbers[: kernel.LIMIT + 1] = kernel.BY_COUNT if evict.size else kernel.NOTHING_KEPT, evict.size
        elif isinstance(evict, Time):
            self.numbers[: kernel.LIMIT + 1] = kernel.BY_TIME, evict.us
        else:
            assert isinstance(evict, Delta)
            self.numbers[kernel.KIND] = kernel.BY_DELTA
            self.bound[0] = np.floor(evict.threshold) if kind == "i8" else evict.threshold
        self.rows = np.zeros((0, kernel.ROW_FIELDS), np.int64)
        self.values = np.zeros(0, kind)
        self.of_code, self.of_part = (np.zeros((0, kernel.LIST_FIELDS), np.int64) for _ in range(2))
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
        self.rows = _grown(self.rows, end)
        fresh = self.rows[n:end]
        fresh[:, kernel.CODE], fresh[:, kernel.PART], fresh[:, kernel.TIME] = codes, parts, times
        fresh[:, kernel.ALIVE] = 0
        if values is not None:
            self.values = _grown(self.values, end)
            self.values[n:end] = values
        self.n = end

    def room_for(self, codes: int, parts: int) -> None:
        self.of_code = _grown(self.of_code, codes)
        self.of_part = _grown(self.of_part, parts)
        self.known = _grown(self.known, parts)

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
        self.field(kernel.ALIVE)[:] = 1
        self.numbers[kernel.ARRIVED] = self.n
        self.numbers[kernel.OLDEST] = 0
        _link(self.field(kernel.CODE), self.field(kernel.NEXT_OF_CODE), self.of_code)
        _link(self.field(kernel.PART), self.field(kernel.NEXT_OF_PART), self.of_part)


def _link(of: Array, following: Array, lists: Array) -> None:
    """Lists of rows by number, oldest first."""
    lists[:, kernel.SIZE] = 0
    order = np.argsort(of, kind="stable")
    order = order[of[order] >= 0]
    if not len(order):
        return
    number = of[order]
    begins = np.concatenate(([True], number[1:] != number[:-1]))
    ends = np.concatenate((begins[1:], [True]))
    following[order[~ends]] = order[1:][~begins[1:]]
    following[order[ends]] = kernel.NONE
    lists[number[begins], kernel.FIRST], lists[number[ends], kernel.LAST] = order[begins], order[ends]
    lists[: int(number[-1]) + 1, kernel.SIZE] = np.bincount(number)


def _grown(array: Array, size: int) -> Array:
    """The array with room for `size` entries; new ones are zero."""
    if size <= len(array):
        return array
    out = np.zeros((max(size, 2 * len(array)), *array.shape[1:]), array.dtype)
    out[: len(array)] = array
    return out


def _value_kind(side: SideSpec) -> str | None:
    """How the attribute of a delta is kept; None: there is none; "": it can't be kept in an array of numbers."""
    evict = side.clause.evict
    if not isinstance(evict, Delta):
        return None
    kind = side.rows.field(str(evict.attribute)).type
    if pa.types.is_floating(kind):
        return "f8"
    return "i8" if pa.types.is_timestamp(kind) or (pa.types.is_integer(kind) and kind != pa.uint64()) else ""
