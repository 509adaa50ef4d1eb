"""Window specs as JSON values and back, for snapshots.

The specs of this package are written field by field. A user's own window class, or a user's function inside a
spec, can only be pickled; such an entry says so with the key "pickled".
"""

from __future__ import annotations

import base64
import pickle
from dataclasses import fields, is_dataclass
from datetime import date, datetime, timedelta
from typing import Any

from panes.units import Duration, Rows
from panes.windows.base import Window


def window_to_json(window: Window) -> dict[str, Any]:
    """A spec as JSON values."""
    if _ours(type(window)) and is_dataclass(window):
        values = {f.name: getattr(window, f.name) for f in fields(window)}
        if all(_has_form(v) for v in values.values()):
            return {"kind": type(window).__name__, "fields": {n: _value(v) for n, v in values.items()}}
    return {"pickled": base64.b64encode(pickle.dumps(window)).decode()}


def window_from_json(data: dict[str, Any]) -> Window:
    """The spec of `window_to_json`."""
    if "pickled" in data:
        return pickle.loads(base64.b64decode(data["pickled"]))
    kind = {k.__name__: k for k in _specs(Window)}[data["kind"]]
    return kind(**{name: _from_value(v) for name, v in data["fields"].items()})


def _specs(kind: Any) -> list[Any]:
    found = [kind] if _ours(kind) else []
    for below in kind.__subclasses__():
        found += _specs(below)
    return found


def _ours(kind: type) -> bool:
    return kind.__module__.startswith("panes.windows.") and is_dataclass(kind)


def _has_form(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str | Rows | Duration | timedelta | date | Window)


def _value(value: Any) -> Any:
    if isinstance(value, Window):
        return {"window": window_to_json(value)}
    if isinstance(value, Rows):
        return {"rows": value.count}
    if isinstance(value, Duration):
        return {"nanos": value.nanos}
    if isinstance(value, timedelta):
        return {"timedelta": [value.days, value.seconds, value.microseconds]}
    if isinstance(value, datetime):
        return {"datetime": value.isoformat()}
    return {"date": value.isoformat()} if isinstance(value, date) else value


def _from_value(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = value.items()
    if kind == "window":
        return window_from_json(inner)
    if kind == "rows":
        return Rows(inner)
    if kind == "nanos":
        return Duration(inner)
    if kind == "timedelta":
        return timedelta(*inner)
    return (datetime if kind == "datetime" else date).fromisoformat(inner)
