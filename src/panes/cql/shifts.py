"""`<<` and `>>` as arithmetic, so that they mean the same on every engine.

`a << n` is a times 2 to the n, and an error where that is too large, as it is for every product; `a >> n` is a
divided by it, downwards for negative numbers, too.
"""

from __future__ import annotations

from sqlglot import exp

from panes.plan.written import in_place_of


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
