"""What happens in which order when a tuple arrives: SPEC tables I and II, as data.

The containers look their steps up here; no code branches on pairs of policies. What a table leaves out happens on
its own: by the clock, or when a punctuation comes.
"""

from __future__ import annotations

#: Steps of an arrival. "flush" processes and empties a tumbling window if its policy says so.
FLUSH, EVICT, INSERT, TRIGGER = "flush", "evict", "insert", "trigger"

#: Table I: eviction of a tumbling window -> steps when a tuple arrives.
TUMBLING: dict[str, tuple[str, ...]] = {
    "count": (INSERT, FLUSH),
    "delta": (FLUSH, INSERT),
    "time": (INSERT,),  # flushes by the clock
    "punct": (INSERT,),  # flushes by punctuations
}

#: Table II: (eviction, trigger) of a sliding window -> steps when a tuple arrives.
SLIDING: dict[tuple[str, str], tuple[str, ...]] = {
    ("count", "count"): (EVICT, INSERT, TRIGGER),
    ("count", "delta"): (TRIGGER, EVICT, INSERT),
    ("count", "time"): (EVICT, INSERT),
    ("delta", "count"): (EVICT, INSERT, TRIGGER),
    ("delta", "delta"): (TRIGGER, EVICT, INSERT),
    ("delta", "time"): (EVICT, INSERT),
    ("time", "count"): (INSERT, TRIGGER),
    ("time", "delta"): (TRIGGER, INSERT),
    ("time", "time"): (INSERT,),
}
