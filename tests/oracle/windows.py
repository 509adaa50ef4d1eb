"""All due windows of one key, from scratch: one short function per window kind.

In: a spec (a tuple: kind, then its arguments in ticks), the accepted rows of one key sorted by
(time, arrival), and the watermark (infinite once the stream has finished). Out: a dict from bounds
`(start, end, lo, hi)` to the rows of the window; `start`/`end` are times, `lo`/`hi` positions or
values of the measure column, None where the kind has none.

Functions take *all* rows; those kinds that see rows only as the watermark passes them use `behind`. A window on time
takes a row if its end is after `row.after`: it was not closed for good when the row came. Sessions are no function of
rows alone, since one that is closed for good takes no part any more: `Sessions` takes rows one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

INFINITY = math.inf
#: window kinds that `emit_empty` gives without rows, too
HAVE_EMPTY = ("tumbling", "sliding", "ending")


class Row(NamedTuple):
    """One accepted row: number of arrival, event time in ticks, its columns, and `after`: windows that end up to here
    were closed for good when it came (the watermark that it met, less the lateness)."""

    seq: int
    time: int
    data: dict[str, Any]
    after: float = -math.inf


Rows = list[Row]
Spec = tuple[Any, ...]
Bounds = tuple[Any, Any, Any, Any]
Found = dict[Bounds, Rows]


def due_windows(spec: Spec, rows: Rows, watermark: float) -> Found:
    """Every window of `spec` that is due at `watermark`, with its rows."""
    return KINDS[spec[0]](rows, watermark, *spec[1:])


def behind(rows: Rows, watermark: float) -> Rows:
    """Rows that the watermark has passed."""
    return [r for r in rows if r.time <= watermark]


def starts_over(value: Any, size: Any, slide: Any, offset: Any) -> list[Any]:
    """Starts of all periodic windows [start, start + size) that hold `value`."""
    start = (value - offset) // slide * slide + offset
    found = []
    while start + size > value:
        found.append(start)
        start -= slide
    return found


def with_empty(spec: Spec, found: Found, upto: float) -> Found:
    """`emit_empty`: all periodic windows on time from the first that holds a row up to `upto`."""
    if spec[0] not in HAVE_EMPTY or not found:
        return found
    size = spec[1]
    slide = size if spec[0] == "tumbling" else spec[2]
    filled: Found = {}
    start = min(start for start, _, _, _ in found)
    while start + size <= upto:
        bounds = (start, start + size, None, None)
        filled[bounds] = found.get(bounds, [])
        start += slide
    return filled


# Context free, on time


def sliding(rows: Rows, watermark: float, size: int, slide: int, offset: int = 0) -> Found:
    found: Found = {}
    for r in rows:
        for start in starts_over(r.time, size, slide, offset):
            if r.after < start + size <= watermark:
                found.setdefault((start, start + size, None, None), []).append(r)
    return found


def tumbling(rows: Rows, watermark: float, size: int, offset: int = 0) -> Found:
    return sliding(rows, watermark, size, size, offset)


def cumulate(rows: Rows, watermark: float, step: int, longest: int) -> Found:
    found: Found = {}
    for r in rows:
        start = r.time // longest * longest
        for end in range(start + step, start + longest + 1, step):
            if max(r.time, r.after) < end <= watermark:
                found.setdefault((start, end, None, None), []).append(r)
    return found


def landmark(rows: Rows, watermark: float, start: int, every: int) -> Found:
    """Only ends whose last step holds a row, so each such row names one end."""
    since = [r for r in rows if r.time >= start]
    news = [(r, start + ((r.time - start) // every + 1) * every) for r in since]
    ends = {end for r, end in news if r.after < end <= watermark}
    return {(start, end, None, None): [r for r in since if max(r.time, r.after) < end] for end in ends}


def fixed(rows: Rows, watermark: float, start: int, end: int) -> Found:
    inside = [r for r in rows if start <= r.time < end and r.after < end]
    return {(start, end, None, None): inside} if inside and end <= watermark else {}


def fixed_band(rows: Rows, watermark: float, start: int, size: int) -> Found:
    return fixed(rows, watermark, start, start + size)


def calendar(rows: Rows, watermark: float, unit: str, zone: str) -> Found:
    """Times are seconds since the epoch here."""
    found: Found = {}
    for r in rows:
        start, end = calendar_window(r.time, unit, zone)
        if r.after < end <= watermark:
            found.setdefault((start, end, None, None), []).append(r)
    return found


@lru_cache(maxsize=100_000)
def calendar_window(second: int, unit: str, zone: str) -> tuple[int, int]:
    tz = ZoneInfo(zone)
    day = (datetime(1970, 1, 1, tzinfo=ZoneInfo("UTC")) + timedelta(seconds=second)).astimezone(tz).date()
    if unit == "day":
        first, after = day, day + timedelta(days=1)
    elif unit == "week":
        first = day - timedelta(days=day.weekday())
        after = first + timedelta(days=7)
    elif unit == "month":
        first = day.replace(day=1)
        after = (first + timedelta(days=32)).replace(day=1)
    else:
        first, after = date(day.year, 1, 1), date(day.year + 1, 1, 1)
    return midnight(first, tz), midnight(after, tz)


def midnight(day: date, tz: ZoneInfo) -> int:
    return int(datetime.combine(day, time(), tz).timestamp())


def alternating(rows: Rows, watermark: float, short: int, long: int) -> Found:
    """User-defined context free: windows of `short` and `long` ticks in turn, without gaps, from 0."""
    found: Found = {}
    for r in rows:
        start = r.time // (short + long) * (short + long)
        middle, end = start + short, start + short + long
        start, end = (start, middle) if r.time < middle else (middle, end)
        if r.after < end <= watermark:
            found.setdefault((start, end, None, None), []).append(r)
    return found


def first_and_last_end(spec: Spec, time: int) -> tuple[float, float] | None:
    """When the first and the last window on time that hold this time end; None if none does."""
    kind, arguments = spec[0], spec[1:]
    if kind in ("tumbling", "sliding", "ending"):
        size = arguments[0]
        slide = size if kind == "tumbling" else arguments[1]
        offset = -size if kind == "ending" else dict(enumerate(arguments)).get(1 if kind == "tumbling" else 2, 0)
        ends = [start + size for start in starts_over(time, size, slide, offset)]
    elif kind == "cumulate":
        step, longest = arguments
        start = time // longest * longest
        ends = [end for end in range(start + step, start + longest + 1, step) if end > time]
    elif kind == "landmark":
        start, every = arguments
        ends = [start + ((time - start) // every + 1) * every, INFINITY] if time >= start else []
    elif kind in ("fixed", "fixed_band"):
        start, end = arguments if kind == "fixed" else (arguments[0], sum(arguments))
        ends = [end] if start <= time < end else []
    elif kind == "calendar":
        ends = [calendar_window(time, *arguments)[1]]
    else:
        short, long = arguments
        start = time // (short + long) * (short + long)
        ends = [start + short if time < start + short else start + short + long]
    return (min(ends), max(ends)) if ends else None


# On rows, and on an advancing column


def by_rows(rows: Rows, watermark: float, size: int, slide: int) -> Found:
    seen = behind(rows, watermark)
    return {
        (None, None, first, first + size): seen[first : first + size] for first in range(0, len(seen) - size + 1, slide)
    }


def by_column(rows: Rows, watermark: float, column: str, size: Any, slide: Any, offset: Any = 0) -> Found:
    """Due when a row at or after the end has been passed: values never go back, so the last row tells."""
    found: Found = {}
    seen = behind(rows, watermark)
    for r in seen:
        for start in starts_over(r.data[column], size, slide, offset):
            if watermark == INFINITY or start + size <= seen[-1].data[column]:
                found.setdefault((None, None, start, start + size), []).append(r)
    return found


def last_rows(rows: Rows, watermark: float, count: int, every: int) -> Found:
    """The last `count` rows at each tick that has a row in its last period."""
    found: Found = {}
    for tick in {(r.time // every + 1) * every for r in rows}:
        if tick <= watermark:
            before = [r for r in rows if r.time < tick]
            last = before[-count:]
            found[(last[0].time, tick, len(before) - len(last), len(before))] = last
    return found


def last_rows_by(rows: Rows, watermark: float, column: str, count: int, every: Any) -> Found:
    """The same with ticks on an advancing column."""
    found: Found = {}
    seen = behind(rows, watermark)
    for tick in {(r.data[column] // every + 1) * every for r in seen}:
        if watermark == INFINITY or tick <= seen[-1].data[column]:
            before = [r for r in seen if r.data[column] < tick]
            last = before[-count:]
            found[(last[0].time, None, len(before) - len(last), len(before))] = last
    return found


def place(row: Row, position: int, on: str) -> Any:
    """Where a row lies on a measure: "time", "rows", or a column."""
    return {"time": row.time, "rows": position}.get(on, row.data.get(on))


def last_of(seen: Rows, stop: int, size_on: str, size: Any, tick: Any) -> tuple[Bounds, Rows]:
    """The window that ends with row stop - 1 of `seen` and holds the last `size` on a measure."""
    last = seen[stop - 1]
    top = place(last, stop - 1, size_on)
    held = [i for i in range(stop) if place(seen[i], i, size_on) > top - size]
    start, end = (last.time + 1 - size, last.time + 1) if size_on == "time" else (seen[held[0]].time, tick)
    return (start, end, held[0], stop), [seen[i] for i in held]


def mixed(
    rows: Rows, watermark: float, size_on: str, size: Any, every_on: str, every: Any, partial: bool = False
) -> Found:
    """At each multiple of `every` on one measure whose last step holds a row: the last `size` on another."""
    seen = behind(rows, watermark)
    if not seen:
        return {}
    places = [place(r, i, every_on) for i, r in enumerate(seen)]
    reached = {"time": watermark, "rows": len(seen)}.get(every_on, places[-1])
    if watermark == INFINITY and (every_on != "rows" or partial):
        reached = INFINITY
    found: Found = {}
    for tick in {(p // every + 1) * every for p in places}:
        if tick <= reached:
            stop = sum(p < tick for p in places)
            bounds, held = last_of(seen, stop, size_on, size, tick if every_on == "time" else None)
            found[bounds] = held
    return found


def ticking(
    rows: Rows, watermark: float, size_on: str, size: Any, every_on: str, every: Any, end: float = -INFINITY
) -> list[tuple[Bounds, Rows]]:
    """As `mixed`, but at all multiples of `every` after the first row, whether or not rows have come since.

    `end`: how far ticks on time go once the stream has ended; those on a column go to the one after the last row.
    """
    seen = behind(rows, watermark)
    if not seen:
        return []
    places = [place(r, i, every_on) for i, r in enumerate(seen)]
    if every_on == "time":
        reached = watermark if watermark < INFINITY else end
    else:
        reached = places[-1] if watermark < INFINITY else (places[-1] // every + 1) * every
    found = []
    step = places[0] // every + 1
    while step * every <= reached:
        stop = sum(p < step * every for p in places)
        found.append(last_of(seen, stop, size_on, size, step * every if every_on == "time" else None))
        step += 1
    return found


def per_instant(rows: Rows, watermark: float, size_on: str, size: Any, every: int, partial: bool = False) -> Found:
    """The last `size` after each instant that has a row with number every, 2 * every, ... of its key."""
    found: Found = {}
    instants = sorted({r.time for r in rows if r.time < watermark})
    for instant in instants:
        before, stop = sum(r.time < instant for r in rows), sum(r.time <= instant for r in rows)
        at_end = partial and watermark == INFINITY and instant == instants[-1]
        if stop // every > before // every or at_end:
            bounds, held = last_of(rows, stop, size_on, size, instant + 1)
            found[bounds] = held
    return found


def first_row(rows: Rows, watermark: float, size: int, slide: int) -> Found:
    """Periodic windows counted from the first row."""
    return sliding(rows, watermark, size, slide, rows[0].time) if rows else {}


def ending(rows: Rows, watermark: float, size: int, slide: int) -> Found:
    """Periodic windows that end, not start, at multiples of the slide."""
    return sliding(rows, watermark, size, slide, -size)


def whole_and_rest(rows: Rows, watermark: float, size: int) -> Found:
    """Windows of `size` rows one after the other; the end of the stream ends the last one."""
    seen = behind(rows, watermark)
    rest = range(0, len(seen), size) if watermark == INFINITY else range(0, len(seen) - size + 1, size)
    return {(None, None, i, min(i + size, len(seen))): seen[i : i + size] for i in rest}


def changed(found: Found) -> Found:
    """Without windows that have the same rows as the one that ended before them."""
    kept: Found = {}
    before: Rows | None = None
    for bounds, held in sorted(found.items(), key=lambda item: item[0][:2]):
        if held != before:
            kept[bounds] = held
        before = held
    return kept


# Sessions


class Session:
    """Rows that belong together; the end is the largest time + gap."""

    def __init__(self, rows: Rows, end: int) -> None:
        self.rows = sorted(rows, key=lambda r: (r.time, r.seq))
        self.end = end

    @property
    def first(self) -> int:
        return self.rows[0].time


class Sessions:
    """The sessions of a label and a key. A row joins what it touches and is not closed for good, and is judged then."""

    def __init__(self) -> None:
        self.all: list[Session] = []

    def take(self, row: Row, gap: int, lateness: int, watermark: float) -> bool:
        """Whether the row was taken."""
        end = row.time + gap
        met = [s for s in self.all if s.end + lateness >= watermark and s.first <= end and s.end >= row.time]
        merged = Session([row, *(r for s in met for r in s.rows)], max([end, *(s.end for s in met)]))
        if merged.end + lateness < watermark:
            return False
        self.all = [*(s for s in self.all if s not in met), merged]
        return True

    def due(self, watermark: float) -> Found:
        return {(s.first, s.end, None, None): s.rows for s in self.all if s.end < watermark}


def session(rows: Rows, watermark: float, gap: int) -> Found:
    return session_by(rows, watermark, lambda r: gap)


def session_by(rows: Rows, watermark: float, gap: str | Callable[[Row], int]) -> Found:
    """Sessions of rows as they came; sessions that end before `after` are closed for good when a row comes."""
    held = Sessions()
    for r in sorted(rows, key=lambda r: r.seq):
        held.take(r, r.data[gap] if isinstance(gap, str) else gap(r), 0, r.after)
    return held.due(watermark)


# Data driven: rows in event-time order decide


def closed(first: int, held: Rows, closer: Row | None) -> tuple[Bounds, Rows]:
    """A window whose first row has position `first`, ended by `closer` (None: by the end of the stream)."""
    end = None if closer is None else closer.time
    return (held[0].time, end, first, first + len(held)), held


def session_on(rows: Rows, watermark: float, column: str, gap: Any) -> Found:
    """Sessions on an advancing column: the row that is too far closes; bounds are values of the column."""
    windows = []
    first = 0
    seen = behind(rows, watermark)
    for position, r in enumerate(seen):
        if position > 0 and r.data[column] > seen[position - 1].data[column] + gap:
            windows.append((seen[first:position], r.time))
            first = position
    if watermark == INFINITY and seen:
        windows.append((seen[first:], None))
    return {(held[0].time, end, held[0].data[column], held[-1].data[column] + gap): held for held, end in windows}


def punctuated(rows: Rows, watermark: float, begin: str | None, end: str | None = None) -> Found:
    windows = []
    opened: list[int] = []
    seen = behind(rows, watermark)
    if begin is None:
        return up_to_each(seen, str(end))
    for position, r in enumerate(seen):
        if (r.data[end] if end else r.data[begin]) is True:
            windows += [closed(first, seen[first:position], r) for first in opened]
            opened = []
        if r.data[begin] is True:
            opened.append(position)
    if watermark == INFINITY and end is None:
        windows += [closed(first, seen[first:], None) for first in opened]
    return dict(windows)


def up_to_each(seen: Rows, end: str) -> Found:
    """From the first row, or the row after the last end, to a row that matches, which is the last."""
    windows = []
    first = 0
    for position, r in enumerate(seen):
        if r.data[end] is True:
            windows.append(closed(first, seen[first : position + 1], r))
            first = position + 1
    return dict(windows)


def delta(rows: Rows, watermark: float, threshold: float, column: str) -> Found:
    windows = []
    first = 0
    reference = None
    seen = behind(rows, watermark)
    for position, r in enumerate(seen):
        value = r.data[column]
        if value is not None and reference is not None and abs(value - reference) > threshold:
            windows.append(closed(first, seen[first:position], r))
            first, reference = position, value
        elif reference is None:
            reference = value
    if watermark == INFINITY and seen:
        windows.append(closed(first, seen[first:], None))
    return dict(windows)


def threshold(rows: Rows, watermark: float, column: str, least: float, min_rows: int = 1) -> Found:
    """Runs of rows with column > least."""
    windows = []
    first: int | None = None
    seen = behind(rows, watermark)
    for position, r in enumerate(seen):
        value = r.data[column]
        if value is not None and value > least:
            first = position if first is None else first
        elif first is not None:
            windows.append(closed(first, seen[first:position], r))
            first = None
    if watermark == INFINITY and first is not None:
        windows.append(closed(first, seen[first:], None))
    return {bounds: held for bounds, held in windows if len(held) >= min_rows}


def markers(rows: Rows, watermark: float, size: int, slide: int) -> Found:
    """User-defined deterministic (SPEC W-05): begin at multiples of the slide, end `size` rows later."""
    seen = behind(rows, watermark)
    return dict(
        closed(position - size, seen[position - size : position], r)
        for position, r in enumerate(seen)
        if position >= size and (position - size) % slide == 0
    )


def keep_last(rows: Rows, watermark: float, keep: int, every: int) -> Found:
    """User-defined free form: hold at most `keep` rows, emit before every row whose position is k * every."""
    seen = behind(rows, watermark)
    return dict(
        closed(max(0, position - keep), seen[max(0, position - keep) : position], r)
        for position, r in enumerate(seen)
        if position > 0 and position % every == 0
    )


def last_of_every(rows: Rows, watermark: float, keep: int, every: int) -> Found:
    """User-defined free form that sees the watermark: the last `keep` of every `every` rows, ending with the last."""
    seen = behind(rows, watermark)
    return dict(
        closed(max(0, position + 1 - keep), seen[max(0, position + 1 - keep) : position + 1], r)
        for position, r in enumerate(seen)
        if (position + 1) % every == 0
    )


def pauses(rows: Rows, watermark: float, gap: int) -> Found:
    """User-defined free form that names its end: up to a pause longer than `gap`; the newer half, but of the first."""
    runs: list[tuple[int, Rows]] = []
    for position, r in enumerate(behind(rows, watermark)):
        if runs and r.time <= runs[-1][1][-1].time + gap:
            runs[-1][1].append(r)
        else:
            runs.append((position, [r]))
    found: Found = {}
    for number, (first, run) in enumerate(runs):
        end, gone = run[-1].time + gap, len(run) // 2 if number else 0
        if end < watermark:
            held = run[gone:]
            found[(held[0].time, end, first + gone, first + len(run))] = held
    return found


KINDS: dict[str, Callable[..., Found]] = {
    "tumbling": tumbling,
    "sliding": sliding,
    "cumulate": cumulate,
    "landmark": landmark,
    "fixed": fixed,
    "fixed_band": fixed_band,
    "calendar": calendar,
    "alternating": alternating,
    "rows": by_rows,
    "column": by_column,
    "mixed": mixed,
    "ticking": lambda rows, watermark, *spec: dict(ticking(rows, watermark, *spec)),
    "per_instant": per_instant,
    "first_row": first_row,
    "ending": ending,
    "whole_and_rest": whole_and_rest,
    "on_change": lambda rows, watermark, *inner: changed(due_windows(inner, rows, watermark)),
    "last_rows": last_rows,
    "last_rows_by": last_rows_by,
    "session": session,
    "session_by": session_by,
    "session_on": session_on,
    "punctuated": punctuated,
    "delta": delta,
    "threshold": threshold,
    "markers": markers,
    "keep_last": keep_last,
    "last_of": last_of_every,
    "pauses": pauses,
}
