"""What is forged: states of every kind, each with a way to load one and to go on from it."""

from __future__ import annotations

import base64
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

import panes as pn
from examples.paned_aggregate import PanedAggregate
from panes import policies as p
from panes.api.stream import Query
from panes.clock import FakeClock
from panes.operators import InputPort, Model, Operator, OutputPort, count, delta, sliding, time, tumbling
from panes.plan.graph import PushedNode
from panes.policies.library import SlidingWindow, TumblingWindow
from panes.policies.library import count as tuples
from panes.policies.library import time as micros
from panes.policies.library.columnar import ColumnarWindow
from tests.fuzz.user_windows import Alternating, KeepLast, Markers

if TYPE_CHECKING:
    from tests.robustness.forge import Forger

SCHEMA = {"ts": "bigint", "k": "string", "v": "double", "x": "bigint"}


def rows(start: int, stop: int, *, shuffled: bool = True) -> list[dict[str, Any]]:
    late = (lambda t: t * 7 % 5) if shuffled else (lambda t: 0)
    return [{"ts": t - late(t), "k": "abc"[t % 3], "v": float(t % 11), "x": t} for t in range(start, stop)]


class Subject(ABC):
    """A kind of state."""

    name: str
    user_code: bool = False

    def prepare(self) -> None:
        """Make the state that is forged, and compile what that takes."""
        getattr(self, "operator", None)
        getattr(self, "blob", None)

    @abstractmethod
    def forged(self, forger: Forger) -> Any:
        """A state, altered."""

    @abstractmethod
    def fresh(self) -> Any:
        """What a state is loaded into."""

    @abstractmethod
    def load(self, fresh: Any, state: Any, trusted: bool) -> Any:
        """Load it; what goes on from there."""

    def trusts(self, state: Any) -> bool:
        """Whether nothing in it could be unpickled, even by whoever trusts it."""
        return True

    @abstractmethod
    def picture(self, loaded: Any) -> Any:
        """The state of that, as `load` takes it; None: it can't be asked for."""

    @abstractmethod
    def go_on(self, loaded: Any) -> None:
        """Rows come, and the end."""


@dataclass
class QueryState(Subject):
    """Snapshots of operators of queries, whole or in two parts."""

    name: str
    query: Any
    user_code: bool = False
    change: Callable[[Any], None] | None = None
    in_order: bool = False
    many: int = 40

    @cached_property
    def operator(self) -> Any:
        op = self.query.operator()
        op.push(rows(0, self.many // 2, shuffled=not self.in_order))
        if self.change is not None:
            self.change(op)
        op.push(rows(self.many // 2, self.many, shuffled=not self.in_order))
        return op

    @cached_property
    def parts(self) -> list[bytes]:
        return [self.operator.snapshot(key_groups=r) for r in (range(64), range(64, 128))]

    def forged(self, forger: Forger) -> list[bytes]:
        keyed = bool(self.query._plan.stream.keys) and "central" not in self.name
        blobs = list(self.parts) if keyed and forger.dice.random() < 0.3 else [self.operator.snapshot()]
        at = forger.dice.randrange(len(blobs))
        blobs[at] = forger.blob(blobs[at])
        return blobs

    def fresh(self) -> Any:
        return self.query.operator()

    def load(self, fresh: Any, state: Any, trusted: bool) -> Any:
        return fresh.restore(state, trusted=trusted or (self.user_code and isinstance(state, bytes)))

    def trusts(self, state: list[bytes]) -> bool:
        return not any(b'"pickled":"' in blob for blob in state)  # windows added while running may be anybody's own

    def picture(self, loaded: Any) -> bytes:
        return loaded.snapshot()

    def go_on(self, loaded: Any) -> None:
        if loaded._finished:
            return
        for at in (self.many, self.many + 10):
            batch = rows(at, at + 10, shuffled=not self.in_order)
            mine = [r for r in batch if loaded._groups is None or loaded.key_group(r["k"]) in loaded._groups]
            list(loaded.push(mine).rows())
        loaded.late, loaded.metrics  # noqa: B018
        list(loaded.finish().rows())


@dataclass
class OperatorState(Subject):
    """Snapshots of operators of streams."""

    name: str
    stream: Any
    ports: int = 1
    user_code: bool = False
    mechanism: str = "auto"

    @cached_property
    def blob(self) -> bytes:
        op = self.stream.operator(mechanism=self.mechanism)
        self._push(op, 0, 40)
        return op.snapshot()

    def _push(self, op: Any, start: int, stop: int) -> None:
        for at in range(start, stop, 5):
            for port in range(self.ports):
                list(op.push(rows(at, at + 5, shuffled=False), port).rows())

    def forged(self, forger: Forger) -> bytes:
        return forger.blob(self.blob)

    def fresh(self) -> Any:
        return None

    def load(self, fresh: Any, state: bytes, trusted: bool) -> Any:
        return self.stream.operator(restore=state, trusted=trusted, mechanism=self.mechanism)

    def picture(self, loaded: Any) -> Any:
        return None if loaded is None or self.user_code else loaded.snapshot()

    def go_on(self, loaded: Any) -> None:
        if loaded._finished:
            return
        self._push(loaded, 40, 60)
        loaded.late, loaded.metrics  # noqa: B018
        list(loaded.finish().rows())


@dataclass
class WindowState(Subject):
    """Snapshots of windows of the library."""

    name: str
    make: Callable[[], Any]
    push: Callable[[Any, int, int], None]
    user_code: bool = False

    @cached_property
    def blob(self) -> bytes:
        window = self.make()
        self.push(window, 0, 40)
        return window.snapshot()

    def forged(self, forger: Forger) -> bytes:
        return forger.blob(self.blob)

    def fresh(self) -> Any:
        return self.make()

    def load(self, fresh: Any, state: bytes, trusted: bool) -> Any:
        trust = {} if isinstance(fresh, ColumnarWindow) else {"trusted": trusted}
        fresh.restore(state, **trust)
        return fresh

    def trusts(self, state: bytes) -> bool:
        return isinstance(self.make(), ColumnarWindow | PanedAggregate)  # others hold what users put there

    def picture(self, loaded: Any) -> Any:
        return loaded.snapshot()

    def go_on(self, loaded: Any) -> None:
        self.push(loaded, 40, 60)


@dataclass
class CheckpointState(Subject):
    """What Spark's state store holds of a key group, as a worker reads it; or all of it, as `spark_snapshot` does."""

    name: str
    runnable: Any
    plan: Any = None  # of `spark_snapshot`
    user_code: bool = False
    store: dict[int, str] = field(default_factory=dict)

    GROUPS: ClassVar[int] = 1

    def __post_init__(self) -> None:
        from panes.runners.spark.group_state import GroupState
        from panes.runners.spark.packing import to_bytes
        from panes.windows.base import ALWAYS

        state = GroupState(_Map(self.store), self.runnable, self.runnable.facts(self.GROUPS))
        for number, reached in enumerate((ALWAYS, 5, 15)):
            head = state.head()
            op = state.operator(head)
            packed = [to_bytes(self.batch(number * 15, number * 15 + 15))]
            came = self.runnable.rows(packed)
            passed = self.runnable.passed(reached, came)
            state.step(head, op, passed, packed, came)
            if number == 1:  # from here on there is a snapshot, and then steps
                state._replace(head, "s", _compressed(op.snapshot()))
                state._write_head(head)
            else:
                state.save(head, op, passed, packed)

    def batch(self, start: int, stop: int) -> pa.Table:
        columns = self.runnable.columns if hasattr(self.runnable, "columns") else self.runnable.leaves[0].columns
        schema = self.runnable.plan.stream.schema if hasattr(self.runnable, "plan") else self.runnable.leaves[0].schema
        found = pa.Table.from_pylist(rows(start, stop), schema=schema).select(list(columns))
        return found.replace_schema_metadata({b"panes.leaf": b"0", **_leaf()})

    def forged(self, forger: Forger) -> dict[int, str]:
        from panes.runners.spark.stored import HEAD, QUERY, Head, from_pieces, to_pieces, uncompressed

        dice, store = forger.dice, dict(self.store)
        what = dice.randrange(10)
        if what < 2:
            at = HEAD if what else QUERY
            facts, _ = forger.fact(json.loads(store[at]), {})
            store[at] = json.dumps(facts)
        elif what == 2:
            at = dice.choice(list(store))
            store[at] = dice.choice(("", "x", "{}", "[]", "null", base64.b64encode(forger.canary).decode()))
        elif what == 3:
            del store[dice.choice(list(store))]
        else:
            head = Head.from_json(store[HEAD])
            runs = [head.snapshot, *(e.rows for e in head.steps)]
            run = dice.choice(runs[:1] * 3 + runs)
            (value,) = from_pieces((store[n] for n in run.numbers), run.sizes)
            if run is head.snapshot:
                value = _compressed(forger.blob(uncompressed(value)))
            else:
                value = _step(forger, value)
            (piece,) = to_pieces([value])
            store[run.first] = piece
            run.sizes = [len(value)]
            store[HEAD] = head.to_json()
        return store

    def fresh(self) -> Any:
        return None

    def picture(self, loaded: Any) -> Any:
        return None

    def load(self, fresh: Any, state: dict[int, str], trusted: bool) -> Any:
        from panes.runners.spark.group_state import GroupState
        from panes.runners.spark.interchange import parts_of
        from panes.runners.spark.packing import group_labels

        if self.plan is not None:
            parts = parts_of({group_labels(self.GROUPS)[0]: state}, self.plan)
            return Query.of(PushedNode.of(self.plan.stream.schema), self.plan).operator(restore=parts, trusted=trusted)
        group = GroupState(_Map(state), self.runnable, self.runnable.facts(self.GROUPS))
        head = group.head()
        head.lineage = "0000-another"  # nothing that this process still remembers
        return group.operator(head)

    def go_on(self, loaded: Any) -> None:
        from panes.runners.spark.packing import to_bytes

        if self.plan is not None:
            list(loaded.push(pa.Table.from_pylist(rows(50, 60), schema=self.plan.stream.schema)).rows())
        else:
            loaded.push(self.runnable.rows([to_bytes(self.batch(50, 60))]))
            loaded.advance(70)
        loaded.finish()


class _Map:
    def __init__(self, values: dict[int, str]) -> None:
        self._values = values

    def getValue(self, key: Any) -> Any:
        found = self._values.get(key[0])
        return None if found is None else (found,)

    def updateValue(self, key: Any, value: Any) -> None:
        self._values[key[0]] = value[0]

    def removeKey(self, key: Any) -> None:
        del self._values[key[0]]


def _leaf() -> dict[bytes, bytes]:
    from panes.runners.spark.graph_query import LEAF

    return {LEAF: b"0"}


def _compressed(blob: bytes) -> bytes:
    from panes.runners.spark.stored import compressed

    return compressed(blob)


def _step(forger: Forger, value: bytes) -> bytes:
    """The rows of a step, altered."""
    from panes.runners.spark.packing import from_bytes, to_bytes

    if forger.dice.random() < 0.3:
        data = bytearray(value)
        data[forger.dice.randrange(len(data))] ^= 1 << forger.dice.randrange(8)
        return bytes(data)
    table = from_bytes(value)
    change = forger.dice.choice((forger.column, forger.pickle, forger.table))
    _, tables = change({}, {"rows": table})
    found = next(iter(tables.values()), table)
    return to_bytes(found.slice(0, 1000).replace_schema_metadata(table.schema.metadata))


class Spread(pn.UserAggregate):
    """Max minus min, as Python objects."""

    commutative = True

    def lift(self, x: float) -> Any:
        return x, x

    def combine(self, a: Any, b: Any) -> Any:
        return min(a[0], b[0]), max(a[1], b[1])

    def lower(self, a: Any) -> float:
        return a[1] - a[0]


class Sums(Operator):
    """Gives the sum of what came."""

    model = Model("Sums", inputs=(InputPort("in", (), None),), outputs=(OutputPort("sums", "generating"),))
    schema: ClassVar = {"sums": {"total": "double"}}

    def start(self) -> None:
        self.total = 0.0

    def on_row(self, port: str, row: Mapping[str, Any]) -> None:
        self.total += row["v"] or 0.0
        self.emit(total=self.total)


class Mean:
    """A summarizer."""

    def __init__(self) -> None:
        self.n = 0

    def on_open_window(self, key: Any) -> None:
        self.n = 0

    def on_tuple_insertion(self, row: Any) -> None:
        self.n += 1

    def on_close_window(self) -> None:
        pass


class Odd(p.Trigger):
    """Fires at odd values."""

    columns = ("x",)

    def notify(self, row: Mapping[str, Any]) -> bool:
        return bool(row["x"] % 2)


def _distance(a: Any, b: Any) -> float:
    return abs(a - b)


def _query(windows: dict[str, Any], aggs: dict[str, Any] | None = None, **options: Any) -> Any:
    stream = pn.stream(None, schema=SCHEMA, time="ts", **{"watermark": 5, **options})
    return stream.window(**windows).agg(**(aggs or {"s": "sum(v)", "m": "median(v)", "n": "count(*)"}))


MANY: dict[str, Any] = {
    "a": "avg(v)", "b": "min(k)", "c": "count(distinct x)", "d": "first(v)", "e": "last(k)",
    "f": "approx_count_distinct(x)", "g": pn.collect_list("v"), "h": "stddev(v)", "i": "quantile(v, 0.9)",
}  # fmt: skip
FEW = {name: MANY[name] for name in ("a", "b", "c", "f", "h", "i")}


def _add(op: Any) -> None:
    op.add("added", pn.sliding(16, every=4))


def _change(op: Any) -> None:
    op.add("added", pn.session(3))
    op.remove("t")


def _add_outputs(op: Any) -> None:
    op.add("b", pn.tumbling(6), top="max(x)", spread=pn.stddev("v"))
    op.add("q", pn.session(3), q=pn.quantile("v", 0.9), d="count(distinct x)", c=pn.corr("v", "x"))
    op.add("three", pn.tumbling(pn.rows(3)), h=pn.histogram_numeric("v", 4), m="sum(v) / count(*)")


def _add_own(op: Any) -> None:
    op.add("own", Alternating(3, 5))


def _queries() -> list[Subject]:
    keyed: dict[str, Any] = {"key": "k"}
    late: dict[str, Any] = {"key": "k", "lateness": 20}
    ordered: dict[str, Any] = {"watermark": None}
    time_windows = {"t": pn.tumbling(10), "s": pn.sliding(20, every=5)}
    p_count, p_time = pn.policy(evict=p.count(3), trigger=p.count(2)), pn.policy(evict=p.time(7), trigger=p.count(2))
    p_delta = pn.policy(evict=p.delta(3, on="v"), trigger=p.time(5))
    p_central = pn.policy(central_trigger=p.count(3), central_evict=p.count(5))
    own_policy = pn.policy(evict=p.count(3), trigger=Odd())
    own_windows = {"a": Alternating(3, 5), "m": Markers(4, 2), "f": KeepLast(3, 2)}
    spread = {"s": Spread("v")}
    empty = pn.stream(None, schema=SCHEMA, time="ts", watermark=5, key="k").window(**time_windows, emit_empty=True)
    on_column = {"x": pn.tumbling(6, on="x"), "t": pn.tumbling(10)}
    every_row = {"r": pn.sliding(pn.rows(6), every=pn.rows(2))}

    def own(name: str, windows: dict[str, Any], aggs: Any = None, change: Any = None) -> Subject:
        return QueryState(f"own {name}", _query(windows, aggs, **keyed), user_code=True, change=change)

    return [
        QueryState("time", _query(time_windows)),
        QueryState("time by key", _query(time_windows, FEW, **late)),
        QueryState("time, empty ones too", empty.agg(n="count(*)")),
        QueryState("time, added", _query(time_windows, **late), change=_add),
        QueryState("time, changed", _query(time_windows, **keyed), change=_change),
        QueryState("outputs, added", _query(time_windows, **keyed), change=_add_outputs),
        QueryState("outputs, added, late", _query(every_row, **late), change=_add_outputs),
        QueryState("sessions", _query({"x": pn.session(4)}, FEW, **late)),
        QueryState("sessions and slices", _query({"x": pn.session(2), "t": pn.tumbling(7)}, **keyed)),
        QueryState("rows", _query({"r": pn.tumbling(pn.rows(3)), "d": pn.delta(4, on="v")}, MANY, **late)),
        QueryState("rows, added", _query(every_row, **keyed), change=_add),
        QueryState("columns", _query(on_column, **keyed, **ordered), in_order=True),
        QueryState("columns, late", _query({"x": pn.tumbling(6, on="x")}, **late)),
        QueryState("brackets", _query({"b": pn.punctuated(begin="x % 4 = 0", end="x % 17 = 0")}, **late)),
        QueryState("marks", _query({"b": pn.punctuated(begin="x % 4 = 0"), "x": pn.session(3)}, **keyed)),
        QueryState("policy by count", _query({"p": p_count}, **keyed)),
        QueryState("policy by time", _query({"p": p_time}, **keyed)),
        QueryState("policy by delta", _query({"p": p_delta}, **keyed)),
        QueryState("policy by time, many", _query({"p": p_time}, **keyed, **ordered), in_order=True, many=12_000),
        QueryState("policy, central", _query({"p": p_central}, **keyed)),
        own("policy", {"p": own_policy}),
        own("windows", own_windows),
        own("function", {"d": pn.delta(4, on="v", function=_distance)}),
        own("aggregate", {"t": pn.tumbling(10), "x": pn.session(3)}, spread),
        own("aggregate of rows", {"r": pn.tumbling(pn.rows(3))}, spread),
        own("window, added", time_windows, change=_add_own),
    ]


def _streams() -> list[Subject]:
    one = pn.stream(None, schema=SCHEMA, time="ts", time_unit="ms")
    by = pn.stream(None, schema=SCHEMA, time="ts", key="k", time_unit="ms")
    found: list[Subject] = [
        OperatorState("sort", by.sort("v", window=sliding(count(4)))),
        OperatorState("sort, tumbling", one.sort("v", window=tumbling(time("7 ms")))),
        OperatorState("dedupe", by.dedupe("v", window=sliding(time("20 ms")))),
        OperatorState("dedupe by delta", by.dedupe("v", window=sliding(delta("x", 9)))),
        OperatorState("punctuate", one.punctuate("x % 5 = 0")),
        OperatorState("own operator", one.apply(Sums()), user_code=True),
    ]
    for mechanism in ("columns", "windows"):
        made = by.aggregate(window=sliding(count(5), every=count(2)), s="sum(v)")
        found.append(OperatorState(f"aggregate in {mechanism}", made, mechanism=mechanism))
        made = by.aggregate(window=tumbling(time("9 ms")), s="sum(v)")
        found.append(OperatorState(f"aggregate by time in {mechanism}", made, mechanism=mechanism))
        other = pn.stream(None, schema=SCHEMA, time="ts", key="k", time_unit="ms")
        made = by.match(other, window=(sliding(count(4)), sliding(time("9 ms"))), on="l.v <= r.v", how="full")
        found.append(OperatorState(f"join in {mechanism}", made, ports=2, mechanism=mechanism))
    return found


def _windows() -> list[Subject]:
    schema = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("v", pa.float64()), ("x", pa.int64())])

    def tuple_by_tuple(window: Any, start: int, stop: int) -> None:
        for row in rows(start, stop, shuffled=False):
            if window._clock is not None:
                window._clock.advance_to(row["ts"])
            window.insert(row, row["k"]) if window.partitioned else window.insert(row)

    def batches(window: Any, start: int, stop: int) -> None:
        window.push(pa.Table.from_pylist(rows(start, stop, shuffled=False), schema=schema))

    def columnar(evict: Any, **options: Any) -> Callable[[], Any]:
        return lambda: ColumnarWindow(schema, evict=evict, trigger=tuples(2), key=["k"], **options)

    def paned() -> Any:
        return PanedAggregate(schema, {"s": pn.sum("v")}, evict=micros(12), trigger=micros(4), time="ts", key=["k"])

    def timed() -> Any:
        return TumblingWindow(evict=micros(9), partitioned=True, clock=FakeClock())

    def slides() -> Any:
        return SlidingWindow(evict=micros(9), trigger=micros(4), clock=FakeClock())

    def summarized() -> Any:
        return TumblingWindow(evict=tuples(7), summarizer=Mean)

    return [
        WindowState("tumbling window", lambda: TumblingWindow(evict=tuples(7), partitioned=True), tuple_by_tuple),
        WindowState("tumbling window by time", timed, tuple_by_tuple),
        WindowState("sliding window", slides, tuple_by_tuple),
        WindowState("summarized window", summarized, tuple_by_tuple, user_code=True),
        WindowState("columnar window", columnar(micros(9), time="ts"), batches),
        WindowState("columnar window by count", columnar(tuples(5)), batches),
        WindowState("paned aggregate", paned, batches),
    ]


def _checkpoints() -> list[Subject]:
    from panes.runners.spark.event_time import EventTime
    from panes.runners.spark.graph_query import GraphQuery
    from panes.runners.spark.group_operator import GroupQuery, used_columns

    found: list[Subject] = []
    for name, windows in {
        "slices": {"t": pn.tumbling(10), "x": pn.session(3)},
        "rows": {"r": pn.tumbling(pn.rows(3)), "p": pn.policy(evict=p.time(7), trigger=p.count(2))},
    }.items():
        plan = _query(windows, key="k", watermark="manual")._plan
        found.append(CheckpointState(f"checkpoint of {name}", GroupQuery(plan, used_columns(plan))))
        found.append(
            CheckpointState(f"spark_snapshot of {name}", GroupQuery(plan, tuple(plan.stream.schema.names)), plan)
        )
    stream = pn.stream(None, schema=SCHEMA, time="ts", key="k", time_unit="ms", watermark="manual")
    given = stream.dedupe("v", window=sliding(time("9 ms"))).sort("v", "x", window=sliding(count(3)))
    graph, _ = GraphQuery.of(given._node)
    found.append(CheckpointState("checkpoint of operators", replace(graph, times=(EventTime(1, 1, 0, 0),))))
    return found


def subjects() -> list[Subject]:
    """All of them."""
    return [*_queries(), *_streams(), *_windows(), *_checkpoints()]
