"""The command line of a fuzz, whatever it makes programs of.

A failure is repeated with `--seed <its seed> --programs 1`. A run that was stopped goes on with the same seed
and `--start`. Each failure is written to a file as soon as it is there; at the end they are cut down and shown.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fuzz.jobs import Failure, Order, Run

#: as many failures are cut down at the end, each for so many seconds
SHRUNK = 5
SECONDS = 60.0


def seconds(text: str) -> float:
    """Read 600, 90s, 10m or 2h."""
    units = {"s": 1, "m": 60, "h": 3600}
    return float(text[:-1]) * units[text[-1]] if text[-1] in units else float(text)


def parser(module: str, about: str | None, file: str) -> argparse.ArgumentParser:
    """The options that every fuzz has; `file` is where failures go, as help says it."""
    made = argparse.ArgumentParser(prog=f"python -m {module}", description=about)
    made.add_argument("--budget", type=seconds, help="how long: 600, 90s, 10m, 2h")
    made.add_argument("--programs", type=int, help="how many programs")
    made.add_argument("--seed", type=int, help="seed of the first program (a fresh one if not given)")
    made.add_argument("--start", type=int, default=0, help="number of the first program, to go on with a run")
    made.add_argument("--jobs", type=int, default=2, help="processes")
    made.add_argument("--nice", type=int, default=0, help="be nice to other processes, 0 to 19")
    made.add_argument("--failures", type=int, default=20, help="stop after so many failures")
    made.add_argument("--out", type=Path, help=f"file for failures ({file} if not given)")
    made.add_argument("--no-shrink", action="store_true", help="print failing programs as they are")
    return made


@dataclass(frozen=True)
class Fuzz:
    """What is particular to one: what it is called, and how its failures are shown."""

    name: str
    file: str  # of failures, in out/fuzz, before the seed
    as_found: Callable[[Failure], str]
    as_minimised: Callable[[Failure], str] | None  # None: failures are not made small
    count: str = "programs, {} mismatches"


def shown(found: Failure, code: Callable[[int], str]) -> str:
    """A failure with its program, as far as it can be shown."""
    try:
        text = code(found.seed)
    except Exception as error:
        text = f"# the program can't be shown: {type(error).__name__}: {error}"
    return f"--- seed {found.seed}: {found.reason}\n{text}\n"


def run_fuzz(fuzz: Fuzz, options: argparse.Namespace, usage: argparse.ArgumentParser, **check: Any) -> int:
    """Run it, tell what was found; the exit code."""
    if options.budget is None and options.programs is None:
        usage.error("say how much: --budget 10m or --programs 1000")
    seed = random.SystemRandom().randrange(10**12) if options.seed is None else options.seed
    jobs = max(1, min(options.jobs, options.programs or options.jobs))
    path = options.out or Path("out/fuzz") / f"{fuzz.file}-{seed}.txt"
    failures: list[Failure] = []

    def seen(found: Failure) -> None:
        failures.append(found)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(fuzz.as_found(found) + "\n")
        print(f"\nseed {found.seed} failed, see {path}: {found.reason.splitlines()[0]}", file=sys.stderr, flush=True)

    order = Order(seed, options.programs, options.budget, options.start, jobs, options.failures, options.nice)
    began = time.time()
    run = Run(order, seen, **check)
    run.run()
    took = time.time() - began
    for number, found in enumerate(failures):
        whole = fuzz.as_minimised is None or options.no_shrink or found.crashed or number >= SHRUNK
        tell = fuzz.as_found if whole or fuzz.as_minimised is None else fuzz.as_minimised
        print("\n" + tell(found), flush=True)
    print(f"{fuzz.name}: {run.done} {fuzz.count.format(len(failures))}, seed {seed}, {took:.0f} s")
    end = options.start + run.done
    if options.programs is not None and end < options.programs:
        print(f"stopped early; go on with --seed {seed} --programs {options.programs} --start {end}")
    return 1 if failures else 0
