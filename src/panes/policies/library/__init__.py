"""The window library: containers with policies, on which operators are written.

`TumblingWindow` and `SlidingWindow` take tuples and keys and tell handlers what happens; policies are
small values (specs.py); what happens in which order is a table (events.py).
"""

from __future__ import annotations

from panes.policies.library.partitions import Candidate
from panes.policies.library.sliding import SlidingWindow
from panes.policies.library.specs import (
    count,
    delta,
    partition_age,
    partition_count,
    punct,
    time,
    tuple_count,
)
from panes.policies.library.tumbling import Summarizer, TumblingWindow
from panes.policies.library.window import Window

__all__ = [
    "Candidate",
    "SlidingWindow",
    "Summarizer",
    "TumblingWindow",
    "Window",
    "count",
    "delta",
    "partition_age",
    "partition_count",
    "punct",
    "time",
    "tuple_count",
]
