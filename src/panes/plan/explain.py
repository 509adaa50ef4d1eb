"""`query.explain()`: what a query will do and why, in words a newcomer understands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from panes.plan.flow import FlowExplanation, explain_flow, inputs_text
from panes.plan.graph import Node, OperateNode, SelectNode, WindowsNode
from panes.plan.silence import BY_ROWS, Silence
from panes.plan.steps import Step
from panes.slicing.operator import SliceOperator
from panes.slicing.spec import MANUAL, OperatorSpec
from panes.slicing.window_set import WindowSet
from panes.slicing.workload import Workload
from panes.units import Duration, TimeDomain
from panes.windows.base import TIME, Bound, ContextClass, ContextFree, KeyBorders, LookBack
from panes.windows.normal_form import normal_form

_CLASSES = {
    ContextClass.CONTEXT_FREE: "edges known in advance",
    ContextClass.FORWARD_FREE: "edges decided by each row as it comes",
    ContextClass.FORWARD_AWARE: "start found only when the end is there",
    ContextClass.SESSION: "grows and merges with its rows",
}
#: How many edges are shown, and looked at to find the usual length of a slice.
_SHOWN, _SAMPLE = 8, 4096


@dataclass(frozen=True)
class Explanation:
    """The parts of an explanation; as text, all of them."""

    stream: str
    windows: tuple[tuple[str, str, str, str], ...]  # label, spec, measure, class
    aggregates: tuple[tuple[str, str], ...]  # name, laws
    workload: Workload
    strategy: str
    edges: str
    sharing: str
    amplification: str
    steps: tuple[str, ...]  # what is done to results
    inputs: tuple[str, ...]  # explanations of what the stream is made from
    #: label, and the outputs that the window gives, where windows don't all give the same
    outputs: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        width = max((len(label) for label, *_ in self.windows), default=0)
        spec_width = max((len(spec) for _, spec, *_ in self.windows), default=0)
        lines = [f"Stream      {self.stream}", "", "Windows"]
        lines += [
            f"  {label:<{width}}  {spec:<{spec_width}}  on {measure}; {kind}"
            for label, spec, measure, kind in self.windows
        ]
        if self.outputs:
            lines += ["", "Outputs", *(f"  {label:<{width}}  {given}" for label, given in self.outputs)]
        lines += ["", "Aggregates"]
        name_width = max((len(name) for name, _ in self.aggregates), default=0)
        lines += [f"  {name:<{name_width}}  {laws}" for name, laws in self.aggregates]
        lines += ["", "Decisions"]
        for step in self.workload.decisions:
            lines.append(f"  {step.question:<38} {'yes' if step.answer else 'no':<4} {step.because}")
        lines += [
            "",
            f"Strategy    {self.strategy}",
            f"Slices      {self.edges}",
            f"Sharing     {self.sharing}",
            f"Row copies  {self.amplification}",
        ]
        if self.steps:
            lines += ["", "Steps on results", *(f"  {i}  {step}" for i, step in enumerate(self.steps, 1))]
        return "\n".join(lines) + inputs_text(self.inputs)

    def __repr__(self) -> str:
        return str(self)


def explain(
    op: SliceOperator, steps: Sequence[Step] = (), inputs: Sequence[str] = (), silence: Silence = BY_ROWS
) -> Explanation:
    """Explain a running operator, or a fresh one, with the steps on its results and what its stream is made from.

    `silence`: what the stream does when no rows come.
    """
    spec = op.spec
    bound = [(label, window, normal_form(window.bind(spec.domain))) for label, window in op.windows.items()]
    return Explanation(
        _stream(spec) + (f"; {silence.spoken}" if silence.spoken else ""),
        tuple(
            (label, repr(window), _measures(b), f"{b.context.value} ({_CLASSES[b.context]})")
            for label, window, b in bound
        ),
        tuple((name, _laws(a.bound.laws)) for name, a in op.aggregates.items()),
        op.workload,
        _strategy(op),
        _edges([b for _, _, b in bound], spec.domain, op.watermark),
        _sharing([len(lane.queries) for lane in op.lanes if lane.queries], len(op.aggregates)),
        _amplification([(label, b) for label, _, b in bound]),
        tuple(map(str, steps)),
        tuple(inputs),
        tuple((label, ", ".join(f"{n} = {c}" for n, c in computed.items())) for label, computed in op.outputs.items()),
    )


def explain_query(query: WindowsNode) -> Explanation:
    """Explain a query, and what its stream is made from."""
    plan = query.plan
    op = SliceOperator(plan.operator_spec())
    return explain(op, plan.steps, explain_inside(query.source), plan.stream.silence)


def explain_stream(stream: SelectNode) -> FlowExplanation:
    """Explain a stream without windows, and what it is made from."""
    return explain_flow(stream.flow, str(stream.source), explain_inside(stream.source))


def explain_inside(node: Node) -> tuple[str, ...]:
    """The explanations of the streams, queries and operators that rows come from."""
    match node:
        case WindowsNode():
            return (str(explain_query(node)),)
        case SelectNode():
            return (str(explain_stream(node)),)
        case OperateNode():
            texts = [text for each in node.inputs for text in (explain_inside(each) or (f"Stream      {each}",))]
            inside = "\n".join(f"  {line}".rstrip() for text in texts for line in text.splitlines())
            return (f"Operator    {node.plan.text}\n{inside}",)
        case _:
            return tuple(text for each in node.inputs for text in explain_inside(each))


def _measures(window: Bound) -> str:
    if isinstance(window, LookBack) and window.back != window.measure:
        return f"{window.back}, ends on {window.measure}"
    return str(window.measure)


def _stream(spec: OperatorSpec) -> str:
    key = f"per {', '.join(spec.keys)}" if spec.keys else "no key"
    if spec.watermark is None:
        order = "declared in order: each row is its own watermark"
    elif spec.watermark == MANUAL:
        order = "the watermark moves only by advance()"
    else:
        order = f"waits {_span(spec.bound, spec.domain)} for rows out of order"
    late = "" if spec.lateness is None else f"; then corrects for {_span(spec.lateness, spec.domain)}"
    return f"time {spec.time}, {key}; {order}{late}"


def _span(ticks: int, domain: TimeDomain) -> str:
    return str(ticks) if domain.integer else str(Duration(ticks * domain.nanos_per_tick))


def _laws(laws: object) -> str:
    names = ("associative", "commutative", "invertible", "holistic")
    return ", ".join(n if getattr(laws, n) else f"not {n}" for n in names if n != "holistic" or laws.holistic)  # type: ignore[attr-defined]


def _strategy(op: SliceOperator) -> str:
    parts = []
    for lane in op.lanes:
        store = lane.metrics().get("store", "auto")
        if lane.ordered:
            waits = "rows pass in event-time order" if op.spec.in_order else "rows wait for the watermark"
            kept = ""
            if op.spec.lateness is not None:
                span = _span(op.spec.lateness, op.spec.domain)
                kept = f", the rows of the last {span} are kept to correct results"
            parts.append(f"row lane: {waits}, then become slices{kept} (store: {store})")
            parts += [f"{label}: {plan}" for label, plan in lane.plans().items()]
            at_borders = ((q.label, w) for q in lane.queries if isinstance(w := q.window, KeyBorders))
            parts += [_normal_form(label, window, op.spec.domain) for label, window in at_borders]
        else:
            parts.append(f"partial lane: slices keep partial aggregates only, in any order (store: {store})")
    return "; ".join(parts)


def _normal_form(label: str, window: KeyBorders, domain: TimeDomain) -> str:
    """What a window is in other words, and is treated as."""
    lengths = (window.size, window.slide)
    size, slide = (_span(n, domain) if window.by_time else f"{n} rows" for n in lengths)
    return f"{label}: in normal form the last {size} at borders every {slide}, which the rows of each key pass"


def _edges(windows: Sequence[Bound], domain: TimeDomain, watermark: int) -> str:
    free = [w for w in windows if isinstance(w, ContextFree) and w.measure == TIME]
    others = len(windows) - len(free)
    driven = ""
    if others:
        driven = "1 window also cuts" if others == 1 else f"{others} windows also cut"
        driven += " where rows say so"
    if not free:
        return driven or "none"
    from panes.slicing.lane import RunningWindow

    known = WindowSet(TIME, [RunningWindow("", i, w) for i, w in enumerate(free)])
    start = max(watermark, 0)
    step = int(min(known.step, 2**40))
    edges = known.edges(start - 1, start + step * _SAMPLE)
    if len(edges) < 2:
        return f"cut at {', '.join(map(str, edges))}" + (f"; {driven}" if driven else "")
    usual = _span(int(np.median(np.diff(edges))), domain)
    shown = ", ".join(_span(int(e) - start, domain) if e > start else "0" for e in edges[:_SHOWN])
    text = f"cut where any window begins or ends: {shown}, ... (usual length {usual})"
    return text + (f"; {driven}" if driven else "")


def _sharing(lanes: Sequence[int], aggregates: int) -> str:
    """`lanes`: how many windows each has."""
    windows = sum(lanes)
    if windows == 1:
        return f"one window; each row is lifted once for {aggregates} aggregate{'s' * (aggregates > 1)}"
    if len(lanes) < 2:
        return f"{windows} windows share one set of slices; each row is lifted once, not {windows} times"
    first, second = lanes
    twice = f"each row is lifted twice, not {windows} times" if windows > 2 else "each row is lifted once for each"
    return (
        f"two sets of slices, for {first} that take rows in any order and {second} that must see them in order; {twice}"
    )


def _amplification(windows: Sequence[tuple[str, Bound]]) -> str:
    """How many windows of the query hold a row, on average: what copying rows into windows would cost."""
    copies = sum(_windows_per_row(window) for _, window in windows)
    return f"1 per row; one copy per window would make it {copies:,.4g}"


def _windows_per_row(window: Bound) -> float:
    size, slide, step = (getattr(window, name, None) for name in ("size", "slide", "step"))
    if isinstance(size, int | float) and isinstance(slide, int | float):
        return size / slide
    if isinstance(size, int | float) and isinstance(step, int | float):
        return (size / step + 1) / 2  # cumulating: the first step is in all of them, the last in one
    return 1.0
