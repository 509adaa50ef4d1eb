"""What is done to the results of windows, step by step: conditions (HAVING), projections, order.

In: tables of results as the windows give them. Out: tables of the columns that the query shows. A `QueryPlan`
keeps its steps in order; both runners apply them to whatever becomes due. Steps have no state: what a step
gives depends on the table alone, so snapshots neither know them nor mind if they change.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from panes.errors import ExpressionError, QueryError, WrongType
from panes.plan.duckdb_session import connection
from panes.plan.expressions import Expression, Scope, parse_order
from panes.plan.hints import check_no_columns, did_you_mean
from panes.plan.scalars import Scalars
from panes.plan.types import check_name
from panes.slicing.identity import voids_first

#: Columns of every result, which keys and outputs can't be named.
RESERVED = ("window", "window_start", "window_end", "window_from", "window_to", "revision", "void")
#: One more, where windows are given before they close.
FINAL = "final"
#: All columns that the windows of a query can have.
WINDOW_COLUMNS = frozenset({*RESERVED, FINAL})
#: Columns that `order_by` goes by before anything else: windows stay in order, and so do their corrections.
_FIRST = ("window_end", "window_to", "revision")


@dataclass(frozen=True)
class Shape:
    """The columns of results, and which of them say whose result it is: keys, window, bounds, revision, void.

    The others are values, which a result that is withdrawn (`void`) does not have.
    """

    schema: pa.Schema
    naming: tuple[str, ...] = ()
    #: names of now, and what the windows called the same columns; None: as they are called now
    own: tuple[tuple[str, str], ...] | None = None

    @property
    def names(self) -> list[str]:
        return list(self.schema.names)

    @property
    def origins(self) -> dict[str, str]:
        """Of each column that is a key or one of windows, under whatever name: as which the windows gave it."""
        return {name: name for name in self.naming} if self.own is None else dict(self.own)

    def called(self, column: str) -> str | None:
        """What a key or a column of windows is called here; None: it is not here."""
        names = [name for name, given in self.origins.items() if given == column]
        return column if column in names else next(iter(names), None)


@dataclass(frozen=True)
class Step(ABC):
    """One thing that is done to every table of results. Frozen and picklable: it travels to Spark's workers.

    Tables hold the columns of `before` under their names, and perhaps others: a window that is added to a running
    operator can bring columns of its own.
    """

    before: Shape
    #: whether all results that are given at once must come in one table
    together: ClassVar[bool] = False
    #: whether a correction can become a withdrawal here
    withdraws: ClassVar[bool] = False

    @property
    @abstractmethod
    def after(self) -> Shape:
        """What `apply` makes of the columns."""

    @property
    def schema_out(self) -> pa.Schema:
        return self.after.schema

    @abstractmethod
    def apply(self, table: pa.Table) -> pa.Table:
        """The step, done to some results."""

    def computed(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """What is computed per window, by name, where it was `names` before this step."""
        return names

    def passing(self, before: Shape, column: str) -> Step:
        """The same step where the results have one more column, which is to be there afterwards too."""
        return replace(self, before=before)

    def origin(self, column: str) -> str | None:
        """The column of the window or key that a column is after the step; None if it is none as it was."""
        return column if column in self.before.naming and column in self.after.naming else None

    @abstractmethod
    def __str__(self) -> str:
        """The step in words, for `explain()`."""


def passing(steps: Sequence[Step], given: Shape, column: str) -> tuple[Step, ...]:
    """The same steps, but with `column` of what the windows give in what comes out."""
    out: list[Step] = []
    for step in steps:
        out.append(step.passing(out[-1].after if out else given, column))
    return tuple(out)


def apply_steps(steps: Sequence[Step], table: pa.Table) -> pa.Table:
    """All steps, one after the other."""
    for step in steps:
        table = step.apply(table)
    return table


@dataclass(frozen=True)
class SelectStep(Step):
    """Columns of the result, in order, each an expression over the columns before."""

    scalars: Scalars

    @classmethod
    def of(cls, before: Shape, columns: Sequence[str], expressions: Mapping[str, str]) -> SelectStep:
        if not columns and not expressions:
            raise QueryError("select() needs at least one column")
        check_no_columns("select", columns)
        for name in columns:
            if name not in before.names:
                raise QueryError(f"select: there is no column {name!r}{did_you_mean(name, before.names)}")
        for i, name in enumerate(columns):
            if name in columns[:i] or name in expressions:
                raise QueryError(f"select: the column {name!r} is given twice")
        scope = Scope(before.schema)
        wanted = {name: scope.named(name) for name in columns}
        for name, text in expressions.items():
            check_name(name, "select")
            wanted[name] = _resolved(scope, text, f"select: {name}={text!r}")
        return cls(before, Scalars(scope, wanted))

    @property
    def after(self) -> Shape:
        types, wanted = self.scalars.types, self.scalars.wanted
        naming = tuple(
            name for name, e in wanted.items() if self._names_window(e) and (name not in RESERVED or e.column == name)
        )
        origins = self.before.origins
        own = tuple((n, origins[e.column]) for n, e in wanted.items() if n in naming and e.column in origins)
        return Shape(pa.schema([pa.field(name, types[name]) for name in wanted]), naming, own)

    def passing(self, before: Shape, column: str) -> Step:
        scope = Scope(before.schema)
        return SelectStep(before, Scalars(scope, {**self.scalars.wanted, column: scope.named(column)}))

    def origin(self, column: str) -> str | None:
        read = self.scalars.wanted.get(column)
        return read.column if read is not None and read.column in self.before.naming else None

    def apply(self, table: pa.Table) -> pa.Table:
        values = self.scalars.evaluate(table)
        void = self.before.called("void")
        if void is not None:
            voids = table.column(void)
            for name, e in self.scalars.wanted.items():
                if e.column is None and not self._names_window(e):
                    # a withdrawn result has no values, whatever the expression makes of nulls
                    values[name] = pc.if_else(voids, pa.scalar(None, values[name].type), values[name])
        return pa.table(values)

    def _names_window(self, expression: Expression) -> bool:
        return bool(expression.columns) and all(c in self.before.naming for c in expression.columns)

    def __str__(self) -> str:
        wanted = self.scalars.wanted.items()
        return "select " + ", ".join(name if e.column == name else f"{e.text} as {name}" for name, e in wanted)


@dataclass(frozen=True)
class Having(Step):
    """Only results for which a condition is true.

    A correction that makes a result fail the condition is given as a withdrawal (`void`), as long as the results
    have that column: whoever has the result from before must hear of it.
    """

    condition: Expression
    scalars: Scalars
    withdraws: ClassVar[bool] = True

    @classmethod
    def of(cls, before: Shape, text: str) -> Having:
        scope = Scope(before.schema)
        condition = _resolved(scope, text, f"where({text!r})")
        scalars = Scalars(scope, {condition.text: condition})
        kind = scalars.types[condition.text]
        if not pa.types.is_boolean(kind):
            raise WrongType(f"where({text!r}) must be a condition, true or false for each result; it is ", kind)
        return cls(before, condition, scalars)

    @property
    def after(self) -> Shape:
        return self.before

    def apply(self, table: pa.Table) -> pa.Table:
        holds = self.scalars.evaluate(table)[self.condition.text].fill_null(False)
        void, revision = map(self.before.called, ("void", "revision"))
        if void is None or revision is None:
            return table.filter(holds)
        holds = pc.and_not(holds, table.column(void))
        withdrawn = pc.and_not(pc.greater(table.column(revision), 0), holds)
        kept = pc.or_(holds, withdrawn)
        if not pc.any(withdrawn).as_py():
            return table.filter(kept)
        return voids_first(self._withdraw(table, withdrawn, void).filter(kept), void)

    def _withdraw(self, table: pa.Table, chosen: pa.ChunkedArray, void: str) -> pa.Table:
        columns = {}
        for name in table.column_names:
            column = table.column(name)
            if name == void:
                column = pc.or_(column, chosen)
            elif name in self.before.names and name not in self.before.naming:
                column = pc.if_else(chosen, pa.scalar(None, column.type), column)
            columns[name] = column
        return pa.table(columns)

    def __str__(self) -> str:
        return f"where {self.condition.text}"


@dataclass(frozen=True)
class OrderStep(Step):
    """Results that are due at the same time, ordered; those due earlier stay before them."""

    keys: tuple[tuple[Expression, str], ...]  # with ASC or DESC, NULLS FIRST or LAST
    scalars: Scalars
    together: ClassVar[bool] = True

    @classmethod
    def of(cls, before: Shape, texts: Sequence[str]) -> OrderStep:
        if not texts:
            raise QueryError("order_by() needs at least one column, for instance 'total DESC'")
        if "window_end" not in before.naming:
            raise QueryError(
                "order_by orders the results of each window, and these no longer have the column 'window_end': "
                "call order_by before select"
            )
        scope = Scope(before.schema)
        keys = [(scope.named(name), "ASC NULLS LAST") for name in _FIRST if name in before.naming]
        for text in texts:
            tree, direction = parse_order(text)
            try:
                found = scope.named(text) if text in before.names else scope.resolve(tree, text)
            except ExpressionError as error:
                raise ExpressionError(f"order_by({text!r}): {error}") from error
            if isinstance(found.tree, exp.Literal):
                raise QueryError(f"order_by({text!r}) is the same for every result; give the name of a column")
            keys.append((found, direction))
        return cls(before, tuple(keys), Scalars(scope, {e.text: e for e, _ in keys}))

    @property
    def after(self) -> Shape:
        return self.before

    def apply(self, table: pa.Table) -> pa.Table:
        if table.num_rows < 2:
            return table
        values = self.scalars.evaluate(table)
        columns = {f"k{i}": values[e.text] for i, (e, _) in enumerate(self.keys)}
        columns["place"] = pa.chunked_array([pa.array(range(table.num_rows), pa.int64())])
        order = ", ".join([*(f"k{i} {direction}" for i, (_, direction) in enumerate(self.keys)), "place"])
        sorted_places = connection().from_arrow(pa.table(columns)).order(order).project("place").to_arrow_table()
        return voids_first(table.take(sorted_places.column("place")), self.before.called("void"))

    def __str__(self) -> str:
        said = [f"{e.text} {direction}" for e, direction in self.keys if e.column not in _FIRST]
        return f"order by {', '.join(said)}, among results that are due at the same time"


def _resolved(scope: Scope, text: str, where: str) -> Expression:
    try:
        return scope.scalar(text)
    except ExpressionError as error:
        raise ExpressionError(f"{where}: {error}") from error
