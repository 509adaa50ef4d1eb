"""A TCP socket as a source: text lines, as JSON objects or CSV, until the other side closes.

In: bytes from host and port. Out: a batch whenever enough lines are there or `wait` has passed. Lines that
can't be read are rejected with their reason; they never end the run.
"""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Iterator

import pyarrow as pa

from panes.clock import HEARING
from panes.connectors.lines import CsvLines, LineFormat, split_records
from panes.connectors.source import Source
from panes.errors import DataError
from panes.runtime.rejects import Rejects

#: A line longer than this is rejected: a peer that never ends its line must not fill the memory.
MAX_LINE = 16 << 20
_READ = 1 << 18


class SocketSource(Source):
    """Lines from a TCP connection."""

    repeatable = False
    live = True
    waits = True

    def __init__(
        self,
        host: str,
        port: int,
        form: LineFormat,
        schema: pa.Schema,
        *,
        wait: float,
        timeout: float | None,
        drops_unreadable: bool = False,
    ) -> None:
        self.schema = schema
        #: on Spark a line that can't be read is a row of nulls, for the ledger of a query; or, if so, none at all
        self.drops_unreadable = drops_unreadable
        kind = "csv" if isinstance(form, CsvLines) else "json"
        #: as given to `socket_source`, but for the schema
        self.options = {"host": host, "port": port, "format": kind, "wait": wait, "timeout": timeout or ""}
        if isinstance(form, CsvLines):
            self.options["delimiter"] = form.delimiter
        self._address = (host, port)
        self._form = form
        self._wait = wait
        self._timeout = timeout

    def read(self, rejects: Rejects, *, promptly: bool = False) -> Iterator[pa.Table]:
        try:
            connection = socket.create_connection(self._address, timeout=self._timeout)
        except OSError as error:
            raise DataError(f"{self} can't be reached: {error}") from error
        with connection:
            yield from self._tables(connection, rejects)

    def _tables(self, connection: socket.socket, rejects: Rejects) -> Iterator[pa.Table]:
        rest = b""
        skipping = False  # inside a line that is too long
        for piece, ended in self._pieces(connection):
            if skipping:
                _, newline, piece = piece.partition(b"\n")
                skipping = not newline
            records, rest = split_records(rest + piece, quoted_breaks=self._form.quoted_breaks, last=ended)
            if len(rest) > MAX_LINE:
                rejects.add(f"line longer than {MAX_LINE:,} bytes", rest[:1000].decode("utf-8", "replace"))
                rest, skipping = b"", True
            if records:
                table = self._form.parse(records, self.schema, rejects)
                if len(table):
                    yield table

    def _pieces(self, connection: socket.socket) -> Iterator[tuple[bytes, bool]]:
        """(bytes, ended): what came within `wait` seconds, or as soon as there is plenty."""
        parts: list[bytes] = []
        size = 0
        due = time.monotonic() + self._wait
        while True:
            left = due - time.monotonic() if parts else self._timeout
            data = None if parts and left is not None and left <= 0 else self._receive(connection, left, bool(parts))
            if data:
                if not parts:
                    due = time.monotonic() + self._wait
                parts.append(data)
                size += len(data)
            ended = data == b""
            if ended or data is None or size >= _READ * 4:
                yield b"".join(parts), ended
                parts, size = [], 0
            if ended:
                return

    def _receive(self, connection: socket.socket, seconds: float | None, waiting: bool) -> bytes | None:
        """Bytes, b"" when the other side has closed, None when time is up while rows are waiting."""
        end = math.inf if seconds is None else time.monotonic() + seconds
        while True:
            connection.settimeout(max(min(end - time.monotonic(), HEARING), 0.001))
            try:
                return connection.recv(_READ)
            except TimeoutError as error:
                if time.monotonic() < end:
                    continue
                if waiting:
                    return None
                raise DataError(f"{self} has sent nothing for {self._timeout} s") from error
            except OSError as error:
                raise DataError(f"{self} broke off: {error}") from error

    def __str__(self) -> str:
        return f"socket {self._address[0]}:{self._address[1]}"
