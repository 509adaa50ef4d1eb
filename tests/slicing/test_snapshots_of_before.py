"""Snapshots of windows that are bound to another kind by now go on: written before there were normal forms."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import pytest

import panes as pn
from panes.policies import count, time
from panes.windows.base import KeyBorders

#: by name: the query, the snapshot of its operator after some rows, further rows, and what that version gave for them
CASES = json.loads((Path(__file__).parent / "data" / "before_normal_forms.json").read_text())
NAMES = {"pn": pn, "count": count, "time": time}


def query_of(case: dict[str, Any]) -> Any:
    stream = pn.stream(
        None, schema={"ts": "bigint", "k": "string", "v": "bigint"}, time="ts", key="k",
        watermark=case.get("watermark"), lateness=case.get("lateness"),
    )  # fmt: skip
    windows = {"r": pn.tumbling(pn.rows(4))} if case.get("added") else {"w": eval(case["window"], NAMES)}
    return stream.window(**windows).agg(n="count(*)", x=f"{case['agg']}(v)")


def given(result: Any) -> list[dict[str, Any]]:
    rows = result.to_arrow().to_pylist()
    return sorted(rows, key=lambda r: (r["window_end"] is None, r["window_end"] or 0, r["k"], str(r)))


@pytest.mark.parametrize("name", CASES)
def test_a_snapshot_of_before_normal_forms_goes_on(name: str) -> None:
    case = CASES[name]
    blob = zlib.decompress(base64.b64decode(case["snapshot"]))
    op = query_of(case).operator(restore=blob)
    assert any(isinstance(q.window, KeyBorders) for q in op._query.running)
    op = query_of(case).operator(restore=op.snapshot())
    rows = [dict(zip(("ts", "k", "v"), row)) for row in case["rows"]]
    wanted = [sorted(part, key=lambda r: (r["window_end"] is None, r["window_end"] or 0, r["k"], str(r)))
              for part in case["given"]]  # fmt: skip
    assert [given(op.push(rows)), given(op.finish())] == wanted
