"""Starts the driver, waits until its checkpoint has reached a chosen point, kills it, and starts it again."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.chaos.job import SINKS, Job

ROOT = Path(__file__).parents[2]
#: A driver that has written nothing for so long, in seconds, is stuck.
_STUCK = 600.0
#: Spark gives its own workers ten seconds to start, and no setting changes that. On a machine that is busy
#: otherwise a stream can fail of it: one more crash, after which the driver is started again.
_TOO_BUSY = b"Python worker failed to connect back"
_MOST_TOO_BUSY = 20
#: Killed while it writes the first offsets of a checkpoint, Spark finds a torn file there and asks for it to be
#: deleted. Nothing was given until then, so that loses nothing.
_TORN = b"STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY"


@dataclass(frozen=True)
class Kill:
    """When to kill: after `commits` more micro-batches of `sink`, then `seconds` into the next one."""

    sink: str
    commits: int
    mid_batch: bool
    seconds: float

    def __str__(self) -> str:
        where = f"{self.seconds:.2f} s into the next micro-batch" if self.mid_batch else "at once"
        return f"{self.commits} commits of {self.sink}, then {where}"


def plan_kill(rng: random.Random) -> Kill:
    mid_batch = rng.random() < 0.8
    return Kill(rng.choice(SINKS), rng.choice((0, 0, 1, 1, 1, 2)) if mid_batch else 1, mid_batch, rng.uniform(0, 1.2))


def run_under_fire(job: Job, place: Path, plan: Callable[[int], Kill | None]) -> list[Kill]:
    """Run the job to its end; `plan(n)` says when to kill for the n-th time, None: not any more."""
    done: list[Kill] = []
    too_busy = 0
    while True:
        kill = plan(len(done))
        end = _run_once(job, place, kill)
        if end == "done":
            return done
        if end == "too busy":
            too_busy += 1
            if too_busy > _MOST_TOO_BUSY:
                raise RuntimeError(f"{too_busy} times Spark gave up on its workers: the machine is too busy for this")
            continue
        assert kill is not None
        done.append(kill)


def _run_once(job: Job, place: Path, kill: Kill | None) -> Literal["done", "killed", "too busy"]:
    """One life of the driver, and how it ended."""
    place.mkdir(parents=True, exist_ok=True)
    with (place / "driver.log").open("wb") as log:
        # a session of its own, so that a Ctrl-C for this process is not one for the driver
        driver = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.driver", str(job.data), str(place)],
            cwd=ROOT,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        if kill is None or not _reached(kill, place, driver):
            code = driver.wait(_STUCK)
            said = (place / "driver.log").read_bytes()
            if code != 0 and _TORN in said and _delete_unbegun(place):
                return "too busy"
            if code != 0 and _TOO_BUSY not in said:
                raise RuntimeError(f"the driver failed by itself with code {code}: {said.decode()[-3000:]}")
            return "done" if code == 0 else "too busy"
        return "killed"
    finally:
        _kill_tree(driver)


def _delete_unbegun(place: Path) -> bool:
    """Delete checkpoints without any micro-batch; whether there were any."""
    found = [c for sink in SINKS if (c := place / sink / "checkpoint").exists() and _newest(c / "offsets") < 0]
    for checkpoint in found:
        shutil.rmtree(checkpoint)
    return bool(found)


def _reached(kill: Kill, place: Path, driver: subprocess.Popen[bytes]) -> bool:
    """Wait for the moment of the kill; False if the driver ended before it came."""
    checkpoint = place / kill.sink / "checkpoint"
    goal = committed(place, kill.sink) + kill.commits
    began = time.monotonic()
    while driver.poll() is None:
        done = committed(place, kill.sink)
        if done >= goal and (not kill.mid_batch or _newest(checkpoint / "offsets") > done):
            if kill.mid_batch:
                time.sleep(kill.seconds)
            return driver.poll() is None
        if time.monotonic() - began > _STUCK:
            raise RuntimeError(f"the driver has not reached {kill} within {_STUCK:.0f} s")
        time.sleep(0.01)
    return False


def committed(place: Path, sink: str) -> int:
    """The last micro-batch that a sink has done; -1: none yet."""
    return _newest(place / sink / "checkpoint" / "commits")


def _newest(folder: Path) -> int:
    """The largest batch in a log folder of a checkpoint; -1: none yet."""
    try:
        return max((int(name) for name in os.listdir(folder) if name.isdigit()), default=-1)
    except FileNotFoundError:
        return -1


def _kill_tree(driver: subprocess.Popen[bytes]) -> None:
    """SIGKILL to the driver and what it has started: Java is its child, and Java starts the workers."""
    if driver.poll() is not None:
        return
    for pid in [*_descendants(driver.pid), driver.pid]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    driver.wait()


def _descendants(root: int) -> list[int]:
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    children: dict[int, list[int]] = {}
    for line in listed.splitlines():
        pid, parent = map(int, line.split())
        children.setdefault(parent, []).append(pid)
    found, waiting = [], [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found
