"""Trees to text, often: the generators of sqlglot are made once, and trees are written as they lie.

Making a generator and a copy of the tree takes ten times as long as writing it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect


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
