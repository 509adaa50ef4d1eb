"""The command: `python -m tests.fuzz --budget 10m`, `--programs N`, `--seed S`, `--jobs 2`."""

from __future__ import annotations

import sys

from tests.fuzz.code import program_code
from tests.fuzz.command import SECONDS, Fuzz, parser, run_fuzz, shown
from tests.fuzz.jobs import Failure
from tests.fuzz.programs import generate
from tests.fuzz.run import failure
from tests.fuzz.shrink import minimised


def as_found(found: Failure) -> str:
    return shown(found, lambda seed: program_code(generate(seed)))


def as_minimised(found: Failure) -> str:
    program, note = minimised(generate(found.seed), found.reason, seconds=SECONDS)
    return f"--- seed {found.seed}: {found.reason}\n# made small: {note or failure(program)}\n{program_code(program)}\n"


def main() -> int:
    usage = parser("tests.fuzz", __doc__, "out/fuzz/failures-SEED.txt")
    return run_fuzz(Fuzz("fuzz", "failures", as_found, as_minimised), usage.parse_args(), usage)


if __name__ == "__main__":
    sys.exit(main())
