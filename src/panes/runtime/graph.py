"""Starts a logical graph: every node of it as a running node, with inlets where its rows come in."""

from __future__ import annotations

from collections.abc import Mapping

from panes.plan.graph import FitNode, MergeNode, Node, OperateNode, SelectNode, StampNode, TagNode, WindowsNode
from panes.runtime.merging import RunningMerge, RunningOperator
from panes.runtime.nodes import (
    Inlet,
    RunningFit,
    RunningNode,
    RunningSelect,
    RunningStamp,
    RunningTag,
    RunningWindows,
)
from panes.runtime.quiet import Alarm


def start(node: Node, inlets: Mapping[Node, Inlet], alarm: Alarm | None = None) -> RunningNode:
    """The last node of the graph, running; `inlets` stand for nodes whose rows the driver brings.

    `alarm`: the clock of the run, if it goes by one.
    """
    if node in inlets:
        return inlets[node]
    inputs = [start(each, inlets, alarm) for each in node.inputs]
    match node:
        case FitNode():
            return RunningFit(node, inputs[0])
        case StampNode():
            return RunningStamp(node, inputs[0], alarm)
        case SelectNode():
            return RunningSelect(node, inputs[0], alarm)
        case TagNode():
            return RunningTag(node, inputs[0])
        case WindowsNode():
            return RunningWindows(node, inputs[0], alarm)
        case MergeNode():
            return RunningMerge(node, inputs, alarm)
        case OperateNode():
            return RunningOperator(node, inputs, alarm)
    raise AssertionError(f"{node} has no inlet, and can't run by itself")
