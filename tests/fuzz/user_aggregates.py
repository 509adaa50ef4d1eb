"""Aggregates as a user would write them whose code changes the partials it is given; each equals a built-in one."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

import panes as pn


class Gathered(pn.UserAggregate):
    """`collect_list`, by extending one list and emptying it in the end."""

    returns = pa.list_(pa.int64())

    def lift(self, value: int) -> list[int]:
        return [value]

    def combine(self, a: list[int], b: list[int]) -> list[int]:
        if not a:
            return b
        a.extend(b)
        b.clear()
        return a

    def identity(self) -> list[int]:
        return []

    def lower(self, a: list[int]) -> list[int]:
        given = a.copy()
        a.clear()
        return given


class Tally(pn.UserAggregate):
    """`count`, by a dict inside a tuple that is counted up and down."""

    commutative = True
    invertible = True
    returns = "bigint"

    def lift(self, value: int) -> tuple[str, dict[int, int]]:
        return "seen", {value: 1}

    def combine(self, a: tuple[str, dict[int, int]], b: tuple[str, dict[int, int]]) -> tuple[str, dict[int, int]]:
        for value, count in b[1].items():
            a[1][value] = a[1].get(value, 0) + count
        return a

    def invert(self, a: tuple[str, dict[int, int]], b: tuple[str, dict[int, int]]) -> tuple[str, dict[int, int]]:
        for value, count in b[1].items():
            a[1][value] -= count
        return a

    def identity(self) -> tuple[str, dict[int, int]]:
        return "seen", {}

    def lower(self, a: tuple[str, dict[int, int]]) -> int:
        return sum(a[1].pop(value) for value in list(a[1]))


class Columns(pn.UserAggregate):
    """`count`, as a column that user code overwrites wherever it is given it."""

    commutative = True
    invertible = True
    returns = "bigint"
    state: ClassVar[dict[str, str]] = {"n": "bigint"}

    def lift_segments(self, columns: Any, offsets: Any) -> Any:
        return (np.diff(offsets),)

    def fold_segments(self, partials: Any, offsets: Any) -> Any:
        (n,) = partials
        np.cumsum(n, out=n)
        sums = np.concatenate(([0], n))
        return (sums[offsets[1:]] - sums[offsets[:-1]],)

    def invert_segments(self, a: Any, b: Any) -> Any:
        np.subtract(a[0], b[0], out=a[0])
        b[0][:] = -1
        return a

    def lower_segments(self, partials: Any) -> Any:
        given = partials[0].copy()
        partials[0][:] = -1
        return given


#: by name: the class, and the built-in aggregate that gives the same
OWN = {"gathered": ("Gathered", "collect_list"), "tally": ("Tally", "count"), "columns": ("Columns", "count")}
