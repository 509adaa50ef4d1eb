"""Forged snapshots and checkpoints: refused by name, or numbers that could be true. None runs code."""

from __future__ import annotations

import base64
import random
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import panes as pn
from panes.errors import SnapshotDamaged, SnapshotUntrusted
from panes.state import pickles
from panes.state.snapshot import pack, unpack
from tests.fuzz.user_windows import Alternating
from tests.robustness.forge import Canary, Forger, packed, subjects, tried
from tests.robustness.forge_subjects import CheckpointState, QueryState, Spread, rows

SOURCE = Path(pn.__file__).parent
SCHEMA = {"ts": "bigint", "k": "string", "v": "double", "x": "bigint"}


@pytest.mark.parametrize("seed", range(4))
def test_forged_states_never_run_code_or_load_in_the_wrong_shape(seed: int) -> None:
    outcomes, faults = tried(range(seed * len(subjects()), (seed + 1) * len(subjects())), seed=20150912)
    assert not faults, "\n".join(faults)
    assert outcomes["refused"] > outcomes["loaded"]


@pytest.mark.parametrize("subject", subjects(), ids=lambda subject: subject.name)
def test_a_pickle_in_any_place_is_not_read(subject: Any, tmp_path: Path) -> None:
    """One in every column of every table in turn, under its name and as one that is pickled."""
    if isinstance(subject, CheckpointState):
        pytest.skip("what is in its pieces is a snapshot of another subject")
    spy = tmp_path / "ran"
    canary = pickles.dumps(Canary(spy))
    blob = subject.operator.snapshot() if isinstance(subject, QueryState) else subject.blob
    facts, tables = unpack(blob)
    tried_places = 0
    for name, table in tables.items():
        for i, column in enumerate(table.column_names):
            for renamed in (column, column.removesuffix(".pickled") + ".pickled"):
                cells = pa.array([canary] * table.num_rows, pa.binary())
                forged = pack(facts, {**tables, name: table.set_column(i, renamed, cells)})
                tried_places += 1
                with suppress(pn.errors.SnapshotError):
                    subject.load(subject.fresh(), [forged] if isinstance(subject, QueryState) else forged, False)
                assert not spy.exists(), f"{name}.{renamed} was unpickled"
    assert tried_places or not tables


def query(window: Any = None, aggregate: Any = "sum(v)", **options: Any) -> Any:
    stream = pn.stream(None, schema=SCHEMA, time="ts", key="k", watermark=5, **options)
    return stream.window(w=window or pn.tumbling(10)).agg(s=aggregate)


def snapshot(asked: Any) -> bytes:
    operator = asked.operator()
    operator.push(rows(0, 40))
    return operator.snapshot()


def test_a_window_that_a_snapshot_pickles_is_never_unpickled_for_one_that_is_declared(tmp_path: Path) -> None:
    """Not for a window of the library, and not for one of the user's own: the query has them."""
    spy = tmp_path / "ran"
    forger = Forger(random.Random(1), pickles.dumps(Canary(spy)))
    for asked in (query(), query(Alternating(3, 5))):
        facts, tables = unpack(snapshot(asked))
        assert "pickled" not in facts["windows"][0][2]
        facts["windows"][0][2] = {"pickled": forger._text()}
        for trusted in (False, True):
            with pytest.raises(SnapshotDamaged, match="window 'w' is pickled, though the query has no code there"):
                asked.operator(restore=pack(facts, tables), trusted=trusted)
        assert not spy.exists()


def test_own_windows_that_are_declared_need_no_trust_and_added_ones_do() -> None:
    asked = query(Alternating(3, 5))
    operator = asked.operator(restore=snapshot(asked))
    operator.add("more", Alternating(2, 7))
    with pytest.raises(SnapshotUntrusted, match="window 'more', added while running, is pickled"):
        asked.operator(restore=operator.snapshot())
    assert set(asked.operator(restore=operator.snapshot(), trusted=True).windows) == {"w", "more"}


def test_cells_of_an_own_aggregate_are_read_if_they_are_trusted() -> None:
    asked = query(aggregate=Spread("v"))
    blob = snapshot(asked)
    with pytest.raises(SnapshotUntrusted, match="the state of an aggregate of your own is pickled"):
        asked.operator(restore=blob)
    whole = asked.operator()
    whole.push(rows(0, 40))
    again = asked.operator(restore=blob, trusted=True)
    assert list(again.finish().rows()) == list(whole.finish().rows())


def test_trust_makes_no_pickle_readable_where_the_query_has_no_code(tmp_path: Path) -> None:
    asked, spy = query(pn.tumbling(pn.rows(3))), tmp_path / "ran"
    facts, tables = unpack(snapshot(asked))
    keys = tables["lane.0.live.keys"]
    cells = pa.array([pickles.dumps(Canary(spy))] * keys.num_rows, pa.binary())
    at = keys.column_names.index("rows_seen")
    tables["lane.0.live.keys"] = keys.set_column(at, "rows_seen.pickled", cells)
    with pytest.raises(SnapshotDamaged, match=r"rows_seen\.pickled"):
        asked.operator(restore=pack(facts, tables), trusted=True)
    assert not spy.exists()


def test_a_checkpoint_is_trusted_by_queries_with_code_of_their_own_only(tmp_path: Path) -> None:
    from panes.runners.spark.group_operator import GroupQuery, used_columns

    def worker(asked: Any) -> GroupQuery:
        return GroupQuery(asked._plan, used_columns(asked._plan))

    def state(asked: GroupQuery) -> bytes:
        operator = asked.operator()
        operator.push(pa.Table.from_pylist(rows(0, 40), schema=asked.spec.schema))
        return operator.snapshot()

    own, spy = worker(query(aggregate=Spread("v"))), tmp_path / "ran"
    assert own.operator([state(own)]).metrics["rows_in"] == 40
    plain = worker(query())
    facts, tables = unpack(state(plain))
    facts["windows"][0][2] = {"pickled": Forger(random.Random(1), pickles.dumps(Canary(spy)))._text()}
    with pytest.raises(SnapshotDamaged, match="is pickled"):
        plain.operator([pack(facts, tables)])
    assert not spy.exists()


def test_an_operator_that_refuses_a_snapshot_is_as_before() -> None:
    asked = query()
    facts, tables = unpack(snapshot(asked))
    cells = tables["lane.0.cells"]
    at = cells.column_names.index("slot")
    tables["lane.0.cells"] = cells.set_column(at, "slot", pa.array([99] * cells.num_rows))
    operator = asked.operator()
    before = operator.snapshot()
    with pytest.raises(SnapshotDamaged, match="a key that it does not name"):
        operator.restore(pack(facts, tables))
    assert operator.snapshot() == before
    operator.push(rows(0, 40))
    assert operator.snapshot() == snapshot(asked)


@pytest.mark.parametrize(
    ("facts", "said"),
    [([], "'facts'"), ({}, "identity"), ({"identity": 3}, "identity"), (None, "'facts'")],
)
def test_facts_of_any_shape_are_refused(facts: Any, said: str) -> None:
    with pytest.raises(SnapshotDamaged, match=said):
        query().operator(restore=packed(facts, {}))


def test_columns_without_bytes_cannot_claim_any_length() -> None:
    with pytest.raises(SnapshotDamaged, match="claims to have 100000000 rows"):
        unpack(pack({}, {"t": pa.table({"x": pa.nulls(10**8)})}))


def test_pickles_are_read_in_one_place_only() -> None:
    """And where Spark's workers read the code of the job that they run."""
    reads = re.compile(r"\bpickle\.loads?\(|\bloads\(.*pickl|cloudpickle\.loads?\(|Unpickler")
    found = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        for line in path.read_text().splitlines()
        if reads.search(line) and "pickles.loads" not in line
    }
    assert found == {"state/pickles.py", "runners/spark/shipping.py"}


@pytest.mark.parametrize("flagged", [False, True])
def test_a_pickle_in_the_place_of_a_built_in_window_is_not_read_though_trusted(flagged: bool, tmp_path: Path) -> None:
    facts, tables = unpack(query().operator().snapshot())
    spec = {"pickled": base64.b64encode(pickles.dumps(Canary(tmp_path / "ran"))).decode()}
    facts["windows"][0][2], facts["pickled"] = spec, flagged
    with pytest.raises(SnapshotDamaged, match="is pickled, though the query has no code there"):
        query().operator(restore=pack(facts, tables), trusted=True)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"sql": "max(read_text('/etc/hostname'))"}, "read_text"),
        ({"sql": 5}, "'sql' should be of type str"),
        ("max(v)", "should be of type dict"),
        ({"kind": "Popen", "fields": {}}, "no aggregate of the kind 'Popen'"),
        ({"kind": "CollectRows", "fields": {"inputs": ["v"]}}, "no aggregate of the kind"),
        ({"kind": "Max", "fields": {"inputs": ["v", "v"]}}, r"Max can't be made with inputs"),
        ({"kind": "Max", "fields": {"inputs": ["v"], "more": 1}}, "Max can't be made with more = 1"),
        ({"kind": "Quantile", "fields": {"inputs": ["v"], "p": "1e-999999999", "method": "linear"}}, "p = '1e-99"),
        (
            {"kind": "OfPairs", "fields": {"inputs": ["v", "x"], "function": "__import__"}},
            "no aggregate of two columns",
        ),
        ({"kind": "HistogramNumeric", "fields": {"inputs": ["v"], "bins": 2**70}}, "not a whole number between"),
    ],
)
def test_aggregates_of_added_queries_are_built_in_ones_of_values_of_their_types(form: Any, said: str) -> None:
    operator = query().operator()
    operator.add("b", pn.tumbling(5), top="max(v)")
    facts, tables = unpack(operator.snapshot())
    facts["outputs"]["b"]["written"][0][1] = form
    with pytest.raises(SnapshotDamaged, match=said):
        query().operator(restore=pack(facts, tables))


def test_two_queries_of_a_snapshot_give_one_name_one_type() -> None:
    operator = query().operator()
    operator.add("b", pn.tumbling(5), top="max(v)")
    facts, tables = unpack(operator.snapshot())
    facts["outputs"]["b"] = {"computed": {"s": "count(*)"}, "written": [["s", {"sql": "count(*)"}]]}
    with pytest.raises(SnapshotDamaged, match="the output 's' is int64 here and double in 'w'"):
        query().operator(restore=pack(facts, tables))
