"""Durations, ticks and points of time, and what is refused."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pytest

from panes.errors import DataError, QueryError
from panes.units import (
    Calendar,
    Duration,
    Rows,
    TimeDomain,
    looks_like_duration,
    parse_calendar,
    parse_duration,
    rows,
)

NANOS = [
    ("10 s", 10**10),
    ("10s", 10**10),
    ("  10   Seconds ", 10**10),
    ("1.5 min", 9 * 10**10),
    (".5 ms", 500_000),
    ("100 ms", 10**8),
    ("100 millis", 10**8),
    ("7 us", 7000),
    ("7 µs", 7000),
    ("7 microseconds", 7000),
    ("3 ns", 3),
    ("2 hours", 7200 * 10**9),
    ("2 hrs", 7200 * 10**9),
    ("1 h 30 min", 5400 * 10**9),
    ("1 day, 2 h", 26 * 3600 * 10**9),
    ("1 day", 86400 * 10**9),
    ("2 weeks", 14 * 86400 * 10**9),
    ("0.1 s", 10**8),
    ("-3 s", -3 * 10**9),
    (timedelta(milliseconds=5), 5 * 10**6),
    (pd.Timedelta(5, "ns"), 5),
    (Duration(9), 9),
]


@pytest.mark.parametrize(("text", "nanos"), NANOS)
def test_a_duration_is_read_and_printed_back(text, nanos: int) -> None:
    assert parse_duration(text) == Duration(nanos)
    assert parse_duration(str(Duration(nanos))) == Duration(nanos)


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("1 month", Calendar(1, "month")),
        ("3 months", Calendar(3, "month")),
        ("2 years", Calendar(2, "year")),
        ("1 day", Calendar(1, "day")),
        ("7 days", Calendar(7, "day")),
        ("1 week", Calendar(1, "week")),
        ("24 hours", None),
        ("1.5 days", None),
        ("1 day 1 h", None),
    ],
)
def test_calendar_units_are_told_from_durations(text: str, unit: Calendar | None) -> None:
    assert parse_calendar(text) == unit


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("10", 'has no unit: write "10 s"'),
        ("10 parsecs", "unknown unit 'parsecs'"),
        ("5 M", "minutes or months"),
        ("soon", "is not a duration"),
        ("", "is not a duration"),
        ("s 10", "is not a duration"),
        ("0.5 ns", "whole number of nanoseconds"),
        ("1.5 months", "whole numbers"),
        ("1 month 2 days", "mixes units"),
    ],
)
def test_text_that_is_not_a_duration_is_refused(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        parse_duration(text)


def test_what_looks_like_a_duration() -> None:
    yes = ["10 s", "10", "5 parsecs", " 1.5 min ", "1 h 30 min"]
    no = ["gap", "timeout_ms * 2", "10 + x", "case when a then 1 else 2 end", ""]
    assert [looks_like_duration(t) for t in yes + no] == [True] * len(yes) + [False] * len(no)


def test_durations_become_ticks_of_the_time_column() -> None:
    assert TimeDomain("ms").ticks("10 s") == 10_000
    assert TimeDomain("ns").ticks(timedelta(seconds=1)) == 10**9
    assert TimeDomain("ms", integer=True).ticks(250) == 250
    assert TimeDomain("ms", integer=True).ticks(np.int64(250)) == 250
    assert TimeDomain("ms", integer=True).ticks("1 s") == 1000


@pytest.mark.parametrize(
    ("domain", "size", "message"),
    [
        (TimeDomain("s"), "100 ms", "'100 ms' is not a whole number of ticks: time counts in s"),
        (TimeDomain("s"), 5, 'has no unit: time is a timestamp, write "5 s"'),
        (TimeDomain("ms", integer=True), 2.5, "must be a whole number"),
        (TimeDomain("ms", integer=True), float("nan"), "must be a whole number"),
        (TimeDomain("ms", integer=True), True, "is not a duration"),
        (TimeDomain("ms"), "0 s", "must be positive"),
        (TimeDomain("ms"), "-1 s", "must be positive"),
        (TimeDomain("ns"), "1000 weeks 900000 weeks", "too large"),
        (TimeDomain("ms", integer=True), 2**63, "too large"),
        (TimeDomain("s"), "1 month", "varies in length"),
        (TimeDomain("s"), None, "is not a duration"),
    ],
)
def test_sizes_that_do_not_fit_the_time_column_are_refused(domain: TimeDomain, size, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        domain.ticks(size, argument="gap")


POINTS = [
    ("1970-01-01", 0),
    ("1970-01-01T00:00:01.5Z", 1500),
    ("1969-12-31 23:59:59", -1000),
    ("1970-01-01T02:00:00+02:00", 0),
    ("1970-01-01T02:00+0200", 0),
    ("1969-12-31T19:00-05", 0),
    (datetime(1970, 1, 2), 86_400_000),
    (datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), 0),
    (np.datetime64("1970-01-01T00:00:01"), 1000),
    (np.datetime64("1970-02"), 31 * 86_400_000),
    (pd.Timestamp("1970-01-01T00:00:00.001"), 1),
    (42, 42),
]


@pytest.mark.parametrize(("value", "tick"), POINTS)
def test_a_moment_becomes_a_tick(value, tick: int) -> None:
    assert TimeDomain("ms").point(value) == tick


def test_moments_between_two_ticks_are_refused() -> None:
    assert TimeDomain("ns").point("1970-01-01T00:00:00.123456789") == 123456789
    with pytest.raises(QueryError, match="between two ticks"):
        TimeDomain("us").point("1970-01-01T00:00:00.123456789")
    with pytest.raises(QueryError, match="out of the range"):
        TimeDomain("ns").point("2500-01-01")


def test_a_tick_becomes_a_datetime_in_its_zone() -> None:
    assert TimeDomain("us").to_datetime(-1) == datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=timezone.utc)
    berlin = TimeDomain("s", tz="Europe/Berlin").to_datetime(0)
    assert (berlin.hour, berlin.utcoffset()) == (1, timedelta(hours=1))
    with pytest.raises(DataError, match="years 1 to 9999"):
        TimeDomain("s").to_datetime(2**60)


def test_a_number_of_rows_is_a_whole_number_from_1() -> None:
    assert rows(3) == Rows(3)
    assert repr(rows(3)) == "rows(3)"
    for bad in (0, -1, 2.0, True, 2**63, "3"):
        with pytest.raises(QueryError, match="number of rows"):
            rows(bad)


def test_unknown_unit_of_time() -> None:
    with pytest.raises(QueryError, match="use one of s, ms, us, ns"):
        TimeDomain("m")
