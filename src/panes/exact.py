"""Python values to Arrow columns, only where the value stays the same.

One rule: a value is taken if the column's type can hold exactly that value, and is refused otherwise, by row and
reason. Arrow by itself cuts fractions, hours and nanoseconds off. Kinds don't mix: truth values, numbers, text, bytes
and times are not turned into each other; text is read as a time where a time is wanted. The one exception is what
`float` and `double` are for: fractions are rounded to the nearest number that the type has.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Context, Decimal, InvalidOperation
from functools import lru_cache
from numbers import Rational
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from panes.errors import QueryError
from panes.units import nanos_since_epoch

#: A value in a form that Arrow takes as it is; ValueError says why there is none.
Take = Callable[[Any], object]

_NONE = type(None)
_NANOS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_WHOLE = (int, np.int64, np.int32, np.int16, np.int8, np.uint64, np.uint32, np.uint16, np.uint8)
#: what pandas has in the place of a value that is missing, by name: pandas itself need not be there
_MISSING = ("NaTType", "NAType")
_PLAIN_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?Z?", re.ASCII)
#: Python types whose values all fit, if they fit by type at all
_ALWAYS = (bool, float, bytes, date, datetime, timedelta, time)
_FAILURES = (pa.ArrowException, OverflowError, UnicodeError, ValueError, TypeError)
#: wide enough for any decimal type
_WIDE = Context(prec=100)


class Inexact(ValueError):
    """A value that the type can't hold as it is: its place among the values, and the reason."""

    def __init__(self, row: int, value: object, reason: str) -> None:
        super().__init__(reason)
        self.row = row
        self.value = value
        self.reason = reason


def exact_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """`values` as a column of `kind`; Inexact at the first one that would change.

    >>> exact_array([1, 2.0, None], pa.int64()).to_pylist()
    [1, 2, None]
    """
    if _surely(values, kind):
        try:
            found = pa.array(values, kind)
        except _FAILURES:
            pass  # one of them does not fit: found below
        else:
            if not _overflows(found):
                return found
    return _one_by_one(values, kind)


def quick_check(given: type, kind: pa.DataType) -> Callable[[Any], bool] | None:
    """A test that is true only of values of the Python type `given` that fit a column of `kind`; None: all do.

    It takes next to no time, and may be false of values that fit.

    >>> quick_check(float, pa.float64()) is None, quick_check(int, pa.int8())(127), quick_check(int, pa.int8())(128)
    (True, True, False)
    """
    t = pa.types
    if given is _NONE or (given in _sure(kind) and given in _ALWAYS and not (given is float and t.is_float32(kind))):
        return None if getattr(kind, "unit", "us") == "us" else _never
    if given is str and t.is_string(kind):
        return str.isascii
    if given is int and t.is_signed_integer(kind):
        return range(-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1)).__contains__
    if given is str and t.is_timestamp(kind) and kind.unit == "us":
        return _is_plain_time
    return _never


def _is_plain_time(text: str) -> bool:
    """Whether any reader takes the text as a point in time, in microseconds."""
    if not _PLAIN_TIME.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(text[:19])
    except ValueError:
        return False
    return True


def _never(value: object) -> bool:
    return False


def shown(value: object) -> str:
    """A value in an error message."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _surely(values: Sequence[Any], kind: pa.DataType) -> bool:
    """Whether Arrow takes these values as they are or refuses them, going by their Python types."""
    t = pa.types
    types = list(map(type, values))
    usual = _usual(kind)
    if usual is not None and types.count(usual) == len(types):  # far cheaper than a set of them
        return True
    kinds = set(types)
    if _is_list(kind):
        if not kinds <= {list, tuple, _NONE}:
            return False
        return _surely([x for v in values if v is not None for x in v], kind.value_type)
    if t.is_struct(kind):
        if not kinds <= {dict, _NONE}:
            return False
        some = [v for v in values if v is not None]
        return all(_surely([v.get(f.name) for v in some], f.type) for f in _fields(kind))
    return kinds <= _sure(kind)


@lru_cache(maxsize=256)
def _sure(kind: pa.DataType) -> frozenset[type]:
    """Python types of which Arrow takes each value as it is, or raises an error."""
    t = pa.types
    if t.is_boolean(kind):
        return frozenset({bool, np.bool_, _NONE})
    if t.is_integer(kind):
        return frozenset({*_WHOLE, _NONE})
    if t.is_float64(kind):
        return frozenset({float, int, np.float64, np.float32, _NONE})
    if t.is_float32(kind):
        return frozenset({float, int, np.float32, _NONE})
    if t.is_decimal(kind):
        return frozenset({Decimal, int, _NONE})
    if t.is_string(kind):
        return frozenset({str, _NONE})
    if t.is_binary(kind):
        return frozenset({bytes, bytearray, _NONE})
    if t.is_date32(kind):
        return frozenset({date, _NONE})
    if t.is_timestamp(kind) and kind.unit in ("us", "ns"):
        return frozenset({datetime, _NONE})
    if t.is_duration(kind) and kind.unit in ("us", "ns"):
        return frozenset({timedelta, _NONE})
    if t.is_time64(kind):
        return frozenset({time, _NONE})
    return frozenset({_NONE})


@lru_cache(maxsize=256)
def _usual(kind: pa.DataType) -> type | None:
    """The Python type that most values for a column of `kind` have."""
    t = pa.types
    return int if t.is_integer(kind) else float if t.is_floating(kind) else str if t.is_string(kind) else None


def _overflows(found: pa.Array) -> bool:
    """Whether a number may have become infinite on its way into 32 bits."""
    t, kind = pa.types, found.type
    if t.is_float32(kind):
        return bool(np.isinf(found.drop_null().to_numpy(zero_copy_only=False)).any())
    if _is_list(kind):
        return _overflows(found.flatten())
    if t.is_struct(kind):
        return any(_overflows(part) for part in found.flatten())
    return False


def _one_by_one(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    take = _take(kind)
    taken = []
    for row, value in enumerate(values):
        try:
            taken.append(take(value))
        except (ValueError, TypeError, OverflowError) as error:
            raise Inexact(row, value, str(error)) from None
    try:
        return pa.array(taken, kind)
    except _FAILURES:
        for row, value in enumerate(taken):
            try:
                pa.array([value], kind)
            except _FAILURES as error:
                raise Inexact(row, values[row], str(error).strip().splitlines()[0]) from None
        raise


@lru_cache(maxsize=256)
def _take(kind: pa.DataType) -> Take:
    """How values of any Python type get into a column of `kind`."""
    take = _take_some(kind)

    def taken(value: object) -> object:
        if value is None or type(value).__name__ in _MISSING or (isinstance(value, np.datetime64) and np.isnat(value)):
            return None
        return take(value)

    return taken


def _take_some(kind: pa.DataType) -> Take:
    t = pa.types
    if _is_list(kind):
        return _list(_take(kind.value_type), getattr(kind, "list_size", None))
    if t.is_struct(kind):
        return _struct({f.name: _take(f.type) for f in _fields(kind)})
    if t.is_map(kind):
        return _map(_take(kind.key_type), _take(kind.item_type))
    if t.is_boolean(kind):
        return _only((bool, np.bool_), "not a truth value")
    if t.is_integer(kind):
        return _whole(kind)
    if t.is_floating(kind):
        return _float(kind)
    if t.is_decimal(kind):
        return _decimal(kind)
    if t.is_string(kind) or t.is_large_string(kind):
        return _text
    if t.is_binary(kind) or t.is_large_binary(kind):
        return _only((bytes, bytearray, memoryview), "not bytes")
    if t.is_date32(kind):
        return _date
    if t.is_timestamp(kind):
        return _moment(kind)
    if t.is_duration(kind):
        return _duration(kind)
    if t.is_time(kind):
        return _time_of_day(kind)
    if t.is_null(kind):
        return _nothing
    return lambda value: value  # Arrow decides


def _whole(kind: pa.DataType) -> Take:
    bits, signed = kind.bit_width, pa.types.is_signed_integer(kind)
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)

    def take(value: Any) -> int:
        if not _is_number(value):
            raise ValueError("it is not a number")
        try:
            number = int(value)
        except (ValueError, OverflowError):  # NaN, infinities
            raise ValueError("it is not a whole number") from None
        if number != value:
            raise ValueError("it is not a whole number")
        if not low <= number <= high:
            raise ValueError(f"it is out of range: from {low} to {high}")
        return number

    return take


def _float(kind: pa.DataType) -> Take:
    narrow = not pa.types.is_float64(kind)
    name = "float" if narrow else "double"

    def take(value: Any) -> float:
        if not _is_number(value):
            raise ValueError("it is not a number")
        try:
            number = float(value)
            if narrow and not np.isinf(number):
                number = _narrowed(number)
        except OverflowError:
            raise ValueError(f"it is out of the range of {name}") from None
        if np.isinf(number) and value not in (number, -number):
            raise ValueError(f"it is out of the range of {name}")
        if isinstance(value, _WHOLE) and number != value:
            raise ValueError(f"{name} has no such whole number; the nearest one is {int(number)}")
        return number

    return take


def _narrowed(number: float) -> float:
    """The nearest number of 32 bits; OverflowError beyond the largest."""
    return float(struct.unpack("f", struct.pack("f", number))[0])


def _decimal(kind: pa.DataType) -> Take:
    unit, limit = Decimal(1).scaleb(-kind.scale), 10 ** (kind.precision - kind.scale)

    def take(value: Any) -> Decimal:
        if not _is_number(value) or (isinstance(value, Rational) and not isinstance(value, _WHOLE)):
            raise ValueError("it is not a decimal number")
        # a float stands for the shortest number that is read as it
        number = Decimal(repr(float(value))) if isinstance(value, float | np.floating) else Decimal(value)
        if not number.is_finite():
            raise ValueError("it is not a number")
        if abs(number) >= limit:
            raise ValueError(f"it has more than {kind.precision - kind.scale} digits before the point")
        try:
            fits = number.quantize(unit, context=_WIDE) == number
        except InvalidOperation:  # so many digits that there can't be as few as that
            fits = False
        if not fits:
            raise ValueError(f"it has more than {kind.scale} digits after the point")
        return number

    return take


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("it is not text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"it is not valid Unicode: half a character at {error.start}") from None
    return str(value)


def _date(value: object) -> date:
    if isinstance(value, str | np.datetime64):
        days, rest = divmod(_nanos(value), 86_400 * _NANOS["s"])
        if rest:
            raise ValueError("it has a time of day")
        return date(1970, 1, 1) + timedelta(days=days)
    if isinstance(value, datetime):
        if value.time() != time(0) or getattr(value, "nanosecond", False):
            raise ValueError("it has a time of day")
        if value.tzinfo is not None:
            raise ValueError("it has a time zone")
        return value.date()
    if not isinstance(value, date):
        raise ValueError("it is not a date")
    return value


def _moment(kind: pa.TimestampType) -> Take:
    step = _NANOS[kind.unit]

    def take(value: object) -> int:
        if not isinstance(value, str | date | np.datetime64):
            raise ValueError("it is not a time: give a datetime or ISO text")
        ticks, rest = divmod(_nanos(value), step)
        if rest:
            raise ValueError(f"it lies between two ticks of {kind.unit}")
        if not -(2**63) <= ticks < 2**63:
            raise ValueError(f"it is out of the range of {kind}")
        return ticks  # Arrow takes a whole number as ticks

    return take


def _nanos(value: object) -> int:
    try:
        return nanos_since_epoch(value, argument="value")
    except QueryError:
        raise ValueError("it is not a time in ISO 8601") from None


def _duration(kind: pa.DurationType) -> Take:
    step = _NANOS[kind.unit]

    def take(value: object) -> int:
        if isinstance(value, np.timedelta64):
            nanos = int(value.astype("m8[ns]").astype(np.int64))
        elif isinstance(value, timedelta):
            micros = (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
            nanos = micros * 1000 + int(getattr(value, "nanoseconds", 0))
        else:
            raise ValueError("it is not a duration: give a timedelta")
        ticks, rest = divmod(nanos, step)
        if rest:
            raise ValueError(f"it is not a whole number of {kind.unit}")
        return ticks

    return take


def _time_of_day(kind: pa.DataType) -> Take:
    step = _NANOS[kind.unit]

    def take(value: object) -> time:
        if not isinstance(value, time):
            raise ValueError("it is not a time of day")
        if value.tzinfo is not None:
            raise ValueError("it has a time zone")
        if value.microsecond * 1000 % step:
            raise ValueError(f"it lies between two ticks of {kind.unit}")
        return value

    return take


def _list(item: Take, size: int | None) -> Take:
    def take(value: object) -> list[object]:
        if not isinstance(value, list | tuple | np.ndarray):
            raise ValueError("it is not a list")
        if size is not None and len(value) != size:
            raise ValueError(f"it has {len(value)} elements, not {size}")
        return [_inside(item, x, f"element {n}") for n, x in enumerate(value)]

    return take


def _struct(fields: Mapping[str, Take]) -> Take:
    def take(value: object) -> dict[str, object]:
        if not isinstance(value, Mapping):
            raise ValueError("it is not a dict")
        return {name: _inside(item, value.get(name), f"field {name!r}") for name, item in fields.items()}

    return take


def _map(key: Take, item: Take) -> Take:
    def take(value: object) -> list[tuple[object, object]]:
        pairs = list(value.items()) if isinstance(value, Mapping) else value
        if not isinstance(pairs, list | tuple) or not all(isinstance(p, tuple | list) and len(p) == 2 for p in pairs):
            raise ValueError("it is not a map: give a dict, or a list of pairs")
        taken = [(_inside(key, k, f"key {k!r}"), _inside(item, v, f"the value of {k!r}")) for k, v in pairs]
        if any(k is None for k, _ in taken):
            raise ValueError("a key must not be null")
        return taken

    return take


def _inside(take: Take, value: object, where: str) -> object:
    try:
        return take(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"{where}, {shown(value)}: {error}") from None


def _only(kinds: tuple[type, ...], what: str) -> Take:
    def take(value: object) -> object:
        if not isinstance(value, kinds):
            raise ValueError(f"it is {what}")
        return bytes(value) if isinstance(value, bytearray | memoryview) else value

    return take


def _nothing(value: object) -> NoReturn:
    raise ValueError("the column holds nothing but nulls")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal | Rational | np.number) and not isinstance(
        value, bool | np.timedelta64 | np.complexfloating
    )


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _fields(kind: pa.StructType) -> list[pa.Field]:
    return [kind.field(i) for i in range(kind.num_fields)]
