"""Asks the worker process of a tree, and waits no longer than it may."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.against.tree import Tree
from bench.against.work import Pass

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS")


class Failed(Exception):
    """The tree can't run the workload; the message says why."""


class OutOfTime(Exception):
    """The answer did not come in time; the worker is gone."""


class Worker:
    """One tree in a process of its own, with the virtual environment of this one, and benchmarks from `driver`."""

    def __init__(self, tree: Tree, kind: str, log: Path, driver: Path) -> None:
        self.tree = tree
        self._log = log
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tree.folder / "src"), str(driver)))}
        environment["PYTHONHASHSEED"] = "0"  # the order of sets must not differ between the two
        for name in THREADS:
            environment.setdefault(name, "1")
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bench.against.worker", kind, str(tree.folder)],
                cwd=driver,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        self._unread = b""

    def prepare(self, name: str, rows: int | None, deadline: float) -> None:
        self._ask({"prepare": name, "rows": rows}, deadline)

    def run(self, deadline: float) -> Pass:
        return Pass(**self._ask({"pass": 1}, deadline))

    def close(self, patience: float = 20) -> None:
        """End the process: by the end of its input, or by force if that takes too long."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended already
            self._process.stdin.close()
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _ask(self, request: dict[str, Any], deadline: float) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Failed(self._ended()) from None
        answer = json.loads(self._line(deadline))
        if "error" in answer:
            raise Failed(answer["error"])
        return answer

    def _line(self, deadline: float) -> bytes:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._unread:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    self._process.kill()
                    raise OutOfTime
                part = os.read(self._process.stdout.fileno(), 65536)
                if not part:
                    raise Failed(self._ended())
                self._unread += part
        line, self._unread = self._unread.split(b"\n", 1)
        return line

    def _ended(self) -> str:
        code = self._process.wait()
        said = self._log.read_text("utf-8", errors="replace").strip().splitlines()
        return f"its process ended with code {code}" + (f": {said[-1]}" if said else "")
