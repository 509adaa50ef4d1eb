"""Patterns of text: LIKE, and regular expressions, where RE2 and Java read them alike."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sqlglot import exp

from panes.errors import ExpressionError
from panes.plan.duckdb_macros import LONGEST_TEXT
from panes.plan.functions.forms import (
    Function,
    NoColumn,
    SparkColumns,
    SparkForm,
    Types,
    call,
    literal_int,
    literal_text,
    shown,
    takes,
    text_in,
    whole_number,
)
from panes.plan.functions.text import unless

if TYPE_CHECKING:
    from pyspark.sql import Column

#: a `$` that is no sign in brackets and not escaped, at the end of a pattern or of a part of it
_AT_END = re.compile(r"(?<!\\)\$(?=$|[|)])")
_END = r"(?:\\r\\n|[\\n\\r])?\\z"
#: So many references to groups are no danger.
_FEW = 9
_REFERENCE = re.compile(r"\\(.)|\$(\d)|\$|\\", re.DOTALL)
#: Signs of a pattern that RE2 and Java read alike; no groups with options, no references, nothing possessive.
_PLAIN_PATTERN = re.compile(r"(?:[^\\(]|\\[dDwWsSbB.^$*+?()\[\]{}|/-]|\((?!\?))*")
_POSSESSIVE = re.compile(r"[*+?}]\+")


def _same_pattern(node: exp.Expr | None) -> str:
    """A regular expression that both engines read alike."""
    pattern = literal_text(node, "a regular expression")
    if not _PLAIN_PATTERN.fullmatch(pattern) or _POSSESSIVE.search(pattern):
        raise NoColumn(f"the regular expression {pattern!r} has signs that Java reads in another way")
    return pattern


def _regexp_replace(node: exp.Expr, types: Types) -> exp.Expr:
    if node.args.get("position") is not None:
        raise ExpressionError("regexp_replace takes 3 arguments: a position can't be given here")
    new = text_in(node.args["replacement"], "what regexp_replace puts in")
    replacement = exp.Literal.string(_REFERENCE.sub(_reference, new))
    size = len(_REFERENCE.sub(lambda found: found[1] or "", new))
    pieces = sum(found[2] is not None for found in _REFERENCE.finditer(new))
    # a few pieces of a match that are put in again make text a few times as long at most
    numbers = [exp.Literal.number(n) for n in (size, pieces if pieces > _FEW else 0)]
    return call("px_regexp_replace", node.this.copy(), node.expression.copy(), replacement, *numbers)


def _reference(found: re.Match[str]) -> str:
    """What Java puts in for a group, or takes as it is, in the words of RE2."""
    if found[1] is not None:
        return r"\\" if found[1] == "\\" else found[1]
    if found[2] is None:
        raise ExpressionError("regexp_replace: '$' and '\\' in what is put in need a number or sign behind them")
    return rf"\{found[2]}"


def _spark_regexp_replace(b: SparkColumns, node: exp.Expr) -> Column:
    new = literal_text(node.args.get("replacement"), "what regexp_replace puts in")
    if "\\" in new or "$" in new or node.args.get("position") is not None:
        raise NoColumn("regexp_replace with references to groups or a position differs between engines")
    F, text, pattern = b.F, b.of(node.this), _same_pattern(node.expression)
    was = F.length(text).cast("bigint")
    matches = F.regexp_count(text, F.lit(pattern))
    length = F.length(F.regexp_replace(text, pattern, "")) + matches.cast("bigint") * len(new)
    could, over = (was + 1) * len(new) > LONGEST_TEXT, length > F.greatest(F.lit(LONGEST_TEXT), was)
    return F.regexp_replace(unless(b, could & over, "regexp_replace", text), pattern, new)


def _regexp_extract(node: exp.Expr, types: Types) -> exp.Expr:
    group = node.args.get("group")
    number = 1 if group is None else whole_number(group)
    pattern = node.expression
    if number is not None and isinstance(pattern, exp.Literal):
        try:
            groups = re.compile(str(pattern.this)).groups
        except re.error:
            groups = number  # DuckDB says what is wrong with it
        if not 0 <= number <= groups:
            raise ExpressionError(f"regexp_extract: the pattern {pattern.this!r} has {groups} group(s), not {number}")
    chosen = exp.Literal.number(1) if group is None else group.copy()
    return call("REGEXP_EXTRACT", node.this.copy(), pattern.copy(), chosen)


def _spark_regexp_extract(b: SparkColumns, node: exp.Expr) -> Column:
    group = literal_int(node.args.get("group"), "the group of regexp_extract", 0)
    pattern = _same_pattern(node.expression)
    if group > re.compile(pattern).groups:
        raise NoColumn(f"the regular expression {pattern!r} has no group {group}")
    return b.F.regexp_extract(b.of(node.this), pattern, group)


def _regexp_like(node: exp.Expr, types: Types) -> exp.Expr:
    """`$` also stands before a line break at the end."""
    pattern = node.expression
    if isinstance(pattern, exp.Literal):
        pattern = exp.Literal.string(_AT_END.sub(_END, str(pattern.this)))
    return call("REGEXP_MATCHES", node.this.copy(), pattern.copy())


def _spark_regexp_like(b: SparkColumns, node: exp.Expr) -> Column:
    return b.of(node.this).rlike(_same_pattern(node.expression))


def _like(node: exp.Expr, types: Types) -> exp.Expr:
    """A backslash in a pattern takes the sign behind it as it is, unless ESCAPE says otherwise."""
    pattern = node.expression
    if isinstance(node.parent, exp.Escape) or (isinstance(pattern, exp.Literal) and "\\" not in str(pattern.this)):
        return node
    negated = node.args.get("negate")
    inner = type(node)(this=node.this.copy(), expression=pattern.copy())
    escaped: exp.Expr = exp.Escape(this=inner, expression=exp.Literal.string("\\"))
    return exp.Not(this=exp.Paren(this=escaped)) if negated else escaped


def _spark_like(fold: bool) -> SparkForm:
    def form(b: SparkColumns, node: exp.Expr) -> Column:
        pattern = literal_text(node.expression, "the pattern of LIKE")
        if "\\" in pattern:
            raise NoColumn(f"the pattern {pattern!r} has a backslash, which Spark reads as an escape")
        value = b.of(node.this)
        matches = value.ilike(pattern) if fold else value.like(pattern)
        return ~matches if node.args.get("negate") else matches

    return form


def _spark_escape(b: SparkColumns, node: exp.Expr) -> Column:
    like, sign = node.this, literal_text(node.expression, "the sign after ESCAPE")
    if not isinstance(like, exp.Like):
        raise NoColumn(f"{shown(node)}: ESCAPE is known to be the same with LIKE alone")
    pattern = literal_text(like.expression, "the pattern of LIKE")
    matches = b.F.like(b.of(like.this), b.F.lit(pattern), b.F.lit(sign))
    return ~matches if like.args.get("negate") else matches


PATTERNS = (
    Function({}, exp.Like, "LIKE", duckdb=_like, spark=_spark_like(fold=False)),
    Function({}, exp.ILike, "ILIKE", duckdb=_like, spark=_spark_like(fold=True)),
    Function({}, exp.Escape, "LIKE", spark=_spark_escape),
    Function(takes("regexp_like", 2), exp.RegexpLike, "RLIKE", duckdb=_regexp_like, spark=_spark_regexp_like),
    Function(takes("regexp_replace", 3), exp.RegexpReplace, duckdb=_regexp_replace, spark=_spark_regexp_replace),
    Function(takes("regexp_extract", 2, 3), exp.RegexpExtract, duckdb=_regexp_extract, spark=_spark_regexp_extract),
)
