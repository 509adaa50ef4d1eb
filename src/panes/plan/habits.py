"""Functions that people bring along from other SQLs, and what to write here instead, in CQL and in Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Instead(NamedTuple):
    """What to write instead of a function, in each notation."""

    cql: str
    python: str


_REPLAY = "it is another value each time, so a replay would give other results"
_CLOCK = Instead(
    f"{_REPLAY}. For the time at which rows arrive leave ON out of the window ([SIZE 10 min]), and select its "
    "window_end; or give the rows a column with their time",
    f"{_REPLAY}. Give the rows a column with their time",
)
_PLACE = Instead(
    "the first rows of each window are SELECT ... FROM t [SIZE ...] ORDER BY v DESC LIMIT 3",
    'the first rows of each window are window(...).relation("*", order_by="v DESC", limit=3)',
)


def _beside(name: str, instead: str, rest: str = "") -> Instead:
    start = f"rows beside each other are in one window: {name}(v) is {instead}(v) in"
    return Instead(
        f"{start} FROM t [SIZE 2 EVERY 1]{rest}", f"{start} window(pn.sliding(pn.rows(2), every=pn.rows(1))){rest}"
    )


#: Functions: what to write instead.
FUNCTIONS: Mapping[str, Instead] = {
    **dict.fromkeys(("now", "current_timestamp", "localtimestamp", "current_time", "sysdate", "getdate"), _CLOCK),
    **dict.fromkeys(("current_date", "curdate", "today", "unix_timestamp"), _CLOCK),
    **dict.fromkeys(("rand", "random", "randn", "uuid"), Instead(_REPLAY, _REPLAY)),
    "lag": _beside("lag", "first"),
    "lead": _beside("lead", "last", "; first(v) is then the row itself"),
    **dict.fromkeys(("row_number", "rank", "dense_rank", "percent_rank", "ntile", "nth_value"), _PLACE),
}
#: Functions that are also written without parentheses.
BARE = ("current_timestamp", "current_date", "localtimestamp", "current_time")
#: What takes the place of OVER in Python.
OVER = 'the windows of the query take its place: key_by("k").window(pn.tumbling("1 min")).agg(total="sum(v)")'


def in_python(name: str) -> str:
    """`": rows beside each other ..."`, the end of a message for a function that people know from elsewhere, or ""."""
    found = FUNCTIONS.get(name.lower())
    return "" if found is None else f": {found.python}"


def bare_in_python(name: str) -> str:
    """The same for a name without parentheses, that looks like a column."""
    return in_python(name) if name.lower() in BARE else ""
