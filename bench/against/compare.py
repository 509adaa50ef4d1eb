"""Runs workloads on two trees in turns, within a budget of time.

A turn runs both trees alternately, in the other order than the turn before it, and takes the quickest pass of each:
what disturbs a pass only ever makes it longer. A turn gives one ratio. Both trees have run the workload twice before
the first turn, so that nothing is left to compile.

Two processes that run the same code can differ by some per cent for as long as they live, by where things happen to
lie in memory. So there are several pairs of processes, which take the turns one after the other: what is seen in one
pair only doesn't count. On Spark there is one pair, for the memory of its Java.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.against.client import Failed, OutOfTime, Worker
from bench.against.tree import Tree
from bench.against.verdict import UNJUDGED, Verdict, judge
from bench.against.work import EMBEDDED, SPARK, Pass, Work

#: Seconds of one tree in one turn at least, by as many passes as that takes, but no more than so many.
TURN, PASSES = 0.5, 10
PAIRS = {EMBEDDED: 3, SPARK: 1}
#: A workload on Spark may take so many times the time of another.
WEIGHT = {EMBEDDED: 1, SPARK: 4}
#: Processes of this tree and of the other.
Pair = tuple[Worker, Worker]
CANT_RUN, BROKEN = "can't run there", "fails here"


@dataclass(frozen=True)
class Row:
    """What was found about one workload: seconds of each turn in both trees, and what follows."""

    name: str
    title: str
    here: Sequence[float] = ()
    there: Sequence[float] = ()
    verdict: Verdict | None = None
    word: str = UNJUDGED
    note: str = ""

    @property
    def medians(self) -> tuple[float, float] | None:
        return (statistics.median(self.here), statistics.median(self.there)) if self.here else None


@dataclass
class Comparison:
    """Two trees, and how to compare them; the benchmarks are those of the tree `here`.

    `clock`: wall or cpu; None takes cpu embedded (one core, one thread: the two agree unless others use the machine)
    and wall on Spark, where waiting counts, too.
    """

    here: Tree
    there: Tree
    logs: Path
    repeats: int = 7
    rows: int | None = None
    budget: float = 1500.0
    clock: str | None = None
    say: Callable[[str], None] = lambda _: None
    _deadline: float = field(default=0.0, init=False)

    def run(self, works: dict[str, Sequence[Work]]) -> Iterator[Row]:
        """A row per workload, as they are done; `works` by where they run."""
        self._deadline = time.monotonic() + self.budget
        left = sum(WEIGHT[kind] * len(some) for kind, some in works.items())
        for kind, some in works.items():
            pairs: list[Pair] = []
            try:
                for work in some:
                    share = WEIGHT[kind] / left
                    left -= WEIGHT[kind]
                    if time.monotonic() >= self._deadline:
                        yield Row(work.name, work.title, note="no time was left")
                        continue
                    if not pairs:
                        pairs += [self._pair(kind, number) for number in range(min(PAIRS[kind], self.repeats))]
                    yield self._row(work, kind, pairs, share)
            finally:
                for worker in (worker for pair in pairs for worker in pair):
                    worker.close()

    def _pair(self, kind: str, number: int) -> Pair:
        log = f"{kind}-{number}"
        return (
            Worker(self.here, kind, self.logs / f"{log}-here.log", self.here.folder),
            Worker(self.there, kind, self.logs / f"{log}-there.log", self.here.folder),
        )

    def _row(self, work: Work, kind: str, pairs: Sequence[Pair], share: float) -> Row:
        times: tuple[list[float], list[float]] = ([], [])
        note = ""
        try:
            warm = []
            for worker, where in ((worker, where) for pair in pairs for worker, where in zip(pair, (BROKEN, CANT_RUN))):
                self.say(f"{work.name}: warming up {worker.tree.name}")
                try:
                    worker.prepare(work.name, self.rows, self._deadline)
                    warm.append([worker.run(self._deadline) for _ in range(2)][-1])
                except Failed as error:
                    return Row(work.name, work.title, word=where, note=str(error))
            note = _differences(*warm[:2])
            passes = max(1, min(PASSES, int(TURN / max(min(p.wall for p in warm), 1e-9))))
            until = time.monotonic() + (self._deadline - time.monotonic()) * share
            for turn in range(self.repeats):
                if time.monotonic() > until:
                    note = "; ".join(filter(None, (note, f"{turn} turns, for lack of time")))
                    break
                self.say(f"{work.name}: turn {turn + 1} of {self.repeats}")
                for tree, seconds in enumerate(self._turn(pairs[turn % len(pairs)], kind, passes, turn)):
                    times[tree].append(seconds)
        except Failed as error:  # it ran when it was warmed up
            return Row(work.name, work.title, word=BROKEN, note=str(error))
        except OutOfTime:
            note = "out of time"
        if not times[0]:
            return Row(work.name, work.title, note=note)
        turns = min(map(len, times))
        verdict = judge([a / b for a, b in zip(times[0][:turns], times[1][:turns])])
        return Row(work.name, work.title, times[0][:turns], times[1][:turns], verdict, verdict.word, note)

    def _turn(self, workers: Pair, kind: str, passes: int, turn: int) -> tuple[float, float]:
        order = (0, 1) if turn % 2 == 0 else (1, 0)
        quickest = [float("inf")] * 2
        for _ in range(passes):
            for tree in order:
                quickest[tree] = min(quickest[tree], self._seconds(workers[tree].run(self._deadline), kind))
        return quickest[0], quickest[1]

    def _seconds(self, done: Pass, kind: str) -> float:
        clock = self.clock or ("cpu" if kind == EMBEDDED else "wall")
        return max(done.cpu if clock == "cpu" else done.wall, 1e-9)


def _differences(here: Pass, there: Pass) -> str:
    """Not the business of a benchmark, but whoever reads a ratio must know that the work was not the same."""
    if here.results != there.results:
        return f"{here.results:,} results here, {there.results:,} there"
    apart = abs(here.checksum - there.checksum) > 1e-9 * max(abs(here.checksum), abs(there.checksum), 1)
    return "values of results differ" if apart else ""
