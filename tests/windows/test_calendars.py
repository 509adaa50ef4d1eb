"""Calendar windows: local midnights across changes of the clock, in both directions and in odd zones."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from panes.errors import QueryError
from panes.units import TimeDomain
from panes.windows import sliding, tumbling
from panes.windows.base import NEVER

S = TimeDomain("s")
QUARTER = 900

#: (zone, a UTC date next to a change of its clock): summer, winter, midnight skipped, twice, a day left out
CHANGES = [
    ("Europe/Berlin", "2024-03-31"),
    ("Europe/Berlin", "2024-10-27"),
    ("America/New_York", "2024-03-10"),
    ("America/New_York", "2024-11-03"),
    ("Australia/Lord_Howe", "2024-04-06"),
    ("Asia/Kolkata", "2024-03-31"),
    ("America/Sao_Paulo", "2018-11-04"),
    ("America/Sao_Paulo", "2018-02-18"),
    ("Asia/Beirut", "2022-03-27"),
    ("America/Havana", "2024-03-10"),
    ("America/Havana", "2024-11-03"),
    ("Pacific/Apia", "2011-12-30"),
    ("Africa/Casablanca", "2024-03-10"),
    ("Asia/Kathmandu", "1986-01-01"),
    ("America/Toronto", "1919-03-31"),  # from 23:30 to 00:30
    ("UTC", "1970-01-01"),
]


def day_starts(tz: str, first: int, last: int) -> list[int]:
    """First quarter of an hour of each local date, by walking the clock."""
    where = ZoneInfo(tz)
    seen: date | None = None
    starts = []
    for tick in range(first, last + 1, QUARTER):
        local = datetime.fromtimestamp(tick, timezone.utc).astimezone(where).date()
        if seen is not None and local > seen:
            starts.append(tick)
        seen = local if seen is None else max(seen, local)
    return starts


@pytest.mark.parametrize(("tz", "day"), CHANGES)
def test_days_start_when_the_local_date_changes(tz: str, day: str) -> None:
    middle = S.point(day)
    first, last = middle - 5 * 86400, middle + 5 * 86400
    expected = day_starts(tz, first, last)
    window = tumbling("1 day", tz=tz).bind(S)
    assert window.edges(first, last).tolist() == expected
    starts, ends = window.ending(expected[0], expected[-1])
    assert starts.tolist() == expected[:-1]
    assert ends.tolist() == expected[1:]
    for lo, hi in pairwise(expected):
        for value in (lo, (lo + hi) // 2, hi - 1):
            assert [a.tolist() for a in window.containing(value)] == [[lo], [hi]]
            assert window.horizon(value) == lo


@pytest.mark.parametrize(("tz", "day"), CHANGES)
def test_seven_days_every_day(tz: str, day: str) -> None:
    middle = S.point(day)
    days = day_starts(tz, middle - 20 * 86400, middle + 20 * 86400)
    window = sliding("7 days", every="1 day", tz=tz).bind(S)
    starts, ends = window.ending(days[7] - 1, days[-1])
    if tz != "Pacific/Apia":
        assert starts.tolist() == days[:-7]
    else:  # seven dates of which one never was
        assert 6 in {days.index(e) - days.index(s) for s, e in zip(starts.tolist(), ends.tolist(), strict=True)}
    assert ends.tolist() == days[7:] if tz != "Pacific/Apia" else True
    assert (ends - starts <= window.reach).all()


def test_days_of_clock_changes_have_23_or_25_hours() -> None:
    window = tumbling("1 day", tz="Europe/Berlin").bind(S)
    for day, hours in (("2024-03-31", 23), ("2024-10-27", 25), ("2024-06-01", 24)):
        (start,), (end,) = window.containing(S.point(f"{day}T12:00"))
        assert (end - start) == hours * 3600


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_months_in_every_unit(unit: str) -> None:
    domain = TimeDomain(unit)
    window = tumbling("1 month", tz="Europe/Berlin").bind(domain)
    edges = window.edges(domain.point("2024-01-15"), domain.point("2024-05-15"))
    expected = ["2024-01-31T23:00", "2024-02-29T23:00", "2024-03-31T22:00", "2024-04-30T22:00"]
    assert edges.tolist() == [domain.point(e) for e in expected]
    assert edges.dtype == np.int64


CASES = [
    (tumbling("1 month"), "2024-02-10", "2024-02-01", "2024-03-01"),
    (tumbling("3 months"), "2024-02-10", "2024-01-01", "2024-04-01"),
    (tumbling("1 year"), "1969-12-31T23:59:59", "1969-01-01", "1970-01-01"),
    (tumbling("1 week", tz="UTC"), "2024-05-15", "2024-05-13", "2024-05-20"),
    (tumbling("1 week", tz="UTC", offset="-1 day"), "2024-05-15", "2024-05-12", "2024-05-19"),
    (
        tumbling("1 day", tz="UTC", offset="6 hours"),
        "2024-05-15T03:00",
        "2024-05-14T06:00",
        "2024-05-15T06:00",
    ),
    (tumbling("1 year", offset="3 months"), "2024-03-31", "2023-04-01", "2024-04-01"),
    (tumbling("1 month", offset="30 days"), "2024-02-29", "2024-01-31", "2024-03-02"),
    (tumbling("1 year"), "0100-06-01", "0100-01-01", "0101-01-01"),
]


@pytest.mark.parametrize(("spec", "value", "start", "end"), CASES)
def test_window_of_a_date(spec, value: str, start: str, end: str) -> None:
    window = spec.bind(S)
    assert [a.tolist() for a in window.containing(S.point(value))] == [[S.point(start)], [S.point(end)]]


def test_a_month_every_day() -> None:
    window = sliding("1 month", every="1 day", tz="UTC").bind(S)
    starts, ends = window.ending(S.point("2024-02-28"), S.point("2024-02-29"))
    shown = [
        (str(np.datetime64(int(s), "s"))[:10], str(np.datetime64(int(e), "s"))[:10])
        for s, e in zip(starts, ends, strict=True)
    ]
    assert shown == [(f"2024-01-{d}", "2024-02-29") for d in (29, 30, 31)]


def test_two_days_every_week_leave_gaps() -> None:
    window = sliding("2 days", every="1 week", tz="Europe/Berlin", offset="5 days").bind(S)
    assert len(window.containing(S.point("2024-05-15"))[0]) == 0
    (start,), (end,) = window.containing(S.point("2024-05-18T12:00"))
    assert S.to_datetime(int(start)).astimezone(ZoneInfo("Europe/Berlin")).strftime("%a %H") == "Sat 00"
    assert end - start == 48 * 3600
    assert window.horizon(S.point("2024-05-15")) == start
    assert window.horizon(int(end)) == start + 7 * 86400


def test_random_ranges_against_all_windows() -> None:
    rng = np.random.default_rng(3)
    for spec in (
        sliding("5 days", every="3 days", tz="Europe/Berlin"),
        sliding("2 months", every="1 month", tz="America/New_York"),
        sliding("1 week", every="2 weeks", tz="Asia/Tokyo"),
        sliding("1 month", every="2 weeks", tz="Australia/Sydney"),
    ):
        window = spec.bind(S)
        everything = list(zip(*(a.tolist() for a in window.ending(0, 10**9)), strict=True))
        assert everything == sorted(everything, key=lambda w: (w[1], w[0]))
        for _ in range(30):
            lo = int(rng.integers(10**8, 9 * 10**8))
            hi = lo + int(rng.integers(0, 10**7))
            due = [w for w in everything if lo < w[1] <= hi]
            assert list(zip(*(a.tolist() for a in window.ending(lo, hi)), strict=True)) == due
            assert window.edges(lo, hi).tolist() == sorted({e for w in everything for e in w if lo < e <= hi})
            held = [w for w in everything if w[0] <= lo < w[1]]
            assert list(zip(*(a.tolist() for a in window.containing(lo)), strict=True)) == held
            assert window.horizon(lo) == min(w[0] for w in everything if w[1] > lo)


def test_days_without_a_zone_are_plain_durations() -> None:
    assert tumbling("1 day").bind(S).edges(0, 2 * 86400).tolist() == [86400, 2 * 86400]


@pytest.mark.parametrize("unit", ["s", "ns"])
def test_far_away_times_have_no_windows(unit: str) -> None:
    window = tumbling("1 month", tz="Europe/Berlin").bind(TimeDomain(unit))
    for value in (2**63 - 1, -(2**63)):
        assert len(window.containing(value)[0]) == 0
    assert window.horizon(2**63 - 1) == NEVER
    assert window.horizon(-(2**63)) < 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sliding("1 month", every="12 hours").bind(S), "every='12 hours' must be in days"),
        (lambda: sliding("36 hours", every="1 day", tz="UTC").bind(S), "size='36 hours' must be in days"),
        (lambda: tumbling("1 month", offset=5).bind(S), "must be text with a unit"),
        (lambda: tumbling("1 month", offset="30 hours").bind(S), "time of day"),
        (lambda: tumbling("1 day", tz="UTC", offset="1 month").bind(S), "must be in days"),
        (lambda: tumbling("5000 years").bind(S), "too large"),
        (lambda: tumbling("1 month", on="km").bind(S), "must be a number"),
    ],
)
def test_misuse_of_calendar_windows_is_refused(make, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        make()


def test_timedelta_days_with_a_zone_are_refused() -> None:
    with pytest.raises(QueryError, match="depend on a time zone"):
        tumbling(timedelta(hours=5), tz="UTC").bind(S)


def test_calendar_windows_that_end_at_every_slide() -> None:
    window = sliding("1 month", every="1 week", align="end").bind(TimeDomain("s"))
    _, ends = window.ending(moment("2025-03-01"), moment("2025-04-01"))
    assert [str(np.datetime64(int(e), "s"))[:10] for e in ends] == [
        "2025-03-03", "2025-03-10", "2025-03-17", "2025-03-24", "2025-03-31"
    ]  # fmt: skip
    starts, _ = window.ending(moment("2025-03-30"), moment("2025-04-01"))
    assert [str(np.datetime64(int(s), "s"))[:10] for s in starts] == ["2025-02-28"]
    starts, ends = window.containing(moment("2025-02-28"))
    assert len(starts) == 5
    assert all(s <= moment("2025-02-28") < e for s, e in zip(starts, ends))
    assert window.horizon(moment("2025-03-30")) == moment("2025-02-28")


def test_months_every_month_are_the_same_windows_either_way() -> None:
    span = (moment("2024-01-01"), moment("2026-01-01"))
    for tz in ("UTC", "Europe/Berlin"):
        one, other = (
            sliding("3 months", every="1 month", tz=tz, align=align).bind(TimeDomain("s")).ending(*span)
            for align in ("start", "end")
        )
        assert np.array_equal(one[0], other[0])
        assert np.array_equal(one[1], other[1])


def moment(date: str) -> int:
    return int(np.datetime64(date, "s").astype(np.int64))
