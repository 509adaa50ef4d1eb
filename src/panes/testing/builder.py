"""Windows and aggregates written as text, built without running any code.

The text is one call: `sliding("10 s", every="1 s")`, with or without `pn.` in front. Only public windows and
aggregates can be called, and what the caller names on top; arguments are plain values and further such calls.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from panes.errors import QueryError
from panes.plan.hints import did_you_mean

WINDOWS = (
    *("tumbling", "sliding", "session", "cumulate", "landmark", "fixed", "fixed_band"),
    *("punctuated", "delta", "threshold", "rows"),
)


def build_window(text: str, names: Mapping[str, Any]) -> Any:
    """The window that the text describes."""
    if not isinstance(text, str):
        raise QueryError(f"a window is written as text, for instance tumbling('1 min'); got {text!r}")
    import panes

    return _build(text, {**{name: getattr(panes, name) for name in WINDOWS}, **names})


def build_aggregate(text: str, names: Mapping[str, Any]) -> Any:
    """The aggregate: an object if the text begins with `pn.` or one of `names`, SQL text otherwise."""
    if not isinstance(text, str):
        raise QueryError(f"an aggregate is written as text, for instance sum(v); got {text!r}")
    called = text.partition("(")[0].strip()
    if not (called.startswith("pn.") or called in names):
        return text
    from panes import aggregates

    known = {name: getattr(aggregates, name) for name in aggregates.__all__ if name.islower()}
    return _build(text, {**known, **names})


def _build(text: str, known: Mapping[str, Any]) -> Any:
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise QueryError(f"{text!r} can't be read: {error.msg}") from error
    if not isinstance(node, ast.Call):
        raise QueryError(f"{text!r} must be a call, for instance tumbling('1 min')")
    return _value(node, known, text)


def _value(node: ast.expr, known: Mapping[str, Any], text: str) -> Any:
    if isinstance(node, ast.Call):
        name = _name(node.func)
        if name not in known:
            raise QueryError(f"{text!r}: {name!r} is not known{did_you_mean(name, sorted(known))}")
        named = {str(k.arg): _value(k.value, known, text) for k in node.keywords}
        return known[name](*(_value(a, known, text) for a in node.args), **named)
    if isinstance(node, ast.List):
        return [_value(e, known, text) for e in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple(_value(e, known, text) for e in node.elts)
    try:
        return ast.literal_eval(node)
    except ValueError as error:
        raise QueryError(f"{text!r}: {ast.unparse(node)} is no plain value") from error


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "pn":
        return node.attr
    return node.id if isinstance(node, ast.Name) else ast.unparse(node)
