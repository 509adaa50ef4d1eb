"""Runs rows through a container and writes down what its handlers are told, in the oracle's terms."""

from __future__ import annotations

from typing import Any

from panes.clock import FakeClock
from panes.policies.library import (
    SlidingWindow,
    TumblingWindow,
    Window,
    count,
    delta,
    partition_age,
    partition_count,
    punct,
    time,
    tuple_count,
)
from tests.library.oracle import Config, Event, Row

_POLICIES: dict[str, Any] = {
    "count": count,
    "time": time,
    "delta": lambda size: delta("v", size),
    "punct": lambda _: punct(),
}
_PARTITIONS: dict[str, Any] = {"count": partition_count, "tuples": tuple_count, "age": partition_age}

#: The 4 tumbling and 9 sliding combinations.
COMBINATIONS: tuple[tuple[str, str | None], ...] = (
    *((evict, None) for evict in ("count", "delta", "time", "punct")),
    *((evict, trigger) for evict in ("count", "delta", "time") for trigger in ("count", "delta", "time")),
)


def policy(kind: str, size: int) -> Any:
    return _POLICIES[kind](size)


def partition_policy(kind: str, most: int) -> Any:
    return _PARTITIONS[kind](most)


def container(config: Config, clock: FakeClock) -> Window:
    options: dict[str, Any] = {"partitioned": config.partitioned, "select": config.select, "clock": clock}
    if config.partition_evict is not None:
        options["partition_evict"] = partition_policy(*config.partition_evict)
    if config.trigger is None:
        return TumblingWindow(evict=policy(*config.evict), discard=config.discard, **options)
    return SlidingWindow(evict=policy(*config.evict), trigger=policy(*config.trigger), **options)


class Recorder:
    """Listens to a window."""

    def __init__(self, window: Window, clock: FakeClock) -> None:
        self.events: list[Event] = []
        self._clock = clock
        if isinstance(window, TumblingWindow):
            window.on("before_flush", lambda key, w: self._say("flush", key, w.content(key)))
        else:
            window.on("trigger", lambda key, w: self._say("trigger", key, w.content(key)))
            window.on("initial_full", lambda key, w: self._say("full", key, w.content(key)))
        window.on("partition_evict", lambda subs: [self._say("partition_evict", key, rows) for key, rows in subs])

    def _say(self, event: str, key: Any, rows: tuple[Any, ...]) -> None:
        self.events.append((event, self._clock.now(), key, tuple(row["v"] for row in rows)))


def feed(window: Window, clock: FakeClock, rows: list[Row], until: int | None = None) -> None:
    for at, key, value in rows:
        clock.advance_to(at)
        if value is None:
            assert isinstance(window, TumblingWindow)
            window.punctuate()
        elif window.partitioned:
            window.insert({"v": value}, key)
        else:
            window.insert({"v": value})
    if until is not None:
        clock.advance_to(until)
