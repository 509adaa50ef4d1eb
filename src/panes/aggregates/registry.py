"""The table of built-in aggregates: what SQL calls each, how it is made, and which engines have their own.

A constructor of `functions.py` or `statistics.py` is an entry by what `built_in` says above it. SQL text, relations,
joins, completion, help and Spark read the table, and nothing else lists aggregates. Importing the package fills it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import TypeVar

from panes.aggregates.base import Aggregate, Spec
from panes.errors import ExpressionError

#: listagg(x, ',') WITHIN GROUP (ORDER BY y), which no name stands for.
SORTED_TEXT = "listagg within group"
_HERE = "panes.aggregates."

Constructor = Callable[..., Aggregate]
_Made = TypeVar("_Made", bound=Constructor)


@dataclass(frozen=True)
class BuiltIn:
    """A built-in aggregate."""

    spec: type[Spec]
    #: takes the argument expressions as text, then options: `make("price", 0.9)`
    make: Constructor
    #: in SQL, in lower case
    names: tuple[str, ...]
    #: how many arguments are expressions over a row, before options; None: all of them
    inputs: int | None = 1
    #: in DuckDB, where both mean exactly the same: `{x}` and `{y}` are the arguments, `{order}` the order of rows
    duckdb: str | None = None
    #: Spark's own aggregations compute it: `native_aggregates.py` says how
    native: bool = False


_ENTRIES: list[BuiltIn] = []
_BY_NAME: dict[str, BuiltIn] = {}
_BY_SPEC: dict[type[Aggregate], BuiltIn] = {}


def built_in(
    spec: type[Spec], *names: str, inputs: int | None = 1, duckdb: str | None = None, native: bool = False
) -> Callable[[_Made], _Made]:
    """Enter the constructor below into the table."""

    def enter(make: _Made) -> _Made:
        entry = BuiltIn(spec, make, names, inputs, duckdb, native)
        _ENTRIES.append(entry)
        _BY_SPEC.setdefault(spec, entry)
        _BY_NAME.update(dict.fromkeys(names, entry))
        return make

    return enter


def entries() -> Iterator[BuiltIn]:
    """All entries, in the order in which they are written."""
    return iter(_ENTRIES)


def entry_of(aggregate: Aggregate) -> BuiltIn | None:
    """The entry of an aggregate; None for users' own and for internal ones."""
    return _BY_SPEC.get(type(aggregate))


def form_of(aggregate: Aggregate) -> dict[str, object] | None:
    """An aggregate of this package as JSON values, for `from_form`; None: it is users' own code."""
    if not isinstance(aggregate, Spec) or not type(aggregate).__module__.startswith(_HERE):
        return None
    given = {f.name: _value(getattr(aggregate, f.name)) for f in fields(aggregate)}
    return {"kind": type(aggregate).__name__, "fields": given}


def from_form(form: Mapping[str, object]) -> Aggregate:
    """The aggregate of `form_of`. Nothing but the classes of this package is looked for."""
    make: Constructor = _kinds()[str(form["kind"])]
    given = form["fields"]
    assert isinstance(given, dict)
    return make(**{name: _made(value) for name, value in given.items()})


def _kinds(above: type[Spec] = Spec) -> dict[str, type[Spec]]:
    """The classes of this package, by name."""
    found = {above.__name__: above} if above.__module__.startswith(_HERE) else {}
    for below in above.__subclasses__():
        found |= _kinds(below)
    return found


def _value(value: object) -> object:
    if isinstance(value, Spec):
        return {"aggregate": form_of(value)}
    return {"tuple": [_value(v) for v in value]} if isinstance(value, tuple) else value


def _made(value: object) -> object:
    if not isinstance(value, dict):
        return value
    return tuple(map(_made, value["tuple"])) if "tuple" in value else from_form(value["aggregate"])


def names() -> tuple[str, ...]:
    """Every name that users can write, in order."""
    return tuple(sorted(name for name in _BY_NAME if name.isidentifier()))


def inputs_of(name: str) -> int | None:
    """How many arguments are expressions over a row; None: all of them (count)."""
    entry = _BY_NAME.get(name.lower())
    return 1 if entry is None else entry.inputs


def by_name(name: str) -> Constructor:
    """The constructor of the aggregate that SQL text calls `name`, in any case.

    >>> by_name("STDDEV_POP")("price")
    stddev(price, population=True)
    """
    entry = _BY_NAME.get(name.lower())
    if entry is None:
        near = get_close_matches(name.lower(), names(), 3)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise ExpressionError(f"there is no aggregate named {name!r}{hint}")
    return entry.make
