"""Punctuate: window punctuations where a condition on rows says so. Rows go through as they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from panes.operators.arrivals import NO_TIME, Arrivals, PortOutput
from panes.operators.machine import Machine
from panes.operators.models import InputPort, Model, OutputPort, Parameter
from panes.state.checked import counts

PUNCTUATE = Model(
    "Punctuate",
    inputs=(InputPort("in"),),
    outputs=(OutputPort("out", "generating"),),
    parameters=(Parameter("when", required=True), Parameter("before", choices=(True, False))),
)


@dataclass(frozen=True)
class PunctuateSpec:
    """`flag`: the column of `rows` that says where punctuations stand, before the row or after it."""

    rows: pa.Schema
    flag: str
    before: bool
    schema: pa.Schema


class PunctuateMachine(Machine):
    """Stateless but for what it counts."""

    def __init__(self, spec: PunctuateSpec) -> None:
        self.spec = spec
        self.schemas = (spec.schema,)
        self._counts = {"rows_in": 0, "rows_out": 0, "punctuations": 0}

    def push(self, arrivals: Arrivals) -> tuple[PortOutput, ...]:
        (table,) = arrivals.tables
        times = arrivals.times[arrivals.rows_of(0)]
        at = np.flatnonzero(table.column(self.spec.flag).fill_null(False).to_numpy())
        self._counts["rows_in"] += table.num_rows
        self._counts["rows_out"] += table.num_rows
        self._counts["punctuations"] += len(at)
        marks = at if self.spec.before else at + 1
        return (PortOutput(table.select(self.spec.schema.names), times, marks, times[at]),)

    def advance(self, time: int) -> tuple[PortOutput, ...]:
        return (PortOutput.of(self.spec.schema.empty_table(), np.empty(0, np.int64)),)

    def finish(self) -> tuple[PortOutput, ...]:
        return self.advance(NO_TIME)

    def dump(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        return {"counts": self._counts}, {}

    def load(self, facts: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> None:
        self._counts = counts(facts, "counts", self._counts)

    @property
    def metrics(self) -> dict[str, Any]:
        return dict(self._counts)
