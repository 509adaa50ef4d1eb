"""Many programs in several processes: how many ran, and which failed.

Program number i of a run has seed `first seed + i`, whatever the number of processes.
"""

from __future__ import annotations

import multiprocessing
import queue
import sys
import time
from dataclasses import dataclass
from typing import Any

from tests.fuzz.programs import generate
from tests.fuzz.run import failure

#: programs between two reports of a worker
CHUNK = 50


@dataclass(frozen=True)
class Order:
    """What to run: from `seed` on, so many programs or so many seconds (the other is None)."""

    seed: int
    programs: int | None
    seconds: float | None
    jobs: int
    failures: int  # stop after so many


def work(order: Order, job: int, stop: Any, out: Any) -> None:
    """Run every seed that is this job's; report progress by chunks, and every failure."""
    deadline = None if order.seconds is None else time.time() + order.seconds
    number = job
    waiting = 0
    while (
        (order.programs is None or number < order.programs)
        and (deadline is None or time.time() < deadline)
        and not stop.is_set()
    ):
        reason = failure(generate(order.seed + number))
        if reason is not None:
            out.put(("failed", order.seed + number, reason))
        waiting += 1
        number += order.jobs
        if waiting == CHUNK:
            out.put(("done", waiting))
            waiting = 0
    out.put(("done", waiting))
    out.put(("over",))


def run(order: Order) -> tuple[int, list[tuple[int, str]]]:
    """(number of programs run, (seed, reason) of each failure)."""
    # fresh processes: threads of Arrow and DuckDB don't survive a fork
    context = multiprocessing.get_context("spawn")
    out, stop = context.Queue(), context.Event()
    workers = [context.Process(target=work, args=(order, job, stop, out), daemon=True) for job in range(order.jobs)]
    for worker in workers:
        worker.start()
    began = shown = time.time()
    done, running = 0, order.jobs
    failures: list[tuple[int, str]] = []
    while running:
        try:
            kind, *rest = out.get(timeout=5)
        except queue.Empty:
            if any(w.exitcode for w in workers):
                raise RuntimeError("a worker process died; its own message is above") from None
            continue
        if kind == "done":
            done += rest[0]
        elif kind == "failed":
            failures.append((rest[0], rest[1]))
            if len(failures) >= order.failures:
                stop.set()
        else:
            running -= 1
        if sys.stderr.isatty() and time.time() - shown > 1:
            shown = time.time()
            rate = done / (shown - began)
            print(f"\r{done} programs, {len(failures)} mismatches, {rate:.0f}/s ", end="", file=sys.stderr)
    for worker in workers:
        worker.join()
    return done, failures
