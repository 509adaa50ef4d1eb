"""Functions of text with Spark's meaning, for `duckdb_sql`: one rule per node."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqlglot import exp

from panes.errors import ExpressionError
from panes.plan.duckdb_nodes import Rule, TypeOf, call, cast, is_text, sql, text_of, when, whole_number

_FRACTIONS = ("DOUBLE", "FLOAT")
#: a `$` that is no sign in brackets and not escaped, at the end of a pattern or of a part of it
_AT_END = re.compile(r"(?<!\\)\$(?=$|[|)])")
_END = r"(?:\\r\\n|[\\n\\r])?\\z"
#: So many references to groups are no danger.
_FEW = 9
_REFERENCE = re.compile(r"\\(.)|\$(\d)|\$|\\", re.DOTALL)


def as_text(value: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """A value as Spark writes it."""
    kind = type_of(sql(value.copy()))
    if is_text(kind):
        return value.copy()
    if kind.startswith(_FRACTIONS):
        return call("px_number", value.copy())
    if kind.endswith("WITH TIME ZONE"):
        value = cast(value.copy(), "TIMESTAMP")
    return cast(value.copy(), "VARCHAR")


def _least_zero(node: exp.Expr) -> exp.Expr:
    number = whole_number(node)
    return node.copy() if number is not None and number >= 0 else call("GREATEST", node.copy(), 0)


def _substring(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """Places are counted from 1, and 0 means 1."""
    start, length = node.args.get("start"), node.args.get("length")
    if start is None:
        raise ExpressionError("substring takes a text, a place from 1 on and perhaps a length")
    number = whole_number(start)
    if number == 0:
        start = exp.Literal.number(1)
    elif number is None:
        zero = exp.EQ(this=exp.Paren(this=start.copy()), expression=exp.Literal.number(0))
        start = when(zero, exp.Literal.number(1), start.copy())
    parts = [node.this.copy(), start.copy()]
    return call("SUBSTRING", *parts, *([] if length is None else [_least_zero(length)]))


def _end(name: str) -> Rule:
    return lambda node, type_of: call(name, node.this.copy(), _least_zero(node.expression))


def _concat(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    parts = [as_text(part, type_of) for part in node.expressions]
    if len(parts) == 1:
        return parts[0]
    joined = parts[0]
    for part in parts[1:]:  # null if any of them is
        joined = exp.DPipe(this=joined, expression=part, safe=True)
    return exp.Paren(this=joined)


def _joined(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    sides = (as_text(side, type_of) for side in (node.this, node.expression))
    return exp.DPipe(**dict(zip(("this", "expression"), sides, strict=True)), safe=True)


def _concat_ws(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    separator, *parts = node.expressions
    for part in parts:
        if type_of(sql(part.copy())).endswith("]"):
            raise ExpressionError("concat_ws: lists can't be joined here; name the elements, such as v[0]")
    return call("CONCAT_WS", separator.copy(), *(as_text(part, type_of) for part in parts))


def _replace(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    new = node.args.get("replacement")
    given = (node.this.copy(), node.expression.copy(), exp.Literal.string("") if new is None else new.copy())
    return call("px_replace", *given)


def _repeat(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    return call("px_repeat", node.this.copy(), cast(node.args["times"].copy(), "BIGINT"))


def _pad(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    fill = node.args.get("fill_pattern")
    name = "px_lpad" if node.args.get("is_left") else "px_rpad"
    given = exp.Literal.string(" ") if fill is None else fill.copy()
    return call(name, node.this.copy(), cast(node.expression.copy(), "BIGINT"), given)


def _position(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """The place of a piece of text, from a place on; 0: there is none, or the place is not in the text."""
    start, piece = node.args.get("position"), node.args["substr"]
    number = 1 if start is None else whole_number(start)
    if number == 1:
        return call("STRPOS", node.this.copy(), piece.copy())
    assert start is not None
    if number is not None and number < 1:
        outside: exp.Expr = exp.false()
    else:
        outside = exp.GTE(this=exp.Paren(this=start.copy()), expression=exp.Literal.number(1))
    found = call("STRPOS", call("SUBSTRING", node.this.copy(), start.copy()), piece.copy())
    later = exp.Paren(
        this=exp.Sub(
            this=exp.Add(this=found, expression=exp.Paren(this=start.copy())), expression=exp.Literal.number(1)
        )
    )
    some = exp.GT(this=found.copy(), expression=exp.Literal.number(0))
    known = exp.Is(this=found.copy(), expression=exp.Null())
    there = exp.Case(
        ifs=[exp.If(this=known, true=exp.Null()), exp.If(this=exp.and_(outside, some), true=later)],
        default=exp.Literal.number(0),
    )
    return cast(there, "BIGINT")


def _split_part(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    if whole_number(node.args["part_index"]) == 0:
        raise ExpressionError("split_part: the number of the part may not be 0; the first is 1, the last -1")
    return call("px_split_part", *(node.args[part].copy() for part in ("this", "delimiter", "part_index")))


def _regexp_replace(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    if node.args.get("position") is not None:
        raise ExpressionError("regexp_replace takes 3 arguments: a position can't be given here")
    new = text_of(node.args["replacement"], "what regexp_replace puts in")
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


def _regexp_extract(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
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


def _regexp_like(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """`$` also stands before a line break at the end."""
    pattern = node.expression
    if isinstance(pattern, exp.Literal):
        pattern = exp.Literal.string(_AT_END.sub(_END, str(pattern.this)))
    return call("REGEXP_MATCHES", node.this.copy(), pattern.copy())


def _like(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """A backslash in a pattern takes the sign behind it as it is, unless ESCAPE says otherwise."""
    pattern = node.expression
    if isinstance(node.parent, exp.Escape) or (isinstance(pattern, exp.Literal) and "\\" not in str(pattern.this)):
        return node
    negated = node.args.get("negate")
    inner = type(node)(this=node.this.copy(), expression=pattern.copy())
    escaped: exp.Expr = exp.Escape(this=inner, expression=exp.Literal.string("\\"))
    return exp.Not(this=exp.Paren(this=escaped)) if negated else escaped


def _levenshtein(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    if any(value is not None for name, value in node.args.items() if name not in ("this", "expression")):
        raise ExpressionError("levenshtein takes 2 arguments: a threshold can't be given here")
    return call("px_levenshtein", node.this.copy(), node.expression.copy())


TEXT_RULES: Mapping[type[exp.Expr], Rule] = {
    exp.Upper: lambda node, type_of: call("px_upper", node.this.copy()),
    exp.Lower: lambda node, type_of: call("px_lower", node.this.copy()),
    exp.Substring: _substring,
    exp.Left: _end("LEFT"),
    exp.Right: _end("RIGHT"),
    exp.Concat: _concat,
    exp.DPipe: _joined,
    exp.ConcatWs: _concat_ws,
    exp.Replace: _replace,
    exp.Repeat: _repeat,
    exp.Pad: _pad,
    exp.StrPosition: _position,
    exp.SplitPart: _split_part,
    exp.RegexpReplace: _regexp_replace,
    exp.RegexpExtract: _regexp_extract,
    exp.RegexpLike: _regexp_like,
    exp.Like: _like,
    exp.ILike: _like,
    exp.Chr: lambda node, type_of: call("px_chr", node.expressions[0].copy()),
    exp.Levenshtein: _levenshtein,
}
