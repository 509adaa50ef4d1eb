"""Programs of the generator that go quiet: there are some, the clock makes a difference to them, and runs agree."""

from __future__ import annotations

from tests.fuzz.programs import generate
from tests.fuzz.quiet import Quiet, check_quiet, silences, wanted
from tests.fuzz.run import oracle_of


def test_programs_that_go_quiet_agree_and_the_clock_matters_to_them() -> None:
    found = changed = 0
    for program in map(generate, range(800)):
        quiet = silences(program)
        if quiet is None:
            continue
        found += 1
        assert check_quiet(program, quiet, oracle_of(program)) is None
        never = Quiet(quiet.before, idle=max(quiet.before) + 1)
        by_the_clock, by_rows = (wanted(program, q, oracle_of(program)) for q in (quiet, never))
        changed += sorted(map(repr, by_the_clock)) != sorted(map(repr, by_rows))
    assert found > 20
    assert changed > 5
