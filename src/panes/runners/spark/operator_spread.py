"""By which columns the rows of an operator may be spread over key groups, so that rows that meet are in one.

Rows of different keys never meet, unless windows forget keys by the rows of all. Without keys, rows that must be equal
to meet, in a match or to be duplicates, can be spread by what must be equal, if windows go by time alone: then no
other row pushes one out of its window.

Time in a static frame comes as far as the last row of all, so that there what the end gives, and what time alone gives,
would differ; over streams it comes as far as the watermark, for all groups alike.
"""

from __future__ import annotations

from panes.operators.clauses import SLIDING, Clause
from panes.operators.models import Use
from panes.plan.graph import Node, OperateNode
from panes.plan.operator_plan import OperatorPlan
from panes.plan.query import QueryPlan
from panes.runners.spark.graph_query import GraphQuery

#: Columns of a port that hold what must be equal for rows to meet.
_EQUAL = {"Join": "panes.equal.", "Dedupe": "panes.on."}


def split_keys(node: Node, *, streaming: bool = False, windows: QueryPlan | None = None) -> list[tuple[str, ...]]:
    """For each frame the columns by which its rows may be spread; none: all rows must be in one place."""
    frames = GraphQuery.of(node, windows, streaming=streaming)[1]
    together: list[tuple[str, ...]] = [() for _ in frames]
    if not isinstance(node, OperateNode) or windows is not None:
        return together  # windows over operators may have other keys
    plan = node.plan
    if [id(each) for each in node.inputs] != [id(each) for each in frames]:
        return together
    if any(clause.partition_evict is not None or clause.punctuated for clause in plan.use.windows.values()):
        return together
    found = [port.stream.keys for port in plan.ports] if _keyed(plan) else _equal_columns(plan)
    alike = _of_keys(plan.use) if streaming else _same_at_the_end(plan, node.port)
    return found if found and alike else together


def _keyed(plan: OperatorPlan) -> bool:
    return all(p.stream.keys and all(k in p.stream.schema.names for k in p.stream.keys) for p in plan.ports)


def _equal_columns(plan: OperatorPlan) -> list[tuple[str, ...]]:
    """Of each port the columns that must be equal for rows to meet; none if windows are not by time alone."""
    prefix = _EQUAL.get(plan.use.model.name)
    if (
        prefix is None
        or any(port.stream.keys for port in plan.ports)
        or not all(map(_by_time, plan.use.windows.values()))
    ):
        return []
    names = [name for name in plan.ports[0].scalars.wanted if name.startswith(prefix)]
    kept = [n for n in names if all(p.scalars.wanted[n].column in p.stream.schema.names for p in plan.ports)]
    found = [tuple(str(port.scalars.wanted[name].column) for name in kept) for port in plan.ports]
    types = [[port.stream.schema.field(c).type for c in columns] for port, columns in zip(plan.ports, found)]
    return found if kept and all(each == types[0] for each in types) else []


def _by_time(clause: Clause) -> bool:
    return clause.kind == SLIDING and (clause.evict.kind == "time" or clause.keeps_none)


def _of_keys(use: Use) -> bool:
    """Whether keys know nothing of each other; those of a user's operator may."""
    return use.model.name in ("Aggregate", "Join", "Sort", "Dedupe", "Punctuate")


def _same_at_the_end(plan: OperatorPlan, port: int) -> bool:
    """Whether they don't either where time stops at the last row, and the end gives something."""
    name, parameters = plan.use.model.name, plan.use.parameters
    if name == "Dedupe":
        return True
    if name == "Join":
        return bool(parameters["how"] == "inner")
    if any("time" in clause.form for clause in plan.use.windows.values()):
        return False
    if name == "Aggregate":
        return not parameters["partial"]
    return name == "Sort" and not plan.outputs[port].stamped
