"""The same query with EMIT EARLY: it is read as it is meant, and in the end it gives what it gives without.

Results that come before windows close are compared with the rule by the engine's fuzz (tests/fuzz).
"""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from panes.cql import tree
from panes.cql.clauses import EmitEarly
from panes.cql.layout import lay_out
from panes.cql.parse import Located
from panes.cql.session import QueryRows, Session
from panes.cql.tree import Name, Quantity, SelectItem
from panes.errors import QueryError
from tests.cql_fuzz.spelling import text_of
from tests.cql_fuzz.terms import col

#: One query of so many is also run with EMIT EARLY, if it can be.
SHARE = 2
_CLOSED, _WITHDRAWN = "fuzz_closed", "fuzz_withdrawn"
#: what a query may be refused for: it has no windows that can be given early
_REFUSED = ("EMIT", "early(")


def early_of(statement: object, seed: int) -> tree.Select | None:
    """The query with EMIT EARLY and columns that tell final results from others; None: not this one."""
    rng = random.Random(-1 - seed)
    if rng.random() * SHARE > 1 or not isinstance(statement, tree.Select):
        return None
    if not getattr(statement.source, "windows", ()):
        return None  # joins have windows on both sides, and others none
    if "revision" in text_of((statement,), random.Random(seed)).lower():
        return None  # it says how often a result was given, and early results count
    every = EmitEarly(Quantity(rng.choice((1, 2, 3, 5)), rng.choice(("sec", "ms"))))
    more = (SelectItem(col("final"), Name(_CLOSED)), SelectItem(col("void"), Name(_WITHDRAWN)))
    return replace(statement, entries=(*statement.entries, *more), clauses=(*statement.clauses, every))


def text_of_early(select: tree.Select, seed: int) -> tuple[str, tuple[Located, ...]]:
    return lay_out(text_of((select,), random.Random(seed)))


def finals(session: Session, located: Located) -> pa.Table | None:
    """What the query gives when windows have closed; None if it can't be given early."""
    try:
        answer = session.execute(located)
        assert isinstance(answer, QueryRows)
        given = answer.query.to_arrow()
    except QueryError as error:
        if any(word in str(error) for word in _REFUSED):
            return None
        raise
    closed = pc.and_(given[_CLOSED], pc.invert(given[_WITHDRAWN]))
    return given.filter(closed).drop_columns([_CLOSED, _WITHDRAWN])
