"""Trees that know how users wrote them: names inside, columns written out and stand-ins keep the text they are for.

A node that takes the place of another is marked with it; messages are made of `as_written`, and places of the text
are found as if nothing had been replaced.
"""

from __future__ import annotations

import re

from sqlglot import exp

from panes.plan.dialect import PanesSQL
from panes.plan.trees import rebuilt, writer

_TEXT = "written"
_PLAIN = re.compile(r"\w+\Z")
_text = writer(PanesSQL, normalize_functions="lower")


def place_of(node: exp.Expr) -> tuple[int, int] | None:
    """From where to where a node stands in the text, as far as parsers have kept it: names, functions and values.

    Parsers of our own keep more, in `piece`: where words and signs are that sqlglot forgets.
    """
    starts, ends, parts = [], [], [node]
    while parts:
        part = parts.pop()
        meta = part._meta or {}
        start, end = meta.get("piece") or (meta.get("start"), meta.get("end", 0) + 1)
        if start is not None:
            starts.append(start)
            ends.append(end)
        if "piece" not in meta:  # below one, what there is may be from elsewhere in the text
            parts.extend(part.iter_expressions())
    return (min(starts), max(ends)) if starts else None


def in_place_of(node: exp.Expr, other: exp.Expr, text: str | None = None) -> exp.Expr:
    """The node, marked as what stands where `other` stood, which users wrote as `text`; None: as it was marked."""
    place = place_of(other)
    if place is not None:
        node.meta.update(start=place[0], end=place[1] - 1, piece=place)
    text = other.meta_get(_TEXT) if text is None else text
    if text is not None:
        node.meta[_TEXT] = text
    return node


def is_placed(node: object) -> bool:
    """Whether it is known where in the text a node stands."""
    return isinstance(node, exp.Expr) and place_of(node) is not None


def named(*parts: str) -> str:
    """A column as it is written: `a.n`, with quotes around what is no plain name."""
    return ".".join(part if _PLAIN.match(part) else f"`{part}`" for part in parts)


def is_stand_in(node: exp.Expr) -> bool:
    """Whether users wrote something else in this place."""
    return node.meta_get(_TEXT) is not None


def as_written(tree: exp.Expr) -> str:
    """A tree as text, with what users wrote in the place of what stands for it.

    >>> from sqlglot import exp
    >>> inner = in_place_of(exp.column("a__n"), exp.column("n", table="a"), "a.n")
    >>> as_written(exp.Add(this=inner, expression=exp.Literal.number(1)))
    'a.n + 1'
    """
    return _text(_back(tree))


def _back(tree: exp.Expr) -> exp.Expr:
    return rebuilt(tree, lambda node: exp.Var(this=node.meta[_TEXT]) if is_stand_in(node) else _as_called(node))


def _as_called(node: exp.Expr) -> exp.Expr | None:
    """The call that a function was written as, where something else means the same: a % b is mod(a, b)."""
    name = node.meta_get("called")
    if name is None:
        return None
    operands = [(place_of(one), one) for one in node.iter_expressions()]
    if any(place is None for place, _ in operands):
        return None
    operands.sort(key=lambda one: one[0] or (0, 0))
    return exp.Anonymous(this=name, expressions=[_back(_bare(one)) for _, one in operands])


def _bare(node: exp.Expr) -> exp.Expr:
    """Without the parentheses that sqlglot puts around operands."""
    while isinstance(node, exp.Paren) and not is_stand_in(node):
        node = node.this
    return node
