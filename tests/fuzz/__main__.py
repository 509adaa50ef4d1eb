"""The command: `python -m tests.fuzz --budget 10m`, `--programs N`, `--seed S`, `--jobs 2`.

Program number i of a run has seed S + i, so a failure is repeated with `--seed <its seed> --programs 1`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import queue
import random
import sys
import time
from typing import Any

from tests.fuzz.code import program_code
from tests.fuzz.programs import generate
from tests.fuzz.run import failure
from tests.fuzz.shrink import shrink

CHUNK = 200


def seconds(text: str) -> float:
    """Read 600, 90s, 10m or 2h."""
    units = {"s": 1, "m": 60, "h": 3600}
    return float(text[:-1]) * units[text[-1]] if text[-1] in units else float(text)


def work(first: int, step: int, count: int | None, deadline: float | None, stop: Any, out: Any) -> None:
    """Run seeds first, first + step, ...; report progress by chunks and every failure."""
    done = 0
    seed = first
    while (
        (count is None or done < count) and (deadline is None or time.time() < deadline) and not stop.is_set()
    ):
        reason = failure(generate(seed))
        done += 1
        if reason is not None:
            out.put(("failed", seed, reason))
        if done % CHUNK == 0:
            out.put(("done", CHUNK))
        seed += step
    out.put(("done", done % CHUNK))
    out.put(("over",))


def report(seed: int, reason: str, shrinks: bool) -> None:
    """Print a failure, cut down as far as it goes."""
    program = generate(seed)
    if shrinks:
        program = shrink(program, lambda p: failure(p) is not None)
    print(
        f"\n--- seed {seed}: {reason}\n# made small: {failure(program)}\n{program_code(program)}", flush=True
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--budget", type=seconds, help="how long: 600, 90s, 10m, 2h")
    parser.add_argument("--programs", type=int, help="how many programs")
    parser.add_argument("--seed", type=int, help="seed of the first program (a fresh one if not given)")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--failures", type=int, default=5, help="stop after so many failures")
    parser.add_argument("--no-shrink", action="store_true", help="print failing programs as they are")
    options = parser.parse_args()
    if options.budget is None and options.programs is None:
        parser.error("say how much: --budget 10m or --programs 1000")
    seed = random.SystemRandom().randrange(10**12) if options.seed is None else options.seed
    began = time.time()
    done, failures = run_jobs(options, seed, began)
    for failed, reason in failures[: options.failures]:
        report(failed, reason, not options.no_shrink)
    took = time.time() - began
    print(f"fuzz: {done} programs, {len(failures)} mismatches, seed {seed}, {took:.0f} s")
    return 1 if failures else 0


def run_jobs(options: argparse.Namespace, seed: int, began: float) -> tuple[int, list[tuple[int, str]]]:
    jobs = min(options.jobs, options.programs or options.jobs)
    deadline = None if options.budget is None else began + options.budget
    # fresh processes: threads of Arrow and DuckDB don't survive a fork
    context = multiprocessing.get_context("spawn")
    out, stop = context.Queue(), context.Event()
    workers = []
    for job in range(jobs):
        count = None if options.programs is None else len(range(job, options.programs, jobs))
        arguments = (seed + job, jobs, count, deadline, stop, out)
        workers.append(context.Process(target=work, args=arguments, daemon=True))
        workers[-1].start()
    done, running, shown = 0, jobs, began
    failures: list[tuple[int, str]] = []
    while running:
        try:
            kind, *rest = out.get(timeout=5)
        except queue.Empty:
            if not any(w.is_alive() for w in workers):
                failures.append((seed, "a worker process died; run with --jobs 1 to see why"))
                break
            continue
        if kind == "done":
            done += rest[0]
        elif kind == "failed":
            failures.append((rest[0], rest[1]))
            if len(failures) >= options.failures:
                stop.set()
        else:
            running -= 1
        if time.time() - shown > 2 and sys.stderr.isatty():
            shown = time.time()
            rate = done / (shown - began)
            print(f"\r{done} programs, {len(failures)} mismatches, {rate:.0f}/s ", end="", file=sys.stderr)
    for worker in workers:
        worker.join()
    return done, failures


if __name__ == "__main__":
    sys.exit(main())
