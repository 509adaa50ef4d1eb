"""The worked examples of SPEC group P as data: name, policies, rows, windows in order.

Rows are (time, value) or (time, key, value). A window is ("@time", values) by the time of its result, "end" at the end.
Without times of their own, items have their number as time and value.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import panes as pn

p = pn.policies


class Example(NamedTuple):
    name: str
    policy: Any
    items: Any
    windows: list[tuple[Any, list[Any]]]


def numbers(n: int) -> list[tuple[int, int]]:
    return [(i, i) for i in range(1, n + 1)]


def at_times(*times: int) -> list[tuple[int, int]]:
    return [(t, t) for t in times]


SLIDING = {"evict": p.time(4), "trigger": p.time(2, delay=2)}
DRIFT = [(i, v) for i, v in enumerate((1, 2, 4, 5, 9, 10, 3), 1)]

EXAMPLES = [
    Example(
        "P-07 at most 3 rows, none older than 10, at every row",
        pn.policy(evict=[p.count(3), p.time(10)], trigger=p.count(1)),
        at_times(1, 2, 3, 4, 20, 21, 22, 23),
        [
            (2, [1]),
            (3, [1, 2]),
            (4, [1, 2, 3]),
            (20, [2, 3, 4]),
            (21, [20]),
            (22, [20, 21]),
            (23, [20, 21, 22]),
            ("end", [21, 22, 23]),
        ],
    ),
    Example(
        "P-18 tumbling 3", pn.policy(trigger=p.count(3)), numbers(8), [(4, [1, 2, 3]), (7, [4, 5, 6]), ("end", [7, 8])]
    ),
    Example(
        "P-18 size 3 every 2",
        pn.policy(evict=p.count(3), trigger=p.count(2)),
        numbers(9),
        [(3, [1, 2]), (5, [2, 3, 4]), (7, [4, 5, 6]), (9, [6, 7, 8]), ("end", [7, 8, 9])],
    ),
    Example(
        "P-18 size 3 every 2, start -1",
        pn.policy(evict=p.count(3), trigger=p.count(2, start=-1)),
        numbers(9),
        [(4, [1, 2, 3]), (6, [3, 4, 5]), (8, [5, 6, 7]), ("end", [7, 8, 9])],
    ),
    Example(
        "P-18 size 2 every 3: some rows are in no window",
        pn.policy(evict=p.count(2), trigger=p.count(3)),
        numbers(9),
        [(4, [2, 3]), (7, [5, 6]), ("end", [8, 9])],
    ),
    Example(
        "P-18 size 4 every 2, start -2",
        pn.policy(evict=p.count(4), trigger=p.count(2, start=-2), end=False),
        numbers(9),
        [(5, [1, 2, 3, 4]), (7, [3, 4, 5, 6]), (9, [5, 6, 7, 8])],
    ),
    Example(
        "P-18 trigger 3 start -2, evict 5 delete 3",
        pn.policy(evict=p.count(5, delete=3), trigger=p.count(3, start=-2), end=False),
        numbers(12),
        [(6, [1, 2, 3, 4, 5]), (9, [4, 5, 6, 7, 8]), (12, [7, 8, 9, 10, 11])],
    ),
    Example(
        "P-21 range 4 slide 2 delay 2",
        pn.policy(**SLIDING),
        at_times(1, 2, 4, 5, 9, 11),
        [(4, [1, 2]), (6, [2, 4, 5]), (8, [4, 5]), (10, [9]), ("end", [9, 11])],
    ),
    Example(
        "P-21 without delay",
        pn.policy(evict=p.time(4), trigger=p.time(2), end=False),
        at_times(1, 2, 4, 5, 9, 11),
        [(2, [1]), (4, [1, 2]), (6, [2, 4, 5]), (8, [4, 5]), (10, [9])],
    ),
    Example(
        "P-21 passive policies are wrong",
        pn.policy(evict=p.time(4, active=False), trigger=p.time(2, delay=2, active=False), end=False),
        at_times(1, 2, 4, 5, 9, 11),
        [(4, [1, 2]), (9, [1, 2, 4, 5]), (11, [5, 9])],
    ),
    Example("P-23 exact", pn.policy(**SLIDING, end=False), at_times(1, 2, 4, 6), [(4, [1, 2]), (6, [2, 4])]),
    Example(
        "P-23 the border on the row itself",
        pn.policy(evict=p.time(4), trigger=p.time(2, delay=2, border_on_row=True), end=False),
        at_times(1, 2, 4, 6),
        [(4, [1, 2]), (6, [1, 2, 4])],
    ),
    Example(
        "P-24 delta",
        pn.policy(evict=p.delta(5, on="v"), trigger=p.delta(3, on="v", start=0)),
        DRIFT,
        [(3, [1, 2]), (5, [1, 2, 4, 5]), (7, [5, 9, 10]), ("end", [5, 9, 10, 3])],
    ),
    Example(
        "P-27 punctuation",
        pn.policy(evict=p.punctuation(0, on="v"), trigger=p.punctuation(0, on="v")),
        [(1, 5), (2, 6), (3, 0), (4, 7), (5, 0)],
        [(3, [5, 6]), (5, [0, 7]), ("end", [0])],
    ),
    Example(
        "P-33 window(Time) alone tumbles, by timer ticks too",
        pn.policy(trigger=p.time(5)),
        at_times(1, 3, 6, 17),
        [(5, [1, 3]), (10, [6]), ("end", [17])],
    ),
]

KEYED = [("A", 10), ("B", 20), ("A", 30), ("A", 40), ("B", 50), ("A", 60), ("B", 70)]
STAMPED = [(1, "A", 10), (2, "B", 20), (3, "A", 30), (4, "A", 40), (6, "B", 50), (11, "A", 60)]


class Grouped(NamedTuple):
    name: str
    policy: Any
    items: Any
    sums: list[tuple[Any, str, int]]  # when, key, sum


GROUPED = [
    Grouped(
        "P-46 central tumbling 3",
        pn.policy(central_trigger=p.count(3)),
        [(i, *item) for i, item in enumerate(KEYED, 1)],
        [(4, "A", 40), (4, "B", 20), (7, "A", 100), (7, "B", 50), ("end", "B", 70)],
    ),
    Grouped(
        "P-46 distributed tumbling 2",
        pn.policy(trigger=p.count(2)),
        [(i, *item) for i, item in enumerate(KEYED, 1)],
        [(4, "A", 40), (7, "B", 70), ("end", "A", 100), ("end", "B", 70)],
    ),
    Grouped(
        "P-46 central size 3 every 2",
        pn.policy(central_evict=p.count(3), central_trigger=p.count(2)),
        [(i, *item) for i, item in enumerate(KEYED, 1)],
        [
            (3, "A", 10),
            (3, "B", 20),
            (5, "A", 70),
            (5, "B", 20),
            (7, "A", 100),
            (7, "B", 50),
            ("end", "A", 60),
            ("end", "B", 120),
        ],
    ),
    Grouped(
        "P-46 central time trigger, distributed count eviction",
        pn.policy(evict=p.count(2), central_trigger=p.time(5)),
        STAMPED,
        [(5, "A", 70), (5, "B", 20), (10, "A", 70), (10, "B", 70), ("end", "A", 100), ("end", "B", 70)],
    ),
]
