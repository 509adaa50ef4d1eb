"""The progress bar: silent on short runs and when nobody looks."""

from __future__ import annotations

import io
import sys

import pytest

from panes.runners.local.progress import ProgressBar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def shown(stderr: io.StringIO, monkeypatch: pytest.MonkeyPatch, wanted: bool | None, seconds: float) -> str:
    monkeypatch.setattr(sys, "stderr", stderr)
    clock = Clock()
    bar = ProgressBar(1000, wanted, clock=clock)
    for rows in range(100, 1001, 100):
        clock.now += seconds / 10
        bar.update(rows, lambda: "watermark 7, 3 results, 1 late")
    bar.close(1000, lambda: "watermark 9, 4 results, 1 late")
    return stderr.getvalue()


def test_long_runs_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(Terminal(), monkeypatch, None, 5)
    assert "1,000 rows" in text
    assert "watermark 9, 4 results, 1 late" in text


@pytest.mark.parametrize(
    ("stderr", "wanted", "seconds"),
    [(Terminal(), None, 0.5), (io.StringIO(), None, 5), (Terminal(), False, 5)],
    ids=["short", "no terminal", "switched off"],
)
def test_no_progress_is_shown_where_nobody_wants_it(
    stderr: io.StringIO, wanted: bool | None, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shown(stderr, monkeypatch, wanted, seconds) == ""


def test_progress_is_shown_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "4 results" in shown(io.StringIO(), monkeypatch, True, 0.1)
