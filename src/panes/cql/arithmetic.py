"""Arithmetic in expressions: constants computed once, and shifts as products and quotients.

Constants are whole numbers, and conditions that are true or false anyway. Only what no engine could see differently:
sums and products of integers that fit 32 bits, comparisons of them, AND, OR and NOT of TRUE and FALSE. Divisions,
fractions and text stay as they are.

Shifts are arithmetic so that they mean the same on every engine: `a << n` is a times 2 to the n, and an error where
that is too large, as it is for every product; `a >> n` is a divided by it, downwards for negative numbers, too.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import overload

from sqlglot import exp

from panes.plan.trees import copied
from panes.plan.written import in_place_of

_SUMS: dict[type[exp.Expr], Callable[[int, int], int]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
}
_COMPARISONS: dict[type[exp.Expr], Callable[[int, int], bool]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}
_LARGEST = 2**31

#: Operators from those that bind least.
_BINDING: tuple[tuple[type[exp.Expr], ...], ...] = (
    (exp.Or,),
    (exp.And,),
    (exp.Not,),
    (*_COMPARISONS, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Is, exp.In, exp.Between, exp.Like, exp.ILike, exp.RegexpLike),
    (exp.Add, exp.Sub),
    (exp.Mul, exp.Div, exp.Mod, exp.IntDiv),
    (exp.Neg,),
)
_LEVELS = {kind: level for level, kinds in enumerate(_BINDING) for kind in kinds}
_FROM_THE_LEFT = frozenset({exp.Or, exp.And, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod})
_KEPT = frozenset(
    {exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot, exp.BitwiseLeftShift, exp.BitwiseRightShift}
    | {exp.DPipe, exp.Dot, exp.Escape, exp.Interval}
)


@overload
def folded(tree: exp.Expr) -> exp.Expr: ...
@overload
def folded(tree: None) -> None: ...
def folded(tree: exp.Expr | None) -> exp.Expr | None:
    """A copy of the tree with its constants computed, and without needless parentheses."""
    if tree is None or not any(isinstance(n, exp.Literal | exp.Boolean | exp.Paren) for n in tree.walk()):
        return tree
    root = exp.Paren(this=copied(tree))
    for node in reversed(list(root.walk())):
        if node is not root and node.parent is not None:
            made = _constant(node)
            if made is not None:
                node.replace(made)
    return root.this.unnest()


def _constant(node: exp.Expr) -> exp.Expr | None:
    if isinstance(node, exp.Paren):
        return node.this if _needless(node) else None
    if isinstance(node, exp.Binary):
        return _binary(node)
    if isinstance(node, exp.Not) and isinstance(node.this, exp.Boolean):
        return exp.Boolean(this=not node.this.this)
    return None


def _needless(node: exp.Paren) -> bool:
    """Whether the tree reads the same without these parentheses. Those next to operators on bits stay."""
    inner, outer = type(node.this), type(node.parent)
    if {inner, outer} & _KEPT:
        return False
    if inner not in _LEVELS or outer not in _LEVELS:
        return True
    first = node.arg_key == "this" and outer in _FROM_THE_LEFT
    return _LEVELS[inner] > _LEVELS[outer] or (first and _LEVELS[inner] == _LEVELS[outer])


def _binary(node: exp.Binary) -> exp.Expr | None:
    left, right = _number(node.left), _number(node.right)
    if left is not None and right is not None:
        if type(node) in _SUMS:
            return _literal(_SUMS[type(node)](left, right))
        if type(node) in _COMPARISONS:
            return exp.Boolean(this=_COMPARISONS[type(node)](left, right))
    if isinstance(node, exp.And | exp.Or):
        return _logic(node)
    return None


def _logic(node: exp.And | exp.Or) -> exp.Expr | None:
    """TRUE AND x is x, FALSE OR x is x. What would leave x out stays: its names are still to be checked."""
    neutral = isinstance(node, exp.And)
    for one, other in ((node.left, node.right), (node.right, node.left)):
        if isinstance(one, exp.Boolean) and (bool(one.this) == neutral or isinstance(other, exp.Boolean)):
            return other if bool(one.this) == neutral else one
    return None


def _number(node: exp.Expr) -> int | None:
    if isinstance(node, exp.Paren):
        return _number(node.this)
    if isinstance(node, exp.Neg):
        inner = _number(node.this)
        return None if inner is None else -inner
    if isinstance(node, exp.Literal) and node.is_int and len(node.this) < 12:
        return int(node.this)
    return None


def _literal(value: int) -> exp.Expr | None:
    if abs(value) >= _LARGEST:
        return None
    number = exp.Literal.number(abs(value))
    return exp.Paren(this=exp.Neg(this=number)) if value < 0 else number


def without_shifts(tree: exp.Expr) -> exp.Expr:
    """The tree itself, or a copy in which no shift is left.

    >>> without_shifts(exp.BitwiseLeftShift(this=exp.column("a"), expression=exp.Literal.number(3))).sql()
    '(a * 8)'
    """
    if not tree.find(exp.BitwiseLeftShift, exp.BitwiseRightShift):
        return tree
    root = exp.Paren(this=tree.copy())
    # from the inside, because shifts may be in shifts
    for node in reversed(list(root.walk())):
        if isinstance(node, exp.BitwiseLeftShift | exp.BitwiseRightShift):
            made = in_place_of(_arithmetic(node), node)
            rule = f"{'<<' if isinstance(node, exp.BitwiseLeftShift) else '>>'} takes whole numbers"
            made.meta["rule"] = made.unnest().meta["rule"] = rule
            node.replace(made)
    return root.this


def _arithmetic(node: exp.Binary) -> exp.Expr:
    if isinstance(node, exp.BitwiseLeftShift):
        return exp.Paren(this=exp.Mul(this=_apart(node.this), expression=_power(node.expression)))
    power = _power(node.expression)
    rest = exp.Mod(this=_apart(node.this), expression=power.copy())
    positive = exp.Mod(this=exp.Paren(this=exp.Add(this=rest, expression=power.copy())), expression=power.copy())
    whole = exp.Sub(this=_apart(node.this), expression=exp.Paren(this=positive))
    return exp.Paren(this=exp.IntDiv(this=exp.Paren(this=whole), expression=power))


def _apart(node: exp.Expr) -> exp.Expr:
    plain = isinstance(node, exp.Column | exp.Literal | exp.Paren)
    return node.copy() if plain else exp.Paren(this=node.copy())


def _power(places: exp.Expr) -> exp.Expr:
    """2 to the number of places: a constant where that is one."""
    if isinstance(places, exp.Literal) and places.is_int and 0 <= int(places.name) < 63:
        return exp.Literal.number(2 ** int(places.name))
    power = exp.Pow(this=exp.Literal.number(2), expression=places.copy())
    return exp.Cast(this=power, to=exp.DataType.build("BIGINT"))
