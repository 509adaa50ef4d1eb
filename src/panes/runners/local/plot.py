"""`query.plot()`: chooses the kind of picture by the name of the file."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

import pyarrow as pa

from panes.errors import QueryError
from panes.plan.query import QueryPlan
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


def plot(
    plan: QueryPlan, results: pa.Table, trace: Trace | None, late: int, path: str | os.PathLike[str] | None
) -> Any:
    """Draw a run; writes to `path`, or returns a plotly figure if there is none."""
    kind = check_plot(path)
    from panes.runners.local.plot_data import picture

    drawn = picture(plan, results, trace, late)
    if kind == "png" and path is not None:
        from panes.runners.local.plot_png import write_png

        write_png(drawn, path)
        return None
    from panes.runners.local.plot_html import figure, write_html

    if path is None:
        return figure(drawn)
    write_html(drawn, path)
    return None
