"""Functions of text, and `||`. A text that a function makes much longer than what it is given may have a million
characters at most: an error otherwise, in both engines, and when the query is built if the length is written in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from panes.errors import ExpressionError
from panes.plan.duckdb_macros import LONGEST_TEXT
from panes.plan.functions.forms import (
    ANY_NUMBER,
    Function,
    NoColumn,
    SparkColumns,
    SparkForm,
    Types,
    call,
    cast,
    is_text,
    literal_int,
    literal_text,
    spark_call,
    sql,
    takes,
    whole_number,
    written,
)

if TYPE_CHECKING:
    from pyspark.sql import Column

_FRACTIONS = ("DOUBLE", "FLOAT")


def as_text(value: exp.Expr, types: Types) -> exp.Expr:
    """A value as Spark writes it."""
    kind = types.of(value)
    if is_text(kind):
        return value.copy()
    if kind.startswith(_FRACTIONS):
        return call("px_number", value.copy())
    if kind.endswith("WITH TIME ZONE"):
        value = cast(value.copy(), "TIMESTAMP")
    return cast(value.copy(), "VARCHAR")


def _substring(node: exp.Expr, types: Types) -> exp.Expr:
    """Places are counted from 1, and 0 means 1."""
    start, length = node.args.get("start"), node.args.get("length")
    if start is None:
        raise ExpressionError("substring takes a text, a place from 1 on and perhaps a length")
    place = f"CASE WHEN ({sql(start)}) = 0 THEN 1 ELSE {sql(start)} END"
    rest = "" if length is None else f", GREATEST({sql(length)}, 0)"
    return written(f"SUBSTRING({sql(node.this)}, {place}{rest})")


def _spark_substring(b: SparkColumns, node: exp.Expr) -> Column:
    start = literal_int(node.args.get("start"), "the start of substring", 1)
    if node.args.get("length") is None:
        return b.F.substr(b.of(node.this), b.F.lit(start))
    length = literal_int(node.args["length"], "the length of substring", 0)
    return b.F.substr(b.of(node.this), b.F.lit(start), b.F.lit(length))


def _spark_end(name: str) -> SparkForm:
    def form(b: SparkColumns, node: exp.Expr) -> Column:
        length = literal_int(node.expression, f"the length of {name}", 0)
        return b.call(name, b.of(node.this), b.F.lit(length))

    return form


def _spark_trim(b: SparkColumns, node: exp.Expr) -> Column:
    trim = {"LEADING": b.F.ltrim, "TRAILING": b.F.rtrim}.get(str(node.args.get("position") or ""), b.F.trim)
    signs = node.expression
    return trim(b.of(node.this)) if signs is None else trim(b.of(node.this), b.of(signs))


def _position(node: exp.Expr, types: Types) -> exp.Expr:
    """The place of a piece of text, from a place on; 0: there is none, or the place is not in the text."""
    start, text, piece = node.args.get("position"), node.this.copy(), node.args["substr"].copy()
    if start is None or whole_number(start) == 1:
        return call("STRPOS", text, piece)
    return call("px_locate", text, piece, start.copy())


def _spark_position(b: SparkColumns, node: exp.Expr) -> Column:
    start = node.args.get("position")
    at = 1 if start is None else literal_int(start, "the position to search from", 1)
    return b.F.position(b.of(node.args["substr"]), b.of(node.this), b.F.lit(at))


def _split_part(node: exp.Expr, types: Types) -> exp.Expr:
    if whole_number(node.args["part_index"]) == 0:
        raise ExpressionError("split_part: the number of the part may not be 0; the first is 1, the last -1")
    return call("px_split_part", *(part.copy() for part in node.iter_expressions()))


def _spark_split_part(b: SparkColumns, node: exp.Expr) -> Column:
    delimiter = literal_text(node.args["delimiter"], "the delimiter of split_part")
    if not delimiter:
        raise NoColumn("split_part with an empty delimiter differs between engines")
    part = literal_int(node.args["part_index"], "the part of split_part", 1)
    return b.F.split_part(b.of(node.this), b.F.lit(delimiter), b.F.lit(part))


def _concat(node: exp.Expr, types: Types) -> exp.Expr:
    parts = [as_text(part, types) for part in node.expressions]
    if len(parts) == 1:
        return parts[0]
    joined = parts[0]
    for part in parts[1:]:  # null if any of them is
        joined = exp.DPipe(this=joined, expression=part, safe=True)
    return exp.Paren(this=joined)


def _spark_concat(b: SparkColumns, node: exp.Expr) -> Column:
    return b.F.concat(*(b.text(part) for part in node.expressions))


def _joined(node: exp.Expr, types: Types) -> exp.Expr:
    sides = (as_text(side, types) for side in (node.this, node.expression))
    return exp.DPipe(**dict(zip(("this", "expression"), sides, strict=True)), safe=True)


def _spark_joined(b: SparkColumns, node: exp.Expr) -> Column:
    return b.F.concat(b.text(node.this), b.text(node.expression))


def _concat_ws(node: exp.Expr, types: Types) -> exp.Expr:
    separator, *parts = node.expressions
    for part in parts:
        if types.of(part).endswith("]"):
            raise ExpressionError("concat_ws: lists can't be joined here; name the elements, such as v[0]")
    return call("CONCAT_WS", separator.copy(), *(as_text(part, types) for part in parts))


def _spark_concat_ws(b: SparkColumns, node: exp.Expr) -> Column:
    separator, *parts = node.expressions
    return b.F.concat_ws(literal_text(separator, "the separator of concat_ws"), *(b.text(part) for part in parts))


def _replace(node: exp.Expr, types: Types) -> exp.Expr:
    new = node.args.get("replacement")
    given = (node.this.copy(), node.expression.copy(), exp.Literal.string("") if new is None else new.copy())
    return call("px_replace", *given)


def _spark_replace(b: SparkColumns, node: exp.Expr) -> Column:
    F, given = b.F, node.args.get("replacement")
    text, old, new = b.of(node.this), b.of(node.expression), F.lit("") if given is None else b.of(given)
    was, grows = F.length(text).cast("bigint"), F.length(new) - F.length(old)
    # how often a piece is there is counted only where it could be too often
    count = F.floor((was - F.length(F.replace(text, old, F.lit("")))) / F.greatest(F.length(old), F.lit(1)))
    could = (grows > 0) & (F.length(old) > 0) & (was * F.length(new) > F.lit(LONGEST_TEXT) * F.length(old))
    return F.replace(unless(b, could & (was + count * grows > LONGEST_TEXT), "replace", text), old, new)


def unless(b: SparkColumns, too_long: Column, name: str, text: Column) -> Column:
    """Text for a function that would make too long a one of it: an error. It stands inside of the call, since Spark may
    compute a call of constants ahead, whatever is around it."""
    wrong = b.F.raise_error(b.F.lit(f"{name}: the text may have {LONGEST_TEXT} characters, and would have more"))
    return b.F.when(too_long, wrong).otherwise(text)


def _spark_repeat(b: SparkColumns, node: exp.Expr) -> Column:
    F, text, times = b.F, b.of(node.this), b.of(node.args["times"]).cast("bigint")
    message = f"repeat: the text may have {LONGEST_TEXT} characters, not "
    wrong = F.raise_error(F.concat(F.lit(message), F.length(text), F.lit(" times "), times))
    return F.when(F.length(text) * times > F.lit(LONGEST_TEXT), wrong).otherwise(F.repeat(text, times.cast("int")))


def _repeated_too_often(node: exp.Expr) -> str | None:
    return _too_long("repeat", "times", node.args.get("times"))


def _pad(node: exp.Expr, types: Types) -> exp.Expr:
    fill = node.args.get("fill_pattern")
    given = exp.Literal.string(" ") if fill is None else fill.copy()
    return call(f"px_{_pad_name(node)}", node.this.copy(), cast(node.expression.copy(), "BIGINT"), given)


def _spark_pad(b: SparkColumns, node: exp.Expr) -> Column:
    length = literal_int(node.expression, "the length to pad to", 0)
    fill = node.args.get("fill_pattern")
    with_what = " " if fill is None else literal_text(fill, "what to pad with")
    if not with_what:
        raise NoColumn("padding with nothing is an error in one engine and not in the other")
    return b.call(_pad_name(node), b.of(node.this), length, with_what)


def _padded_too_long(node: exp.Expr) -> str | None:
    return _too_long(_pad_name(node), "length", node.expression)


def _pad_name(node: exp.Expr) -> str:
    return "lpad" if node.args.get("is_left") else "rpad"


def _too_long(name: str, argument: str, given: exp.Expr | None) -> str | None:
    """What is wrong with a length that is written in the text. Those that are computed are checked row by row."""
    number = whole_number(given)
    if number is None or number <= LONGEST_TEXT:
        return None
    return f"{name}: the {argument} may be {LONGEST_TEXT:,} at most, which is the longest text it makes; got {number:,}"


def _spark_translate(b: SparkColumns, node: exp.Expr) -> Column:
    signs, new = (literal_text(node.args.get(part), "an argument of translate") for part in ("from_", "to"))
    return b.F.translate(b.of(node.this), signs, new)


def _spark_chr(b: SparkColumns, node: exp.Expr) -> Column:
    return b.F.chr(b.F.lit(literal_int(node.expressions[0], "the code of chr", 1)))


def _levenshtein(node: exp.Expr, types: Types) -> exp.Expr:
    if any(value is not None for name, value in node.args.items() if name not in ("this", "expression")):
        raise ExpressionError("levenshtein takes 2 arguments: a threshold can't be given here")
    return call("px_levenshtein", node.this.copy(), node.expression.copy())


TEXT = (
    Function({}, exp.DPipe, "||", duckdb=_joined, spark=_spark_joined),
    Function(takes("concat", 1, ANY_NUMBER), exp.Concat, duckdb=_concat, spark=_spark_concat),
    Function(takes("concat_ws", 2, ANY_NUMBER), exp.ConcatWs, duckdb=_concat_ws, spark=_spark_concat_ws),
    Function(takes("upper ucase", 1), exp.Upper, duckdb="PX_UPPER({0})", spark=spark_call("upper")),
    Function(takes("lower lcase", 1), exp.Lower, duckdb="PX_LOWER({0})", spark=spark_call("lower")),
    Function(takes("length char_length character_length", 1), exp.Length, spark=spark_call("length")),
    Function(takes("trim ltrim rtrim", 1, 2), exp.Trim, spark=_spark_trim),
    # words between arguments, as in substring(a FROM 2) and position(a IN b), separate nothing
    Function(takes("substring substr", 1, 3), exp.Substring, duckdb=_substring, spark=_spark_substring),
    Function(takes("left", 2), exp.Left, duckdb="LEFT({0}, GREATEST({1}, 0))", spark=_spark_end("left")),
    Function(takes("right", 2), exp.Right, duckdb="RIGHT({0}, GREATEST({1}, 0))", spark=_spark_end("right")),
    Function(
        takes("position", 1, 3) | takes("locate", 2, 3) | takes("instr", 2),
        exp.StrPosition,
        duckdb=_position,
        spark=_spark_position,
    ),
    Function(takes("startswith", 2), exp.StartsWith, spark=spark_call("startswith")),
    Function(takes("endswith", 2), exp.EndsWith, spark=spark_call("endswith")),
    Function(takes("contains", 2), exp.Contains, spark=spark_call("contains")),
    Function(takes("split_part", 3), exp.SplitPart, duckdb=_split_part, spark=_spark_split_part),
    Function(takes("replace", 2, 3), exp.Replace, duckdb=_replace, spark=_spark_replace),
    Function(takes("reverse", 1), exp.Reverse, spark=spark_call("reverse")),
    Function(
        takes("repeat", 2),
        exp.Repeat,
        duckdb="PX_REPEAT({0}, CAST({1} AS BIGINT))",
        spark=_spark_repeat,
        problem=_repeated_too_often,
    ),
    Function(takes("lpad rpad", 2, 3), exp.Pad, duckdb=_pad, spark=_spark_pad, problem=_padded_too_long),
    Function(takes("translate", 3), exp.Translate, spark=_spark_translate),
    Function(takes("ascii", 1), exp.Ascii, spark=spark_call("ascii")),
    Function(takes("chr char", 1), exp.Chr, duckdb="PX_CHR({0})", spark=_spark_chr),
    Function(takes("md5", 1), exp.MD5, spark=spark_call("md5")),
    Function(takes("levenshtein", 2), exp.Levenshtein, duckdb=_levenshtein, spark=spark_call("levenshtein")),
)
