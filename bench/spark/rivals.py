"""What one would write on Spark without Panes.

Windows of time are Spark's own. For count windows and sessions with a median, which Spark does not have, it
is a function per key with `applyInPandasWithState`, the faster of the two ways to keep state in Python. Its
state is packed into bytes, which is faster than lists (and lists fail in Spark 4.3). The
count windows take rows in the order of each micro-batch and don't wait for the watermark, which Panes does:
the rival has less to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

WATERMARK = "2 seconds"


def windowed(size: str, slide: str | None = None) -> Any:
    """`groupBy(window())` with sum, avg and max."""

    def build(events: Any) -> Any:
        from pyspark.sql import functions as F

        window = F.window("ts", size, slide) if slide else F.window("ts", size)
        grouped = events.withWatermark("ts", WATERMARK).groupBy("k", window)
        return grouped.agg(F.sum("v").alias("s"), F.avg("v").alias("a"), F.max("v").alias("m"))

    return build


def session_windowed(gap: str) -> Any:
    """`groupBy(session_window())` with sum, avg and max."""

    def build(events: Any) -> Any:
        from pyspark.sql import functions as F

        grouped = events.withWatermark("ts", WATERMARK).groupBy("k", F.session_window("ts", gap))
        return grouped.agg(F.sum("v").alias("s"), F.avg("v").alias("a"), F.max("v").alias("m"))

    return build


def count_windows(size: int) -> Any:
    """Median and count of every `size` rows of a key."""

    def per_key(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        number, held = state.get if state.exists else (0, b"")
        rows = pd.concat(list(frames)).sort_values("ts", kind="stable")
        values = np.concatenate([np.frombuffer(held), rows["v"].to_numpy()])
        whole = len(values) // size
        state.update((number + whole, values[whole * size :].tobytes()))
        if whole:
            medians = np.median(values[: whole * size].reshape(whole, size), axis=1)
            yield pd.DataFrame({"k": key[0], "window": np.arange(number, number + whole), "m": medians, "n": size})

    def build(events: Any) -> Any:
        return (
            events.withWatermark("ts", WATERMARK)
            .groupBy("k")
            .applyInPandasWithState(
                per_key,
                "k long, window long, m double, n long",
                "number long, held binary",
                "append",
                "NoTimeout",
            )
        )

    return build


def sessions(gap_ms: int) -> Any:
    """Median and count of each session of a key, given when the watermark has passed its end."""
    gap = np.timedelta64(gap_ms, "ms").astype("timedelta64[us]").astype(int)

    def per_key(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        held = state.get if state.exists else (b"", b"")
        times, values = np.frombuffer(held[0], np.int64), np.frombuffer(held[1])
        if not state.hasTimedOut:
            rows = pd.concat(list(frames))
            times = np.concatenate([times, rows["ts"].to_numpy().astype("datetime64[us]").astype(int)])
            values = np.concatenate([values, rows["v"].to_numpy()])
            order = np.argsort(times, kind="stable")
            times, values = times[order], values[order]
        watermark = state.getCurrentWatermarkMs() * 1000
        edges = np.flatnonzero(np.diff(times) > gap) + 1
        starts, ends = np.r_[0, edges], np.r_[edges, len(times)]
        closed = int(np.searchsorted(times[ends - 1] + gap, watermark, side="right")) if len(times) else 0
        done = int(ends[closed - 1]) if closed else 0
        if done < len(times):
            state.update((times[done:].tobytes(), values[done:].tobytes()))
            state.setTimeoutTimestamp(max(int(times[ends[closed] - 1] + gap) // 1000 + 1, watermark // 1000 + 1))
        elif state.exists:
            state.remove()
        if closed:
            medians = [float(np.median(values[a:b])) for a, b in zip(starts[:closed], ends[:closed])]
            began = times[starts[:closed]].astype("datetime64[us]")
            yield pd.DataFrame({"k": key[0], "start": began, "m": medians, "n": (ends - starts)[:closed]})

    def build(events: Any) -> Any:
        return (
            events.withWatermark("ts", WATERMARK)
            .groupBy("k")
            .applyInPandasWithState(
                per_key, "k long, start timestamp, m double, n long", "times binary, vals binary", "append",
                "EventTimeTimeout",
            )
        )  # fmt: skip

    return build
