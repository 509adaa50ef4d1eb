"""Which objects of users nobody can change, so that whoever keeps one keeps what it says.

Most states are numbers, text, or tuples of them; telling them from others costs a look at their types.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from itertools import chain
from typing import Any
from uuid import UUID

import numpy as np

#: Objects of exactly these types can't be changed, whatever they hold.
_ATOMS = frozenset(
    {
        *(type(None), bool, int, float, complex, str, bytes, range, object, type),
        *(date, datetime, time, timedelta, Decimal, Fraction, UUID),
        # all of NumPy's but np.void, whose fields can be written
        *(np.bool_, np.float16, np.float32, np.float64, np.longdouble, np.complex64, np.complex128),
        *(np.int8, np.int16, np.int32, np.int64, np.longlong, np.uint8, np.uint16, np.uint32, np.uint64, np.ulonglong),
        *(np.datetime64, np.timedelta64, np.str_, np.bytes_),
    }
)


def constant(value: Any) -> bool:
    """Whether nobody can change the object, nor what it holds."""
    kind = type(value)
    if kind in _ATOMS:
        return True
    if issubclass(kind, tuple | frozenset):
        # those with a `__dict__` can be given attributes
        return kind.__dictoffset__ == 0 and all_constant(value)
    if issubclass(kind, Enum):
        return True
    known = getattr(kind, "__dataclass_params__", None)
    if known is not None and known.frozen and "__dataclass_params__" in kind.__dict__:
        return all_constant([getattr(value, field.name, None) for field in fields(value)])
    return False


def all_constant(values: Collection[Any]) -> bool:
    """Whether nobody can change any of them. Types are looked at first, all at once."""
    kinds = set(map(type, values))
    if kinds <= _ATOMS:
        return True
    if kinds == {tuple} and set(map(type, chain.from_iterable(values))) <= _ATOMS:
        return True
    return all(map(constant, values))
