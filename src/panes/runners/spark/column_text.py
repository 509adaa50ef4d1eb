"""The functions of text of the allow-list as Spark Columns: one rule per function, see `columns`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sqlglot import exp

from panes.plan.duckdb_macros import LONGEST_TEXT
from panes.runners.spark.columns import ColumnBuilder, NoColumn, Rule, literal_int, literal_text, spark_function

if TYPE_CHECKING:
    from pyspark.sql import Column

#: Signs of a pattern that RE2 and Java read alike; no groups with options, no references, nothing possessive.
_PLAIN_PATTERN = re.compile(r"(?:[^\\(]|\\[dDwWsSbB.^$*+?()\[\]{}|/-]|\((?!\?))*")
_POSSESSIVE = re.compile(r"[*+?}]\+")


def _trim(b: ColumnBuilder, node: exp.Trim) -> Column:
    from pyspark.sql import functions as F

    trim = {"LEADING": F.ltrim, "TRAILING": F.rtrim}.get(str(node.args.get("position") or ""), F.trim)
    signs = node.expression
    return trim(b.of(node.this)) if signs is None else trim(b.of(node.this), b.of(signs))


def _substring(b: ColumnBuilder, node: exp.Substring) -> Column:
    from pyspark.sql import functions as F

    start = literal_int(node.args.get("start"), "the start of substring", 1)
    if node.args.get("length") is None:
        return F.substr(b.of(node.this), F.lit(start))
    length = literal_int(node.args["length"], "the length of substring", 0)
    return F.substr(b.of(node.this), F.lit(start), F.lit(length))


def _end(name: str) -> Rule:
    def rule(b: ColumnBuilder, node: exp.Expr) -> Column:
        from pyspark.sql import functions as F

        return getattr(F, name)(b.of(node.this), F.lit(literal_int(node.expression, f"the length of {name}", 0)))

    return rule


def _concat(b: ColumnBuilder, node: exp.Concat) -> Column:
    from pyspark.sql import functions as F

    return F.concat(*(b.text(part) for part in node.expressions))


def _concat_ws(b: ColumnBuilder, node: exp.ConcatWs) -> Column:
    from pyspark.sql import functions as F

    separator, *parts = node.expressions
    return F.concat_ws(literal_text(separator, "the separator of concat_ws"), *(b.text(part) for part in parts))


def _replace(b: ColumnBuilder, node: exp.Replace) -> Column:
    from pyspark.sql import functions as F

    given = node.args.get("replacement")
    text, old, new = b.of(node.this), b.of(node.expression), F.lit("") if given is None else b.of(given)
    was, grows = F.length(text).cast("bigint"), F.length(new) - F.length(old)
    # how often a piece is there is counted only where it could be too often
    count = F.floor((was - F.length(F.replace(text, old, F.lit("")))) / F.greatest(F.length(old), F.lit(1)))
    could = (grows > 0) & (F.length(old) > 0) & (was * F.length(new) > F.lit(LONGEST_TEXT) * F.length(old))
    return F.replace(_unless(could & (was + count * grows > LONGEST_TEXT), "replace", text), old, new)


def _unless(too_long: Column, name: str, text: Column) -> Column:
    """Text for a function that would make too long a one of it: an error. It stands inside of the call, since Spark may
    compute a call of constants ahead, whatever is around it."""
    from pyspark.sql import functions as F

    wrong = F.raise_error(F.lit(f"{name}: the text may have {LONGEST_TEXT} characters, and would have more"))
    return F.when(too_long, wrong).otherwise(text)


def _repeat(b: ColumnBuilder, node: exp.Repeat) -> Column:
    from pyspark.sql import functions as F

    text, times = b.of(node.this), b.of(node.args["times"]).cast("bigint")
    message = f"repeat: the text may have {LONGEST_TEXT} characters, not "
    wrong = F.raise_error(F.concat(F.lit(message), F.length(text), F.lit(" times "), times))
    return F.when(F.length(text) * times > F.lit(LONGEST_TEXT), wrong).otherwise(F.repeat(text, times.cast("int")))


def _pad(b: ColumnBuilder, node: exp.Pad) -> Column:
    from pyspark.sql import functions as F

    length = literal_int(node.expression, "the length to pad to", 0)
    fill = node.args.get("fill_pattern")
    with_what = " " if fill is None else literal_text(fill, "what to pad with")
    if not with_what:
        raise NoColumn("padding with nothing is an error in one engine and not in the other")
    return (F.lpad if node.args.get("is_left") else F.rpad)(b.of(node.this), length, with_what)


def _position(b: ColumnBuilder, node: exp.StrPosition) -> Column:
    from pyspark.sql import functions as F

    start = node.args.get("position")
    at = 1 if start is None else literal_int(start, "the position to search from", 1)
    return F.position(b.of(node.args["substr"]), b.of(node.this), F.lit(at))


def _split_part(b: ColumnBuilder, node: exp.SplitPart) -> Column:
    from pyspark.sql import functions as F

    delimiter = literal_text(node.args["delimiter"], "the delimiter of split_part")
    if not delimiter:
        raise NoColumn("split_part with an empty delimiter differs between engines")
    part = literal_int(node.args["part_index"], "the part of split_part", 1)
    return F.split_part(b.of(node.this), F.lit(delimiter), F.lit(part))


def pattern_of(node: exp.Expr | None) -> str:
    """A regular expression that both engines read alike."""
    pattern = literal_text(node, "a regular expression")
    if not _PLAIN_PATTERN.fullmatch(pattern) or _POSSESSIVE.search(pattern):
        raise NoColumn(f"the regular expression {pattern!r} has signs that Java reads in another way")
    return pattern


def _regexp_replace(b: ColumnBuilder, node: exp.RegexpReplace) -> Column:
    from pyspark.sql import functions as F

    new = literal_text(node.args.get("replacement"), "what regexp_replace puts in")
    if "\\" in new or "$" in new or node.args.get("position") is not None:
        raise NoColumn("regexp_replace with references to groups or a position differs between engines")
    text, pattern = b.of(node.this), pattern_of(node.expression)
    was = F.length(text).cast("bigint")
    matches = F.regexp_count(text, F.lit(pattern))
    length = F.length(F.regexp_replace(text, pattern, "")) + matches.cast("bigint") * len(new)
    could, over = (was + 1) * len(new) > LONGEST_TEXT, length > F.greatest(F.lit(LONGEST_TEXT), was)
    return F.regexp_replace(_unless(could & over, "regexp_replace", text), pattern, new)


def _regexp_extract(b: ColumnBuilder, node: exp.RegexpExtract) -> Column:
    from pyspark.sql import functions as F

    group = literal_int(node.args.get("group"), "the group of regexp_extract", 0)
    pattern = pattern_of(node.expression)
    if group > re.compile(pattern).groups:
        raise NoColumn(f"the regular expression {pattern!r} has no group {group}")
    return F.regexp_extract(b.of(node.this), pattern, group)


def _regexp_like(b: ColumnBuilder, node: exp.RegexpLike) -> Column:
    return b.of(node.this).rlike(pattern_of(node.expression))


def _translate(b: ColumnBuilder, node: exp.Translate) -> Column:
    from pyspark.sql import functions as F

    signs, new = (literal_text(node.args.get(part), "an argument of translate") for part in ("from_", "to"))
    return F.translate(b.of(node.this), signs, new)


def _chr(b: ColumnBuilder, node: exp.Chr) -> Column:
    from pyspark.sql import functions as F

    code = literal_int(node.expressions[0], "the code of chr", 1)
    return F.chr(F.lit(code))


TEXT_FUNCTIONS: dict[type[exp.Expr], Rule] = {
    exp.Upper: spark_function("upper"),
    exp.Lower: spark_function("lower"),
    exp.Length: spark_function("length"),
    exp.Trim: _trim,
    exp.Substring: _substring,
    exp.Left: _end("left"),
    exp.Right: _end("right"),
    exp.Concat: _concat,
    exp.ConcatWs: _concat_ws,
    exp.Replace: _replace,
    exp.Reverse: spark_function("reverse"),
    exp.Repeat: _repeat,
    exp.Pad: _pad,
    exp.StrPosition: _position,
    exp.StartsWith: spark_function("startswith", "this", "expression"),
    exp.EndsWith: spark_function("endswith", "this", "expression"),
    exp.Contains: spark_function("contains", "this", "expression"),
    exp.SplitPart: _split_part,
    exp.RegexpReplace: _regexp_replace,
    exp.RegexpExtract: _regexp_extract,
    exp.RegexpLike: _regexp_like,
    exp.Translate: _translate,
    exp.Ascii: spark_function("ascii"),
    exp.Chr: _chr,
    exp.MD5: spark_function("md5"),
    exp.Levenshtein: spark_function("levenshtein", "this", "expression"),
}
