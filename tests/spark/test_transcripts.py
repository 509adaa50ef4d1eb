"""The transcript kit: files on all runners, and what it says about wrong ones."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

import panes as pn
from panes.errors import QueryError
from panes.testing.transcript import build_aggregate, build_window

FOLDER = Path(__file__).parents[1] / "transcripts"
FILES = sorted(FOLDER.glob("*.yaml"))
#: Which of them can't be a static frame, and why.
NOT_STATIC = {
    "left_out": "it is about a watermark that moves, and stops before the stream has ended",
    "late_rows": "a static frame has no watermark, so none of its rows is late",
    "sessions": "a static frame has no watermark, so none of its rows is late",
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_transcripts_play_in_this_process(path: Path) -> None:
    pn.testing.replay_transcript(path)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_transcripts_play_as_streams_on_spark(path: Path, spark: Any) -> None:
    pn.testing.replay_transcript(path, runner="spark", spark=spark)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(p, id=p.stem, marks=[pytest.mark.xfail(reason=NOT_STATIC[p.stem])] if p.stem in NOT_STATIC else [])
        for p in FILES
    ],
)
def test_transcripts_play_as_static_frames_on_spark(path: Path, spark: Any) -> None:
    pn.testing.replay_transcript(path, runner="spark-static", spark=spark)


def late_rows() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / "late_rows.yaml").read_text(encoding="utf-8"))
    return found


WRONG = {
    "value": (("steps", 0, "expect", 0, "total"), 7.0, r"step 1 \(rows\): results: there is no .*'total': 7.0"),
    "missing": (("steps", 0, "expect", 0, "window_start"), 30, "there is no"),
    "unexpected": (("steps", 0, "expect"), [], "more than expected"),
    "revision": (("steps", 1, "expect", 0, "revision"), 0, "there is no"),
    "late": (("steps", 3, "late", 0, "reason"), "bad gap", "late rows: there is no"),
    "left over": (("steps", 3, "expect"), None, "at the end: results: more than expected"),
}


def changed(place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    transcript = copy.deepcopy(late_rows())
    inner: Any = transcript
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    return transcript


@pytest.mark.parametrize("name", WRONG)
def test_a_difference_is_named(name: str) -> None:
    place, value, message = WRONG[name]
    with pytest.raises(pn.testing.TranscriptError, match=message):
        pn.testing.replay_transcript(changed(place, value))


def test_a_difference_is_named_on_spark(spark: Any) -> None:
    place, value, message = WRONG["value"]
    with pytest.raises(pn.testing.TranscriptError, match=message):
        pn.testing.replay_transcript(changed(place, value), runner="spark", spark=spark)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("step",), [], "no part 'step'"),
        (("windows",), {}, "needs windows"),
        (("stream", "bound"), 3, "no part 'bound'"),
        (("steps", 0, "row"), [], "no part 'row'"),
        (("steps", 0, "finish"), True, "must have one of"),
        (("steps", 0), {"finish": True}, "must be the last step"),
        (("steps", 0), {"watermark": 3}, "watermark: manual"),
        (("windows", "ten"), "tumblin(10)", "'tumblin' is not known"),
        (("windows", "ten"), "tumbling(open('x'))", "'open' is not known"),
        (("windows", "ten"), "tumbling(10).__class__()", "is not known"),
        (("windows", "ten"), "tumbling(1 + ts)", "no plain value"),
        (("windows", "ten"), "tumbling", "must be a call"),
        (("windows", "ten"), "tumbling(", "can't be read"),
        (("windows", "ten"), 10, "written as text"),
    ],
)
def test_a_wrong_transcript_is_refused(place: tuple[Any, ...], value: Any, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        pn.testing.replay_transcript(changed(place, value))


def test_an_unknown_runner_is_refused() -> None:
    with pytest.raises(QueryError, match="runner must be"):
        pn.testing.replay_transcript(late_rows(), runner="flink")


def test_text_of_a_transcript_builds_windows_and_aggregates() -> None:
    assert build_window("pn.sliding(pn.rows(3), every=rows(2))", {}) == pn.sliding(pn.rows(3), every=pn.rows(2))
    assert build_window("fixed(-5, 5)", {}) == pn.fixed(-5, 5)
    assert build_aggregate("sum(v) / count(*)", {}) == "sum(v) / count(*)"
    assert str(build_aggregate('pn.quantiles("v", [0.5, 0.9])', {})) == str(pn.quantiles("v", [0.5, 0.9]))
    assert build_aggregate("mine(3)", {"mine": lambda n: n + 1}) == 4
