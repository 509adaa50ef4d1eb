"""What readers of snapshots ask of facts and tables before they believe them.

A checksum shows that bytes were not damaged by accident; whoever alters them on purpose makes a new one. So everything
that becomes a place in an array, a length or a type is looked at first, and what does not fit is refused by name.
Numbers that could be true are believed: only a key could tell them from others.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from panes.errors import PanesError, SnapshotDamaged, SnapshotError, SnapshotMismatch
from panes.state.pickles import PICKLED

Array = np.ndarray
Kind = TypeVar("Kind")
INT64 = pa.int64()
#: No number of rows, keys or windows is as large.
MANY = 1 << 62


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Whatever goes wrong inside is the fault of the bytes: nothing else has changed that could be."""
    try:
        yield
    except SnapshotError:
        raise
    except (PanesError, ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, RecursionError,
            StopIteration, TypeError, ValueError, OSError, NotImplementedError, zlib.error) as error:  # fmt: skip
        said = f"{type(error).__name__}: {error}"
        raise SnapshotDamaged(f"{what} holds a state that nothing could have written ({said})") from error


def fact(
    facts: Mapping[str, object], name: str, kind: type[Kind], *, low: int | None = None, high: int | None = None
) -> Kind:
    """A fact of this type, within these bounds."""
    if not isinstance(facts, Mapping) or name not in facts:
        raise SnapshotDamaged(f"the snapshot does not say {name!r}")
    return value(facts[name], name, kind, low=low, high=high)


def value(given: object, name: str, kind: type[Kind], *, low: int | None = None, high: int | None = None) -> Kind:
    """The same for a value by itself."""
    if type(given) is not kind:
        raise SnapshotDamaged(f"{name!r} should be of type {kind.__name__}, and is {given!r:.80}")
    number: Any = given
    if (low is not None and number < low) or (high is not None and number > high):
        raise SnapshotDamaged(f"{name!r} is {given}, which it can't be")
    return given


def whole(facts: Mapping[str, object], name: str, low: int = -MANY * 2, high: int = MANY * 2 - 1) -> int:
    """A fact that is a whole number of 64 bits."""
    return fact(facts, name, int, low=low, high=high)


def counts(facts: Mapping[str, object], name: str, known: Mapping[str, int]) -> dict[str, int]:
    """A fact that says how often each of these happened."""
    found: dict[str, int] = dict(fact(facts, name, dict))
    for each, count in found.items():
        value(count, f"{name}.{each}", int, low=-MANY, high=MANY)
    if set(found) != set(known):
        raise SnapshotDamaged(f"{name!r} counts {', '.join(found)}; it should count {', '.join(known)}")
    return found


def same_identity(
    facts: Mapping[str, object], ours: Mapping[str, object], what: str, shown: Callable[[object], str] = repr
) -> None:
    """Refuse what belongs to another query, window or operator, and say in what it differs."""
    theirs = fact(facts, "identity", dict)
    changed = [name for name in sorted({*theirs, *ours}) if theirs.get(name) != ours.get(name)]
    if changed:
        said = "; ".join(f"{name} was {shown(theirs.get(name))}, is {shown(ours.get(name))}" for name in changed)
        raise SnapshotMismatch(f"the snapshot belongs to another {what}: {said}")


def read_table(tables: Mapping[str, pa.Table], name: str, columns: Mapping[str, pa.DataType] | None = None) -> pa.Table:
    """A table; with these columns and no others, if they are given."""
    if name not in tables:
        raise SnapshotDamaged(f"the snapshot has no table {name!r}")
    found = tables[name]
    if columns is not None:
        columns_of(found, name, columns)
    return found


def columns_of(found: pa.Table, name: str, columns: Mapping[str, pa.DataType]) -> None:
    """Refuse a table that has other columns, or of other types."""
    have = dict(zip(found.column_names, found.schema.types))
    if len(have) != found.num_columns:
        raise SnapshotDamaged(f"the table {name!r} has two columns of one name")
    odd = sorted(set(have) - set(columns))
    if odd and odd[0].endswith(PICKLED):
        raise SnapshotDamaged(
            f"the column {odd[0]!r} of the table {name!r} says that it is pickled, and this query has no code of its "
            "own there: it is not read"
        )
    missing = sorted(set(columns) - set(have))
    if odd or missing:
        raise SnapshotDamaged(f"the table {name!r} has the wrong columns: too many {odd}, too few {missing}")
    for each, kind in columns.items():
        if have[each] != kind:
            raise SnapshotDamaged(f"the column {each!r} of the table {name!r} is of type {have[each]}, not {kind}")


def one_row(found: pa.Table, name: str) -> dict[str, Any]:
    """The only row of a table."""
    if found.num_rows != 1:
        raise SnapshotDamaged(f"the table {name!r} should have one row, and has {found.num_rows}")
    return dict(found.to_pylist()[0])


def numbers(
    found: pa.Table, name: str, kind: pa.DataType = INT64, *, low: int | None = None, high: int | None = None
) -> Array:
    """A column without nulls, as an array of its own, within these bounds."""
    if found.schema.get_field_index(name) < 0:
        raise SnapshotDamaged(f"the snapshot has no column {name!r} where one should be")
    column = found.column(name)
    if column.type != kind:
        raise SnapshotDamaged(f"the column {name!r} is of type {column.type}, not {kind}")
    if column.null_count:
        raise SnapshotDamaged(f"the column {name!r} has nulls")
    out = np.array(column.to_numpy())
    within(out, f"the column {name!r}", low=low, high=high)
    return out


def number_type(found: pa.Table, name: str) -> pa.DataType:
    """Of which of both kinds of numbers a column is."""
    return pa.float64() if name in found.column_names and found.schema.field(name).type == pa.float64() else INT64


def within(values: Array, what: str, *, low: Array | int | None = None, high: Array | int | None = None) -> None:
    """Refuse values out of these bounds, which may be arrays."""
    if low is not None and (values < low).any():
        raise SnapshotDamaged(f"{what} has a value that is too small: {values[values < low][0]}")
    if high is not None and (values > high).any():
        raise SnapshotDamaged(f"{what} has a value that is too large: {values[values > high][0]}")


def rising(values: Array, what: str) -> None:
    """Refuse values that don't rise."""
    if (values[1:] <= values[:-1]).any():
        raise SnapshotDamaged(f"{what} does not rise")


def demand(holds: object, what: str) -> None:
    """Refuse a state of which this does not hold."""
    if not holds:
        raise SnapshotDamaged(f"the state contradicts itself: {what}")
