"""Sizes that make no sense are refused when the query is built; huge ones work."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

import panes as pn
from tests.robustness.helpers import picked, query

COUNT = {"n": "count(*)"}
ROWS = [{"ts": t, "v": float(t), "km": t} for t in (0, 5, 9, 30)]

ABSURD: dict[str, Callable[[], object]] = {
    "tumbling zero": lambda: pn.tumbling(0),
    "tumbling negative": lambda: pn.tumbling("-1 s"),
    "tumbling nan": lambda: pn.tumbling(math.nan, on="v"),
    "tumbling infinite": lambda: pn.tumbling(math.inf, on="v"),
    "tumbling text": lambda: pn.tumbling("a while"),
    "tumbling empty text": lambda: pn.tumbling(""),
    "tumbling none": lambda: pn.tumbling(None),  # type: ignore[arg-type]
    "tumbling bool": lambda: pn.tumbling(True),
    "tumbling beyond 64 bits": lambda: pn.tumbling(2**63),
    "tumbling beyond 64 bits of ticks": lambda: pn.tumbling("1000000000000 weeks"),
    "sliding slide zero": lambda: pn.sliding(10, every=0),
    "sliding slide negative": lambda: pn.sliding(10, every=-5),
    "session zero": lambda: pn.session(0),
    "session negative": lambda: pn.session("-3 s"),
    "cumulate step zero": lambda: pn.cumulate(0, max=10),
    "cumulate step does not divide": lambda: pn.cumulate(3, max=10),
    "cumulate step over max": lambda: pn.cumulate(20, max=10),
    "landmark every zero": lambda: pn.landmark(0, every=0),
    "fixed backwards": lambda: pn.fixed(10, 0),
    "fixed empty": lambda: pn.fixed(10, 10),
    "fixed beyond 64 bits": lambda: pn.fixed(-(2**62), 2**62),
    "band zero": lambda: pn.fixed_band(0, size=0),
    "rows zero": lambda: pn.tumbling(pn.rows(0)),
    "rows negative": lambda: pn.tumbling(pn.rows(-3)),
    "rows fraction": lambda: pn.tumbling(pn.rows(2.5)),  # type: ignore[arg-type]
    "delta negative": lambda: pn.delta(-1, on="v"),
    "delta nan": lambda: pn.delta(math.nan, on="v"),
    "time zone unknown": lambda: pn.tumbling("1 day", tz="Mars/Olympus"),
}


@pytest.mark.parametrize("spec", ABSURD.values(), ids=ABSURD)
def test_absurd_sizes_are_refused_when_the_query_is_built(spec: Callable[[], object]) -> None:
    with pytest.raises(pn.errors.QueryError) as caught:
        query(ROWS, {"w": spec()}, COUNT).operator()
    assert len(str(caught.value)) > 20, "an error says the argument, the rule and the reason"


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (pn.tumbling(2**62), [4]),
        (pn.tumbling("200 years"), [4]),
        (pn.session(2**60), [4]),
        (pn.landmark(-(2**40), every=2**50), [4]),
        (pn.fixed(-(2**61), 2**61), [4]),
        (pn.tumbling(pn.rows(2**40)), []),
        (pn.sliding(1, every=2**60), [1]),
        (pn.delta(1e300, on="v"), [4]),
        (pn.delta(0, on="v"), [1, 1, 1, 1]),
    ],
    ids=str,
)
def test_huge_sizes_work(window: object, expected: list[int]) -> None:
    assert picked(query(ROWS, {"w": window}, COUNT).rows(), ["n"]) == [(n,) for n in expected]


@pytest.mark.parametrize(
    ("window", "options"),
    [
        (pn.sliding("365 days", every="1 ms"), {}),
        (pn.cumulate("1 ms", max="36500 days"), {}),
        (pn.sliding(1.0, every=1e-9, on="v"), {}),
        (pn.tumbling(1), {"emit_empty": True}),
    ],
    ids=str,
)
def test_more_windows_than_memory_are_refused(window: object, options: dict[str, bool]) -> None:
    rows = [{"ts": 0, "v": 1.0}, {"ts": 10**15, "v": 2.0}]
    with pytest.raises(pn.errors.PanesError, match="window"):
        pn.stream(rows, time="ts").window(w=window, **options).agg(**COUNT).to_arrow()


def test_no_window_at_all_is_refused() -> None:
    with pytest.raises(pn.errors.QueryError):
        query(ROWS, {}, COUNT).operator()


def test_no_aggregate_at_all_is_refused() -> None:
    with pytest.raises(pn.errors.QueryError):
        query(ROWS, {"w": pn.tumbling(10)}, {}).operator()
