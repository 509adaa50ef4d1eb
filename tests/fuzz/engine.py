"""A program on the engine through its public push API, with results in the oracle's shape."""

from __future__ import annotations

from functools import lru_cache
from types import CodeType
from typing import Any

import pyarrow as pa

import panes as pn
from examples.dynamic_stock import DynamicStock
from tests.fuzz import user_aggregates, user_windows
from tests.fuzz.code import query_code, window_code
from tests.fuzz.programs import Data, Program
from tests.fuzz.specs import Spec
from tests.oracle.oracle import Result

NAMES: dict[str, Any] = {"pn": pn, "DynamicStock": DynamicStock, **vars(user_windows), **vars(user_aggregates)}
ARROW = {
    "bigint": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "decimal(10, 2)": pa.decimal128(10, 2),
}


@lru_cache(maxsize=4096)
def compiled(text: str) -> CodeType:
    return compile(text, text, "eval")


def build_window(spec: Spec, time_unit: str | None = None) -> Any:
    return eval(compiled(window_code(spec, time_unit)), NAMES)


def build_query(program: Program) -> Any:
    return eval(query_code(program), NAMES)


class Engine:
    """Same calls as the oracle; `snapshot` goes on with an operator restored from the bytes of this one, with programs
    of even seeds from the first snapshot and the changes since."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.query = build_query(program)
        self.op = self.query.operator()
        self.epochs: list[bytes] = []
        ts = pa.int64() if program.time_unit is None else pa.timestamp(program.time_unit)
        types = {"ts": ts, **{c: ARROW[t] for c, t in program.types.items()}}
        self.schema = pa.schema([("id", pa.int64()), *types.items()])

    def push(self, rows: list[Data]) -> list[Result]:
        if self.program.time_unit is None and not all("id" in row for row in rows):
            rows = [{"id": None, **row} for row in rows]
        if self.program.time_unit is None and len(rows) % 2:
            # a single row goes as a dict or as a batch of one, by turns
            alone = len(rows) == 1 and (rows[0]["id"] or 0) % 3 > 0
            return self.results(self.op.push(rows[0] if alone else rows))
        columns = [pa.array([row[f.name] for row in rows], f.type) for f in self.schema]
        return self.results(self.op.push(pa.table(columns, schema=self.schema)))

    def advance(self, ticks: int) -> list[Result]:
        return self.results(self.op.advance(ticks))

    def finish(self) -> list[Result]:
        return self.results(self.op.finish())

    def snapshot(self) -> None:
        epoch = len(self.epochs)
        since = epoch - 1 if epoch and self.program.seed % 2 == 0 else None
        self.epochs.append(self.op.snapshot(epoch=epoch, since=since))
        self.op = self.query.operator(restore=self.epochs if since is not None else self.epochs[-1], trusted=True)

    def add_window(self, label: str, spec: Spec) -> None:
        self.op.add_window(label, build_window(spec, self.program.time_unit))

    def remove_window(self, label: str) -> None:
        self.op.remove_window(label)

    def account(self, ran: Any = None) -> tuple[int, int, list[tuple[Any, str]], dict[str, int]]:
        """Rows in, rows used, (id, reason) of each row on the ledger, and rows missed by windows that were there from
        the first row on, by label; of the operator, or of a query that ran."""
        ran = self.op if ran is None else ran
        late = ran.late
        entries = list(zip(late["id"].to_pylist(), late["reason"].to_pylist(), strict=True))
        metrics = ran.metrics
        missed = {w: n for w, n in metrics["late_by_window"].items() if w in self.program.windows}
        return metrics["rows_in"], metrics["rows_used"], entries, missed

    def results(self, out: Any) -> list[Result]:
        table = out.table if hasattr(out, "table") else out
        if not table.num_rows:
            return []
        n = table.num_rows
        nothing = [None] * n
        names = set(table.column_names)

        def column(name: str) -> list[Any]:
            if name not in names:
                return nothing
            values = table.column(name)
            if pa.types.is_timestamp(values.type):
                values = values.cast(pa.int64())
            return values.to_pylist()

        keys = [column(c) for c in self.program.keys]
        aggregates = [column(f"a{i}") for i in range(len(self.program.aggregates))]
        void = column("void") if "void" in names else [False] * n
        final = column("final") if "final" in names else [True] * n
        bounds = (column(c) for c in ("window_start", "window_end", "window_from", "window_to"))
        parts = zip(
            zip(*keys, strict=True) if keys else [()] * n,
            column("window"),
            *bounds,
            column("revision"),
            void,
            zip(*aggregates, strict=True),
            final,
            strict=True,
        )
        return [Result(*part) for part in parts]
