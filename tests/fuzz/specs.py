"""Random windows and aggregates, as the tuples that the oracle reads (sizes in ticks)."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

Spec = tuple[Any, ...]
Maker = Callable[[Random, int, int], Spec]
#: kinds of windows that can be given before they close: all that take rows in any order
GIVEN_EARLY = (
    "tumbling", "sliding", "cumulate", "landmark", "fixed", "fixed_band", "ending", "calendar", "alternating",
    "session", "session_by",
)  # fmt: skip


def tumbling(rng: Random, scale: int, base: int) -> Spec:
    size = rng.randint(1, 12) * scale
    return ("tumbling", size, rng.randrange(size) if rng.random() < 0.3 else 0)


def sliding(rng: Random, scale: int, base: int) -> Spec:
    slide = rng.randint(1, 8) * scale
    offset = rng.randrange(slide) if rng.random() < 0.3 else 0
    return ("sliding", rng.randint(1, 15) * scale, slide, offset)


def cumulate(rng: Random, scale: int, base: int) -> Spec:
    step = rng.randint(1, 5) * scale
    return ("cumulate", step, step * rng.randint(1, 4))


def landmark(rng: Random, scale: int, base: int) -> Spec:
    return ("landmark", base + rng.randint(-5, 20) * scale, rng.randint(1, 10) * scale)


def fixed(rng: Random, scale: int, base: int) -> Spec:
    start = base + rng.randint(-5, 20) * scale
    return ("fixed", start, start + rng.randint(1, 20) * scale)


def fixed_band(rng: Random, scale: int, base: int) -> Spec:
    return ("fixed_band", base + rng.randint(-5, 20) * scale, rng.randint(1, 20) * scale)


def by_rows(rng: Random, scale: int, base: int) -> Spec:
    return ("rows", rng.randint(1, 6), rng.randint(1, 6))


def by_column(rng: Random, scale: int, base: int) -> Spec:
    slide = rng.randint(1, 6)
    return ("column", "m", rng.randint(1, 8), slide, rng.randrange(slide) if rng.random() < 0.2 else 0)


def last_rows(rng: Random, scale: int, base: int) -> Spec:
    return ("last_rows", rng.randint(1, 5), rng.randint(1, 8) * scale)


def last_rows_by(rng: Random, scale: int, base: int) -> Spec:
    return ("last_rows_by", "m", rng.randint(1, 5), rng.randint(1, 5))


MEASURES = ("time", "rows", "m", "m2")


def length(rng: Random, scale: int, on: str) -> int:
    return rng.randint(1, 8) * scale if on == "time" else rng.randint(1, 5)


def mixed(rng: Random, scale: int, base: int, measures: tuple[str, ...] = MEASURES) -> Spec:
    """Any two measures, and rows with rows."""
    size_on, every_on = rng.choice([(a, b) for a in measures for b in measures if a != b or a == "rows"])
    partial = every_on == "rows" and rng.random() < 0.3
    return ("mixed", size_on, length(rng, scale, size_on), every_on, length(rng, scale, every_on), partial)


def mixed_without_columns(rng: Random, scale: int, base: int) -> Spec:
    return mixed(rng, scale, base, ("time", "rows"))


def ticking(rng: Random, scale: int, base: int) -> Spec:
    """Given at every tick on time, with and without news."""
    size_on = rng.choice(("rows", "rows", "m"))
    return ("ticking", size_on, length(rng, scale, size_on), "time", length(rng, scale, "time"))


def per_instant(rng: Random, scale: int, base: int) -> Spec:
    size_on = rng.choice(("rows", "rows", "time", "m"))
    return ("per_instant", size_on, length(rng, scale, size_on), rng.randint(1, 4), rng.random() < 0.3)


def first_row(rng: Random, scale: int, base: int) -> Spec:
    slide = rng.randint(1, 8) * scale
    return ("first_row", rng.choice((slide, slide, rng.randint(1, 15) * scale)), slide)


def ending(rng: Random, scale: int, base: int) -> Spec:
    return ("ending", rng.randint(1, 15) * scale, rng.randint(1, 8) * scale)


def whole_and_rest(rng: Random, scale: int, base: int) -> Spec:
    return ("whole_and_rest", rng.randint(1, 6))


def on_change(rng: Random, scale: int, base: int) -> Spec:
    maker = rng.choice((sliding, sliding, sliding, first_row, cumulate, ending, session, by_rows))
    return ("on_change", *maker(rng, scale, base))


def session(rng: Random, scale: int, base: int) -> Spec:
    return ("session", rng.randint(1, 6) * scale)


def session_by(rng: Random, scale: int, base: int) -> Spec:
    return ("session_by", "g")


def session_on(rng: Random, scale: int, base: int) -> Spec:
    return ("session_on", "m", rng.randint(1, 3))


def punctuated(rng: Random, scale: int, base: int) -> Spec:
    return rng.choice((("punctuated", "b", "e"), ("punctuated", "b"), ("punctuated", None, "e")))


def delta(rng: Random, scale: int, base: int) -> Spec:
    return ("delta", rng.randint(0, 8) * 0.5, "d")


def threshold(rng: Random, scale: int, base: int) -> Spec:
    return ("threshold", "d", rng.randint(-4, 6) * 0.5, rng.choice((1, 1, 2, 3)))


def alternating(rng: Random, scale: int, base: int) -> Spec:
    return ("alternating", rng.randint(1, 5) * scale, rng.randint(1, 8) * scale)


def markers(rng: Random, scale: int, base: int) -> Spec:
    return ("markers", rng.randint(1, 5), rng.randint(1, 4))


def keep_last(rng: Random, scale: int, base: int) -> Spec:
    return ("keep_last", rng.randint(1, 5), rng.randint(1, 4))


def last_of(rng: Random, scale: int, base: int) -> Spec:
    return ("last_of", rng.randint(1, 5), rng.randint(1, 5))


def pauses(rng: Random, scale: int, base: int) -> Spec:
    return ("pauses", rng.randint(0, 5) * scale)


def calendar(rng: Random, scale: int, base: int) -> Spec:
    zone = rng.choice(("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"))
    return ("calendar", rng.choice(("day", "day", "week", "month", "year")), zone)


#: name -> (maker, how often)
WINDOWS: dict[str, tuple[Maker, int]] = {
    "tumbling": (tumbling, 12),
    "sliding": (sliding, 16),
    "session": (session, 12),
    "rows": (by_rows, 10),
    "column": (by_column, 6),
    "last_rows": (last_rows, 7),
    "last_rows_by": (last_rows_by, 2),
    "mixed": (mixed, 10),
    "ticking": (ticking, 4),
    "per_instant": (per_instant, 3),
    "first_row": (first_row, 4),
    "ending": (ending, 3),
    "whole_and_rest": (whole_and_rest, 2),
    "on_change": (on_change, 4),
    "session_by": (session_by, 4),
    "session_on": (session_on, 2),
    "cumulate": (cumulate, 5),
    "landmark": (landmark, 5),
    "fixed": (fixed, 3),
    "fixed_band": (fixed_band, 2),
    "punctuated": (punctuated, 7),
    "delta": (delta, 6),
    "threshold": (threshold, 6),
    "alternating": (alternating, 2),
    "markers": (markers, 2),
    "keep_last": (keep_last, 2),
    "last_of": (last_of, 2),
    "pauses": (pauses, 2),
}
MAKERS = [maker for maker, weight in WINDOWS.values() for _ in range(weight)]

#: kinds that are added while running: what they give from then on needs nothing of the past of a key
ADDED = [
    WINDOWS[k][0]
    for k in ("tumbling", "sliding", "cumulate", "fixed", "fixed_band", "landmark", "session", "alternating")
]
#: kinds that begin with the next row of each key, added where none waits that lacks their columns
ADDED_AFRESH = [WINDOWS[k][0] for k in ("punctuated", "delta", "threshold")]
#: kinds that look back at rows, added where all rows so far are settled: what they see is clear only then
ADDED_IN_ORDER = [WINDOWS["rows"][0], mixed_without_columns]

AGGREGATES: list[tuple[Spec, int]] = [
    (("count_rows",), 6),
    (("sum", "v"), 10),
    (("sum", "w"), 4),
    (("count", "v"), 3),
    (("avg", "v"), 3),
    (("min", "v"), 4),
    (("max", "w"), 4),
    (("median", "v"), 4),
    (("quantile", "w", 0.9), 2),
    (("quantile", "v", 0.25, "lower"), 1),
    (("quantile", "w", 0.75, "higher"), 1),
    (("quantile", "s", 0.5, "disc"), 1),
    (("quantiles", "v", (0.0, 0.5, 0.99, 1.0)), 1),
    (("quantiles", "c", (0.0, 0.5, 1.0), "disc"), 1),
    (("quantiles", "w", (0.75, 0.25)), 1),
    (("sum", "c"), 1),
    (("min", "c"), 1),
    (("max", "c"), 1),
    (("avg", "c"), 1),
    (("median", "c"), 1),
    (("first", "c"), 1),
    (("mode", "c"), 1),
    (("count_distinct", "c"), 1),
    (("collect_list", "c"), 1),
    (("arg_max", "id", "c"), 1),
    (("first", "v"), 2),
    (("last", "s"), 2),
    (("collect_list", "id"), 8),
    (("collect_list", "v"), 1),
    (("string_agg", "s", ","), 3),
    (("stddev", "v"), 2),
    (("variance", "w"), 1),
    (("count_distinct", "w"), 1),
    (("count_distinct", "s"), 1),
    (("mode", "w"), 1),
    (("mode", "s"), 1),
    (("arg_min", "id", "v"), 2),
    (("arg_max", "id", "w"), 2),
    (("arg_max", "s", "v"), 1),
    (("min_count", "v"), 1),
    (("max_count", "w"), 1),
    (("product", "p"), 1),
    (("range", "v"), 1),
    (("m4", "v"), 1),
    (("geometric_mean", "p"), 1),
    (("weighted_mean", "v", "p"), 1),
    (("bool_and", "b"), 1),
    (("bool_or", "e"), 1),
    (("count_if", "b"), 1),
    (("bit_and", "w"), 1),
    (("bit_or", "w"), 1),
    (("bit_xor", "w"), 1),
    (("try_sum", "w"), 1),
    (("skewness", "v"), 1),
    (("kurtosis", "w"), 1),
    (("corr", "v", "w"), 1),
    (("covar_pop", "v", "p"), 1),
    (("covar_samp", "w", "v"), 1),
    (("regr_slope", "v", "w"), 1),
    (("regr_count", "v", "w"), 1),
    (("collect_set", "s"), 1),
    (("collect_set", "v"), 1),
    (("histogram_numeric", "v", 3), 1),
    (("any_value", "s"), 1),
    (("sum_distinct", "w"), 1),
    (("avg_distinct", "v"), 1),
    (("list_distinct", "s"), 1),
    (("count_distinct_pairs", "w", "s"), 1),
    (("sum_filtered", "v", "b"), 1),
]
WEIGHTED_AGGREGATES = [spec for spec, weight in AGGREGATES for _ in range(weight)]


def random_windows(rng: Random, scale: int, base: int, with_calendar: bool, small: bool) -> list[Spec]:
    count = rng.choice((1, 1, 2) if small else (1, 1, 1, 2, 2, 3, 4, 5))
    made = [rng.choice(MAKERS)(rng, scale, base) for _ in range(count)]
    if with_calendar:
        made[0] = calendar(rng, scale, base)
    return made


def random_aggregates(rng: Random, small: bool) -> list[Spec]:
    return rng.sample(WEIGHTED_AGGREGATES, rng.choice((1, 1, 2) if small else (1, 1, 2, 3)))
