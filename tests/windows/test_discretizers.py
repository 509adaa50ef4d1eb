"""Discretizers against plain loops, whole and in random pieces, and examples of the specification."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from panes.errors import QueryError
from panes.units import TimeDomain, rows
from panes.windows import delta, punctuated, session, threshold
from panes.windows.base import NEVER, ContextClass
from tests.windows.harness import Entry, Feeder, Stream, run

MS = TimeDomain("ms", integer=True)
Loop = Any


def session_loop(stream: Stream, gap: Any) -> list[tuple[int, int, int, int]]:
    out, first, deadline = [], None, 0
    for i, t in enumerate(stream.times):
        g = gap if isinstance(gap, int) else math.floor(stream.columns[gap][i])
        if first is not None and t > deadline:
            out.append((first, i, stream.times[first], deadline))
            first = None
        if first is None:
            first, deadline = i, t + g
        deadline = max(deadline, t + g)
    return [*out, (first, len(stream.times), stream.times[first], deadline)] if first is not None else out


def column_session_loop(stream: Stream, gap: float) -> list[tuple[int, int, int, int]]:
    out, first = [], None
    values = stream.columns["km"]
    for i in range(len(values)):
        if first is not None and values[i] > values[i - 1] + gap:
            out.append((first, i, stream.times[first], stream.times[i]))
            first = None
        first = i if first is None else first
    return [*out, (first, len(values), stream.times[first], NEVER)] if first is not None else out


def punctuated_loop(stream: Stream, begin: str, end: str | None) -> list[tuple[int, int, int, int]]:
    out: list[tuple[int, int, int, int]] = []
    opened: list[int] = []
    for i, t in enumerate(stream.times):
        begins = bool(stream.columns[begin][i])
        if begins if end is None else bool(stream.columns[end][i]):
            out += [(o, i, stream.times[o], t) for o in opened]
            opened = []
        if begins:
            opened.append(i)
    if end is None:
        out += [(o, len(stream.times), stream.times[o], NEVER) for o in opened]
    return out


def end_loop(stream: Stream, end: str) -> list[tuple[int, int, int, int]]:
    out, first = [], 0
    for i, t in enumerate(stream.times):
        if stream.columns[end][i]:
            out.append((first, i + 1, stream.times[first], t))
            first = i + 1
    return out


def delta_loop(stream: Stream, limit: float, function: Any) -> list[tuple[int, int, int, int]]:
    out, first, reference = [], None, None
    for i, t in enumerate(stream.times):
        value = stream.columns["v"][i]
        far = value is not None and reference is not None and function(reference, value) > limit
        if far:
            out.append((first, i, stream.times[first], t))
        if far or first is None:
            first, reference = i, None
        reference = value if reference is None else reference
    return [*out, (first, len(stream.times), stream.times[first], NEVER)] if first is not None else out


def threshold_loop(stream: Stream, least: int) -> list[tuple[int, int, int, int]]:
    out, first = [], None
    for i, t in enumerate(stream.times):
        if stream.columns["hot"][i]:
            first = i if first is None else first
        elif first is not None:
            out.append((first, i, stream.times[first], t))
            first = None
    if first is not None:
        out.append((first, len(stream.times), stream.times[first], NEVER))
    return [w for w in out if w[1] - w[0] >= least]


def distance(a: float, b: float) -> float:
    return (a - b) ** 2


SPECS: list[tuple[Any, Loop]] = [
    (session(3), lambda s: session_loop(s, 3)),
    (session(1), lambda s: session_loop(s, 1)),
    (session("gap"), lambda s: session_loop(s, "gap")),
    (session(2.5, on="km"), lambda s: column_session_loop(s, 2.5)),
    (punctuated(begin="b"), lambda s: punctuated_loop(s, "b", None)),
    (punctuated(begin="b", end="e"), lambda s: punctuated_loop(s, "b", "e")),
    (punctuated(begin="b", end="b"), lambda s: punctuated_loop(s, "b", "b")),
    (punctuated(end="e"), lambda s: end_loop(s, "e")),
    (delta(2, on="v"), lambda s: delta_loop(s, 2, lambda a, b: abs(a - b))),
    (delta(0, on="v"), lambda s: delta_loop(s, 0, lambda a, b: abs(a - b))),
    (delta(5, on="v", function=distance), lambda s: delta_loop(s, 5, distance)),
    (threshold("hot"), lambda s: threshold_loop(s, 1)),
    (threshold("hot", min_rows=3), lambda s: threshold_loop(s, 3)),
]


def random_stream(rng: np.random.Generator, n: int) -> Stream:
    times = np.cumsum(rng.choice([0, 0, 1, 1, 2, 3, 4, 9], n)) + int(rng.integers(-50, 50))
    null = rng.random(n) < 0.1
    values = rng.integers(-4, 5, n).astype(float)
    return Stream(
        times.tolist(),
        {
            "gap": rng.choice([0.0, 1.0, 2.0, 2.5, 6.0], n).tolist(),
            "km": np.cumsum(rng.choice([0, 0.5, 1, 2.5, 3], n)).tolist(),
            "b": (rng.random(n) < 0.3).tolist(),
            "e": (rng.random(n) < 0.2).tolist(),
            "v": [None if z else v for z, v in zip(null.tolist(), values.tolist(), strict=True)],
            "hot": [None if z else bool(v > -2) for z, v in zip(null.tolist(), values.tolist(), strict=True)],
        },
    )


@pytest.mark.parametrize(("spec", "loop"), SPECS, ids=lambda s: repr(s) if not callable(s) else "")
@pytest.mark.parametrize("seed", range(15))
def test_against_a_plain_loop(spec, loop: Loop, seed: int) -> None:
    rng = np.random.default_rng(seed)
    window = spec.bind(MS)
    streams = [random_stream(rng, int(rng.integers(0, 40))) for _ in range(int(rng.integers(1, 6)))]
    expected: list[Entry] = sorted((slot, *w) for slot, s in enumerate(streams) for w in loop(s))
    whole = run(window, streams)
    assert sorted(whole.entries) == expected
    pieces = run(window, streams, rng)
    assert sorted(pieces.entries) == expected
    assert pieces.cuts == whole.cuts
    assert {(e[0], e[1]) for e in expected} <= whole.cuts
    by_rows = {(e[0], e[2]) for e in expected if e[2] < len(streams[e[0]].times)}
    assert by_rows <= whole.cuts


@pytest.mark.parametrize("spec", [s for s, _ in SPECS], ids=repr)
def test_nothing_is_needed_once_all_is_closed(spec) -> None:
    window = spec.bind(MS)
    feeder = Feeder(window, 3)
    assert (window.open_from(feeder.state) == NEVER).all()
    stream = random_stream(np.random.default_rng(1), 30)
    feeder.push({1: stream})
    first = window.open_from(feeder.state).tolist()
    assert (first[0], first[2]) == (NEVER, NEVER)
    open_now = [w for w in feeder.entries if w[1] >= first[1]]
    assert open_now == []


@pytest.mark.parametrize("keys", [1, 7])
def test_many_rows_use_the_compiled_loop(keys: int) -> None:
    rng = np.random.default_rng(5)
    streams = [random_stream(rng, 2000 // keys) for _ in range(keys)]
    expected = sorted((k, *w) for k, s in enumerate(streams) for w in delta_loop(s, 2, lambda a, b: abs(a - b)))
    assert sorted(run(delta(2, on="v").bind(MS), streams).entries) == expected


def test_session_of_s30() -> None:
    """g = 10: 1, 5, then 20, 25 are apart; with 12 in between all are one."""
    window = session(10).bind(MS)
    assert window.context is ContextClass.SESSION
    feeder = Feeder(window, 1)
    feeder.push({0: Stream([1, 5])})
    feeder.advance(15)
    assert feeder.entries == []  # a row at 15 would still join
    feeder.advance(16)
    assert feeder.entries == [(0, 0, 2, 1, 15)]
    assert [e[3:] for e in run(window, [Stream([1, 5, 12, 20, 25])]).entries] == [(1, 35)]
    assert [e[3:] for e in run(window, [Stream([1, 5, 15, 25])]).entries] == [(1, 35)]


def test_delta_of_q37() -> None:
    """phi = 10 and |s4 - s1| = 12: {s1, s2, s3}, {s4}; a difference of just 10 joins."""
    entries = run(delta(10, on="v").bind(MS), [Stream([1, 2, 3, 4], {"v": [0, 10, -4, 12]})]).entries
    assert [e[1:3] for e in entries] == [(0, 3), (3, 4)]
    assert [e[4] for e in entries] == [4, NEVER]


def test_delta_with_infinities_and_leading_nulls() -> None:
    values = [None, None, math.inf, math.inf, 1, None, -math.inf]
    entries = run(delta(10, on="v").bind(MS), [Stream(list(range(7)), {"v": values})]).entries
    assert [e[1:3] for e in entries] == [(0, 4), (4, 6), (6, 7)]


def test_delta_by_function_on_any_value() -> None:
    words = delta(2, on="w", function=lambda a, b: abs(len(a) - len(b))).bind(MS)
    entries = run(words, [Stream([1, 2, 3, 4], {"w": ["a", "abc", None, "abcd"]})]).entries
    assert [e[1:3] for e in entries] == [(0, 3), (3, 4)]


def test_a_row_may_end_and_begin() -> None:
    window = punctuated(begin="b", end="e").bind(MS)
    stream = Stream([1, 2, 3, 4], {"b": [True, True, True, False], "e": [False, False, True, True]})
    entries = run(window, [stream]).entries
    assert [e[1:3] for e in entries] == [(0, 2), (1, 2), (2, 3)]


def test_sessions_near_the_limits_of_time() -> None:
    far = NEVER - 5
    entries = run(session(100).bind(MS), [Stream([-NEVER, far, far + 3])]).entries
    assert [e[1:] for e in entries] == [(0, 1, -NEVER, -NEVER + 100), (1, 3, far, NEVER - 1)]
    by_row = run(session("g").bind(MS), [Stream([-NEVER, far], {"g": [1e300, 2]})]).entries
    assert [e[1:3] for e in by_row] == [(0, 1), (1, 2)]


@pytest.mark.parametrize("watermark", [-(2**63), NEVER])
def test_advance_without_rows(watermark: int) -> None:
    for spec, _ in SPECS:
        feeder = Feeder(spec.bind(MS), 4)
        feeder.advance(watermark)
        feeder.finish()
        assert feeder.entries == []


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: session("0 s"), "gap='0 s' must be positive"),
        (lambda: session("10"), "has no unit"),
        (lambda: session("5 parsecs"), "unknown unit"),
        (lambda: session(""), "gap='' must be a column or SQL"),
        (lambda: session(rows(3)), "rows have no pauses"),
        (lambda: session(None), "is not a size"),
        (lambda: session(5).bind(TimeDomain("us")), "has no unit"),
        (lambda: session("1 month").bind(MS), "varies in length"),
        (lambda: session("5 s", on="km").bind(MS), "must be a number"),
        (lambda: punctuated(begin=""), "begin='' must be"),
        (lambda: punctuated(begin="a", end=3), "end=3 must be"),
        (lambda: punctuated(), r"punctuated\(\) needs begin=, end= or both"),
        (lambda: delta(-1, on="v"), "threshold=-1 must be"),
        (lambda: delta(math.nan, on="v"), "threshold=nan must be"),
        (lambda: delta(1, on="v", function=3), "function=3 must be callable"),
        (lambda: threshold("x > 1", min_rows=0), "min_rows=0 must be a positive"),
        (lambda: threshold("x > 1", min_rows=1.5), "min_rows=1.5 must be a positive"),
        (lambda: threshold(None), "predicate=None must be"),
    ],
)
def test_misuse_of_data_driven_windows_is_refused(make, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        make()


@pytest.mark.parametrize(
    "text",
    [
        'session("30 s")',
        'session("timeout * 2")',
        'session(2.5, on="km")',
        "punctuated(begin=\"kind = 'start'\")",
        'punctuated(begin="a", end="b")',
        'punctuated(end="b")',
        'delta(10, on="v")',
        'threshold("v > 3", min_rows=2)',
        'threshold("v > 3")',
    ],
)
def test_repr_is_code(text: str) -> None:
    names = {"session": session, "punctuated": punctuated, "delta": delta, "threshold": threshold}
    spec = eval(text, names)
    assert repr(spec) == text
    assert spec == eval(repr(spec), names)
