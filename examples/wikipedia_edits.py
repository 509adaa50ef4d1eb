"""A day of Wikipedia edits through twenty windows at once: `make demo`.

39,244 real edits of 12 September 2015. One query with twenty windows of six kinds, one with a session per user,
and one with the busiest wikis of each hour. Prints tables; writes out/wikipedia.png and out/wikipedia.html.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json
from rich.console import Console
from rich.table import Table

import panes as pn

HERE = Path(__file__).parent
EDITS = HERE / "data" / "wikipedia" / "wikiticker-2015-09-12-sampled.json.gz"
OUT = HERE.parent / "out"

#: Twenty windows of six kinds. They share one set of slices: each edit is looked at once.
WINDOWS = {
    # one period after the other
    "minute": pn.tumbling("1 min"),
    "5 minutes": pn.tumbling("5 min"),
    "quarter": pn.tumbling("15 min"),
    "hour": pn.tumbling("1 h"),
    "6 hours": pn.tumbling("6 h"),
    # overlapping periods, and one with gaps
    "last 5 min": pn.sliding("5 min", every="1 min"),
    "last 10 min": pn.sliding("10 min", every="30 s"),
    "last hour": pn.sliding("1 h", every="5 min"),
    "last 3 hours": pn.sliding("3 h", every="1 h"),
    "start of hour": pn.sliding("10 min", every="1 h"),
    # busy stretches, until nobody edits for a while
    "busy, 5 s": pn.session("5 s"),
    "busy, 8 s": pn.session("8 s"),
    "busy, 10 s": pn.session("10 s"),
    # so many edits
    "1000 edits": pn.tumbling(pn.rows(1000)),
    "500 by 100": pn.sliding(pn.rows(500), every=pn.rows(100)),
    "last 100": pn.sliding(pn.rows(100), every="15 min"),
    # growing windows, and a day of another time zone
    "today so far": pn.cumulate("1 h", max="1 day"),
    "since noon": pn.landmark("2015-09-12 12:00", every="2 h"),
    "New York day": pn.tumbling("1 day", tz="America/New_York"),
    # decided by the edits themselves
    "robots only": pn.threshold("isRobot", min_rows=5),
}

console = Console() if Console().is_terminal else Console(width=120)


def load_edits() -> pa.Table:
    """The edits as a live feed would bring them: each one delayed by some seconds, so not in order."""
    with pa.CompressedInputStream(str(EDITS), "gzip") as file:
        table = pa.json.read_json(file)
    table = table.set_column(0, "time", table["time"].cast(pa.timestamp("ms", "UTC")))
    delay = np.random.default_rng(seed=2015).exponential(scale=4_000, size=len(table))
    arrival = table["time"].cast(pa.int64()).to_numpy() + delay
    return table.take(np.argsort(arrival, kind="stable"))


def timed(query: pn.Query, rows: int) -> tuple[list[dict[str, Any]], str]:
    """Run a query: its results, and how fast it was."""
    start = perf_counter()
    results = list(query.rows())
    seconds = perf_counter() - start
    return results, f"{rows:,} edits in {seconds:.2f} s ({rows / seconds:,.0f} rows/s), {len(results):,} results"


def span(row: dict[str, Any]) -> str:
    """Where a window lies: in time, or, if it counts edits, in their number."""
    start, end = row["window_start"], row["window_end"]
    if start is None:
        return f"edits {row['window_from']:,} to {row['window_to']:,}"
    return f"{start:%H:%M:%S} - {end:%H:%M:%S}" if end else f"{start:%H:%M:%S} - end"


def twenty_windows(edits: pa.Table) -> pn.Query:
    query = (
        pn.stream(edits, time="time", watermark="30 s")
        .window(**WINDOWS)
        .agg(edits="count(*)", users="approx_count_distinct(user)", added="sum(added)")
    )
    results, speed = timed(query, len(edits))
    by_window = defaultdict(list)
    for row in results:
        by_window[row["window"]].append(row)
    table = Table(title=f"Twenty windows in one query: {speed}", title_justify="left")
    for name in ("window", "written as", "results", "busiest one", "edits", "users ~", "bytes added"):
        table.add_column(name, justify="left" if name in ("window", "written as") else "right")
    for label, window in WINDOWS.items():
        found = by_window[label]
        most = max(found, key=lambda row: row["edits"])
        numbers = [f"{most[name]:,}" for name in ("edits", "users", "added")]
        table.add_row(label, str(window), f"{len(found):,}", span(most), *numbers)
    console.print(table)
    return query


def sessions_per_user(edits: pa.Table) -> None:
    query = (
        pn.stream(edits, time="time", key="user", watermark="30 s")
        .window(visit=pn.session("30 min"))
        .agg(edits="count(*)", pages="count(distinct page)", added="sum(added)", robot="max(isRobot)")
    )
    results, speed = timed(query, len(edits))
    people = [row for row in results if not row["robot"]]
    people.sort(key=lambda row: row["window_start"] - row["window_end"])
    table = Table(title=f"A session per user, ended by a pause of 30 min: {speed}", title_justify="left")
    table.add_column("longest sessions of people")
    for name in ("from - to", "lasted", "edits", "pages", "bytes added"):
        table.add_column(name, justify="right")
    for row in people[:8]:
        lasted = str(row["window_end"] - row["window_start"]).split(".")[0]
        numbers = [f"{row[name]:,}" for name in ("edits", "pages", "added")]
        table.add_row(row["user"], span(row), lasted, *numbers)
    console.print(table)


def top_channels(edits: pa.Table) -> None:
    query = (
        pn.stream(edits, time="time", key="channel", watermark="30 s")
        .window(hour=pn.tumbling("1 h"))
        .agg(edits="count(*)")
    )
    results, speed = timed(query, len(edits))
    hours = defaultdict(list)
    for row in results:
        hours[row["window_start"]].append((row["edits"], row["channel"].removeprefix("#")))
    table = Table(title=f"Busiest wikis of each hour: {speed}", title_justify="left")
    for name in ("hour", "first", "second", "third"):
        table.add_column(name)
    for hour, channels in sorted(hours.items()):
        table.add_row(f"{hour:%H:%M}", *(f"{name} ({n})" for n, name in sorted(channels, reverse=True)[:3]))
    console.print(table)


def main() -> None:
    edits = load_edits()
    console.print(
        "[bold]A day of Wikipedia edits[/bold], delayed at random by 4 seconds on average, as a live feed would be.\n"
        "Windows wait 30 seconds for them; a row that comes later still is not lost, it goes to the ledger.\n"
    )
    query = twenty_windows(edits)
    sessions_per_user(edits)
    top_channels(edits)
    late = Counter(query.late["reason"].to_pylist())
    console.print(f"Late rows of the twenty windows: {dict(late)} of {len(edits):,} edits; all others were used.\n")
    console.print(query.explain(), highlight=False)
    OUT.mkdir(exist_ok=True)
    for name in ("wikipedia.png", "wikipedia.html"):
        query.plot(OUT / name)
        console.print(f"picture: {OUT.name}/{name}")


if __name__ == "__main__":
    main()
