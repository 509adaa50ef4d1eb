"""A day of Wikipedia edits through twenty windows at once: `make demo`.

39,244 real edits of 12 September 2015. One query with twenty windows of six kinds, one with a session per
user, and one with the busiest wikis of each hour. Prints tables; writes wikipedia.png and wikipedia.html into
out/, or into the folder given as argument.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json
from rich.console import Console
from rich.table import Table

import panes as pn
from panes.api.stream import Query

HERE = Path(__file__).parent
EDITS = HERE / "data" / "wikipedia" / "wikiticker-2015-09-12-sampled.json.gz"

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


def twenty_windows(edits: pa.Table) -> Query:
    return (
        pn.stream(edits, time="time", watermark="30 s")
        .window(**WINDOWS)
        .agg(edits="count(*)", users="approx_count_distinct(user)", added="sum(added)")
    )


def sessions_per_user(edits: pa.Table) -> Query:
    return (
        pn.stream(edits, time="time", key="user", watermark="30 s")
        .window(visit=pn.session("30 min"))
        .agg(edits="count(*)", pages="count(distinct page)", added="sum(added)", robot="max(isRobot)")
    )


def edits_per_channel(edits: pa.Table) -> Query:
    return (
        pn.stream(edits, time="time", key="channel", watermark="30 s")
        .window(hour=pn.tumbling("1 h"))
        .agg(edits="count(*)")
    )


def show_twenty_windows(results: list[dict[str, Any]], speed: str) -> None:
    by_window = defaultdict(list)
    for row in results:
        by_window[row["window"]].append(row)
    table = titled_table("Twenty windows in one query", speed)
    table.add_column("window")
    table.add_column("written as")
    for name in ("results", "busiest one", "edits", "users ~", "bytes added"):
        table.add_column(name, justify="right")
    for label, window in WINDOWS.items():
        found = by_window[label]
        most = max(found, key=lambda row: row["edits"])
        table.add_row(label, str(window), f"{len(found):,}", span(most), *numbers(most, "edits", "users", "added"))
    console.print(table)


def show_sessions(results: list[dict[str, Any]], speed: str) -> None:
    people = [row for row in results if not row["robot"]]  # as far as robots say that they are
    people.sort(key=lambda row: row["window_start"] - row["window_end"])
    table = titled_table("A session per user, ended by a pause of 30 minutes", speed)
    table.add_column("longest, robots left out")
    for name in ("from - to", "lasted", "edits", "pages", "bytes added"):
        table.add_column(name, justify="right")
    for row in people[:8]:
        lasted = str(row["window_end"] - row["window_start"]).split(".")[0]
        table.add_row(row["user"], span(row), lasted, *numbers(row, "edits", "pages", "added"))
    console.print(table)


def show_channels(results: list[dict[str, Any]], speed: str) -> None:
    hours = defaultdict(list)
    for row in results:
        hours[row["window_start"]].append((row["edits"], row["channel"].removeprefix("#")))
    table = titled_table("Busiest wikis of each hour", speed)
    for name in ("hour", "first", "second", "third"):
        table.add_column(name)
    for hour, channels in sorted(hours.items()):
        table.add_row(f"{hour:%H:%M}", *(f"{name} ({n})" for n, name in sorted(channels, reverse=True)[:3]))
    console.print(table)


def show_explanation(query: Query) -> None:
    explanation = query.explain()
    table = Table(show_header=False, box=None, title="[bold]How they are computed[/bold]", title_justify="left")
    for step in explanation.workload.decisions:
        table.add_row(step.question, ("yes, " if step.answer else "no, ") + step.because)
    table.add_row("Strategy", explanation.strategy)
    table.add_row("Slices", explanation.edges)
    table.add_row("Sharing", explanation.sharing)
    table.add_row("Row copies", explanation.amplification)
    console.print(table)


def titled_table(title: str, speed: str) -> Table:
    return Table(title=f"\n[bold]{title}[/bold]\n{speed}", title_justify="left")


def numbers(row: dict[str, Any], *names: str) -> list[str]:
    return [f"{row[name]:,}" for name in names]


def span(row: dict[str, Any]) -> str:
    """Where a window lies: in time, or, if it counts edits, in their number."""
    start, end = row["window_start"], row["window_end"]
    if start is None:
        return f"edits {row['window_from']:,} to {row['window_to']:,}"
    return f"{start:%H:%M:%S} - {end:%H:%M:%S}" if end else f"{start:%H:%M:%S} - end"


def timed(query: Query, rows: int) -> tuple[list[dict[str, Any]], str]:
    """Run a query: its results, and how fast it was."""
    start = perf_counter()
    table = query.to_arrow()
    seconds = perf_counter() - start
    speed = f"{rows:,} edits in {seconds:.2f} s, {rows / seconds:,.0f} rows/s, {len(table):,} results"
    return table.to_pylist(), speed


def warm_up(edits: pa.Table) -> str:
    """Run everything once: the first run on a machine compiles kernels, later ones load them."""
    start = perf_counter()
    for make in (twenty_windows, sessions_per_user, edits_per_channel):
        make(edits).to_arrow()
    return f"{perf_counter() - start:.1f} s"


def main(out: Path) -> None:
    edits = load_edits()
    console.print(
        "[bold]A day of Wikipedia edits[/bold], each delayed by 4 seconds on average, as in a live feed.\n"
        "Windows wait 30 seconds for them; an edit that comes later still is not lost, it goes to a ledger.\n"
        f"Warmed up in {warm_up(edits)}: a first run on a machine compiles kernels, later ones load them.\n",
        highlight=False,
    )
    query = twenty_windows(edits)
    show_twenty_windows(*timed(query, len(edits)))
    show_sessions(*timed(sessions_per_user(edits), len(edits)))
    show_channels(*timed(edits_per_channel(edits), len(edits)))

    late = ", ".join(f"{count} {reason}" for reason, count in query.metrics["late_by_reason"].items())
    console.print(f"On the ledger of the twenty windows: {late}. All other edits were used.\n", highlight=False)
    show_explanation(query)

    out.mkdir(parents=True, exist_ok=True)
    for name in ("wikipedia.png", "wikipedia.html"):
        query.plot(out / name)
    console.print(f"\nThe same as pictures: {out}/wikipedia.png and {out}/wikipedia.html")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("out"))
