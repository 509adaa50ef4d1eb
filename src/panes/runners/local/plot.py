"""`query.plot()`: chooses the kind of picture by the name of the file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from itertools import takewhile
from typing import Any

import pyarrow as pa

from panes.errors import QueryError
from panes.plan.query import QueryPlan
from panes.plan.steps import Having, SelectStep, Step
from panes.runners.local.trace import Trace


def check_plot(path: str | os.PathLike[str] | None) -> str:
    """The kind of picture that `path` asks for; refuses early, before anything is run."""
    suffix = ".html" if path is None else os.path.splitext(os.fspath(path))[1].lower()
    if suffix not in (".png", ".html", ".htm"):
        raise QueryError(f"plot: path must end in .png or .html; got {os.fspath(path or '')!r}")
    library = "matplotlib" if suffix == ".png" else "plotly"
    if find_spec(library) is None:
        raise QueryError(f"plot() needs {library}: pip install 'panes[plot]'")
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
) -> Any:
    """Draw a run; writes to `path`, or returns a plotly figure if there is none. `said`: more facts of it."""
    kind = check_plot(path)
    from panes.runners.local.plot_data import picture

    drawn = picture(plan, results, trace, late)
    drawn = replace(drawn, facts=(*drawn.facts, *said))
    if kind == "png" and path is not None:
        from panes.runners.local.plot_png import write_png

        write_png(drawn, path)
        return None
    from panes.runners.local.plot_html import figure, write_html

    if path is None:
        return figure(drawn)
    write_html(drawn, path)
    return None
