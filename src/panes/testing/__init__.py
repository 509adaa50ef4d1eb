"""Helpers for tests of your own: aggregates on plain lists, laws of aggregates, streams step by step, a fake clock."""

from __future__ import annotations

from panes.clock import FakeClock
from panes.testing.aggregates import check_laws, evaluate
from panes.testing.micro_batches import FileClock, MicroBatches, micro_batches
from panes.testing.replay import replay_transcript
from panes.testing.transcript import TranscriptError

__all__ = [
    "FakeClock",
    "FileClock",
    "MicroBatches",
    "TranscriptError",
    "check_laws",
    "evaluate",
    "micro_batches",
    "replay_transcript",
]
