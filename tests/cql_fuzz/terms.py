"""Expressions of random programs: small tuples that are written as text and compared with what the parser read.

Independent of the library on purpose: the generator makes terms, `spelled` writes them with as few parentheses as
the grammar asks for, and `term_of` reads a parsed tree back, so a wrong precedence shows as a difference.
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from sqlglot import exp


class Term(NamedTuple):
    """`op` and what it is applied to: terms, or plain values for names and constants.

    col (qualifier, name) · star (qualifier) · int, float, str, bool (value) · null · + - * / % & | ^ · neg · not
    and or · = <> < <= > >= · is null · in · between · like · rlike · case (condition, then, else) · cast (term,
    type) · call (name, terms...) · agg (name, "" or "distinct", term or None, filter or None)
    """

    op: str
    args: tuple[Any, ...]


def col(name: str, qualifier: str | None = None) -> Term:
    return Term("col", (qualifier, name))


def op(name: str, *args: Any) -> Term:
    return Term(name, args)


def const(value: Any) -> Term:
    """A constant; negative numbers are a minus before a number, as the parser sees them."""
    if value is None:
        return Term("null", ())
    if isinstance(value, (bool, str)):
        return Term(type(value).__name__, (value,))
    return op("neg", Term(type(value).__name__, (-value,))) if value < 0 else Term(type(value).__name__, (value,))


def agg(name: str, value: Term | None = None, *, distinct: bool = False, where: Term | None = None) -> Term:
    return Term("agg", (name, "distinct" if distinct else "", value, where))


def subterms(term: Term) -> list[Term]:
    """The term and all terms inside it."""
    return [term, *(t for a in term.args if isinstance(a, Term) for t in subterms(a))]


_COMPARED = ("=", "<>", "<", "<=", ">", ">=")
_LEVELS = {"or": 1, "and": 2, "not": 3, "|": 5, "^": 6, "&": 7, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10, "neg": 11}
_LEVELS |= dict.fromkeys((*_COMPARED, "is null", "in", "between", "like", "rlike"), 4)


def word(text: str, rng: random.Random | None) -> str:
    """A keyword as some people write it."""
    return text if rng is None or rng.random() < 0.7 else rng.choice((text.lower(), text.capitalize()))


def quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def spelled(term: Term, rng: random.Random | None = None) -> str:
    """The term as CQL; `rng` varies what does not count: case of words, needless parentheses, synonyms."""

    def at(inner: Term, least: int) -> str:
        text = write(inner)
        needed = _LEVELS.get(inner.op, 12) < least
        return f"({text})" if needed or (rng is not None and rng.random() < 0.04) else text

    def w(text: str) -> str:
        return word(text, rng)

    def negated(inner: Term) -> str | None:
        """`a NOT IN (...)` for `NOT a IN (...)`."""
        if rng is None or rng.random() < 0.5 or inner.op not in ("in", "between", "like", "is null"):
            return None
        first, *rest = inner.args
        if inner.op == "is null":
            return f"{at(first, 5)} {w('IS NOT NULL')}"
        return f"{at(first, 5)} {w('NOT')} {tail(inner.op, rest)}"

    def tail(name: str, rest: Any) -> str:
        if name == "in":
            return f"{w('IN')} ({', '.join(at(r, 1) for r in rest)})"
        if name == "between":
            return f"{w('BETWEEN')} {at(rest[0], 5)} {w('AND')} {at(rest[1], 5)}"
        return f"{w('LIKE' if name == 'like' else 'RLIKE')} {quoted(rest[0])}"

    def write(t: Term) -> str:
        name, args = t
        if name == "col":
            return ".".join(part for part in args if part)
        if name == "star":
            return f"{args[0]}.*" if args[0] else "*"
        if name in ("int", "float"):
            return repr(args[0])
        if name == "str":
            return quoted(args[0])
        if name in ("bool", "null"):
            return w(str(args[0]).upper() if args else "NULL")
        if name == "not":
            return negated(args[0]) or f"{w('NOT')} {at(args[0], 3)}"
        if name == "neg":
            return f"-{at(args[0], 12)}"
        if name in ("and", "or"):
            level = _LEVELS[name]
            return f"{at(args[0], level)} {w(name.upper())} {at(args[1], level + 1)}"
        if name == "is null":
            return f"{at(args[0], 5)} {w('IS NULL')}"
        if name in ("in", "between", "like", "rlike"):
            return f"{at(args[0], 5)} {tail(name, args[1:])}"
        if name == "case":
            c, a, b = (at(x, 1) for x in args)
            return f"{w('CASE')} {w('WHEN')} {c} {w('THEN')} {a} {w('ELSE')} {b} {w('END')}"
        if name == "cast":
            return f"{w('CAST')}({at(args[0], 1)} {w('AS')} {w(args[1])})"
        if name == "call":
            return f"{w(args[0])}({', '.join(at(a, 1) for a in args[1:])})"
        if name == "agg":
            return aggregate(*args)
        level = _LEVELS[name]
        sign = "!=" if name == "<>" and rng is not None and rng.random() < 0.5 else name
        tight = rng is not None and rng.random() < 0.1 and name not in ("-", "/", "*")
        around = "" if tight else " "
        left = level + (name in _COMPARED)
        return f"{at(args[0], left)}{around}{sign}{around}{at(args[1], level + 1)}"

    def aggregate(name: str, distinct: str, value: Term | None, where: Term | None) -> str:
        inner = "*" if value is None else f"{w('DISTINCT')} {at(value, 1)}" if distinct else at(value, 1)
        text = f"{w(name)}({inner})"
        return text if where is None else f"{text} {w('FILTER')} ({w('WHERE')} {at(where, 1)})"

    return write(term)


_BINARY: dict[type[exp.Expr], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.BitwiseAnd: "&", exp.BitwiseOr: "|",
    exp.BitwiseXor: "^", exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
    exp.And: "and", exp.Or: "or",
}  # fmt: skip
_CALLS: dict[type[exp.Expr], str] = {
    exp.Coalesce: "coalesce", exp.Upper: "upper", exp.Lower: "lower", exp.Length: "length", exp.Concat: "concat",
    exp.Abs: "abs", exp.Nullif: "nullif", exp.Greatest: "greatest", exp.Least: "least", exp.Floor: "floor",
    exp.Ceil: "ceil", exp.Substring: "substring",
}  # fmt: skip


def term_of(tree: exp.Expr) -> Term:
    """The term that a parsed tree is, without its parentheses."""
    kind = type(tree)
    if kind is exp.Paren:
        return term_of(tree.this)
    if kind is exp.Star:
        return Term("star", (None,))
    if kind is exp.Column:
        return Term("star", (tree.table,)) if isinstance(tree.this, exp.Star) else col(tree.name, tree.table or None)
    if kind is exp.Literal:
        if tree.is_string:
            return Term("str", (tree.this,))
        return Term("int", (int(tree.this),)) if tree.is_int else Term("float", (float(tree.this),))
    if kind is exp.Boolean:
        return Term("bool", (bool(tree.this),))
    if kind is exp.Null:
        return Term("null", ())
    if kind in _BINARY:
        return op(_BINARY[kind], term_of(tree.this), term_of(tree.expression))
    if kind in (exp.Neg, exp.Not):
        return op("neg" if kind is exp.Neg else "not", term_of(tree.this))
    if kind is exp.Is:
        return op("is null", term_of(tree.this))
    if kind is exp.In:
        return op("in", term_of(tree.this), *map(term_of, tree.expressions))
    if kind is exp.Between:
        return op("between", *(term_of(tree.args[k]) for k in ("this", "low", "high")))
    if kind in (exp.Like, exp.RegexpLike):
        made = op("like" if kind is exp.Like else "rlike", term_of(tree.this), tree.expression.name)
        return op("not", made) if tree.args.get("negate") else made
    if kind is exp.Case:
        (one,) = tree.args["ifs"]
        return op("case", term_of(one.this), term_of(one.args["true"]), term_of(tree.args["default"]))
    if kind in (exp.Cast, exp.TryCast):
        return op("cast", term_of(tree.this), tree.args["to"].sql(dialect="spark"))
    if kind is exp.Filter:
        name, distinct, value, _ = term_of(tree.this).args
        return Term("agg", (name, distinct, value, term_of(tree.expression.this)))
    if kind is exp.Anonymous:
        return _aggregate_of(tree)
    if kind in _CALLS:
        arguments = [a for v in tree.args.values() for a in (v if isinstance(v, list) else [v])]
        return op("call", _CALLS[kind], *(term_of(a) for a in arguments if isinstance(a, exp.Expr)))
    raise TypeError(f"no term for {kind.__name__}: {tree!r}")


def _aggregate_of(tree: exp.Expr) -> Term:
    (argument,) = tree.expressions
    name = tree.name.lower()
    if isinstance(argument, exp.Star):
        return agg(name)
    if isinstance(argument, exp.Distinct):
        return agg(name, term_of(argument.expressions[0]), distinct=True)
    return agg(name, term_of(argument))
