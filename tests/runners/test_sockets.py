"""A socket as a source: lines in, batches out, until the other side closes."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import panes as pn
from panes.errors import DataError, QueryError
from panes.runtime.rejects import Rejects

SCHEMA = {"ts": "bigint", "k": "string", "v": "double"}


@contextmanager
def server(talk: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server on loopback that talks to one client and closes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            talk(connection)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()
        thread.join(5)


def read(port: int, **options: Any) -> tuple[list[dict[str, Any]], Rejects]:
    rejects = Rejects()
    source = pn.socket_source(port, schema=SCHEMA, **options)
    return [row for table in source.batches(rejects) for row in table.to_pylist()], rejects


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("json", b'{"ts": 1, "k": "a", "v": 1.5}\n{"ts": 2, "v": 2}\n{"ts": 3, "k": "c"}'),
        ("csv", b"1,a,1.5\n2,,2\r\n3,c,"),
    ],
)
def test_lines_until_the_peer_closes(format: str, text: bytes) -> None:
    with server(lambda connection: connection.sendall(text)) as port:
        found, rejects = read(port, format=format)
    assert [(r["ts"], r["k"], r["v"]) for r in found] == [(1, "a", 1.5), (2, None, 2.0), (3, "c", None)]
    assert rejects.count == 0


def test_lines_split_anywhere() -> None:
    text = "".join(f'{{"ts": {i}, "k": "é{i}"}}\n' for i in range(50)).encode()

    def talk(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(0, len(text), 7):
            connection.sendall(text[i : i + 7])

    with server(talk) as port:
        found, _ = read(port)
    assert [row["k"] for row in found] == [f"é{i}" for i in range(50)]


def test_malformed_lines_are_kept_aside() -> None:
    text = b'{"ts": 1}\nnull\n{"ts": "x"}\n\n{"ts": 1} null\n\xff\xfe\n{"ts": 2}\n'
    with server(lambda connection: connection.sendall(text)) as port:
        found, rejects = read(port)
    assert [row["ts"] for row in found] == [1, 2]
    assert rejects.count == 4
    table = rejects.table(pn.socket_source(1, schema=SCHEMA).schema)
    assert table.column_names == ["ts", "k", "v", "reason"]
    assert all(reason.startswith("malformed line") for reason in table["reason"].to_pylist())


def test_rows_do_not_wait_for_the_end() -> None:
    done = threading.Event()

    def talk(connection: socket.socket) -> None:
        connection.sendall(b'{"ts": 1}\n')
        done.wait(10)

    with server(talk) as port:
        batches = pn.socket_source(port, schema=SCHEMA, wait=0.05).batches(Rejects())
        start = time.monotonic()
        assert next(batches)["ts"].to_pylist() == [1]
        assert time.monotonic() - start < 5
        done.set()
        assert list(batches) == []


def test_endless_lines_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("panes.connectors.sockets.MAX_LINE", 1000)
    monkeypatch.setattr("panes.connectors.sockets._READ", 256)
    text = b'{"ts": 1}\n' + b"x" * 5000 + b'\n{"ts": 2}\n'
    with server(lambda connection: connection.sendall(text)) as port:
        found, rejects = read(port)
    assert [row["ts"] for row in found] == [1, 2]
    assert rejects.count == 1
    assert "longer than" in rejects.reasons[0]


def test_a_socket_that_nobody_serves_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(DataError, match=f"127.0.0.1:{port} can't be reached"):
        read(port)


def test_silence_is_an_error_only_if_asked_for() -> None:
    done = threading.Event()
    with server(lambda connection: bool(done.wait(10))) as port:
        with pytest.raises(DataError, match="sent nothing"):
            read(port, timeout=0.1)
        done.set()


def test_an_interrupt_that_does_not_end_the_wait_is_heard_all_the_same() -> None:
    """As one does not that comes just before the wait; here another thread gets it, and ours waits on."""
    done, in_time = threading.Event(), []

    def talk(connection: socket.socket) -> None:
        time.sleep(0.2)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        in_time.append(done.wait(20))  # or the end of the connection would be what is heard

    with server(talk) as port:
        with pytest.raises(KeyboardInterrupt):
            read(port)
        done.set()
    assert in_time == [True]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"port": 0}, "port"),
        ({"port": True}, "port"),
        ({"port": 70000}, "port"),
        ({"port": 1, "format": "xml"}, "format"),
        ({"port": 1, "wait": 0}, "wait"),
        ({"port": 1, "timeout": -1}, "timeout"),
        ({"port": 1, "schema": {}}, "schema"),
        ({"port": 1, "schema": {"a": "nonsense"}}, "'a'"),
    ],
)
def test_wrong_arguments_of_a_socket_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(QueryError, match=message):
        pn.socket_source(**{"schema": SCHEMA, **options})
