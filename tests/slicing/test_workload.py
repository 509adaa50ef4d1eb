"""What windows, aggregates and order require of slices, as `explain()` says it."""

from __future__ import annotations

from typing import Any

import pytest

import panes as pn
from panes.errors import QueryError
from panes.policies import specs as p

SCHEMA = {"ts": "bigint", "v": "bigint", "kind": "string", "km": "double"}


def query(window: Any, *, watermark: int | None = 5) -> Any:
    return pn.stream(time="ts", schema=SCHEMA, watermark=watermark).window(w=window).agg(total="sum(v)")


@pytest.mark.parametrize(
    "window",
    [
        pn.punctuated(begin="v = 1"),
        pn.punctuated(end="v = 1"),
        pn.punctuated(begin="v = 1", end="v = 2"),
        pn.delta(3, on="v"),
        pn.threshold("v > 3"),
        pn.session(3, on="km"),
        pn.session(3),
        pn.policy(trigger=p.punctuation("end", on="kind")),
    ],
    ids=repr,
)
def test_no_row_moves_between_slices_of_windows_that_do_not_count_rows(window: Any) -> None:
    explained = query(window).explain()
    assert not explained.workload.removals
    assert "row count" not in str(explained)


@pytest.mark.parametrize(
    "window", [pn.tumbling(pn.rows(3)), pn.sliding(pn.rows(3), every=5), pn.policy(trigger=p.count(3))], ids=repr
)
def test_rows_move_between_slices_of_windows_that_count_them(window: Any) -> None:
    assert query(window).explain().workload.removals


def test_a_store_that_is_none_is_refused_with_the_choices() -> None:
    with pytest.raises(QueryError, match="store='eagr' must be one of 'auto', 'lazy', 'eager'"):
        query(pn.tumbling(3)).operator(store="eagr")
