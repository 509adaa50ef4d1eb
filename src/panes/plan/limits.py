"""How long a text functions may make, checked where the length is written in the expression."""

from __future__ import annotations

from sqlglot import exp

from panes.plan.duckdb_macros import LONGEST_TEXT
from panes.plan.duckdb_nodes import whole_number


def too_long(node: exp.Expr) -> str | None:
    """What is wrong with a call that makes text of a length that is written in it; None: nothing that shows here.

    Lengths that are computed are checked where they are, row by row.
    """
    if isinstance(node, exp.Repeat):
        name, argument, number = "repeat", "times", whole_number(node.args.get("times"))
    elif isinstance(node, exp.Pad):
        name = "lpad" if node.args.get("is_left") else "rpad"
        argument, number = "length", whole_number(node.expression)
    else:
        return None
    if number is None or number <= LONGEST_TEXT:
        return None
    return f"{name}: the {argument} may be {LONGEST_TEXT:,} at most, which is the longest text it makes; got {number:,}"
