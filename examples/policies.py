"""Windows by policies: four questions that no size and slide can ask (and that used to need an operator each).

Run it: `python examples/policies.py`. Each function below is one question, as a query over generated readings.

(a) every 5 minutes the sum of the last million readings, none older than 10 minutes;
(b) the mean every 5 minutes, or at once when it has moved by more than 20 % since it was last given;
(c) on concept drift, the mean over the last million readings not older than 10 minutes;
(d) what a user did, 20 minutes after they stopped.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping
from typing import Any

import panes as pn

p = pn.policies
MINUTE = 60


def readings(n: int = 400, seed: int = 1) -> list[dict[str, Any]]:
    """A reading every few seconds, of a value that drifts and sometimes jumps; two users who come and go."""
    rng = random.Random(seed)
    t, level, rows = 0, 100.0, []
    for i in range(n):
        t += rng.choice((2, 5, 9, 20)) if rng.random() < 0.97 else 25 * MINUTE
        level *= 1 + rng.uniform(-0.01, 0.01)
        if i % 90 == 89:
            level *= rng.choice((0.6, 1.5))
        rows.append({"t": t, "user": rng.choice("xy"), "value": round(level + rng.uniform(-1, 1), 2)})
    return rows


def recent_sums(rows: list[dict[str, Any]], most: int = 1_000_000) -> Any:
    """(a) Two evictions in a list: the one that lets more rows go decides."""
    window = pn.policy(evict=[p.count(most), p.time(10 * MINUTE)], trigger=p.time(5 * MINUTE))
    return pn.stream(rows, time="t").window(recent=window).agg(total="sum(value)", n="count(*)")


class Moved(p.Trigger):
    """Fires when the mean of the readings since the last result is off the mean given last by more than a share."""

    columns = ("value",)

    def __init__(self, share: float) -> None:
        self.share = share
        self.sum, self.n = 0.0, 0
        self.given: float | None = None

    def notify(self, row: Mapping[str, Any]) -> bool:
        fires = False
        if self.n:
            mean = self.sum / self.n
            if self.given is None:
                self.given = mean
            elif abs(mean - self.given) > self.share * abs(self.given):
                self.given, fires = mean, True
        if fires:
            self.sum, self.n = 0.0, 0
        self.sum, self.n = self.sum + row["value"], self.n + 1
        return fires


def means_or_moves(rows: list[dict[str, Any]]) -> Any:
    """(b) A built-in trigger beside one of ours; all rows leave with each result."""
    window = pn.policy(trigger=[p.time(5 * MINUTE), Moved(0.2)])
    return pn.stream(rows, time="t").window(mean=window).agg(mean="avg(value)", n="count(*)")


class Drift(p.Trigger):
    """Page-Hinkley: fires when values have left the level they had, upwards or downwards."""

    columns = ("value",)

    def __init__(self, tolerance: float, threshold: float) -> None:
        self.tolerance, self.threshold = tolerance, threshold
        self.forget()

    def forget(self) -> None:
        self.n, self.mean, self.up, self.down = 0, 0.0, 0.0, 0.0

    def notify(self, row: Mapping[str, Any]) -> bool:
        self.n += 1
        self.mean += (row["value"] - self.mean) / self.n
        away = row["value"] - self.mean
        self.up = max(0.0, self.up + away - self.tolerance)
        self.down = max(0.0, self.down - away - self.tolerance)
        if max(self.up, self.down) <= self.threshold:
            return False
        self.forget()
        return True


def after_drift(rows: list[dict[str, Any]], most: int = 1_000_000) -> Any:
    """(c) The trigger looks at values, the evictions at age and number."""
    window = pn.policy(evict=[p.count(most), p.time(10 * MINUTE)], trigger=Drift(2, 60))
    return pn.stream(rows, time="t").window(drift=window).agg(mean="avg(value)", n="count(*)")


class Quiet(p.ActiveTrigger):
    """Sends a fake item at the end of a pause: nothing else happens then that could trigger."""

    def __init__(self, pause: int) -> None:
        self.pause = pause
        self.last: int | None = None

    def before(self, row: Mapping[str, Any]) -> list[int]:
        last, self.last = self.last, row[p.TIME]
        return [last + self.pause] if last is not None and row[p.TIME] - last > self.pause else []

    def notify(self, row: Mapping[str, Any]) -> bool:
        return False


def sessions(rows: list[dict[str, Any]]) -> Any:
    """(d) Per user, since the stream has a key; `active(tumble())` lets go what a fake item has given."""
    window = pn.policy(trigger=Quiet(20 * MINUTE), evict=p.active(p.tumble()))
    return pn.stream(rows, time="t", key="user").window(visit=window).agg(actions="count(*)", last="max(t)")


def check(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """(a) worked out by hand: (border, rows) of each window, to see that the query gives the same."""
    found, held, border = [], deque[int](), 5 * MINUTE
    for row in rows:
        while border <= row["t"]:
            while held and held[0] < border - 10 * MINUTE:
                held.popleft()
            if held:
                found.append((border, len(held)))
            border += 5 * MINUTE
        held.append(row["t"])
    return found


def main() -> None:
    rows = readings()
    for title, query in (
        ("(a) sums of the last 10 minutes, every 5", recent_sums(rows)),
        ("(b) means every 5 minutes, or when they move by 20 %", means_or_moves(rows)),
        ("(c) the mean after each drift", after_drift(rows)),
        ("(d) what users did before 20 quiet minutes", sessions(rows)),
    ):
        results = query.to_pandas()
        print(f"{title}: {len(results)} results")
        print(results.drop(columns=["window", "revision"]).head(3).to_string(index=False), end="\n\n")


if __name__ == "__main__":
    main()
