"""What SQL an expression may hold: the allow-list of functions and syntax, as a sqlglot dialect.

Spark SQL, cut down: a function that is not listed here is parsed as a call of an unknown name, so that
`expressions` can resolve it as an aggregate or refuse it by name and position. Nothing outside the two lists
below ever reaches an engine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlglot.parser
from sqlglot import exp
from sqlglot.dialects.spark import Spark

from panes.errors import ExpressionError
from panes.plan.arity import PLAIN_CALLS, arity_problem

if not str(sqlglot.parser.__file__).endswith(".py"):
    raise ImportError(
        "Panes extends the parser of sqlglot, and the compiled one (the package sqlglotc, or sqlglot[c]) can't be "
        "extended: pip uninstall sqlglotc"
    )

#: Deterministic functions of one row that Spark and DuckDB both have, or that `duckdb_sql` rewrites.
SCALAR_FUNCTIONS = frozenset(
    """
    abs ceil ceiling floor round sqrt cbrt exp ln log log2 log10 pow power sign signum mod greatest least
    sin cos tan asin acos atan atan2 degrees radians pi isnan
    coalesce nvl ifnull nullif if nvl2 isnull isnotnull
    upper ucase lower lcase length char_length character_length trim ltrim rtrim substring substr left right
    concat concat_ws replace reverse repeat lpad rpad instr position locate startswith endswith contains
    split_part regexp_replace regexp_extract regexp_like translate ascii chr char md5 levenshtein
    year quarter month day dayofmonth hour minute second dayofweek weekday dayofyear weekofyear
    date_trunc to_date date_add date_sub datediff last_day add_months make_date
    unix_seconds unix_millis unix_micros timestamp_seconds timestamp_millis timestamp_micros
    cast try_cast bit_count to_timestamp date_format extract size array_contains
    element_at date_part try_to_timestamp
    """.split()
)

SYNTAX_NODES: tuple[type[exp.Expr], ...] = (
    exp.Column,
    exp.Identifier,
    exp.Dot,
    exp.Literal,
    exp.Boolean,
    exp.Null,
    exp.Paren,
    exp.Neg,
    exp.Not,
    exp.And,
    exp.Or,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Div,
    exp.IntDiv,
    exp.Mod,
    exp.EQ,
    exp.NEQ,
    exp.GT,
    exp.GTE,
    exp.LT,
    exp.LTE,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
    exp.Is,
    exp.In,
    exp.Between,
    exp.Like,
    exp.ILike,
    exp.Escape,
    exp.RegexpLike,
    exp.Case,
    exp.If,
    exp.Cast,
    exp.TryCast,
    exp.DataType,
    exp.DataTypeParam,
    exp.DPipe,
    exp.BitwiseAnd,
    exp.BitwiseOr,
    exp.BitwiseXor,
    exp.BitwiseNot,
    exp.Bracket,
    exp.Interval,
    exp.Var,
)

FUNCTION_NODES: tuple[type[exp.Expr], ...] = (
    exp.Abs,
    exp.Ceil,
    exp.Floor,
    exp.Round,
    exp.Sqrt,
    exp.Cbrt,
    exp.Exp,
    exp.Ln,
    exp.Log,
    exp.Pow,
    exp.Sign,
    exp.Greatest,
    exp.Least,
    exp.Sin,
    exp.Cos,
    exp.Tan,
    exp.Asin,
    exp.Acos,
    exp.Atan,
    exp.Atan2,
    exp.Degrees,
    exp.Radians,
    exp.Pi,
    exp.IsNan,
    exp.Coalesce,
    exp.Nullif,
    exp.Nvl2,
    exp.Upper,
    exp.Lower,
    exp.Length,
    exp.Trim,
    exp.Substring,
    exp.Left,
    exp.Right,
    exp.Concat,
    exp.ConcatWs,
    exp.Replace,
    exp.Reverse,
    exp.Repeat,
    exp.Pad,
    exp.StrPosition,
    exp.StartsWith,
    exp.EndsWith,
    exp.Contains,
    exp.SplitPart,
    exp.RegexpReplace,
    exp.RegexpExtract,
    exp.Translate,
    exp.Ascii,
    exp.Chr,
    exp.MD5,
    exp.Levenshtein,
    exp.Year,
    exp.Quarter,
    exp.Month,
    exp.Day,
    exp.DayOfMonth,
    exp.Hour,
    exp.Minute,
    exp.Second,
    exp.DayOfWeek,
    exp.DayOfYear,
    exp.WeekOfYear,
    exp.TimestampTrunc,
    exp.DateTrunc,
    exp.TsOrDsToDate,
    exp.TsOrDsAdd,
    exp.DateDiff,
    exp.LastDay,
    exp.AddMonths,
    exp.UnixSeconds,
    exp.UnixMillis,
    exp.UnixMicros,
    exp.BitwiseCount,
    exp.Extract,
)

ALLOWED_NODES = frozenset(SYNTAX_NODES + FUNCTION_NODES)

_SparkParser: Any = Spark.Parser
_SparkGenerator: Any = Spark.Generator


def _called(name: str, build: Callable[..., Any]) -> Callable[..., Any]:
    """The builder of a function that looks at the number of arguments, and has the node know its name in the text."""

    def made(args: list[Any], **options: Any) -> Any:
        problem = arity_problem(name, len(args))
        if problem:
            raise ExpressionError(problem)
        node = build(args, **options)
        node.meta["called"] = name.lower()
        return node

    return made


class PanesSQL(Spark):
    """Spark SQL expressions, with every function that is not on the list left unresolved."""

    class Parser(_SparkParser):
        FUNCTIONS = {  # noqa: RUF012
            name: _called(name, build)
            for name, build in _SparkParser.FUNCTIONS.items()
            if name.lower() in SCALAR_FUNCTIONS and name.lower() not in PLAIN_CALLS
        }
        FUNCTION_PARSERS = {  # noqa: RUF012
            name: parse for name, parse in _SparkParser.FUNCTION_PARSERS.items() if name.lower() in SCALAR_FUNCTIONS
        }
        # any(x) and some(x) are aggregates, not words before a subquery
        SUBQUERY_PREDICATES = {  # noqa: RUF012
            token: node for token, node in _SparkParser.SUBQUERY_PREDICATES.items() if node is exp.Exists
        }
        # no current_date and the like: an expression gives the same value whenever it is replayed
        NO_PAREN_FUNCTIONS: dict[Any, Any] = {}  # noqa: RUF012
        NO_PAREN_FUNCTION_PARSERS = {  # noqa: RUF012
            name: parse for name, parse in _SparkParser.NO_PAREN_FUNCTION_PARSERS.items() if name in ("CASE", "IF")
        }

    class Generator(_SparkGenerator):
        def datatype_sql(self, expression: exp.DataType) -> str:
            # it makes other types of some, in the very tree
            return str(super().datatype_sql(expression.copy()))
