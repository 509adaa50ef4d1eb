"""A window over every n-th tuple, and the same one over a counter that the tuples carry (SPEC G-13).

For tuples numbered 0, 1, 2, ... `sliding, count(n), count(m)` and `sliding, delta(id, n - 1), delta(id, m - 1)` process
the same windows. The delta window learns from the next tuple that a window is complete, so it is one tuple later.
"""

from __future__ import annotations

from typing import Any

from panes.policies.library import SlidingWindow, count, delta

#: (tuple that caused it, window, oldest first)
Processed = list[tuple[int, tuple[int, ...]]]


def processed(window: SlidingWindow, tuples: int) -> Processed:
    """Windows that are processed while these tuples arrive, without partial ones."""
    found: Processed = []
    arriving = 0

    def process(key: Any, w: SlidingWindow) -> None:
        if w.is_full(key):
            found.append((arriving, tuple(row["id"] for row in w.content(key))))

    window.on("trigger", process)
    for arriving in range(tuples):
        window.insert({"id": arriving})
    return found


def by_count(n: int, m: int, tuples: int) -> Processed:
    return processed(SlidingWindow(evict=count(n), trigger=count(m)), tuples)


def by_delta(n: int, m: int, tuples: int) -> Processed:
    return processed(SlidingWindow(evict=delta("id", n - 1), trigger=delta("id", m - 1)), tuples)


if __name__ == "__main__":
    for n, m in ((2, 1), (3, 2)):
        print(f"n={n}, m={m}")
        for (on, window), (on_delta, same) in zip(by_count(n, m, 9), by_delta(n, m, 10)):
            print(f"  {window} on {on} by count, {same} on {on_delta} by delta")
