"""Trees of sqlglot built anew from others, and written as text, both often.

To build a tree anew takes a third of the time of copying it and then replacing nodes. Generators are made once and
write trees as they lie: making one, and a copy of the tree, takes ten times as long as writing it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect


def rebuilt(tree: exp.Expr, change: Callable[[exp.Expr], exp.Expr | None]) -> exp.Expr:
    """A copy of a tree in which `change` has put others in the place of nodes; it sees parents first.

    >>> rebuilt(exp.column("a") + 1, lambda node: exp.column("b") if isinstance(node, exp.Column) else None).sql()
    'b + 1'
    """
    changed = change(tree)
    if changed is not None:
        return changed
    args: dict[str, Any] = {}
    for key, value in tree.args.items():
        if isinstance(value, exp.Expr):
            args[key] = rebuilt(value, change)
        elif isinstance(value, list):
            args[key] = items = []
            for item in value:  # no comprehension: trees are deep, and it would take a frame more for each level
                items.append(rebuilt(item, change) if isinstance(item, exp.Expr) else item)
        else:
            args[key] = value
    return _like(tree, args)


def copied(tree: exp.Expr) -> exp.Expr:
    """A copy, with the places in the text that the parser has kept."""
    args: dict[str, Any] = {}
    for key, value in tree.args.items():
        if isinstance(value, exp.Expr):
            args[key] = copied(value)
        elif isinstance(value, list):
            args[key] = items = []
            for item in value:
                items.append(copied(item) if isinstance(item, exp.Expr) else item)
        else:
            args[key] = value
    return _like(tree, args)


def bare(tree: exp.Expr) -> exp.Expr:
    """A copy without parentheses, which trees don't need: trees that mean the same by form are then equal.

    >>> bare(exp.Paren(this=exp.column("a"))) == exp.column("a")
    True
    """
    return rebuilt(tree, lambda node: bare(node.this) if isinstance(node, exp.Paren) else None)


def _like(tree: exp.Expr, args: dict[str, object]) -> exp.Expr:
    node = type(tree)(**args)
    if tree.comments is not None:
        node.comments = list(tree.comments)
    if tree._meta is not None:
        node._meta = dict(tree._meta)
    if tree._type is not None:
        node._type = tree._type
    return node


def writer(dialect: type[Dialect], **options: Any) -> Callable[[exp.Expr], str]:
    """A function that writes trees, and the nodes in them as if they stood alone, in one dialect.

    Only for trees whose nodes the generator does not change while it writes them; tests go through all of ours.

    >>> writer(Dialect)(exp.column("a") + 1)
    'a + 1'
    """
    local = threading.local()

    def write(tree: exp.Expr) -> str:
        generator = getattr(local, "generator", None)
        if generator is None:
            generator = local.generator = dialect().generator(comments=False, **options)
        parent, tree.parent = tree.parent, None
        try:
            return str(generator.generate(tree, copy=False))
        finally:
            tree.parent = parent

    return write
