"""What a workload of the comparison is: a name, and a way to get ready for passes over its input."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bench.contenders import Runner

EMBEDDED, SPARK = "embedded", "spark"


@dataclass(frozen=True)
class Pass:
    """One run over the whole input: how long it took, and what it gave (equal for trees that agree)."""

    wall: float
    cpu: float
    results: int = 0
    checksum: float = 0.0


@dataclass(frozen=True)
class Work:
    """A workload. `prepare` makes the input, of its own size or so many rows, and gives what runs over it once.

    It imports what it needs of Panes only then: another revision may not have it.
    """

    name: str
    title: str
    prepare: Callable[[int | None], Callable[[], Pass]]


def timed(runner: Runner, inputs: Sequence[Any]) -> Pass:
    """One pass: a step per input on the clock; the end of the stream and a look at the results off it."""
    outputs = []
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    for each in inputs:
        outputs.append(runner.step(each))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    outputs.append(runner.finish())
    return Pass(wall, cpu, *runner.digest(outputs))
