"""Operators over streams: their windows and models, and the base of operators that you write.

`stream.sort`, `dedupe`, `aggregate`, `match` and `apply` take windows from here:

    from panes.operators import count, sliding, time, tumbling

    tumbling(count(100)), sliding(time("10 s"), every=count(1)), sliding(count(0))
"""

from __future__ import annotations

from panes.operators.clauses import Clause, sliding, tumbling
from panes.operators.models import (
    ROW_BY_ROW_FORMS,
    SLIDING_FORMS,
    TUMBLING_FORMS,
    InputPort,
    Model,
    OutputPort,
    Parameter,
    Use,
)
from panes.operators.user import Operator
from panes.policies.library import count, delta, partition_age, partition_count, punct, time, tuple_count

__all__ = [
    "ROW_BY_ROW_FORMS",
    "SLIDING_FORMS",
    "TUMBLING_FORMS",
    "Clause",
    "InputPort",
    "Model",
    "Operator",
    "OutputPort",
    "Parameter",
    "Use",
    "count",
    "delta",
    "partition_age",
    "partition_count",
    "punct",
    "sliding",
    "time",
    "tumbling",
    "tuple_count",
]
