"""Whether the engine said what the oracle said: results of one call as a multiset, and the ledger."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from tests.oracle.oracle import Oracle, Result

#: aggregates whose last digits depend on the order of additions
APPROXIMATE = {"avg", "stddev", "variance", "geometric_mean", "product", "median", "quantile", "quantiles"}
APPROXIMATE |= {
    "skewness",
    "kurtosis",
    "corr",
    "covar_pop",
    "covar_samp",
    "regr_slope",
    "histogram_numeric",
    "avg_distinct",
}


def same_value(want: Any, got: Any, approximate: bool) -> bool:
    if isinstance(want, Decimal) and isinstance(got, Decimal):
        return abs(want - got) < Decimal("0.0001") if approximate else want == got
    if isinstance(want, float) or isinstance(got, float):
        if want is None or got is None:
            return False
        if want != want or got != got:
            return want != want and got != got
        return math.isclose(want, got, rel_tol=1e-9, abs_tol=1e-9) if approximate else want == got
    if isinstance(want, list) and isinstance(got, list):
        return len(want) == len(got) and all(same_value(a, b, approximate) for a, b in zip(want, got, strict=True))
    if isinstance(want, dict) and isinstance(got, dict):
        return want.keys() == got.keys() and all(same_value(want[k], got[k], approximate) for k in want)
    return bool(want == got)


def same_values(want: Sequence[Any], got: Sequence[Any], aggregates: Sequence[tuple[Any, ...]]) -> bool:
    return all(same_value(w, g, a[0] in APPROXIMATE) for w, g, a in zip(want, got, aggregates, strict=True))


def difference(
    want: list[Result],
    got: list[Result],
    aggregates: Sequence[tuple[Any, ...]],
    own: Mapping[str, Sequence[tuple[Any, ...]]],
) -> str | None:
    """None, or what is missing, too much or different. `own`: aggregates of windows that have some of their own."""
    wanted = {(*r[:8], r.final): r.values for r in want}
    found = {(*r[:8], r.final): r.values for r in got}
    if len(found) != len(got):
        twice = [k for k, n in Counter(r[:8] for r in got).items() if n > 1]
        return f"given twice: {show(twice[0])}"
    if wanted == found:
        return None
    lines = [f"missing: {show(k)} = {wanted[k]}" for k in wanted if k not in found]
    lines += [f"too much: {show(k)} = {found[k]}" for k in found if k not in wanted]
    lines += [
        f"values: {show(k)} should be {wanted[k]}, is {found[k]}"
        for k in wanted
        if k in found and not same_values(wanted[k], found[k], own.get(k[1], aggregates))
    ]
    return "\n".join(lines) or None


def out_of_order(given: list[Result]) -> str | None:
    """What one call gives: withdrawals first, then the others; both in the order of their ends, none last."""
    places = [(not r.void, r.end is None, 0 if r.end is None else r.end) for r in given]
    wrong = next((i for i in range(1, len(places)) if places[i] < places[i - 1]), None)
    return None if wrong is None else f"order: {show(given[wrong][:8])} comes after {show(given[wrong - 1][:8])}"


def show(identity: tuple[Any, ...]) -> str:
    key, window, start, end, lo, hi, revision, void, *final = identity
    positions = f" from {lo} to {hi}" if lo is not None or hi is not None else ""
    early = " early" if final == [False] else ""
    return f"{window} key {key} [{start}, {end}){positions} revision {revision}{' void' if void else ''}{early}"


#: label -> whether a window of it began before the label was added, so that there may be no or an old answer
Began = dict[str, Callable[[Result], bool]]
#: what the oracle gave last for windows that began before their label was added
Known = dict[tuple[Any, ...], tuple[Any, ...]]


def split_added(results: list[Result], early: Began) -> tuple[list[Result], list[Result]]:
    """(results with one right answer, results of windows that began before their label was added)."""
    if not early:
        return results, []
    before = [r.window in early and early[r.window](r) for r in results]
    return (
        [r for r, began in zip(results, before, strict=True) if not began],
        [r for r, began in zip(results, before, strict=True) if began],
    )


def wrong_early(early: list[Result], want_early: list[Result], known: Known, oracle: Oracle) -> str | None:
    """A warm start may give windows that began earlier, but only with all their rows at some moment of the step."""
    for r in early:
        right = [known[r[:6]]] if r[:6] in known else []
        right += [w.values for w in want_early if w[:6] == r[:6]]
        held = oracle.due(r.key, r.window).get((r.start, r.end, r.lo, r.hi))
        if held is not None:
            right.append(oracle.values(r.window, held))
        if not r.void and not any(same_values(v, r.values, oracle.aggregates_of(r.window)) for v in right):
            return f"warm start: {show(r[:8])} should be {right or 'not given'}, is {r.values}"
    return None


def ledger_difference(
    oracle: Oracle, rows_in: int, rows_used: int, late: list[tuple[Any, str]], missed: dict[str, int]
) -> str | None:
    """`late`: (id of the row, reason) of the engine; `missed`: rows that windows had to miss, by label."""
    if rows_in != rows_used + len(late):
        return f"rows in {rows_in} != rows used {rows_used} + rows late {len(late)}"
    if (rows_in, rows_used) != (oracle.rows_in, oracle.rows_used):
        return f"rows in, used: should be {oracle.rows_in}, {oracle.rows_used}, are {rows_in}, {rows_used}"
    wanted = Counter((entry.data["id"], entry.reason) for entry in oracle.late)
    found = Counter(late)
    if wanted != found:
        return f"ledger: should hold {sorted((wanted - found).items())}, not {sorted((found - wanted).items())}"
    misses = {label: n for label, n in oracle.missed.items() if n and label in missed}
    if misses != {label: n for label, n in missed.items() if n}:
        return f"missed by window: should be {misses}, is {missed}"
    return None
