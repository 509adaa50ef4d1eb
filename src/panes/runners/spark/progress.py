"""How a running stream on Spark is doing: `pn.progress(query)` as a dict, `pn.watch(query)` as a live line.

Both read what Spark reports after each micro-batch. Spark keeps the last hundred reports; totals are summed up
here as they are seen, and say from which micro-batch on they count.
"""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, TextIO

from panes.errors import QueryError
from panes.runners.spark.event_time import SHIFT
from panes.runners.spark.strategies.key_groups import OBSERVED
from panes.units import Duration, parse_duration

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery
    from pyspark.sql.streaming.listener import StreamingQueryProgress

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass
class _Run:
    """One run of a query, as far as its reports have been read."""

    last: Any = None  # the report of the last micro-batch, and of the last one that had rows
    fed: Any = None
    watermark: str | None = None
    from_batch: int | None = None  # where the sums begin
    batches: int = 0
    rows: int = 0
    late_rows: int = 0
    results: int = 0
    missed_groups: int = 0

    def read(self, query: StreamingQuery) -> None:
        """Read the reports that are new. All that Spark keeps are asked for only if some were missed: it takes long."""
        newest = query.lastProgress
        if newest is None:
            return
        known = -1 if self.last is None else self.last.batchId
        for report in query.recentProgress if newest.batchId > known + 1 else [newest]:
            self._add(report)

    def _add(self, report: StreamingQueryProgress) -> None:
        self.watermark = report.eventTime.get("watermark", self.watermark)
        known = -1 if self.last is None else self.last.batchId
        # a report without a batch of its own only says that the query is waiting
        if report.batchId <= known or "addBatch" not in report.durationMs:
            return
        # a gap: reports that nobody has read in time, so sums begin anew
        if self.from_batch is None or report.batchId > known + 1:
            self.from_batch, self.batches, self.rows = report.batchId, 0, 0
            self.late_rows, self.results, self.missed_groups = 0, 0, 0
        seen = _observed(report)
        self.last = report
        self.fed = report if report.numInputRows else self.fed
        self.batches += 1
        self.rows += report.numInputRows
        self.late_rows += seen.get("rows_late") or 0
        self.results += seen.get("results") or 0
        self.missed_groups += _missed(report)


#: The last few runs that this process has asked about.
_runs: dict[str, _Run] = {}
_KEPT = 64


def progress(query: StreamingQuery) -> dict[str, Any]:
    """The last micro-batch of a stream that `to_spark()` made, and sums over all of them.

    Rows per second (of the last batch that had rows), watermark (a time, or a number if the time column is one;
    None before the first rows), bytes of state of the key groups that the batch called, bytes written, late
    rows, results, seconds. What Spark does not say is None. Where windows are Spark's own, it counts the groups of rows
    of one key and window that came too late for it: `missed_groups`, 0 if no row was late.
    """
    running = bool(query.isActive)
    run = _runs.setdefault(str(query.runId), _Run())
    while len(_runs) > _KEPT:
        del _runs[next(iter(_runs))]
    run.read(query)
    last, seen = run.last, _observed(run.last)
    return {
        "name": query.name,
        "running": running,
        "batch": last.batchId if last else None,
        "rows": last.numInputRows if last else 0,
        "rows_per_second": run.fed.processedRowsPerSecond if run.fed else None,
        "seconds": last.durationMs["triggerExecution"] / 1000 if last else None,
        "watermark": _watermark(run.watermark),
        "late_rows": seen.get("rows_late"),
        "missed_groups": _missed(last) if last else 0,
        "results": seen.get("results"),
        "state_bytes": seen.get("state_bytes"),
        "written_bytes": seen.get("written"),
        "store_bytes": sum(o.memoryUsedBytes for o in last.stateOperators) if last else None,
        "total": {
            "from_batch": run.from_batch,
            "batches": run.batches,
            "rows": run.rows,
            "late_rows": run.late_rows if seen else None,
            "missed_groups": run.missed_groups,
            "results": run.results if seen else None,
        },
    }


def _observed(report: StreamingQueryProgress | None) -> dict[str, Any]:
    """What the operators of a micro-batch did, all together."""
    seen: Counter[str] = Counter()
    for name, row in ({} if report is None else report.observedMetrics).items():
        if name.startswith(OBSERVED):
            seen.update({what: n or 0 for what, n in row.asDict().items()})
    return dict(seen)


def _missed(report: StreamingQueryProgress) -> int:
    return sum(operator.numRowsDroppedByWatermark for operator in report.stateOperators)


def _watermark(said: str | None) -> datetime | int | None:
    """Spark's watermark in the terms of the time column."""
    parts = re.fullmatch(r"\+?(-?\d+)-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)\.(\d{3})Z", said or "")
    if parts is None:
        return None
    year, month, day, hour, minute, second, milli = map(int, parts.groups())
    # the calendar repeats every 400 years, and datetime ends with the year 9999
    cycles = max(0, (year - 2000) // 400) if year > 9999 else 0
    near = datetime(year - 400 * cycles, month, day, hour, minute, second, milli * 1000, timezone.utc)
    millis = (near - _EPOCH) // timedelta(milliseconds=1) + cycles * 146_097 * 86_400_000
    if millis <= 0:
        return None
    return millis - SHIFT if cycles else near


def watch(query: StreamingQuery, *, every: str | timedelta = "500 ms", file: TextIO | None = None) -> dict[str, Any]:
    """Show how a stream is doing until it ends: one live line in a terminal, else a line per micro-batch.

    Gives the last `progress`. If the stream fails, so does this, with Spark's reason.
    """
    pause = _seconds(every)
    out = sys.stderr if file is None else file
    show = _live if out.isatty() else _plain
    return show(query, pause, out)


def _seconds(every: str | timedelta) -> float:
    length = parse_duration(every, argument="every")
    if not isinstance(length, Duration):
        raise QueryError(f"every={every!r} must be a length of time such as '1 s'")
    return length.nanos / 1e9


def _ended(query: StreamingQuery, seconds: float) -> bool:
    return bool(query.awaitTermination(seconds))  # type: ignore[arg-type]  # it takes parts of a second too


def _plain(query: StreamingQuery, pause: float, out: TextIO) -> dict[str, Any]:
    shown = None
    while True:
        ended = _ended(query, pause)
        facts = progress(query)
        if facts["batch"] is not None and facts["batch"] != shown:
            print(line(facts), file=out, flush=True)
            shown = facts["batch"]
        if ended:
            return facts


def _live(query: StreamingQuery, pause: float, out: TextIO) -> dict[str, Any]:
    from rich.console import Console
    from rich.live import Live
    from rich.spinner import Spinner

    spinner = Spinner("dots", text="waiting for the first rows")
    started = time.monotonic()
    with Live(spinner, console=Console(file=out), refresh_per_second=8):
        while True:
            ended = _ended(query, pause)
            facts = progress(query)
            spinner.update(text=f"{line(facts)}, {time.monotonic() - started:.0f} s")
            if ended:
                return facts


def line(facts: dict[str, Any]) -> str:
    """What `progress` says, in one line."""
    if facts["batch"] is None:
        return "waiting for the first rows"
    total = facts["total"]
    said = [
        f"batch {facts['batch']}",
        f"{total['rows']:,} rows",
        f"{facts['rows_per_second'] or 0:,.0f} rows/s",
        f"watermark {_moment(facts['watermark'])}",
    ]
    if total["missed_groups"]:
        said.append(f"{total['missed_groups']:,} late groups of rows")
    if facts["state_bytes"] is not None:  # Spark Connect and native strategies don't say
        said += [f"{total['results']:,} results", f"{total['late_rows']:,} late"]
        said.append(f"state {_size(facts['state_bytes'])}")
    return ", ".join(said)


def _moment(watermark: datetime | int | None) -> str:
    if isinstance(watermark, datetime):
        return f"{watermark:%Y-%m-%d %H:%M:%S}"
    return "not yet" if watermark is None else f"{watermark:,}"


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
