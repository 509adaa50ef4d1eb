"""Windows that come while the row lane runs: late rows make them give no more than they would give without."""

from __future__ import annotations

from typing import Any

import pytest

import panes as pn

STREAM = {"ts": "bigint", "v": "bigint", "hot": "boolean"}


def operator() -> Any:
    """One hot period that goes on, so that its slice has rows on both sides of 45 when the window comes."""
    rows = pn.stream(None, schema=STREAM, time="ts", watermark=None, lateness=10)
    op = rows.window(hot=pn.threshold("hot")).agg(n="sum(v)").operator()
    op.push([{"ts": t, "v": 1, "hot": True} for t in (14, 34, 38, 46)])
    op.add("nine", pn.tumbling(9))
    return op


def given(rows: list[dict[str, Any]]) -> list[tuple[int, int, int]]:
    return [(r["window_start"], r["n"], r["revision"]) for r in rows if r["window"] == "nine"]


@pytest.mark.parametrize("late", [57, 52, 49])
def test_late_rows_do_not_give_what_an_added_window_could_not(late: int) -> None:
    op = operator()
    assert given(op.push([{"ts": 49, "v": 1, "hot": True}, {"ts": 59, "v": 1, "hot": True}]).rows()) == []
    assert given(op.push([{"ts": late, "v": 1, "hot": True}]).rows()) == []
    after = given(op.push([{"ts": 63, "v": 1, "hot": True}]).rows())
    assert after == [(54, 2 if late == 57 else 1, 0)]
