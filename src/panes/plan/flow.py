"""A stream without windows: its rows, chosen by `where`, in the columns that it shows.

In: batches of the stream's data. Out: tables of the shown columns. Time plays no part in this, so rows are
neither late nor put in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from panes.plan.query import StreamPlan
from panes.plan.scalars import Scalars


@dataclass(frozen=True)
class Flow:
    """What is done to each row of a stream. Frozen and picklable: it travels to Spark's workers."""

    stream: StreamPlan
    scalars: Scalars

    @classmethod
    def of(cls, stream: StreamPlan, columns: Sequence[str] | None = None) -> Flow:
        """`columns`: these, instead of the ones that the stream shows."""
        names = stream.columns if columns is None else columns
        return cls(stream, Scalars(stream.scope, {name: stream.scope.named(name) for name in names}))

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(name, self.scalars.types[name]) for name in self.scalars.wanted])

    def apply(self, data: object) -> pa.Table:
        """Any batch of the data to the rows and columns that the stream gives."""
        return self.project(self.stream.read(data))

    def project(self, table: pa.Table) -> pa.Table:
        """The columns alone, of rows that are read and chosen."""
        return pa.table(list(self.scalars.evaluate(table).values()), schema=self.schema)

    @property
    def used(self) -> list[str]:
        """Columns of the data that are looked at."""
        expressions = [*self.scalars.wanted.values()]
        expressions += [e for c in self.stream.where for e in c.scalars.wanted.values()]
        used = {name for e in expressions for name in e.columns}
        # constants alone still need as many rows as there are
        return [name for name in self.stream.schema.names if name in used] or [self.stream.time]


@dataclass(frozen=True)
class FlowExplanation:
    """The parts of the explanation of a stream; as text, all of them."""

    source: str
    time: str
    where: tuple[str, ...]
    columns: tuple[str, ...]
    inputs: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"Stream      {self.source}; time {self.time}", "Windows     none: each row is given as it comes"]
        lines += [f"{'Where' * (i == 0):<11} {text}" for i, text in enumerate(self.where)]
        lines += [f"{'Columns' * (i == 0):<11} {text}" for i, text in enumerate(self.columns)]
        return "\n".join(lines) + inputs_text(self.inputs)

    def __repr__(self) -> str:
        return str(self)


def inputs_text(inputs: Sequence[str]) -> str:
    """The explanations of what a stream is made from, under each other."""
    text = ""
    for i, given in enumerate(inputs):
        number = f" {i + 1}" if len(inputs) > 1 else ""
        text += f"\n\nInput{number}\n" + "\n".join(f"  {line}".rstrip() for line in given.splitlines())
    return text


def explain_flow(flow: Flow, source: str, inputs: Sequence[str] = ()) -> FlowExplanation:
    wanted = flow.scalars.wanted.items()
    return FlowExplanation(
        source,
        flow.stream.time + "".join(f"; {said}" for said in [flow.stream.silence.spoken] if said),
        tuple(c.text for c in flow.stream.where),
        tuple(name if e.column == name else f"{name} = {e.text}" for name, e in wanted),
        tuple(inputs),
    )
