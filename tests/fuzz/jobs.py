"""Many programs in several processes: how many ran, and which failed. Made to run for hours.

Program number i of a run has seed `first seed + i`, whatever the number of processes. Workers take numbers in
chunks and finish the chunk they are at, so what has run is always numbers `start` to `start + done`. A worker
that dies, or that is busy with one program for minutes, is a failure of that program; another takes its place.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

from tests.fuzz.programs import generate
from tests.fuzz.run import failure

#: programs that a worker takes at a time
CHUNK = 25
#: seconds after which a program is stuck
STUCK = 180.0

#: seed -> None, or why it failed
Check = Callable[[int], "str | None"]


@dataclass(frozen=True)
class Order:
    """What to run: numbers from `start` up to `programs`, for so many seconds (None: no limit)."""

    seed: int
    programs: int | None = None
    seconds: float | None = None
    start: int = 0
    jobs: int = 2
    failures: int = 20  # stop after so many
    nice: int = 0


@dataclass(frozen=True)
class Failure:
    """`crashed`: its process died or was stuck, so it is not to be run in a process that matters."""

    seed: int
    reason: str
    crashed: bool = False


class Board:
    """What workers and parent share: the next number to take, and per worker what it is at."""

    def __init__(self, order: Order, context: Any) -> None:
        self.stop = context.Event()
        self.next = context.Value("q", order.start)
        self.at = context.Array("q", order.jobs, lock=False)  # the number it runs
        self.end = context.Array("q", order.jobs, lock=False)  # where its chunk ends
        self.done = context.Array("q", order.jobs, lock=False)

    def take(self, job: int, most: int | None) -> bool:
        """Give the next chunk to a worker; False if none is left."""
        with self.next.get_lock():
            first = self.next.value
            end = first + CHUNK if most is None else min(first + CHUNK, most)
            self.next.value = max(first, end)
        self.at[job], self.end[job] = first, end
        return first < end


def check_seed(seed: int) -> str | None:
    return failure(generate(seed))


def work(order: Order, job: int, board: Board, out: Connection, deadline: float | None, check: Check) -> None:
    """Run the rest of this worker's chunk (one that died may have left it), then chunk after chunk."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent says when to stop
    if order.nice:
        os.nice(order.nice)
    parent = os.getppid()
    # programs leave much behind that only the collector frees, and modules nothing
    gc.freeze()
    gc.set_threshold(20_000)
    while True:
        while board.at[job] < board.end[job]:
            seed = order.seed + board.at[job]
            try:
                reason = check(seed)
            except Exception as error:
                reason = f"the fuzz itself failed: {type(error).__name__}: {error}"
            if reason is not None:
                out.send(Failure(seed, reason))
            board.done[job] += 1
            board.at[job] += 1
        orphaned = os.getppid() != parent  # the run was killed
        over = orphaned or board.stop.is_set() or (deadline is not None and time.time() > deadline)
        if over or not board.take(job, order.programs):
            return


@dataclass
class Watch:
    """One worker seen from the parent: what it sends, and since when it is at the same program."""

    process: Any
    failures: Connection  # a pipe of its own, written at once: nothing is lost when the process dies
    number: int = -1
    since: float = field(default_factory=time.time)

    def stuck(self, number: int) -> bool:
        if number != self.number:
            self.number, self.since = number, time.time()
        return time.time() - self.since > STUCK


class Run:
    """`seen` is called with each failure at once; `done` and `failures` say how far it is."""

    def __init__(self, order: Order, seen: Callable[[Failure], None], *, check: Check = check_seed) -> None:
        # fresh processes: threads of Arrow and DuckDB don't survive a fork
        self._context = multiprocessing.get_context("spawn")
        self._order, self._seen, self._check = order, seen, check
        self._board = Board(order, self._context)
        self._deadline = None if order.seconds is None else time.time() + order.seconds
        self._began = self._shown = time.time()
        self.failures = 0

    @property
    def done(self) -> int:
        return sum(self._board.done)

    def run(self) -> None:
        watched = {job: self._start(job) for job in range(self._order.jobs)}
        while watched:
            try:
                wait([watch.failures for watch in watched.values()], timeout=0.2)
                for job, watch in list(watched.items()):
                    alive = self._alive(job, watch)
                    self._collect(watch)
                    if not alive:
                        del watched[job]
                        if watch.process.exitcode and self._goes_on(job):
                            watched[job] = self._start(job)
                self._show()
            except KeyboardInterrupt:
                print("\nstopping after the programs under way", file=sys.stderr)
                self._board.stop.set()

    def _start(self, job: int) -> Watch:
        failures, out = self._context.Pipe(duplex=False)
        arguments = (self._order, job, self._board, out, self._deadline, self._check)
        process = self._context.Process(target=work, args=arguments, daemon=True)
        process.start()
        out.close()
        return Watch(process, failures)

    def _alive(self, job: int, watch: Watch) -> bool:
        """Whether a worker runs on; one that died or is stuck has failed with the program it was at."""
        number = self._board.at[job]
        stuck = watch.process.is_alive() and watch.stuck(number)
        if stuck:
            watch.process.kill()
        elif watch.process.is_alive():
            return True
        watch.process.join()
        if watch.process.exitcode:
            why = f"no end within {STUCK:.0f} s" if stuck else f"the process died with code {watch.process.exitcode}"
            self._fail(Failure(self._order.seed + number, why, crashed=True))
            if number < self._board.end[job]:
                self._board.done[job] += 1
                self._board.at[job] += 1
        return False

    def _goes_on(self, job: int) -> bool:
        """Whether there is something to do for the successor of a worker that died."""
        return self._board.at[job] < self._board.end[job] or not self._board.stop.is_set()

    def _collect(self, watch: Watch) -> None:
        try:
            while watch.failures.poll():
                self._fail(watch.failures.recv())
        except (EOFError, OSError):  # it is gone, and said all it had to say
            return

    def _fail(self, found: Failure) -> None:
        self.failures += 1
        self._seen(found)
        if self.failures >= self._order.failures:
            self._board.stop.set()

    def _show(self) -> None:
        """A line that is written over in a terminal, or a new one each minute."""
        terminal = sys.stderr.isatty()
        now = time.time()
        if now - self._shown > (1 if terminal else 60):
            self._shown = now
            rate = self.done / (now - self._began)
            line = f"{self.done:,} programs, {self.failures} mismatches, {rate:.0f} programs/s"
            print(f"\r{line} " if terminal else line, end="" if terminal else "\n", file=sys.stderr, flush=True)
