"""The command: `python -m tests.cql_fuzz --budget 10m`, `--programs N`, `--seed S`, `--jobs 2`, `--mutate`.

A failure is repeated with `--seed <its seed> --programs 1`. A run that was stopped goes on with the same seed
and `--start`. Each failure is written to a file as soon as it is there; at the end they are cut down and shown.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

from tests.cql_fuzz.generate import generate
from tests.cql_fuzz.mutate import check_mutated
from tests.cql_fuzz.run import check_seed
from tests.cql_fuzz.show import program_code
from tests.cql_fuzz.shrink import minimised
from tests.fuzz.__main__ import seconds
from tests.fuzz.jobs import Failure, Order, Run

#: as many failures are cut down at the end, each for so many seconds
SHRUNK = 5
SECONDS = 60.0


def as_found(found: Failure, *, mutated: bool) -> str:
    if mutated:
        return f"--- seed {found.seed}: {found.reason}\n"
    try:
        text = program_code(generate(found.seed))
    except Exception as error:
        text = f"# the program can't be shown: {type(error).__name__}: {error}"
    return f"--- seed {found.seed}: {found.reason}\n{text}\n"


def as_minimised(found: Failure) -> str:
    program, reason = minimised(generate(found.seed), found.reason, seconds=SECONDS)
    return f"--- seed {found.seed}: {found.reason}\n# made small: {reason}\n{program_code(program)}\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cql_fuzz", description=__doc__)
    parser.add_argument("--budget", type=seconds, help="how long: 600, 90s, 10m, 2h")
    parser.add_argument("--programs", type=int, help="how many programs")
    parser.add_argument("--seed", type=int, help="seed of the first program (a fresh one if not given)")
    parser.add_argument("--start", type=int, default=0, help="number of the first program, to go on with a run")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--nice", type=int, default=0, help="be nice to other processes, 0 to 19")
    parser.add_argument("--failures", type=int, default=20, help="stop after so many failures")
    parser.add_argument("--mutate", action="store_true", help="programs made wrong instead of valid ones")
    parser.add_argument("--out", type=Path, help="file for failures (out/fuzz/cql-SEED.txt if not given)")
    parser.add_argument("--no-shrink", action="store_true", help="print failing programs as they are")
    options = parser.parse_args()
    if options.budget is None and options.programs is None:
        parser.error("say how much: --budget 10m or --programs 1000")
    seed = random.SystemRandom().randrange(10**12) if options.seed is None else options.seed
    jobs = max(1, min(options.jobs, options.programs or options.jobs))
    path = options.out or Path("out/fuzz") / f"cql-{seed}.txt"
    failures: list[Failure] = []

    def seen(found: Failure) -> None:
        failures.append(found)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(as_found(found, mutated=options.mutate) + "\n")
        print(f"\nseed {found.seed} failed, see {path}: {found.reason.splitlines()[0]}", file=sys.stderr, flush=True)

    order = Order(seed, options.programs, options.budget, options.start, jobs, options.failures, options.nice)
    began = time.time()
    run = Run(order, seen, check=check_mutated if options.mutate else check_seed)
    run.run()
    took = time.time() - began
    for number, found in enumerate(failures):
        whole = options.mutate or options.no_shrink or found.crashed or number >= SHRUNK
        print("\n" + (as_found(found, mutated=options.mutate) if whole else as_minimised(found)), flush=True)
    what = "mutated programs, {} not as they should be" if options.mutate else "programs, {} mismatches"
    print(f"cql fuzz: {run.done} {what.format(len(failures))}, seed {seed}, {took:.0f} s")
    end = options.start + run.done
    if options.programs is not None and end < options.programs:
        print(f"stopped early; go on with --seed {seed} --programs {options.programs} --start {end}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
