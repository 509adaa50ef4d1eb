"""`query.plot()`: chooses the kind of picture by the name of the file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from itertools import takewhile
from typing import TYPE_CHECKING

import pyarrow as pa

from panes.errors import QueryError
from panes.plan.query import QueryPlan
from panes.plan.steps import Having, SelectStep, Step
from panes.runners.local.trace import Trace

if TYPE_CHECKING:
    from panes.runners.local.plot_figure import RunFigure


def check_plot(path: str | os.PathLike[str] | None) -> str:
    """The kind of picture that `path` asks for; refuses early, before anything is run."""
    suffix = ".html" if path is None else os.path.splitext(os.fspath(path))[1].lower()
    if suffix not in (".png", ".html", ".htm"):
        raise QueryError(f"plot: path must end in .png or .html; got {os.fspath(path or '')!r}")
    if find_spec("matplotlib") is None:
        raise QueryError("plot() needs matplotlib: pip install 'panes[plot]'")
    return "png" if suffix == ".png" else "html"


def steps_drawn(plan: QueryPlan) -> tuple[Step, ...]:
    """The steps after which results still have all that is drawn: those before the first `select`."""
    return tuple(takewhile(lambda step: not isinstance(step, SelectStep), plan.steps))


def steps_said(plan: QueryPlan) -> list[str]:
    """What a picture says of the steps: the conditions that its results meet, and what it does not show."""
    drawn = steps_drawn(plan)
    said = [f"only {step}" for step in drawn if isinstance(step, Having)]
    left = plan.steps[len(drawn) :]
    return [*said, f"drawn as before {'; '.join(map(str, left))}"] if left else said


def plot(
    plan: QueryPlan,
    results: pa.Table,
    trace: Trace | None,
    late: int,
    path: str | os.PathLike[str] | None,
    *,
    said: Sequence[str] = (),
) -> RunFigure | None:
    """Draw a run; writes to `path`, or returns a matplotlib figure if there is none. `said`: more facts of it."""
    kind = check_plot(path)
    from panes.runners.local.plot_data import picture
    from panes.runners.local.plot_figure import figure, write

    drawn = picture(plan, results, trace, late)
    drawn = replace(drawn, facts=(*drawn.facts, *said))
    if path is None:
        return figure(drawn)
    write(drawn, path, kind)
    return None
