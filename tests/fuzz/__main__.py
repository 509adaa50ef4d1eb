"""The command: `python -m tests.fuzz --budget 10m`, `--programs N`, `--seed S`, `--jobs 2`.

A failure is repeated with `--seed <its seed> --programs 1`.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

from tests.fuzz.code import program_code
from tests.fuzz.jobs import Order, run
from tests.fuzz.programs import generate
from tests.fuzz.run import failure
from tests.fuzz.shrink import shrink


def seconds(text: str) -> float:
    """Read 600, 90s, 10m or 2h."""
    units = {"s": 1, "m": 60, "h": 3600}
    return float(text[:-1]) * units[text[-1]] if text[-1] in units else float(text)


def report(seed: int, reason: str, shrinks: bool) -> None:
    """Print a failure, cut down as far as it goes."""
    program = generate(seed)
    print(f"\n--- seed {seed}: {reason}")
    if shrinks:
        program = shrink(program, lambda p: failure(p) is not None)
        print(f"# made small: {failure(program)}")
    print(program_code(program), flush=True)


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
    jobs = max(1, min(options.jobs, options.programs or options.jobs))
    began = time.time()
    done, failures = run(Order(seed, options.programs, options.budget, jobs, options.failures))
    took = time.time() - began
    for failed, reason in failures[: options.failures]:
        report(failed, reason, not options.no_shrink)
    print(f"fuzz: {done} programs, {len(failures)} mismatches, seed {seed}, {took:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
