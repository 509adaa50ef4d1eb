"""Operators of users, resolved: `stream.apply(operator, ...)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from panes.errors import QueryError
from panes.operators.clauses import Clause, in_ticks
from panes.operators.models import Model
from panes.operators.user import Operator, user_machine
from panes.plan.operator_plan import OperatorPlan, checked_use, identity_of, stamped_output
from panes.plan.operator_ports import PortPlan
from panes.plan.query import StreamPlan
from panes.plan.together import common_time
from panes.plan.types import arrow_schema


def plan_user(
    streams: Sequence[StreamPlan], operator: Operator, window: Clause | Mapping[str, Clause] | None
) -> OperatorPlan:
    model = _model(operator)
    if len(streams) != len(model.inputs):
        names = ", ".join(port.name for port in model.inputs)
        raise QueryError(f"{model.name}: it reads {len(model.inputs)} streams ({names}), not {len(streams)}")
    named = {port.name: stream for port, stream in zip(model.inputs, streams)}
    if window is None or isinstance(window, Mapping):
        windows = dict(window or {})
    else:
        windows = {model.inputs[0].name: window}
    use = checked_use(model, named, windows, {})
    domain, time_type = common_time(streams)
    ports = [
        PortPlan.of(s, {n: s.scope.named(n) for n in dict.fromkeys((*s.columns, s.time, *s.keys))}, time_type)
        for s in streams
    ]
    rows = {name: port.rows for name, port in zip(named, ports)}
    clauses = {
        name: in_ticks(clause, domain, lambda a, name=name: rows[name].field(a).type, f"{model.name}, input {name!r}")  # type: ignore[misc]
        for name, clause in windows.items()
    }
    schemas = _schemas(model, operator)
    keys = {name: stream.keys for name, stream in named.items()}
    return OperatorPlan(
        use,
        tuple(ports),
        lambda mechanism: user_machine(mechanism, operator, rows, clauses, keys, schemas),
        tuple(stamped_output(schema, ports, keys=(), domain=domain) for schema in schemas.values()),
        f"{model.name} of {', '.join(map(str, windows.values()))}" if windows else model.name,
        identity_of(use, streams, {"class": f"{type(operator).__module__}.{type(operator).__qualname__}"}),
    )


def _model(operator: object) -> Model:
    if not isinstance(operator, Operator):
        raise QueryError(f"apply: the operator must be a pn.operators.Operator; got {operator!r}")
    model = getattr(operator, "model", None)
    if not isinstance(model, Model):
        raise QueryError(f"apply: {type(operator).__name__} needs model = pn.operators.Model(...), which declares it")
    return model


def _schemas(model: Model, operator: Operator) -> dict[str, pa.Schema]:
    """The columns of each output."""
    declared = getattr(operator, "schema", None)
    names = [port.name for port in model.outputs]
    if not isinstance(declared, Mapping) or not declared:
        raise QueryError(f"{model.name}: it needs schema = {{'column': 'double', ...}}, the columns that it gives")
    if all(isinstance(each, Mapping) for each in declared.values()):
        if sorted(declared) != sorted(names):
            raise QueryError(f"{model.name}: schema has {', '.join(declared)}, its outputs are {', '.join(names)}")
        return {name: arrow_schema(declared[name]) for name in names}
    if len(names) != 1:
        raise QueryError(f"{model.name}: it has several outputs, so schema must have columns for each of them by name")
    return {names[0]: arrow_schema(declared)}
