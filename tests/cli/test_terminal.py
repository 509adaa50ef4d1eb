"""The command in a real terminal: a pseudo terminal whose other end is the test."""

from __future__ import annotations

import os
import pty
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

PANES = [sys.executable, "-c", "from panes.cli.main import app; app()"]
SECONDS = 60


class Terminal:
    """A process that believes to be talking with a person."""

    def __init__(self, *arguments: str, folder: Path) -> None:
        self.pid, self._file = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            own = {"PROMPT_TOOLKIT_NO_CPR": "1", "XDG_STATE_HOME": str(folder), "COLUMNS": "100", "LINES": "40"}
            os.execve(PANES[0], [*PANES, *arguments], {**os.environ, **own, "TERM": "xterm"})
        self.seen = ""
        self._from = 0

    def wait_for(self, text: str) -> None:
        """Read until the text has appeared behind what was waited for last."""
        end = time.monotonic() + SECONDS
        while (at := self.seen.find(text, self._from)) < 0:
            assert time.monotonic() < end, f"{text!r} did not appear in {self.seen[-1000:]!r}"
            assert self._read(0.5), f"ended without {text!r}: {self.seen[-1000:]!r}"
        self._from = at + len(text)

    def type(self, text: str) -> None:
        os.write(self._file, text.encode())

    def exit_code(self) -> int:
        while self._read(0.5):
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def _read(self, seconds: float) -> bool:
        """Read what is there; False at the end."""
        if not select.select([self._file], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self._file, 65536)
        except OSError:  # how Linux says that the other side is gone
            return False
        self.seen += data.decode(errors="replace")
        return bool(data)

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        os.close(self._file)


@pytest.fixture
def endless() -> Iterator[int]:
    """The port of a server that sends a few rows to everyone who calls, and then neither more nor an end."""
    server = socket.create_server(("127.0.0.1", 0))
    calls: list[socket.socket] = []

    def serve() -> None:
        with suppress(OSError):
            while True:
                call, _ = server.accept()
                call.sendall(b"41\n42\n")
                calls.append(call)

    threading.Thread(target=serve, daemon=True).start()
    yield server.getsockname()[1]
    for each in (server, *calls):
        each.close()


def test_ctrl_c_stops_the_query_and_not_the_shell(endless: int, tmp_path: Path) -> None:
    terminal = Terminal("sql", folder=tmp_path)
    try:
        terminal.wait_for("panes>")
        terminal.type(f"CREATE STREAM s (a INT) SOURCE SOCKET ('127.0.0.1', {endless});\r")
        terminal.wait_for("stream s created")
        terminal.type("SELECT a + 1000 AS more FROM s;\r")
        terminal.wait_for("1042")  # it came while the query runs
        terminal.type("\x03")
        terminal.wait_for("stopped")
        terminal.type("\\d s\r")
        terminal.wait_for("Int")
        terminal.type("\\q\r")
        assert terminal.exit_code() == 0
    finally:
        terminal.close()
    assert "Traceback" not in terminal.seen


def test_a_table_grows_on_the_screen_until_ctrl_c(endless: int, tmp_path: Path) -> None:
    text = f"CREATE STREAM s (a INT) SOURCE SOCKET ('127.0.0.1', {endless}); SELECT a + 1000 AS more FROM s"
    terminal = Terminal("run", "--runner", "local", "-e", text, folder=tmp_path)
    try:
        terminal.wait_for("1042")
        terminal.wait_for("2 rows given")
        terminal.type("\x03")
        terminal.wait_for("1042")
        assert terminal.exit_code() == 130
    finally:
        terminal.close()
    assert "Traceback" not in terminal.seen
