"""The scalar functions and operators that expressions may use: one table, with a form for DuckDB and one for Spark.

Nothing that is not in it reaches an engine. To add a function, add an entry to the module of its family, and a line
to `tests/spark/scalar_functions.txt`, which compares both forms with Spark itself. What is read from the table: which
names there are, how many arguments they take, the SQL for DuckDB, Columns of Spark, and what can't fail.

All functions are deterministic, and of one row: an expression gives the same value whenever it is replayed.
"""

from __future__ import annotations

from sqlglot import exp

from panes.plan.functions.conditions import CONDITIONS
from panes.plan.functions.forms import ANY_NUMBER, Arity, Function
from panes.plan.functions.numbers import NUMBERS
from panes.plan.functions.patterns import PATTERNS
from panes.plan.functions.text import TEXT
from panes.plan.functions.times import TIMES
from panes.plan.functions.values import VALUES

FUNCTIONS: tuple[Function, ...] = (*VALUES, *CONDITIONS, *NUMBERS, *TEXT, *PATTERNS, *TIMES)

_BY_NODE = {function.node: function for function in FUNCTIONS if function.node is not None}
#: Functions that stay calls by their name.
PLAIN_CALLS = {name: function for function in FUNCTIONS if function.node is None for name in function.names}
SCALAR_FUNCTIONS = frozenset(name for function in FUNCTIONS for name in function.names)
#: The fewest and most arguments, by name.
ARITY: dict[str, Arity] = {
    name: arity for function in FUNCTIONS for name, arity in function.names.items() if arity is not None
}
#: What else trees of expressions are made of.
_STRUCTURE = (exp.Column, exp.Identifier, exp.Paren, exp.DataType, exp.DataTypeParam, exp.Interval, exp.Var)
ALLOWED_NODES = frozenset((*_BY_NODE, *_STRUCTURE))


def function_of(node: exp.Expr) -> Function | None:
    """The function or operator that a node stands for."""
    return PLAIN_CALLS.get(node.name.lower()) if type(node) is exp.Anonymous else _BY_NODE.get(type(node))


def call_problem(node: exp.Expr) -> str | None:
    """What is wrong with a call of a function that is known; None: nothing that shows in the text."""
    function = function_of(node)
    return None if function is None or function.problem is None else function.problem(node)


def arity_problem(name: str, count: int) -> str | None:
    """What is wrong with calling a function with that many arguments: "round takes 1 or 2 arguments, not 0".

    >>> arity_problem("abs", 2)
    'abs takes 1 argument, not 2'
    """
    return count_problem(name, count, *ARITY.get(name.lower(), (0, ANY_NUMBER)))


def count_problem(name: str, count: int, fewest: int, most: int) -> str | None:
    if fewest <= count <= most:
        return None
    if most == ANY_NUMBER:
        wanted = f"{fewest} or more arguments"
    elif fewest == most:
        wanted = f"{fewest} argument{'' if fewest == 1 else 's'}"
    else:
        wanted = f"{fewest} {'or' if most == fewest + 1 else 'to'} {most} arguments"
    return f"{name.lower()} takes {wanted}, not {count}"
