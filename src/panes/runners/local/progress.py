"""Progress of long runs: rows, speed, watermark, results and late rows, on stderr or under the cell of a notebook.

Nothing is shown, and nothing is imported, in runs shorter than a second or when nobody looks: when stderr is no
terminal and this is no notebook.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from html import escape
from typing import Any, Protocol

AFTER_SECONDS = 1.0
EVERY_SECONDS = 0.25


class Bar(Protocol):
    """Something on a screen that says how far a run is."""

    def show(self, rows: int, total: int | None, facts: str) -> None: ...

    def stop(self) -> None: ...


class ProgressBar:
    """Shows how far a run is. `wanted`: True, False, or None for "if it takes long and someone looks"."""

    def __init__(self, total: int | None, wanted: bool | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._total = total
        self._clock = clock
        self._on = sys.stderr.isatty() or in_notebook() if wanted is None else bool(wanted)
        self._started = clock()
        self._next = self._started + (AFTER_SECONDS if wanted is None else 0.0)
        self._bar: Bar | None = None

    def update(self, rows: int, facts: Callable[[], str]) -> None:
        """`rows` have been read; `facts` says more, and is only asked when something is shown."""
        if not self._on or self._clock() < self._next:
            return
        self._next = self._clock() + EVERY_SECONDS
        if self._bar is None:
            self._bar = NotebookBar(self._started, self._clock) if in_notebook() else TerminalBar()
        self._bar.show(rows, self._total, facts())

    def close(self, rows: int, facts: Callable[[], str]) -> None:
        """The run is over: leave the last state on the screen, if anything was shown."""
        if self._bar is None:
            return
        self._bar.show(rows, rows, facts())
        self._bar.stop()
        self._bar = None


def in_notebook() -> bool:
    """Whether what is displayed appears under the cell of a notebook: in IPython with a kernel, not in a terminal."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


def _said(rows: int, seconds: float, facts: str) -> str:
    return f"{rows:,} rows, {rows / seconds if seconds > 0 else 0:,.0f} rows/s  {facts}"


class NotebookBar:
    """A line under the cell that changes while the run goes on."""

    def __init__(self, started: float, clock: Callable[[], float]) -> None:
        self._started, self._clock = started, clock
        self._handle: Any = None

    def show(self, rows: int, total: int | None, facts: str) -> None:
        shown = _Shown(_said(rows, self._clock() - self._started, facts), rows, total)
        if self._handle is None:
            self._handle = sys.modules["IPython"].display.display(shown, display_id=True)
        else:
            self._handle.update(shown)

    def stop(self) -> None:
        self._handle = None


class _Shown:
    """How far a run is: as HTML, and as text where there is none."""

    def __init__(self, text: str, rows: int, total: int | None) -> None:
        self._text, self._rows, self._total = text, rows, total

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        far = "" if self._total is None else f' value="{self._rows}" max="{max(self._total, 1)}"'
        return f"<progress{far}></progress> {escape(self._text)}"


class TerminalBar:
    """A bar on stderr."""

    def __init__(self) -> None:
        self._bar = _make_bar()
        self._bar.start()
        self._task = self._bar.add_task("", total=None, facts="")

    def show(self, rows: int, total: int | None, facts: str) -> None:
        self._bar.update(self._task, completed=rows, total=total, facts=facts)

    def stop(self) -> None:
        self._bar.stop()


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
