"""Programs as Python text: what builds a query on the engine is also what a failure prints.

One function per window kind turns an oracle tuple into the call of the public API that means the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.fuzz.programs import Program
from tests.fuzz.specs import Spec
from tests.fuzz.user_aggregates import OWN

#: argument of the duration in ticks -> text, for the stream's time column
Size = Callable[[int], str]


def size_for(time_unit: str | None) -> Size:
    """Sizes are numbers on an integer time column, durations with a unit on a timestamp column."""
    return repr if time_unit is None else lambda ticks: f'"{ticks} {time_unit}"'


def call(name: str, *arguments: str, **options: str | None) -> str:
    shown = [*arguments, *(f"{k}={v}" for k, v in options.items() if v is not None)]
    return f"{name}({', '.join(shown)})"


def periodic(size: str, slide: str, offset: str | None = None, on: str | None = None) -> str:
    if size == slide:
        return call("pn.tumbling", size, on=on, offset=offset)
    return call("pn.sliding", size, every=slide, on=on, offset=offset)


def rows(count: int) -> str:
    return f"pn.rows({count})"


def mixed(
    t: Size, size_on: str, size: Any, every_on: str, every: Any, partial: bool = False, unchanged: bool = False
) -> str:
    def length(on: str, value: Any) -> str:
        return rows(value) if on == "rows" else t(value) if on == "time" else repr(value)

    columns = [on for on in (size_on, every_on) if on not in ("time", "rows")]
    slide = length(every_on, every)
    if every_on == "time" and columns:  # a number would be on the column
        slide = slide if slide.startswith('"') else f'"{slide} ms"'
    return call(
        "pn.sliding",
        length(size_on, size),
        every=slide,
        on=repr(size_on) if size_on in columns else None,
        every_on=repr(every_on) if every_on in columns else None,
        align='"end"' if size_on == every_on else None,
        partial="True" if partial else None,
        unchanged="True" if unchanged else None,
    )


WINDOWS: dict[str, Callable[..., str]] = {
    "tumbling": lambda t, size, offset=0: periodic(t(size), t(size), t(offset) if offset else None),
    "sliding": lambda t, size, slide, offset=0: periodic(t(size), t(slide), t(offset) if offset else None),
    "rows": lambda t, size, slide: periodic(rows(size), rows(slide)),
    "column": lambda t, on, size, slide, offset=0: periodic(
        repr(size), repr(slide), repr(offset) if offset else None, repr(on)
    ),
    "last_rows": lambda t, count, every: call("pn.sliding", rows(count), every=t(every)),
    "last_rows_by": lambda t, on, count, every: call("pn.sliding", rows(count), every=repr(every), on=repr(on)),
    "mixed": lambda t, *spec: mixed(t, *spec),
    "ticking": lambda t, *spec: mixed(t, *spec, unchanged=True),
    "per_instant": lambda t, size_on, size, every, partial=False: call(
        "pn.once_per_instant", mixed(t, size_on, size, "rows", every, partial)
    ),
    "first_row": lambda t, size, slide: periodic(t(size), t(slide), '"first row"'),
    "ending": lambda t, size, slide: call("pn.sliding", t(size), every=t(slide), align='"end"'),
    "whole_and_rest": lambda t, size: call("pn.tumbling", rows(size), partial="True"),
    "on_change": lambda t, kind, *spec: call("pn.on_change", WINDOWS[kind](t, *spec)),
    "session": lambda t, gap: call("pn.session", t(gap)),
    "session_by": lambda t, column: call("pn.session", repr(column)),
    "session_on": lambda t, on, gap: call("pn.session", repr(gap), on=repr(on)),
    "cumulate": lambda t, step, longest: call("pn.cumulate", t(step), max=t(longest)),
    "landmark": lambda t, start, every: call("pn.landmark", repr(start), every=t(every)),
    "fixed": lambda t, start, end: call("pn.fixed", repr(start), repr(end)),
    "fixed_band": lambda t, start, size: call("pn.fixed_band", repr(start), size=t(size)),
    "calendar": lambda t, unit, zone: call("pn.tumbling", f'"1 {unit}"', tz=repr(zone)),
    "punctuated": lambda t, begin, end=None: call(
        "pn.punctuated", begin=repr(begin) if begin else None, end=repr(end) if end else None
    ),
    "delta": lambda t, threshold, on: call("pn.delta", repr(threshold), on=repr(on)),
    "threshold": lambda t, column, least, min_rows=1: call(
        "pn.threshold", repr(f"{column} > {least}"), min_rows=repr(min_rows) if min_rows > 1 else None
    ),
    "dynamic_stock": lambda t, expensive, cheap: call(
        "DynamicStock", expensive=repr(tuple(expensive)), cheap=repr(tuple(cheap))
    ),
    "alternating": lambda t, short, long: call("Alternating", repr(short), repr(long)),
    "markers": lambda t, size, slide: call("Markers", repr(size), repr(slide)),
    "keep_last": lambda t, keep, every: call("KeepLast", repr(keep), repr(every)),
    "last_of": lambda t, keep, every: call("LastOf", repr(keep), repr(every)),
    "pauses": lambda t, gap: call("Pauses", repr(gap)),
}


def window_code(spec: Spec, time_unit: str | None = None) -> str:
    return WINDOWS[spec[0]](size_for(time_unit), *spec[1:])


#: aggregates that are written in SQL only
IN_SQL = {
    "sum_distinct": "sum(distinct {})",
    "avg_distinct": "avg(distinct {})",
    "list_distinct": "collect_list(distinct {})",
    "count_distinct_pairs": "count(distinct {}, {})",
    "sum_filtered": "sum({}) filter (where {})",
    "regr_slope": "regr_slope({}, {})",
    "regr_count": "regr_count({}, {})",
}


def aggregate_code(spec: Spec) -> str:
    name, *arguments = spec
    if name in ("quantile", "quantiles"):
        column, ps, *method = arguments
        ps = list(ps) if name == "quantiles" else ps
        return call(f"pn.{name}", repr(column), repr(ps), method=repr(method[0]) if method else None)
    if name == "count_rows":
        return '"count(*)"'
    if name == "weighted_mean":
        value, weight = arguments
        return f'"sum({value} * {weight}) / sum({weight})"'
    if name in OWN:
        return call(OWN[name][0], *map(repr, arguments))
    if name in IN_SQL:
        return repr(IN_SQL[name].format(*arguments))
    if name in ("arg_min", "arg_max"):
        return call(f"pn.{name}", repr(arguments[0]), by=repr(arguments[1]))
    if name == "string_agg":
        return call("pn.string_agg", repr(arguments[0]), separator=repr(arguments[1]))
    if name in ("stddev", "variance") and len(arguments) > 1:
        return call(f"pn.{name}", repr(arguments[0]), population=repr(arguments[1]))
    if name in ("sum", "min", "max", "avg", "count") and len(arguments[0]) == 1:
        return f'"{name}({arguments[0]})"'
    return call(f"pn.{name}", *map(repr, arguments))


def stream_code(program: Program, data: str = "None", **more: str) -> str:
    size = size_for(program.time_unit)
    ts = "bigint" if program.time_unit is None else f"timestamp[{program.time_unit}]"
    schema = {"id": "bigint", "ts": ts, **program.types}
    watermark = program.watermark
    return call(
        "pn.stream",
        data,
        schema=repr(schema),
        time='"ts"',
        key=repr(list(program.keys)) if program.keys else None,
        watermark=size(watermark) if isinstance(watermark, int) else repr(watermark),
        lateness=size(program.lateness) if program.lateness is not None else None,
        **more,
    )


def query_code(program: Program, data: str = "None", **more: str) -> str:
    """`data` and `more`: what its stream reads, and more options of it."""
    windows = {label: window_code(spec, program.time_unit) for label, spec in program.windows.items()}
    if program.emit_empty:
        windows["emit_empty"] = "True"
    added = [call(".add", repr(n), windows.pop(n), **own_code(program, n)) for n in program.windows if n in program.own]
    aggregates = {f"a{i}": aggregate_code(spec) for i, spec in enumerate(program.aggregates)}
    early = "" if program.early is None else call(".early", size_for(program.time_unit)(program.early))
    query = f"{call('.window', **windows)}{call('.agg', **aggregates)}{''.join(added)}"
    return f"{stream_code(program, data, **more)}{query}{early}"


def own_name(spec: Spec) -> str:
    """The output of an aggregate of a window that has some of its own: one name, so one type, wherever it is."""
    return "own_" + "".join(c if c.isalnum() else "_" for c in repr(spec))


def own_code(program: Program, label: str) -> dict[str, str]:
    """The aggregates that a window has of its own."""
    return {own_name(spec): aggregate_code(spec) for spec in program.own.get(label, ())}


def step_code(step: tuple[Any, ...], program: Program) -> str:
    """One call on the operator `op`, as text."""
    name, *arguments = step
    if name == "snapshot":
        return "op = query.operator(restore=op.snapshot(), trusted=True)"
    if name == "add":
        window = window_code(arguments[1], program.time_unit)
        return f"op{call('.add', repr(arguments[0]), window, **own_code(program, arguments[0]))}"
    if name == "remove":
        return f"op.remove({arguments[0]!r})"
    if name == "finish":
        return "op.finish()"
    if name == "advance":
        return f"op.advance({arguments[0]})"
    shown = [("," + "\n         ").join(map(repr, arguments[0]))]
    return f"op.push([{shown[0]}])"


def program_code(program: Program) -> str:
    """The program as a script; times of timestamp columns are ticks (see tests/fuzz/engine.py for Arrow)."""
    lines = ["import panes as pn"]
    specs = [*program.windows.values(), *(step[2] for step in program.steps if step[0] == "add")]
    if any(s[0] in ("alternating", "markers", "keep_last", "last_of", "pauses") for s in specs):
        lines.append("from tests.fuzz.user_windows import Alternating, KeepLast, LastOf, Markers, Pauses")
    lines += ["", f"query = {query_code(program)}", "op = query.operator()"]
    for step in program.steps:
        text = step_code(step, program)
        lines.append(text if step[0] in ("snapshot", "add", "remove") else f"print({text}.rows())")
    if "decimal" in "".join(program.types.values()):
        lines.insert(0, "from decimal import Decimal")
    return "\n".join(lines).replace("nan", 'float("nan")')
