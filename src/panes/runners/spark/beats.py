"""What the clock does to a key group on a stream that is quiet: it moves the watermark, as in an embedded run.

Beats come as rows of a source of their own (sources/beats.py), one for each key group, and pulses as rows beside those
of the data, so that every group knows whether rows have come for any of them. Both are input like all else: a
micro-batch that is repeated has the same, and so has the same results. Spark's own watermark is left to the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from panes.plan.query import StreamPlan
from panes.plan.silence import Silence
from panes.windows.base import ALWAYS

#: Where a packed row says from where it is, these say that it holds no rows: what the clock said, or that rows came.
BEAT, PULSE = -1, -2
_SECOND = 1_000_000
#: Beats come no oftener, since each is a micro-batch, and no more rarely.
_OFTEN, _RARELY = _SECOND, 10 * _SECOND


class Heard(NamedTuple):
    """What the clock has said to a group in a micro-batch, and whether rows of the stream came in it."""

    now: int | None
    active: bool


SILENT = Heard(None, False)


class Packed(NamedTuple):
    """Packed rows, and where they are from."""

    parts: list[int]
    chunks: list[int]
    rows: list[bytes]


def heard(packed: Packed) -> tuple[Heard, Packed]:
    """Beats and pulses apart from rows."""
    beats = [int.from_bytes(data, "big") for part, data in zip(packed.parts, packed.rows) if part == BEAT]
    kept = [i for i, part in enumerate(packed.parts) if part >= 0]
    rows = Packed([packed.parts[i] for i in kept], [packed.chunks[i] for i in kept], [packed.rows[i] for i in kept])
    return Heard(max(beats, default=None), bool(kept) or PULSE in packed.parts), rows


def beat_bytes(now: int) -> bytes:
    return now.to_bytes(8, "big")


def period_of(silence: Silence) -> int:
    """How often the clock beats, in microseconds."""
    return _OFTEN if silence.idle is None else min(max(silence.idle // 4, _OFTEN), _RARELY)


@dataclass(frozen=True)
class Clocked:
    """What a group has heard so far; it is part of its state."""

    now: int | None = None
    #: what the clock said when rows last came
    last: int | None = None
    #: the watermark as these left it; None: rows have just come
    left: int | None = None

    def hear(self, given: Heard, stream: StreamPlan, watermark: int) -> tuple[Clocked, int]:
        """What it has heard then, and the tick that the clock has moved the watermark to before the rows come.

        `watermark`: where it was before.
        """
        known = [moment for moment in (self.now, given.now) if moment is not None]
        now = max(known, default=None)
        if now is None:
            return self, ALWAYS
        if stream.silence.arrives:
            return Clocked(now), now
        last = now if self.last is None else self.last
        tick, left = ALWAYS, self.left
        if stream.silence.idle is not None and now - last >= stream.silence.idle:
            left = watermark if left is None else left
            if left > ALWAYS:
                tick = left + (now - last) * 1000 // int(stream.domain.nanos_per_tick)
        return (Clocked(now, now) if given.active else Clocked(now, last, left)), tick
