"""`python -m tests.fuzz_spark --programs 2000 --seed 1`: random programs as Spark runs them.

Every program runs through the code of Spark's workers with a store in memory (`--level workers`), in bundles on
a real Spark, streaming with restarts and static (`--level bundle`), or both (`--level all`, as if nothing is
said). The first `--single` programs also run one by one through the public API on a real Spark.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.fuzz.code import program_code
from tests.fuzz_spark.cuts import job_of

#: programs in one query: fewer and the fixed cost of micro-batches weighs, more and a failure is hard to see
BUNDLE = 200


def failures_of_workers(seeds: range) -> Iterator[tuple[int, str]]:
    from tests.fuzz_spark.workers import check

    for seed in seeds:
        reason = guarded(lambda seed=seed: check(job_of(seed), seed))  # type: ignore[misc]
        if reason is not None:
            yield seed, reason


def failures_of_bundles(seeds: range, alone: int) -> Iterator[tuple[int, str]]:
    import panes as pn
    from tests.fuzz_spark.bundle import check_bundle
    from tests.fuzz_spark.single import check_single

    spark = pn.spark(cores=2)
    for first in range(0, len(seeds), BUNDLE):
        some = seeds[first : first + BUNDLE]
        with tempfile.TemporaryDirectory() as folder:
            found = check_bundle(spark, some, Path(folder))
        print(f"bundle of {len(some)} from seed {some[0]}: {len(found)} mismatches", file=sys.stderr, flush=True)
        yield from found.items()
    for seed in seeds[:alone]:
        with tempfile.TemporaryDirectory() as folder:
            reason = guarded(lambda seed=seed, folder=folder: check_single(spark, seed, Path(folder)))  # type: ignore[misc]
        if reason is not None:
            yield seed, reason
    spark.stop()


def guarded(check: Callable[[], str | None]) -> str | None:
    """What is wrong, with an exception as one more way to be wrong."""
    try:
        return check()
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:500]}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz_spark", description=__doc__)
    parser.add_argument("--programs", type=int, default=2000, help="how many programs")
    parser.add_argument("--seed", type=int, help="seed of the first program (a fresh one if not given)")
    parser.add_argument("--level", choices=("workers", "bundle", "all"), default="all")
    parser.add_argument("--single", type=int, default=12, help="so many programs through the public API, one by one")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(10**12) if options.seed is None else options.seed
    seeds = range(seed, seed + options.programs)
    levels: dict[str, Callable[[], Iterator[tuple[int, str]]]] = {
        "workers": lambda: failures_of_workers(seeds),
        "bundle": lambda: failures_of_bundles(seeds, options.single),
    }
    failed = 0
    for level, failures in levels.items():
        if options.level not in (level, "all"):
            continue
        began = time.time()
        wrong = 0
        for failing, reason in failures():
            wrong += 1
            print(f"--- {level}, seed {failing}: {reason}\n{program_code(job_of(failing).program)}\n", flush=True)
        failed += wrong
        print(
            f"{level}: {len(seeds)} programs, {wrong} mismatches, seed {seed}, {time.time() - began:.0f} s", flush=True
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
