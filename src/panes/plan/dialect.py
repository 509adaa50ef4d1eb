"""How expressions are read and written: Spark SQL, cut down to the table of `functions`, as a sqlglot dialect.

A function that is not in the table is parsed as a call of an unknown name, so that `expressions` can resolve it as
an aggregate or refuse it by name and position.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import sqlglot.parser
from sqlglot import exp
from sqlglot.dialects.spark import Spark, SparkGenerator, SparkParser

from panes.errors import ExpressionError
from panes.plan.functions import PLAIN_CALLS, SCALAR_FUNCTIONS, arity_problem

if not str(sqlglot.parser.__file__).endswith(".py"):
    raise ImportError(
        "Panes extends the parser of sqlglot, and the compiled one (the package sqlglotc, or sqlglot[c]) can't be "
        "extended: pip uninstall sqlglotc"
    )

#: Functions with words between their arguments, which have a grammar of their own: trim(BOTH 'x' FROM a).
_WITH_WORDS = ("CAST", "TRY_CAST", "EXTRACT", "POSITION", "SUBSTRING", "SUBSTR", "TRIM")


def _called(name: str, build: Callable[..., exp.Expr]) -> Callable[..., exp.Expr]:
    """The builder of a function that looks at the number of arguments, and has the node know its name in the text."""

    def made(args: list[Any], **options: object) -> Any:
        problem = arity_problem(name, len(args))
        if problem:
            raise ExpressionError(problem)
        node = build(args, **options)
        node.meta["called"] = name.lower()
        return node

    return made


class PanesSQL(Spark):
    """Spark SQL expressions, with every function that is not on the list left unresolved."""

    class Parser(SparkParser):
        FUNCTIONS: ClassVar = {
            name: _called(name, build)
            for name, build in SparkParser.FUNCTIONS.items()
            if name.lower() in SCALAR_FUNCTIONS and name.lower() not in PLAIN_CALLS
        }
        # others are plain calls: sqlglot would read units of time in ceil(x), and a character set in chr(x)
        FUNCTION_PARSERS: ClassVar = {name: SparkParser.FUNCTION_PARSERS[name] for name in _WITH_WORDS}
        # any(x) and some(x) are aggregates, not words before a subquery
        SUBQUERY_PREDICATES: ClassVar = {
            token: node for token, node in SparkParser.SUBQUERY_PREDICATES.items() if node is exp.Exists
        }
        # no current_date and the like: an expression gives the same value whenever it is replayed
        NO_PAREN_FUNCTIONS: ClassVar = {}
        NO_PAREN_FUNCTION_PARSERS: ClassVar = {
            name: parse for name, parse in SparkParser.NO_PAREN_FUNCTION_PARSERS.items() if name in ("CASE", "IF")
        }

    class Generator(SparkGenerator):
        def datatype_sql(self, expression: exp.DataType) -> str:
            # it makes other types of some, in the very tree
            return str(super().datatype_sql(expression.copy()))
