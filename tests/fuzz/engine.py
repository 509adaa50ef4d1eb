"""A program on the engine through its public push API, with results in the oracle's shape."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import CodeType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import panes as pn
from examples.dynamic_stock import DynamicStock
from tests.fuzz import user_aggregates, user_windows
from tests.fuzz.code import own_code, own_name, query_code, window_code
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
    of even seeds from the first snapshot and the changes since, with some others from parts by key group; of both
    kinds, some under the enlarged query."""

    def __init__(self, program: Program, *, by_label: bool = True) -> None:
        """`by_label`: look at results label by label, and restore under the enlarged query, too."""
        self.program = program
        self.by_label = by_label
        self.query = build_query(program)
        self.op = self.query.operator()
        #: with the windows that were added, of some programs, as long as none is gone
        self.enlarged = self.query if by_label and program.seed % 4 in (1, 2) else None
        #: whether it is restored from parts by key group: keys then come in the order of their groups
        self.in_parts = by_label and program.seed % 4 == 3
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
        if self.enlarged is not None:
            self.query = self.enlarged
        if self.in_parts:
            parts = [self.op.snapshot(key_groups=groups) for groups in (range(50), range(50, 128))]
            self.op = self.query.operator(restore=parts, trusted=True)
            return
        self.epochs.append(self.op.snapshot(epoch=epoch, since=since))
        self.op = self.query.operator(restore=self.epochs if since is not None else self.epochs[-1], trusted=True)

    def add(self, label: str, spec: Spec) -> None:
        own = {name: eval(compiled(text), NAMES) for name, text in own_code(self.program, label).items()}
        window = build_window(spec, self.program.time_unit)
        self.op.add(label, window, **own)
        if self.enlarged is not None:
            self.enlarged = self.enlarged.add(label, window, **own)

    def remove(self, label: str) -> None:
        self.op.remove(label)
        self.enlarged = None

    def account(self, ran: Any = None) -> tuple[int, int, list[tuple[Any, str]], dict[str, int]]:
        """Rows in, rows used, (id, reason) of each row on the ledger, and rows missed by windows that were there from
        the first row on, by label; of the operator, or of a query that ran."""
        ran = self.op if ran is None else ran
        late = ran.late
        entries = list(zip(late["id"].to_pylist(), late["reason"].to_pylist(), strict=True))
        metrics = ran.metrics
        missed = {w: n for w, n in metrics["late_by_window"].items() if w in self.program.windows}
        return metrics["rows_in"], metrics["rows_used"], entries, missed

    def values(self, column: Callable[[str], list[Any]], windows: list[str]) -> list[tuple[Any, ...]]:
        """The outputs of each result, those of its window; in the columns of others there is nothing."""
        shared = [f"a{i}" for i in range(len(self.program.aggregates))]
        if not self.program.own:
            return list(zip(*map(column, shared), strict=True))
        outputs = {w: [own_name(a) for a in own] for w, own in self.program.own.items()}
        columns = {name: column(name) for name in {*shared, *(name for own in outputs.values() for name in own)}}
        found = []
        for i, window in enumerate(windows):
            mine = outputs.get(window, shared)
            odd = [name for name, values in columns.items() if name not in mine and values[i] is not None]
            assert not odd, f"{window} has a value in {odd}, which it does not give"
            found.append(tuple([columns[name][i] for name in mine]))
        return found

    def check_labels(self, out: Any) -> None:
        """`out[label]` has the rows of one window, and what it gives."""
        whole = out.table
        for label in set(whole["window"].to_pylist()) & self.program.own.keys():
            mine, wanted = out[label].table, {own_name(a) for a in self.program.own[label]}
            assert {n for n in mine.column_names if n.startswith("own_") or n[:1] == "a"} == wanted
            same = whole.filter(pc.equal(whole["window"], label)).select(mine.column_names).cast(mine.schema)
            assert repr(mine.to_pylist()) == repr(same.to_pylist())  # where NaN is NaN

    def results(self, out: Any) -> list[Result]:
        table = out.table if hasattr(out, "table") else out
        if not table.num_rows:
            return []
        if self.by_label and self.program.own and hasattr(out, "table"):
            self.check_labels(out)
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
        aggregates = self.values(column, column("window"))
        void = column("void") if "void" in names else [False] * n
        final = column("final") if "final" in names else [True] * n
        bounds = (column(c) for c in ("window_start", "window_end", "window_from", "window_to"))
        parts = zip(
            zip(*keys, strict=True) if keys else [()] * n,
            column("window"),
            *bounds,
            column("revision"),
            void,
            aggregates,
            final,
            strict=True,
        )
        return [Result(*part) for part in parts]
