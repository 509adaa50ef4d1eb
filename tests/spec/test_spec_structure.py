"""What SPEC says about edges, slices, partials and markers (structure.yaml): one function per question."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml

import panes as pn
from bench.rivals import FUNCTIONS, RIVALS, Marked, Periodic
from bench.rivals.pairs import pair
from bench.rivals.panes import pane_length
from panes.aggregates.base import Column, Inputs
from panes.units import TimeDomain
from tests.fuzz.code import aggregate_code
from tests.fuzz.engine import build_window
from tests.oracle.aggregates import aggregate
from tests.oracle.windows import INFINITY, Row, due_windows

Example = dict[str, Any]
EXAMPLES: list[Example] = yaml.safe_load((Path(__file__).parent / "structure.yaml").read_text())
#: raise it with every example, so that none is dropped unseen
COUNT = 20
RIVAL: dict[str, Any] = {rival.__name__.lower(): rival for rival in RIVALS}


def the_window(example: Example) -> tuple[Any, Any]:
    """The one window of an example: as the oracle's tuple, and bound to integer time."""
    ((_, spec),) = example["windows"].items()
    return tuple(spec), build_window(tuple(spec)).bind(TimeDomain("ms", integer=True))


def naive_windows(spec: Any, lo: int, hi: int) -> list[tuple[int, int]]:
    """(start, end) of windows of `spec` that hold some tick of (lo, hi], by brute force."""
    rows = [Row(t, t, {}) for t in range(lo + 1, hi + 1)]
    return sorted(bounds[:2] for bounds in due_windows(spec, rows, INFINITY))


def windows_over(example: Example) -> None:
    spec, bound = the_window(example)
    at = example["at"]
    assert len(naive_windows(spec, at - 1, at)) == example["answer"]
    assert len(bound.containing(at)[0]) == example["answer"]
    buckets = RIVAL["aggregatebuckets"]([Periodic(*spec[1:])], FUNCTIONS["sum"])
    before = buckets.counters.update
    buckets.push(np.array([at]), np.array([1.0]))
    assert buckets.counters.update - before == example["answer"]


def next_edges(example: Example) -> None:
    spec, bound = the_window(example)
    for ts, edge in example["answer"].items():
        naive = min(e for window in naive_windows(spec, ts - 20, ts + 20) for e in window if e > ts)
        assert naive == edge
        assert bound.edges(ts, ts + 100)[0] == edge


def ending(example: Example) -> None:
    spec, bound = the_window(example)
    lo, hi = example["between"]
    naive = [list(w) for w in naive_windows(spec, lo - 50, hi + 50) if lo < w[1] <= hi]
    assert naive == example["answer"]
    starts, ends = bound.ending(lo, hi)
    assert [list(w) for w in zip(starts.tolist(), ends.tolist(), strict=True)] == example["answer"]


def edges(example: Example) -> None:
    spec, bound = the_window(example)
    lo, hi = example["between"]
    naive = {e for window in naive_windows(spec, lo - 50, hi + 50) for e in window if lo < e <= hi}
    assert sorted(naive) == example["answer"]
    assert bound.edges(lo, hi).tolist() == example["answer"]


def starts(example: Example) -> None:
    spec, bound = the_window(example)
    lo, hi = example["between"]
    naive = {start for start, _ in naive_windows(spec, lo - 50, hi + 50) if lo < start <= hi}
    assert sorted(naive) == example["answer"]
    found = bound.ending(lo, hi + 50)[0]
    assert sorted({s for s in found.tolist() if lo < s <= hi}) == example["answer"]
    slicer = RIVAL["cutty"]([Periodic(*spec[1:])], FUNCTIONS["sum"])
    assert slicer.windows.starts(lo, hi).tolist() == example["answer"]


def lifted(example: Example) -> tuple[Any, Any]:
    """The example's aggregate over doubles, and the partials of its slices."""
    bound = eval(aggregate_code(tuple(example["aggregate"])), {"pn": pn})
    if isinstance(bound, str):
        bound = getattr(pn, example["aggregate"][0])(example["aggregate"][1])
    bound = bound.bind([pa.float64()])
    values = np.concatenate([np.array(s, np.float64) for s in example["slices"]])
    order = np.arange(len(values))
    offsets = np.concatenate(([0], np.cumsum([len(s) for s in example["slices"]])))
    inputs = Inputs((Column(values, None, pa.float64()),), order, order, len(values))
    return bound, bound.lift(inputs, offsets)


def naive_value(example: Example) -> Any:
    values = [v for s in example["slices"] for v in s]
    return aggregate(tuple(example["aggregate"]), [Row(i, i, {"v": v}) for i, v in enumerate(values)])


def partials(example: Example) -> None:
    assert naive_value(example) == example["answer"]
    bound, cells = lifted(example)
    assert [list(cell) for cell in zip(*(f.tolist() for f in cells.fields[:2]), strict=True)] == example["partials"]
    whole = bound.fold(cells, np.array([0, len(cells)]))
    assert [f[0] for f in whole.fields[:2]] == example["combined"]
    assert bound.lower(whole).to_pylist() == [example["answer"]]


def runs(example: Example) -> None:
    assert naive_value(example) == example["answer"]
    bound, cells = lifted(example)
    whole = bound.fold(cells, np.array([0, len(cells)]))
    values, running = whole.fields[:2]  # counts are kept as running totals
    counts = np.diff(running.values, prepend=0)
    found = list(zip(values.values.tolist(), counts.tolist(), strict=True))
    assert [list(run) for run in found] == example["combined"]
    assert bound.lower(whole).to_pylist() == [example["answer"]]


def markers(example: Example) -> None:
    """Windows are numbered in the order in which they begin, A before B; the marker of an end comes after."""
    begin: dict[int, list[int]] = {}
    end: dict[int, list[int]] = {}
    machines = [build_window(tuple(spec)) for spec in example["windows"].values()]
    states = [machine.new_state() for machine in machines]
    opened: list[list[int]] = [[] for _ in machines]
    number = 0
    for record in range(example["records"]):
        for machine, state, mine in zip(machines, states, opened, strict=True):
            begins, ends = machine.on_row(state, {}, record, record)
            for _ in range(ends):
                end.setdefault(record, []).append(mine.pop(0))
            for _ in range(begins):
                number += 1
                begin.setdefault(record, []).append(number)
                mine.append(number)
    assert begin == example["begin"]
    assert {record: sorted(numbers) for record, numbers in end.items()} == example["end"]


def rival_stores(example: Example) -> None:
    queries = [Periodic(size, slide, "rows") for size, slide in example["queries"]]
    rival = RIVAL[example["rival"]](queries, FUNCTIONS["sum"])
    sums = []
    for record in range(example["records"]):
        rival.push(np.array([record]), np.array([float(record)]))
        sums += sorted((end, q, value) for q, _, end, value in rival.advance(record).rows())
        assert len(rival.starts) <= example["at_most"]
    assert sorted(value for _, _, value in sums) == sorted(example["sums"])


def rival_slices(example: Example) -> None:
    queries = [Periodic(size, slide) for size, slide in example["queries"]]
    found = (pane_length(queries),) if example["rival"] == "panes" else pair(queries[0])
    assert sorted(found) == sorted(example["lengths"])
    rival = RIVAL[example["rival"]](queries, FUNCTIONS["sum"])
    lengths = np.diff(rival._edges(0, 200))
    assert set(lengths.tolist()) == set(example["lengths"])


def slices_per_window(example: Example) -> None:
    """Slices that a window in steady state is made of; Cutty's last one is still open."""
    ((size, slide),) = example["queries"]
    rival = RIVAL[example["rival"]]([Periodic(size, slide)], FUNCTIONS["sum"])
    start = 100 * slide
    inside = [e for e in rival._edges(0, 1000).tolist() if start <= e < start + size]
    assert len(inside) == example["answer"]


def marker_slices(example: Example) -> None:
    """Slices begin where windows begin; a window's end needs none."""
    _, last = example["records"]
    begins = sorted(set(example["begins"]))
    slices = [[a, b - 1] for a, b in zip(begins, [*begins[1:], last], strict=True)]
    assert slices == example["slices"]
    windows = list(zip(example["begins"], example["ends"], strict=False))
    start, end = windows[-1]
    assert [s for s in slices if start <= s[0] < end] == example["used_by_last"]
    query = Marked(tuple(b for b, _ in windows), tuple(e for _, e in windows))
    cutty = RIVAL["cutty"]([query], FUNCTIONS["sum"])
    cutty.push(np.arange(last + 1), 2.0 ** np.arange(last + 1))
    sums = {(s, e): v for _, s, e, v in cutty.finish().rows()}
    assert sums == {(b, e): math.fsum(2.0**i for i in range(b, e)) for b, e in windows}


QUESTIONS: dict[str, Callable[[Example], None]] = {
    question.__name__: question
    for question in (
        windows_over,
        next_edges,
        ending,
        edges,
        starts,
        partials,
        runs,
        markers,
        rival_stores,
        rival_slices,
        slices_per_window,
        marker_slices,
    )
}


@pytest.mark.parametrize("example", EXAMPLES, ids=[e["id"] for e in EXAMPLES])
def test_slices_are_those_of_the_worked_example(example: Example) -> None:
    QUESTIONS[example["ask"]](example)


def test_no_example_of_structure_is_lost() -> None:
    assert len(EXAMPLES) == COUNT
    assert {e["ask"] for e in EXAMPLES} == set(QUESTIONS)
