"""Feed a discretizer with rows of several keys, in one piece or in many, and collect what it closes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from panes.windows.base import Closed, Discretizer, KeyRuns

#: (slot, start_pos, stop_pos, start, end)
Entry = tuple[int, int, int, int, int]


@dataclass
class Stream:
    """Rows of one key: times and named columns."""

    times: list[int]
    columns: dict[str, list[Any]] = field(default_factory=dict)


class Feeder:
    """Keeps state by slot as a lane would, and hands the discretizer the groups of one release."""

    def __init__(self, window: Discretizer, keys: int) -> None:
        self.window = window
        self.state = {}
        for name, default in window.state.items():
            column = np.empty(keys, np.asarray(default).dtype)
            column[:] = default
            self.state[name] = column
        self.seen = np.zeros(keys, np.int64)
        self.entries: list[Entry] = []
        self.cuts: set[tuple[int, int]] = set()

    def push(self, parts: dict[int, Stream]) -> None:
        slots = np.array(sorted(parts), np.int64)
        lengths = [len(parts[s].times) for s in slots.tolist()]
        offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        times = np.array([t for s in slots.tolist() for t in parts[s].times], np.int64)
        columns = {
            name: column([v for s in slots.tolist() for v in parts[s].columns[name]]) for name in self.window.columns
        }
        runs = KeyRuns(slots, offsets, self.seen[slots], times, columns)
        state = {name: values[slots] for name, values in self.state.items()}
        scanned = self.window.scan(runs, state)
        for name, values in self.state.items():
            values[slots] = state[name]
        entries = listed(scanned.closed)
        order = [(slots.tolist().index(e[0]), e[2], e[1]) for e in entries]
        assert order == sorted(order)
        self.entries += entries
        assert sorted(set(scanned.cuts.tolist())) == scanned.cuts.tolist()
        groups = runs.group_of_row()[scanned.cuts]
        self.cuts |= set(zip(slots[groups].tolist(), runs.positions()[scanned.cuts].tolist(), strict=True))
        self.seen[slots] += lengths

    def advance(self, watermark: int) -> None:
        self.entries += listed(self.window.advance(watermark, np.arange(len(self.seen)), self.state))

    def finish(self) -> None:
        self.entries += listed(self.window.finish(np.arange(len(self.seen)), self.state, self.seen))


def column(values: list[Any]) -> np.ndarray:
    """As a lane prepares it: null is False for booleans, NaN for numbers, None for the rest."""
    present = [v for v in values if v is not None]
    if present and all(isinstance(v, bool) for v in present):
        return np.array([bool(v) for v in values], bool)
    if all(isinstance(v, (int, float)) for v in present):
        return np.array([np.nan if v is None else v for v in values])
    out = np.empty(len(values), object)
    out[:] = values
    return out


def listed(closed: Closed) -> list[Entry]:
    parts = (closed.slots, closed.start_pos, closed.stop_pos, closed.start, closed.end)
    return list(zip(*(p.tolist() for p in parts), strict=True))


def run(window: Discretizer, streams: list[Stream], rng: np.random.Generator | None = None) -> Feeder:
    """All rows at once, or in random pieces that keep each key's order, with watermarks in between."""
    feeder = Feeder(window, len(streams))
    if rng is None:
        feeder.push(dict(enumerate(streams)))
    else:
        done = [0] * len(streams)
        while any(d < len(s.times) for d, s in zip(done, streams, strict=True)):
            # event time up to which rows are released, as a watermark would
            left = [s.times[d] for d, s in zip(done, streams, strict=True) if d < len(s.times)]
            until = min(left) + int(rng.integers(0, 8))
            parts = {}
            for slot, stream in enumerate(streams):
                stop = done[slot]
                while stop < len(stream.times) and stream.times[stop] <= until:
                    stop += 1
                if stop > done[slot]:
                    part = slice(done[slot], stop)
                    parts[slot] = Stream(stream.times[part], {n: c[part] for n, c in stream.columns.items()})
                    done[slot] = stop
            feeder.push(parts)
            feeder.advance(until)
    feeder.finish()
    return feeder
