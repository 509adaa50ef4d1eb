"""The command: `python -m tests.policy_fuzz --programs N --seed S --jobs 2 --nice 19`, or `--budget 10m`."""

from __future__ import annotations

import sys

from tests.fuzz.command import SECONDS, Fuzz, parser, run_fuzz, shown
from tests.fuzz.jobs import Failure
from tests.policy_fuzz.generate import generate
from tests.policy_fuzz.run import check_seed
from tests.policy_fuzz.show import minimised, program_code


def as_found(found: Failure) -> str:
    return shown(found, lambda seed: program_code(generate(seed)))


def as_minimised(found: Failure) -> str:
    program, reason = minimised(generate(found.seed), found.reason, seconds=SECONDS)
    return f"--- seed {found.seed}: {found.reason}\n# made small: {reason}\n{program_code(program)}\n"


FUZZ = Fuzz("policy fuzz", "policies", as_found, as_minimised)


def main() -> int:
    usage = parser("tests.policy_fuzz", __doc__, "out/fuzz/policies-SEED.txt")
    return run_fuzz(FUZZ, usage.parse_args(), usage, check=check_seed)


if __name__ == "__main__":
    sys.exit(main())
