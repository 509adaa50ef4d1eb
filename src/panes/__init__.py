"""Windows over streams: any number, any kind, one set of slices.

    import panes as pn

    bars = pn.stream(trades, time="ts", key="symbol").window(bar=pn.tumbling("1 min")).agg(high="max(price)")

The public names are said once, in `__init__.pyi`, where type checkers find them too. Each loads the module it lives in
when it is first used, which keeps the import light.
"""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

__version__ = "0.1.0"


def _homes() -> dict[str, str]:
    """Public name -> the module that has it."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


_HOMES = _homes()
__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'panes' has no attribute {name!r}")
    home = _HOMES[name]
    value = import_module(f"panes.{name}") if home == "panes" else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
