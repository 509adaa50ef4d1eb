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


def _homes() -> tuple[dict[str, str], list[str]]:
    """Public name -> the module that has it; and modules all of whose names are public."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [
        (str(node.module), alias.name) for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names
    ]
    return {name: home for home, name in imports if name != "*"}, [home for home, name in imports if name == "*"]


_HOMES, _WHOLE = _homes()


def __getattr__(name: str) -> Any:
    value: Any
    if name == "__all__":
        value = sorted(["__version__", *_HOMES, *(each for home in _WHOLE for each in import_module(home).__all__)])
    elif name in _HOMES:
        home = _HOMES[name]
        value = import_module(f"panes.{name}") if home == "panes" else getattr(import_module(home), name)
    else:
        homes = () if name.startswith("_") else (import_module(home) for home in _WHOLE)
        found = next((home for home in homes if name in home.__all__), None)
        if found is None:
            raise AttributeError(f"module 'panes' has no attribute {name!r}")
        value = getattr(found, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__getattr__("__all__"))
