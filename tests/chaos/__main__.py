"""`python -m tests.chaos`: rounds of kills until the number or the time is reached."""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.job import Job
from tests.chaos.killer import Kill, plan_kill, run_under_fire
from tests.chaos.verdict import Verdict, verdicts

#: Kills of one round; a round begins with new data and ends with a comparison.
KILLS_PER_ROUND = 10


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--kills", type=int, help="stop after so many kills")
    parser.add_argument("--budget", type=float, help="start no new round after so many seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--files", type=int, default=14, help="micro-batches of a round")
    parser.add_argument("--rows", type=int, default=8000, help="rows of a micro-batch")
    parser.add_argument("--spark-reference", action="store_true", help="compare with an undisturbed run on Spark too")
    args = parser.parse_args()
    # who stops this stops the driver with it
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    began, kills, bad, number = time.monotonic(), 0, 0, 0
    while _goes_on(args, kills, time.monotonic() - began):
        most = KILLS_PER_ROUND if args.kills is None else min(KILLS_PER_ROUND, args.kills - kills)
        done, found = round_of_kills(args.seed + number, args.files, args.rows, most, args.spark_reference)
        kills += done
        number += 1
        bad += sum(not v.clean for v in found.values())
        said = "; ".join(f"{sink}: {verdict}" for sink, verdict in found.items())
        print(f"round {number} (seed {args.seed + number - 1}): {done} kills; {said}", flush=True)
    print(f"{kills} kills in {number} rounds, {time.monotonic() - began:.0f} s: {bad or 'no'} differences", flush=True)
    return 1 if bad else 0


def _goes_on(args: argparse.Namespace, kills: int, seconds: float) -> bool:
    if args.kills is not None and kills >= args.kills:
        return False
    if args.budget is not None:
        return seconds < args.budget
    return args.kills is not None or kills == 0


def round_of_kills(
    seed: int, files: int, rows: int, most: int, spark_reference: bool = False
) -> tuple[int, dict[str, Verdict]]:
    """One job, killed up to `most` times; how often it was, and what its sinks hold against the right results."""
    rng = random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="panes-chaos-"))
    job = Job(folder, seed, files, rows)
    job.prepare()

    def plan(n: int) -> Kill | None:
        if n >= most:
            return None
        kill = plan_kill(rng)
        print(f"  kill {n + 1}: after {kill}", flush=True)
        return kill

    done = len(run_under_fire(job, folder / "killed", plan))
    found = verdicts(job, folder / "killed")
    if spark_reference:
        run_under_fire(job, folder / "calm", _never)
        found |= {f"undisturbed {sink}": v for sink, v in verdicts(job, folder / "calm").items()}
    if all(v.clean for v in found.values()):
        shutil.rmtree(folder)
    else:
        print(f"  kept for a look: {folder}", flush=True)
    return done, found


def _never(n: int) -> Kill | None:
    return None


if __name__ == "__main__":
    sys.exit(main())
