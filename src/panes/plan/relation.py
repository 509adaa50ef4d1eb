"""The rows of each window as a relation: the step that turns windows with their rows into rows of a result.

In: results whose aggregate is all rows of the window (`collect_rows`). Out: for each window any number of rows,
with the columns that tell whose they are. All windows of a table are worked on by one statement.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from panes.plan.steps import Shape, Step
from panes.plan.tagged import Statement, Tables

if TYPE_CHECKING:
    from panes.plan.relation_query import WrittenRelation

Array = np.ndarray
#: The column of results that holds the rows of the window, until the relation takes its place.
ROWS = "panes_rows"


@dataclass(frozen=True)
class WindowRelation(Step):
    """Projection, conditions, groups, order and limit over the rows of each window.

    Of a window that is given again after a late row, all rows are given again, under its new revision. If there
    are none left, or the window is void, one row says so: `void` is true and its values are null.
    """

    sides: tuple[tuple[str, ...], ...]  # columns of the rows, side by side; several sides: after the side's number
    statement: Statement
    outputs: tuple[str, ...]  # names of what the statement gives; those that the result has anyway are left out
    said: WrittenRelation = field(compare=False, repr=False)  # what it was made from
    withdraws: ClassVar[bool] = True

    @cached_property
    def after(self) -> Shape:
        types = dict(zip(self.outputs, self.statement.types, strict=True))
        fields: list[pa.Field] = []
        for column in self.before.schema:
            fields += [pa.field(*item) for item in types.items()] if column.name == ROWS else [column]
        return Shape(pa.schema(fields), self.before.naming, self.before.own)

    def apply(self, table: pa.Table) -> pa.Table:
        given = self.statement.run(self._tables(table))
        numbers, columns = given.numbers, list(given.columns)
        voids = None
        if "void" in table.column_names:
            numbers, columns, voids = _with_voids(table, numbers, columns)
        return self._result(table, numbers, columns, voids)

    def _tables(self, table: pa.Table) -> Tables:
        rows = table.column(ROWS).combine_chunks()
        if isinstance(rows, pa.ChunkedArray):
            rows = pa.concat_arrays(rows.chunks) if rows.num_chunks else pa.array([], rows.type)
        lengths = rows.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        numbers = np.repeat(np.arange(len(lengths)), lengths)
        columns = rows.flatten().flatten()
        windows = table.drop_columns([ROWS])
        if len(self.sides) == 1:
            return Tables((pa.table(columns, names=list(self.sides[0])),), (numbers,), windows)
        of_side = columns[0].to_numpy()
        sides, tags, at = [], [], 1
        for s, names in enumerate(self.sides):
            mine = np.flatnonzero(of_side == s)
            index = pa.array(mine)
            sides.append(_table({n: columns[at + i].take(index) for i, n in enumerate(names)}, len(mine)))
            tags.append(numbers[mine])
            at += len(names)
        return Tables(tuple(sides), tuple(tags), windows)

    def _result(self, table: pa.Table, numbers: Array, columns: list[pa.Array], voids: Array | None) -> pa.Table:
        index = pa.array(numbers)
        out: dict[str, pa.Array | pa.ChunkedArray] = {}
        for name in table.column_names:
            if name == ROWS:
                out.update(zip(self.outputs, columns, strict=True))
            elif name == "void" and voids is not None:
                out[name] = pa.array(voids)
            else:
                out[name] = table.column(name).take(index)
        return pa.table(out)

    def computed(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return self.outputs

    def __str__(self) -> str:
        return f"relation of each window: {self.said}"


def _table(columns: dict[str, pa.Array], rows: int) -> pa.Table:
    """A table of so many rows even if it has no columns."""
    return pa.table(columns) if columns else pa.table({"nothing": pa.nulls(rows)})


def _with_voids(table: pa.Table, numbers: Array, columns: list[pa.Array]) -> tuple[Array, list[pa.Array], Array]:
    """First a row for each window that is void or has lost all its rows, then the rows; which are the former."""
    void = table.column("void").to_numpy()
    rows = np.arange(len(numbers))
    if void.any():
        rows = np.flatnonzero(~void[numbers])  # with emit_empty a window that is none any more has a count of 0
    given_again = void | (table.column("revision").to_numpy() > 0)
    given_again[numbers[rows]] = False
    missing = np.flatnonzero(given_again)
    if not len(missing) and len(rows) == len(numbers):
        return numbers, columns, np.zeros(len(numbers), bool)
    withdrawn = np.arange(len(missing) + len(rows)) < len(missing)
    index = pa.array(np.concatenate((np.zeros(len(missing), np.int64), rows)), mask=withdrawn)
    return np.concatenate((missing, numbers[rows])), [c.take(index) for c in columns], withdrawn
