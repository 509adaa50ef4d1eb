"""Window specs as JSON values and back, for snapshots.

The specs of this package, and the policies that they may be made of, are written field by field. A user's own window
class, or a user's function inside a spec, can only be pickled; such an entry says so with the key "pickled". Windows
that the query declares are never written so: a reader has them already.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, timedelta

from panes.errors import SnapshotDamaged
from panes.state import pickles
from panes.state.checked import demand, fact, reading, value
from panes.units import Duration, Rows
from panes.windows.base import Part, Window


def window_to_json(window: Window) -> dict[str, object]:
    """A spec as JSON values."""
    if has_form(window):
        return _written(window)
    return {"pickled": base64.b64encode(pickles.dumps(window)).decode()}


def window_from_json(data: Mapping[str, object], label: str = "") -> Window:
    """The spec of `window_to_json`; `label` says to the user which window it is."""
    what = f"window {label!r}" if label else "a window"
    with reading(what):
        if "pickled" not in value(data, what, dict):
            found = _made(Window, data)
        else:
            demand(len(data) == 1, f"{what} is written in two ways")
            written = base64.b64decode(fact(data, "pickled", str), validate=True)
            found = pickles.loads(written, f"{what}, added while running,")
    if not isinstance(found, Window):
        raise SnapshotDamaged(f"{what} was pickled as a window, and is {type(found).__name__}")
    return found


def _made(base: type, data: Mapping[str, object]) -> object:
    kind = {k.__name__: k for k in _specs(base)}[fact(data, "kind", str)]
    return kind(**{name: _from_value(v) for name, v in fact(data, "fields", dict).items()})


def _specs(kind: type) -> list[type]:
    below: list[type] = kind.__subclasses__()
    return [*([kind] if _ours(kind) else []), *(spec for each in below for spec in _specs(each))]


def _ours(kind: type) -> bool:
    return kind.__module__.startswith(("panes.windows.", "panes.policies.")) and is_dataclass(kind)


def has_form(value: object) -> bool:
    """Whether a spec can be written field by field, and need not be pickled."""
    if isinstance(value, tuple):
        return all(map(has_form, value))
    if isinstance(value, Window | Part):
        return _ours(type(value)) and all(has_form(getattr(value, f.name)) for f in fields(value))  # type: ignore[arg-type]
    return value is None or isinstance(value, bool | int | float | str | Rows | Duration | timedelta | date)


def _written(spec: Window | Part) -> dict[str, object]:
    return {"kind": type(spec).__name__, "fields": {f.name: _value(getattr(spec, f.name)) for f in fields(spec)}}  # type: ignore[arg-type]


def _value(value: object) -> object:
    if isinstance(value, Window):
        return {"window": _written(value)}
    if isinstance(value, Part):
        return {"part": _written(value)}
    if isinstance(value, tuple):
        return {"tuple": [_value(v) for v in value]}
    if isinstance(value, Rows):
        return {"rows": value.count}
    if isinstance(value, Duration):
        return {"nanos": value.nanos}
    if isinstance(value, timedelta):
        return {"timedelta": [value.days, value.seconds, value.microseconds]}
    if isinstance(value, datetime):
        return {"datetime": value.isoformat()}
    return {"date": value.isoformat()} if isinstance(value, date) else value


def _from_value(value: object) -> object:
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = value.items()
    if kind == "window":
        return _made(Window, inner)  # one that is pickled is never inside of another
    if kind == "part":
        return _made(Part, inner)
    if kind == "tuple":
        return tuple(_from_value(v) for v in inner)
    if kind == "rows":
        return Rows(inner)
    if kind == "nanos":
        return Duration(inner)
    if kind == "timedelta":
        return timedelta(*inner)
    return {"datetime": datetime, "date": date}[kind].fromisoformat(inner)
