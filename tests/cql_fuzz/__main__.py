"""The command: `python -m tests.cql_fuzz --budget 10m`, `--programs N`, `--seed S`, `--jobs 2`, `--mutate`."""

from __future__ import annotations

import sys

from tests.cql_fuzz.generate import generate
from tests.cql_fuzz.mutate import check_mutated
from tests.cql_fuzz.run import check_seed
from tests.cql_fuzz.show import program_code
from tests.cql_fuzz.shrink import minimised
from tests.fuzz.command import SECONDS, Fuzz, parser, run_fuzz, shown
from tests.fuzz.jobs import Failure


def as_found(found: Failure) -> str:
    return shown(found, lambda seed: program_code(generate(seed)))


def reason_only(found: Failure) -> str:
    return f"--- seed {found.seed}: {found.reason}\n"


def as_minimised(found: Failure) -> str:
    program, reason = minimised(generate(found.seed), found.reason, seconds=SECONDS)
    return f"--- seed {found.seed}: {found.reason}\n# made small: {reason}\n{program_code(program)}\n"


VALID = Fuzz("cql fuzz", "cql", as_found, as_minimised)
MUTATED = Fuzz("cql fuzz", "cql", reason_only, None, "mutated programs, {} not as they should be")


def main() -> int:
    usage = parser("tests.cql_fuzz", __doc__, "out/fuzz/cql-SEED.txt")
    usage.add_argument("--mutate", action="store_true", help="programs made wrong instead of valid ones")
    options = usage.parse_args()
    if options.mutate:
        return run_fuzz(MUTATED, options, usage, check=check_mutated)
    return run_fuzz(VALID, options, usage, check=check_seed)


if __name__ == "__main__":
    sys.exit(main())
