"""A progress bar for long runs: rows, speed, watermark, results and late rows, on stderr.

Nothing is shown, and nothing is imported, in runs shorter than a second or when stderr is no terminal.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

AFTER_SECONDS = 1.0
EVERY_SECONDS = 0.25


class ProgressBar:
    """Shows how far a run is. `wanted`: True, False, or None for "if it takes long and someone looks"."""

    def __init__(self, total: int | None, wanted: bool | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._total = total
        self._clock = clock
        self._on = sys.stderr.isatty() if wanted is None else bool(wanted)
        self._next = clock() + (AFTER_SECONDS if wanted is None else 0.0)
        self._bar: Any = None
        self._task: Any = None

    def update(self, rows: int, facts: Callable[[], str]) -> None:
        """`rows` have been read; `facts` says more, and is only asked when something is shown."""
        if not self._on or self._clock() < self._next:
            return
        self._next = self._clock() + EVERY_SECONDS
        if self._bar is None:
            self._bar = _make_bar()
            self._bar.start()
            self._task = self._bar.add_task("", total=self._total, facts="")
        self._bar.update(self._task, completed=rows, facts=facts())

    def close(self, rows: int, facts: Callable[[], str]) -> None:
        """The run is over: leave the last state on the screen, if anything was shown."""
        if self._bar is None:
            return
        self._bar.update(self._task, completed=rows, total=rows, facts=facts())
        self._bar.stop()
        self._bar = None


def _make_bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn
    from rich.text import Text

    class Speed(ProgressColumn):
        def render(self, task: Any) -> Text:
            speed = task.completed / task.elapsed if task.elapsed else 0
            return Text(f"{task.completed:,.0f} rows, {speed:,.0f} rows/s")

    return Progress(
        BarColumn(bar_width=24),
        Speed(),
        TextColumn("{task.fields[facts]}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        refresh_per_second=4,
    )
