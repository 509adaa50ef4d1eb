"""What each query of an operator gives: its outputs, made of aggregates, and one table of the outputs of all.

A query is a window and what is computed of it. Most operators compute the same for all windows; then none of this is
needed. Where windows have outputs of their own, the table has the columns of all of them, null where a window does not
have that output, and `Labels` knows which columns belong to whom.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panes.aggregates.base import Aggregate
from panes.aggregates.registry import from_form
from panes.errors import QueryError
from panes.slicing.lane import Agg
from panes.slicing.shares import places, side_by_side
from panes.state.checked import demand, fact, value

Array = np.ndarray


@dataclass(frozen=True)
class QueryOutputs:
    """What is computed of a window: aggregates, and the columns of results that are made of them."""

    aggs: tuple[Agg, ...]
    fields: tuple[pa.Field, ...]
    #: a table of the aggregates (and of `void`, if there is one) to one of the outputs; None: they are the outputs
    finish: Callable[[pa.Table], pa.Table] | None = None
    #: by output, what it computes, however it was written
    computed: Mapping[str, str] = field(default_factory=dict)
    #: by output, how a snapshot writes it; None: it is users' own code, which can't be written
    written: Mapping[str, Any] = field(default_factory=dict)
    #: nothing can be wrong with a row that is not seen when it is read
    rows_can_wait: bool = True

    def facts(self) -> dict[str, object]:
        """As a snapshot says it: outputs in their order, which is that of their partials."""
        return {"computed": dict(self.computed), "written": [[name, form] for name, form in self.written.items()]}


def check_types(label: str, added: QueryOutputs, others: Mapping[str, QueryOutputs]) -> None:
    """Refuse an output that another query has under the same name and of another type."""
    for output in added.fields:
        for other, known in others.items():
            theirs = next((f for f in known.fields if f.name == output.name), None)
            if theirs is not None and theirs.type != output.type:
                raise QueryError(
                    f"add({label!r}): the output {output.name!r} is {output.type} here and {theirs.type} in {other!r}, "
                    "and results have one column of that name; give it another name, or cast one of both"
                )


def outputs_from(written: Sequence[tuple[str, Any]]) -> dict[str, str | Aggregate]:
    """Outputs as users write them, of what a snapshot says."""
    found: dict[str, str | Aggregate] = {}
    for name, form in written:
        demand(name not in found, f"there are two outputs {name!r}")
        found[name] = fact(form, "sql", str) if "sql" in value(form, f"the output {name!r}", dict) else from_form(form)
    return found


def every_field(outputs: Sequence[QueryOutputs]) -> tuple[pa.Field, ...]:
    """The outputs of all, each name once."""
    return tuple({f.name: f for each in outputs for f in each.fields}.values())


class MixedOutputs:
    """Outputs of windows that don't all give the same."""

    def __init__(self, of: Mapping[int, QueryOutputs], aggs: Sequence[Agg], declared: Sequence[QueryOutputs]) -> None:
        """`of`: by number of the window; `aggs`: as results have them; `declared`: there are columns of these outputs,
        too, whether a window gives them now or not."""
        self._distinct = [*{id(each): each for each in of.values()}.values()]
        number = {id(each): i for i, each in enumerate(self._distinct)}
        self._of = np.zeros(max(of, default=0) + 1, np.int64)
        for window, each in of.items():
            self._of[window] = number[id(each)]
        self._places = [places(each.aggs, aggs) for each in self._distinct]
        self.fields = every_field([*declared, *self._distinct])

    def columns(self, numbers: Array, values: Sequence[pa.Array], void: Array | None) -> list[pa.Array]:
        """All outputs of results, null where a window does not have that one."""
        which = self._of[numbers]
        rows = [np.flatnonzero(which == i) for i in range(len(self._distinct))]
        parts = [(some, self._finished(i, some, values, void)) for i, some in enumerate(rows)]
        return side_by_side({output.name: output.type for output in self.fields}, parts)

    def _finished(self, i: int, some: Array, values: Sequence[pa.Array], void: Array | None) -> Mapping[str, pa.Array]:
        """Outputs of some results, all of windows that give the same."""
        outputs, index = self._distinct[i], pa.array(some)
        columns = {
            agg.name: values[place].take(index)
            for agg, place in zip(outputs.aggs, self._places[i])
            if place is not None
        }
        if outputs.finish is None:
            return columns
        if void is not None:
            columns["void"] = pa.array(void[some])
        made = outputs.finish(pa.table(columns))
        return {name: pa.concat_arrays(made[name].chunks) for name in made.column_names if made[name].num_chunks}


@dataclass(frozen=True)
class Labels:
    """Which rows and columns of a table of results are those of one query."""

    #: by label, the columns that the results of that query don't have
    foreign: Mapping[str, frozenset[str]]
    #: by label, columns that are of a narrower type there
    types: Mapping[str, Mapping[str, pa.DataType]]
    #: the column that says which query it is; None: a `select` has left it out
    called: str | None = "window"

    def of(self, table: pa.Table, label: str) -> pa.Table:
        """The results of one query, with its own columns."""
        if label not in self.foreign:
            raise QueryError(f"there is no query {label!r} among these results; there are {', '.join(self.foreign)}")
        mine = table
        if self.called is not None:
            mine = table.filter(pc.equal(table[self.called], label))
        elif len(self.foreign) > 1:
            raise QueryError(
                f"[{label!r}]: the select leaves out `window`, which says whose result it is; select it too"
            )
        mine = mine.select([name for name in mine.column_names if name not in self.foreign[label]])
        for name, kind in self.types[label].items():
            at = mine.schema.get_field_index(name)
            if at >= 0:
                mine = mine.set_column(at, pa.field(name, kind), mine.column(at).cast(kind))
        return mine
