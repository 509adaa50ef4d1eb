"""A graph of operators for one key group, as a Spark task drives it.

Operators see rows in the order of their time. So rows wait here until the watermark has passed them, those of one
time are put in order by the sequence column, then by arrival, and the graph runs on: what it gives does not depend
on how a stream was cut into micro-batches. A row behind the watermark is late, since those after it are done with.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from panes.operators.arrivals import NO_TIME
from panes.runners.spark.packing import filled
from panes.runtime.graph import start
from panes.runtime.nodes import ENDED, Inlet, every_node, under
from panes.runtime.quiet import Beat
from panes.runtime.rejects import Rejects
from panes.slicing.ledger import NULL_TIME, TOO_LATE
from panes.slicing.results import Result
from panes.state.checked import demand, fact, reading, value, whole
from panes.state.pickles import trusting
from panes.state.snapshot import pack, unpack
from panes.windows.base import ALWAYS, NEVER

if TYPE_CHECKING:
    from panes.runners.spark.graph_query import GraphQuery


@dataclass
class FrameRows:
    """Rows of some frames, by the number of the frame."""

    tables: list[tuple[int, pa.Table]] = field(default_factory=list)

    @property
    def num_rows(self) -> int:
        return sum(table.num_rows for _, table in self.tables)


class GraphOperator:
    """A running graph. Its watermark is that of Spark, in milliseconds: frames may count in other ticks."""

    def __init__(self, query: GraphQuery) -> None:
        self._query = query
        self.watermark: int = ALWAYS
        self._leaves = [Inlet(leaf.schema, leaf.stream.time) for leaf in query.leaves]
        self._root = start(query.graph, dict(zip(query.leaves, self._leaves)))
        self._nodes = list(every_node(self._root))
        self._waiting: list[list[pa.Table]] = [[] for _ in self._leaves]
        self._late: list[pa.Table] = []

    def push(self, rows: FrameRows) -> Result:
        """Rows come, and wait."""
        for number, table in rows.tables:
            times = table.column(self._leaves[number].time)
            if times.null_count:
                self._put_aside(table.filter(times.is_null()), NULL_TIME)
                table, times = table.filter(times.is_valid()), times.drop_null()
            reached = self._tick(number)
            if reached > NO_TIME:
                in_time = pc.greater_equal(times.cast(pa.int64()), reached)
                self._put_aside(table.filter(pc.invert(in_time)), TOO_LATE)
                table = table.filter(in_time)
            if table.num_rows:
                self._waiting[number].append(table)
        return self._nothing

    def advance(self, watermark: int) -> Result:
        """Event time reaches the watermark: rows before it are complete."""
        self.watermark = max(self.watermark, watermark)
        for number, leaf in enumerate(self._leaves):
            leaf.put(self._taken(number, self._tick(number)), self._tick(number))
        return self._step()

    def micro_batch(self, before: int, rows: FrameRows | None, after: int) -> Result:
        """Event time reaches `before`, rows come, and it reaches `after`, unless it was there already."""
        given = [self.advance(before)] if before > self.watermark else []
        if rows is not None:
            self.push(rows)
        given += [self.advance(after)] if after > self.watermark else []
        return Result(pa.concat_tables([each.table for each in given])) if given else self._nothing

    def finish(self) -> Result:
        """The end of all frames."""
        for number, leaf in enumerate(self._leaves):
            leaf.put(self._taken(number, ENDED), ENDED)
        return self._step()

    def _tick(self, number: int) -> int:
        """The watermark in ticks of a frame."""
        reached = ALWAYS if self.watermark == ALWAYS else self._query.times[number].watermark(self.watermark)
        return NO_TIME if reached <= ALWAYS else reached

    def _taken(self, number: int, limit: int) -> pa.Table:
        """Rows before a tick that have waited, in order, with all columns of the frame."""
        leaf, waiting = self._leaves[number], self._waiting[number]
        if not waiting:
            return leaf.schema.empty_table()
        table = pa.concat_tables(waiting)
        self._waiting[number] = []
        if limit != ENDED:
            due = pc.less(table.column(leaf.time).cast(pa.int64()), limit)
            rest = table.filter(pc.invert(due))
            self._waiting[number] = [rest] if rest.num_rows else []
            table = table.filter(due)
        by = [leaf.time, self._query.sequence] if self._query.sequence in table.column_names else [leaf.time]
        table = table.sort_by([(name, "ascending") for name in by])
        # columns that nobody looks at were not sent, and null will do
        return filled(table, leaf.schema)

    def _step(self) -> Result:
        rejects = Rejects()
        tables = [item.table for item in self._root.step(rejects).items if not isinstance(item, Beat)]
        table = pa.concat_tables(tables) if tables else self._query.graph.schema.empty_table()
        if rejects.count:
            *columns, _ = self._query.late_schema
            self._late.append(rejects.table(pa.schema(columns)))
        for leaf in self._leaves:
            leaf.clear()
        return Result(table)

    def _put_aside(self, table: pa.Table, reason: str) -> None:
        if table.num_rows:
            reasons = pa.array([reason] * table.num_rows, pa.string())
            self._late.append(filled(table.append_column("reason", reasons), self._query.late_schema))

    @property
    def _nothing(self) -> Result:
        return Result(self._query.result_schema.empty_table())

    def take_late(self) -> pa.Table:
        """Rows that no result uses; whoever asks keeps them."""
        taken, self._late = self._late, []
        return pa.concat_tables([self._query.late_schema.empty_table(), *taken])

    def next_due(self) -> int:
        """Nothing can become due before the watermark has reached this millisecond."""
        if self.watermark > ALWAYS and any(node.by_time for node in self._nodes):
            return self.watermark + 1
        due = [NEVER]
        for leaf, time, waiting in zip(self._leaves, self._query.times, self._waiting):
            first = [pc.min(table.column(leaf.time).cast(pa.int64())).as_py() for table in waiting]
            due += [time.millis(tick + 1) for tick in first]
        return min(due)

    def snapshot(self) -> bytes:
        """The whole state as bytes."""
        facts: dict[str, Any] = {"watermark": self.watermark, "nodes": [], "pickled": False}
        tables: dict[str, pa.Table] = {}
        for number, node in enumerate(self._nodes):
            of_node, kept = node.dump()
            facts["nodes"].append(of_node)
            facts["pickled"] |= bool(of_node.get("machine", {}).get("pickled"))
            tables |= {f"node{number}.{name}": table for name, table in kept.items()}
        for number, waiting in enumerate(self._waiting):
            if waiting:
                tables[f"waiting.{number}"] = pa.concat_tables(waiting)
        return pack(facts, tables)

    def restore(self, blob: bytes) -> None:
        """Go on from there; for a graph that has seen nothing. If the bytes are refused, it is of no use any more.

        A checkpoint is trusted as the code beside it: nodes without code of users read no pickles.
        """
        facts, tables = unpack(blob)
        with trusting(True), reading("the checkpoint"):
            self.watermark = whole(facts, "watermark")
            known = fact(facts, "nodes", list)
            demand(len(known) == len(self._nodes), "there are more nodes than in the graph, or fewer")
            for number, node in enumerate(self._nodes):
                node.load(value(known[number], "a node", dict), under(f"node{number}.", tables))
            for name, table in under("waiting.", tables).items():
                number = int(name)
                demand(0 <= number < len(self._leaves), "rows wait for a frame that is not there")
                self._query.check(number, table)
                self._waiting[number] = [table]

    @property
    def metrics(self) -> dict[str, int]:
        waiting = sum(int(table.nbytes) for tables in self._waiting for table in tables)
        return {"bytes": waiting + sum(node.nbytes for node in self._nodes)}
