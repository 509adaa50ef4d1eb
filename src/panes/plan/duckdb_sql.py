"""A resolved tree to DuckDB SQL with the meaning Spark gives it.

One rule per node, named for what differs. Documented meaning, whatever the engine: `/` is float division;
dividing by zero, with `/`, `div` or `%`, gives null; casts of fractions to integers cut towards zero; casts
that fail and integers that overflow are errors; logarithms of numbers that are not positive are null; dates
and times are read in UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from panes.errors import ExpressionError, WrongType
from panes.plan.duckdb_nodes import Rule, TypeOf, call, cast, is_text, nonzero, paren, sql, when
from panes.plan.duckdb_session import arrow_type
from panes.plan.duckdb_text import TEXT_RULES, as_text
from panes.plan.duckdb_times import TIME_CALLS, TIME_RULES, exact_seconds, floor_seconds, made_of, moved_date
from panes.plan.trees import copied

INTEGERS = {
    exp.DataType.Type.TINYINT,
    exp.DataType.Type.SMALLINT,
    exp.DataType.Type.INT,
    exp.DataType.Type.BIGINT,
}
NUMBERS = INTEGERS | {exp.DataType.Type.FLOAT, exp.DataType.Type.DOUBLE, exp.DataType.Type.DECIMAL}
TEXTS = {exp.DataType.Type.TEXT, exp.DataType.Type.VARCHAR}
TIMES = {exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPTZ, exp.DataType.Type.TIMESTAMPLTZ}
_OTHERS = {exp.DataType.Type.DATE, exp.DataType.Type.BOOLEAN}
FRACTIONS = ("DOUBLE", "FLOAT", "DECIMAL")
_FLOATS = ("DOUBLE", "FLOAT")
_NESTED = ("STRUCT(", "MAP(")
_NARROW = ("TINYINT", "SMALLINT", "UTINYINT", "USMALLINT")
_INTEGERS = (*_NARROW, "INTEGER", "BIGINT", "UINTEGER", "UBIGINT", "HUGEINT")
_MOST_DIGITS = 38
#: a finite double beyond this is infinite as a float
_LARGEST_FLOAT = 3.4028235677973366e38


def duckdb_sql(
    tree: exp.Expr, columns: Mapping[str, str], type_of: TypeOf, *, narrow: bool = False, decimals: bool = True
) -> str:
    """SQL text for DuckDB; `columns` gives each column its name in the table that DuckDB will see.

    `narrow`: whether there may be integers of less than 32 bits; `decimals`: whether there may be decimals. Types of
    parts are only asked for where they matter, which takes time.
    """
    rules = {**RULES, **(NARROW_RULES if narrow else DECIMAL_RULES if decimals else {})}
    return sql(_rewrite(copied(tree), columns, type_of, rules))


def _rewrite(
    node: exp.Expr, columns: Mapping[str, str], type_of: TypeOf, rules: Mapping[type[exp.Expr], Rule]
) -> exp.Expr:
    if isinstance(node, exp.Column):
        return exp.column(exp.to_identifier(columns[node.name], quoted=True))
    for child in list(node.iter_expressions()):
        if not isinstance(child, exp.DataType):
            child.replace(_rewrite(child, columns, type_of, rules))
    rule = rules.get(type(node))
    if isinstance(node, exp.Anonymous):
        rule = CALLS.get(node.name.lower())  # others are of our own making
    return node if rule is None else rule(node, type_of)


def _div(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    return exp.Div(this=paren(node.this), expression=nonzero(node.expression), typed=False, safe=False)


def _int_div(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    return cast(exp.IntDiv(this=paren(node.this), expression=nonzero(node.expression)), "BIGINT")


def _mod(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    return exp.Paren(this=exp.Mod(this=paren(node.this), expression=nonzero(node.expression)))


def _mul(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """Products of decimals have digits enough; DuckDB keeps to 18 where both sides have no more."""
    kinds = [type_of(sql(side.copy())) for side in (node.this, node.expression)]
    if not all(kind.startswith("DECIMAL") for kind in kinds):
        return node
    digits = [tuple(map(int, kind[len("DECIMAL(") : -1].split(","))) for kind in kinds]
    (precision, scale), (other_precision, other_scale) = digits
    if not 18 < precision + other_precision < _MOST_DIGITS or max(precision, other_precision) > 18:
        return node
    wide = cast(paren(node.this), f"DECIMAL(19, {scale})")
    product = exp.Mul(this=wide, expression=paren(node.expression))
    return cast(product, f"DECIMAL({precision + other_precision + 1}, {scale + other_scale})")


def _add(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    return moved_date(node, type_of) or node


def _with_ints(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """Numbers in the text are integers of 32 bits; for DuckDB they are as narrow as what they are added to."""
    for side, other in (("this", node.expression), ("expression", node.this)):
        number = node.args[side].unnest()
        number = number.this if isinstance(number, exp.Neg) else number
        if isinstance(number, exp.Literal) and number.is_int and type_of(sql(other.copy())) in _NARROW:
            kind = "INTEGER" if int(number.this) < 2**31 else "BIGINT"
            node.set(side, cast(node.args[side].copy(), kind))
    return _mul(node, type_of) if isinstance(node, exp.Mul) else _add(node, type_of)


def _cast_as_spark(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    value, to = node.this, node.args["to"]
    safe = isinstance(node, exp.TryCast) and bool(node.args.get("safe"))
    made = exp.TryCast if safe else exp.Cast
    wanted = to.this
    asked = wanted in NUMBERS or wanted in TEXTS or wanted in TIMES or wanted in _OTHERS
    kind = type_of(sql(value.copy())) if asked else ""
    number = kind.startswith(FRACTIONS) or kind in _INTEGERS
    if wanted in TEXTS:
        return as_text(value, type_of)
    if not safe and (kind.startswith(_NESTED) or kind.endswith("]")):
        # DuckDB would only say so when there are rows
        raise WrongType(arrow_type(kind), f" can't be turned into {to.sql(dialect='spark')}")
    if wanted in TIMES and number:
        return made(this=made_of(value, 1, type_of, strict=True), to=to.copy())
    if kind.startswith("TIMESTAMP") and wanted in NUMBERS:
        if wanted in INTEGERS:
            value = floor_seconds(value)
        else:
            decimal = wanted == exp.DataType.Type.DECIMAL
            value = exact_seconds(value) if decimal else call("EPOCH", value.copy())
    elif wanted in INTEGERS and kind.startswith(FRACTIONS):
        value = call("TRUNC", value.copy())
    elif is_text(kind) and wanted in NUMBERS:
        value = call("px_whole" if wanted in INTEGERS else "px_fraction", value.copy())
    elif is_text(kind) and wanted == exp.DataType.Type.BOOLEAN:
        value = call("TRIM", value.copy())
    elif is_text(kind) and wanted == exp.DataType.Type.DATE:
        value = call("px_day", value.copy())
    elif kind == "DOUBLE" and wanted == exp.DataType.Type.FLOAT:
        beyond = exp.GTE(this=call("ABS", value.copy()), expression=exp.Literal.number(_LARGEST_FLOAT))
        finite = exp.and_(beyond, call("ISFINITE", value.copy()))
        infinite = cast(
            exp.Mul(this=call("SIGN", value.copy()), expression=cast(exp.Literal.string("inf"), "FLOAT")), "FLOAT"
        )
        return when(finite, infinite, made(this=value.copy(), to=to.copy()))
    elif kind.startswith(_FLOATS) and wanted == exp.DataType.Type.DECIMAL:
        return when(call("ISFINITE", value.copy()), made(this=value.copy(), to=to.copy()), None)
    return made(this=value.copy(), to=to.copy())


def _positive_only(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    zero = exp.Literal.number(0)
    numbers = [node.this, *([node.expression] if isinstance(node, exp.Log) and node.expression else [])]
    return when(exp.and_(*(exp.GT(this=paren(n), expression=zero.copy()) for n in numbers)), node.copy(), None)


def _nan_if(outside: Callable[[exp.Expr], exp.Expr]) -> Rule:
    def rule(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
        return when(outside(node.this), cast(exp.Literal.string("NaN"), "DOUBLE"), node.copy())

    return rule


def _negative(x: exp.Expr) -> exp.Expr:
    return exp.LT(this=paren(x), expression=exp.Literal.number(0))


def _beyond_one(x: exp.Expr) -> exp.Expr:
    return exp.GT(this=call("ABS", cast(x.copy(), "DOUBLE")), expression=exp.Literal.number(1))


def _sign(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    value = cast(node.this.copy(), "DOUBLE")
    return when(call("ISNAN", value.copy()), value.copy(), cast(call("SIGN", value), "DOUBLE"))


def _is_nan(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    return exp.Coalesce(this=call("ISNAN", cast(node.this.copy(), "DOUBLE")), expressions=[exp.false()])


def _to_whole(name: str) -> Rule:
    """Up or down to a whole number, which is a BIGINT of a float or double; NaN becomes 0."""

    def rule(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
        if node.args.get("decimals") is not None or node.args.get("to") is not None:
            raise ExpressionError(f"{name.lower()} takes 1 argument: a number of digits can't be given here")
        found = call(name, node.this.copy())
        if not type_of(sql(node.this.copy())).startswith(_FLOATS):
            return found
        return when(call("ISNAN", node.this.copy()), cast(exp.Literal.number(0), "BIGINT"), cast(found, "BIGINT"))

    return rule


def _round(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """Halves away from zero, of the number as it is written: 1.005 is 1.01 with two digits."""
    digits = node.args.get("decimals")
    kind = type_of(sql(node.this.copy())) if digits is not None else ""
    if not kind.startswith(_FLOATS):
        return node
    found = call("px_round", node.this.copy(), digits.copy() if digits is not None else 0)
    return cast(found, "FLOAT") if kind.startswith("FLOAT") else found


def _bit_count(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """Of 64 bits, whatever the type."""
    return cast(call("BIT_COUNT", cast(node.this.copy(), "BIGINT")), "INTEGER")


def _is_null(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    return exp.Paren(this=exp.Is(this=paren(node.expressions[0]), expression=exp.Null()))


def _is_not_null(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    return exp.Paren(this=exp.Not(this=_is_null(node, type_of)))


def _element(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """`v[0]` is the first element of a list, `m['a']` the value of a key, null if there is none."""
    (index,) = node.expressions
    kind = type_of(sql(node.this.copy()))
    if kind.startswith("MAP("):
        return call("MAP_EXTRACT_VALUE", node.this.copy(), index.copy())
    if kind.endswith("]"):
        return call("px_element", node.this.copy(), index.copy())
    if kind.startswith("STRUCT(") and isinstance(index, exp.Literal) and index.is_string:
        return call("STRUCT_EXTRACT", node.this.copy(), index.copy())
    raise WrongType("[...] takes an element of a list, or the value of a key of a map; got ", arrow_type(kind))


def _element_at(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """Of a list the element of a number, from 1 or backwards from -1; of a map the value of a key."""
    values, place = node.expressions
    kind = type_of(sql(values.copy()))
    if kind.startswith("MAP("):
        return call("MAP_EXTRACT_VALUE", values.copy(), place.copy())
    number = type_of(sql(place.copy()))
    if kind.endswith("]") and number in _INTEGERS:
        return call("px_element_at", values.copy(), place.copy())
    got = f"{kind.lower()} and {number.lower()}"
    raise ExpressionError(f"element_at takes a list and a whole number, or a map and a key; got {got}")


def _size(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    (value,) = node.expressions
    kind = type_of(sql(value.copy()))
    if not (kind.startswith("MAP(") or kind.endswith("]")):
        raise WrongType("size takes a list or a map; got ", arrow_type(kind))
    return cast(call("CARDINALITY" if kind.startswith("MAP(") else "LEN", value.copy()), "INTEGER")


def _contains(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    values, value = node.expressions
    if not type_of(sql(values.copy())).endswith("]"):
        raise ExpressionError("array_contains takes a list and a value")
    return call("px_contains", values.copy(), value.copy())


RULES: Mapping[type[exp.Expr], Rule] = {
    exp.Add: _add,
    exp.Sub: _add,
    exp.Div: _div,
    exp.IntDiv: _int_div,
    exp.Mod: _mod,
    exp.Cast: _cast_as_spark,
    exp.TryCast: _cast_as_spark,
    exp.Bracket: _element,
    exp.Ceil: _to_whole("CEIL"),
    exp.Floor: _to_whole("FLOOR"),
    exp.Round: _round,
    exp.Ln: _positive_only,
    exp.Log: _positive_only,
    exp.Sqrt: _nan_if(_negative),
    exp.Asin: _nan_if(_beyond_one),
    exp.Acos: _nan_if(_beyond_one),
    exp.Sign: _sign,
    exp.IsNan: _is_nan,
    exp.BitwiseCount: _bit_count,
    **TEXT_RULES,
    **TIME_RULES,
}

DECIMAL_RULES: Mapping[type[exp.Expr], Rule] = {exp.Mul: _mul}
NARROW_RULES: Mapping[type[exp.Expr], Rule] = {exp.Add: _with_ints, exp.Sub: _with_ints, exp.Mul: _with_ints}

CALLS: Mapping[str, Rule] = {
    "isnull": _is_null,
    "isnotnull": _is_not_null,
    "size": _size,
    "array_contains": _contains,
    "element_at": _element_at,
    **TIME_CALLS,
}
