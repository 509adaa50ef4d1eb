"""`pn.merge`: a multiset union, in order where its sides are, with nothing lost and nothing made late."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import panes as pn
from panes.errors import DataError, QueryError


def side(times: list[Any], name: str = "a", **options: Any) -> Any:
    rows = {"ts": pa.array(times, pa.int64()), "side": pa.array([name] * len(times), pa.string())}
    return pn.stream(pa.table(rows), **{"time": "ts", **options})


def chunked(times: list[int], name: str, size: int, **options: Any) -> Any:
    """The same rows in small batches."""
    tables = [pa.table({"ts": times[i : i + size], "side": [name] * len(times[i : i + size])})
              for i in range(0, len(times), size)]  # fmt: skip
    return pn.stream(tables, schema={"ts": "bigint", "side": "string"}, **{"time": "ts", **options})


def test_sides_in_order_give_one_in_order() -> None:
    merged = pn.merge(side([1, 4, 4, 9], "a"), side([0, 4, 5], "b"))
    assert [(r["ts"], r["side"]) for r in merged.rows()] == [
        (0, "b"), (1, "a"), (4, "a"), (4, "a"), (4, "b"), (5, "b"), (9, "a"),
    ]  # fmt: skip


def test_columns_are_matched_by_name() -> None:
    merged = pn.merge(side([1]).select("side", "ts"), side([2]).select("ts", "side"))
    assert merged.to_arrow().column_names == ["side", "ts"]
    assert merged.to_arrow()["ts"].to_pylist() == [1, 2]


def test_merged_streams_have_windows_keys_and_conditions() -> None:
    merged = pn.merge(side([1, 3], "a", key="side"), side([2, 1500], "b", key="side").where("ts > 2"))
    found = merged.window(pn.tumbling("1 s")).agg(n="count(*)").to_arrow()
    assert found.select(["side", "n"]).to_pylist() == [{"side": "a", "n": 2}, {"side": "b", "n": 1}]


def test_time_that_is_not_shown_still_orders() -> None:
    merged = pn.merge(side([1, 5], "a").select("side"), side([3], "b").select("side"))
    assert merged.to_arrow().to_pylist() == [{"side": s} for s in "aba"]


def test_streams_by_arrival_take_turns() -> None:
    a, b = (pn.stream([[{"v": v}, {"v": v + 1}] for v in vs], time=pn.arrival()) for vs in ([1, 5], [11, 15]))
    assert [r["v"] for r in pn.merge(a, b).rows()] == [1, 2, 11, 12, 5, 6, 15, 16]
    with pytest.raises(QueryError, match="time of stream 1 is arrival_time, that of stream 2 is ts"):
        pn.merge(a, side([1]).with_columns(v="ts").select("v"))


@pytest.mark.parametrize("seed", range(30))
def test_merging_loses_nothing_and_makes_nothing_late(seed: int) -> None:
    rng = random.Random(seed)
    sides, sent = [], []
    for name in "abc"[: rng.randint(2, 3)]:
        wait = rng.choice([0, 0, 50])
        times = sorted(rng.randint(0, 1000) for _ in range(rng.randint(0, 60)))
        for i in range(len(times) - 1):
            if wait and rng.random() < 0.4 and times[i + 1] - times[i] <= wait:
                times[i], times[i + 1] = times[i + 1], times[i]
        sent += [(t, name) for t in times]
        sides.append(chunked(times, name, rng.randint(1, 20), watermark=wait or None))
    merged = pn.merge(*sides)
    assert sorted((r["ts"], r["side"]) for r in merged.rows()) == sorted(sent)
    query = merged.window(pn.tumbling(100)).agg(n="count(*)")
    assert sum(query.to_arrow()["n"].to_pylist()) == len(sent)
    assert query.late.num_rows == 0
    for name in "abc":
        times = [r["ts"] for r in merged.rows() if r["side"] == name]
        assert times == [t for t, n in sent if n == name]  # the order of each side is kept


def test_rows_without_a_time_stay_where_they_are() -> None:
    merged = pn.merge(side([None, 5, None], "a"), side([1], "b"))
    assert [r["ts"] for r in merged.rows()] == [None, 1, 5, None]


def test_the_most_patient_side_sets_the_watermark() -> None:
    assert pn.merge(side([1]), side([1], watermark="2 s"))._plan.watermark == 2000
    assert pn.merge(side([1], watermark="1 s", lateness="5 s"), side([1], watermark="2 s"))._plan.lateness == 5000
    assert pn.merge(side([1]), side([1]))._plan.watermark is None


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: pn.merge(), "at least two streams; got 0"),
    (lambda: pn.merge(side([1])), "at least two streams; got 1"),
    (lambda: pn.merge(side([1]), [1]), "argument 2 must be a stream; got list"),  # type: ignore[arg-type]
    (lambda: pn.merge(side([1]), side([1]).select("ts")), "stream 1 has a column 'side', stream 2 has none"),
    (lambda: pn.merge(side([1]), side([1]).with_columns(x="1")), "stream 2 has a column 'x', stream 1 has none"),
    (lambda: pn.merge(side([1]).with_columns(x="1"), side([1]).with_columns(x="1.5")), "column 'x' is .*stream 1"),
    (lambda: pn.merge(side([1]), side([1], key="side")), "the key of stream 1 is none, that of stream 2 is side"),
    (lambda: pn.merge(side([1]), side([1], time_unit="s")), "time unit of stream 1 is ms, that of stream 2 is s"),
    (lambda: pn.merge(side([1], watermark="manual"), side([1])), "watermark='manual' must hold for all"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=[m for _, m in REFUSED])
def test_streams_that_cannot_be_merged(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(QueryError, match=message):
        make()


def test_merged_streams_explain_their_sides() -> None:
    text = str(pn.merge(side([1]).where("ts > 3"), side([2]).where("ts > 4")).explain())
    for part in ("2 streams merged", "Input 1", "Input 2", "ts > 4"):
        assert part in text


def test_a_live_side_does_not_hold_up_the_other() -> None:
    """Two sockets: one says nothing until the rows of the other have come out."""
    servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    streams = [
        pn.stream(pn.socket_source(s.getsockname()[1], schema={"ts": "bigint"}, wait=0.01, timeout=30), time="ts")
        for s in servers
    ]
    rows = pn.merge(*streams).rows()
    got: list[int] = []
    reader = threading.Thread(target=lambda: got.append(next(rows)["ts"]))
    reader.start()
    quiet, _ = servers[0].accept()
    talking, _ = servers[1].accept()
    talking.sendall(b'{"ts": 7}\n')
    reader.join(20)
    assert got == [7]
    quiet.sendall(b'{"ts": 3}\n')
    quiet.close()
    talking.close()
    assert [r["ts"] for r in rows] == [3]
    for server in servers:
        server.close()


def test_an_error_of_a_live_side_is_raised() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    server.close()
    dead = pn.stream(pn.socket_source(port, schema={"ts": "bigint"}), time="ts")
    with pytest.raises(DataError, match="can't be reached"):
        pn.merge(dead, pn.stream([{"ts": 1}], time="ts")).to_arrow()


@pytest.mark.parametrize("seed", range(5))
def test_rows_of_one_time_come_in_the_order_of_the_streams_however_they_are_cut(seed: int) -> None:
    rng = random.Random(seed)
    sides = {name: sorted(rng.randint(0, 8) for _ in range(20)) for name in "abc"}
    expected = sorted((t, name) for name, times in sides.items() for t in times)
    for size in (1, 3, 7, 50):
        merged = pn.merge(*(chunked(times, name, rng.randint(1, size)) for name, times in sides.items()))
        assert [(r["ts"], r["side"]) for r in merged.rows()] == expected


def test_data_that_can_be_read_once_may_have_several_readers() -> None:
    rows = [{"ts": t, "v": t % 3} for t in range(9)]
    once = pn.stream(iter(rows), time="ts")
    merged = pn.merge(once.where("v = 2").select("v"), once.where("v = 0").select("v"))
    assert [r["v"] for r in merged.rows()] == [0, 2, 0, 2, 0, 2]
    with pytest.raises(DataError, match="can be read only once"):
        merged.to_arrow()
