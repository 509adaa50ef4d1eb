"""Pickles in states, and who may read them. Reading one runs whatever code is in it: it is done here and nowhere else.

Only what users' own Python code keeps is pickled: cells of their aggregates, state of their windows, policies and
operators. Two things must hold for a pickle to be read. The reader asks for one in that place, because the query has
code of its own there. And whoever brought the bytes trusts them: `trusting(True)` around the reading says so. Nothing
is trusted unless somebody says so. What this process itself has pickled and kept (`saved`) needs no trust.

Objects that nobody can change (`constant`) need no copy: whoever keeps one keeps what it says. Most states are numbers,
text, or tuples of them; telling them from others costs a look at their types.
"""

from __future__ import annotations

import pickle
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import fields
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from itertools import chain
from typing import Any, TypeVar
from uuid import UUID

import numpy as np

from panes.errors import SnapshotDamaged, SnapshotUntrusted

#: An object of users'.
Own = TypeVar("Own")
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


#: What the names of columns end in that hold pickles.
PICKLED = ".pickled"
#: Containers that a shallow copy makes independent, if nothing that they hold can be changed.
_SHALLOW = frozenset((list, set, dict, deque, Counter, defaultdict, bytearray))
_KEYED = frozenset((dict, Counter, defaultdict))
_trusted: ContextVar[bool] = ContextVar("panes_trusted_state", default=False)


@contextmanager
def trusting(trusted: bool) -> Iterator[None]:
    """Inside, pickles are read, or refused; what is inside may say otherwise of its own part."""
    token = _trusted.set(trusted)
    try:
        yield
    finally:
        _trusted.reset(token)


def trusted() -> bool:
    """Whether the state that is read now is trusted."""
    return _trusted.get()


def dumps(value: object) -> bytes:
    """A pickle."""
    return pickle.dumps(value, protocol=5)


def loads(data: bytes, what: str) -> Any:
    """What was pickled; `what` says to the user what it is, as in "the state of window 'w'"."""
    if not _trusted.get():
        raise SnapshotUntrusted(
            f"{what} is pickled, and reading a pickle runs whatever code is in it. If nobody else can have written or "
            "altered these bytes, say so: restore=..., trusted=True"
        )
    if not isinstance(data, bytes):
        raise SnapshotDamaged(f"{what} should be pickled, and is {type(data).__name__}")
    try:
        return pickle.loads(data)
    except Exception as error:  # code of users, or of anybody: it may raise what it likes
        raise SnapshotDamaged(f"{what} can't be read back: {type(error).__name__}: {error}") from error


def saved(value: Own) -> Callable[[], Own]:
    """How to get an object of the user's back as it is now, in this process."""
    if constant(value):
        return lambda: value
    try:
        data = dumps(value)
    except Exception:  # user classes may raise anything here; deepcopy knows other ways
        copy = deepcopy(value)
        return lambda: copy
    return lambda: pickle.loads(data)


def copied(value: Any) -> Any:
    """An object of the user's for user code to change: itself if nobody can, else a copy that shares nothing."""
    if constant(value):
        return value
    kind = type(value)
    if kind in _SHALLOW and all_constant(value) and (kind not in _KEYED or all_constant(value.values())):
        return value.copy()
    if kind is np.ndarray and not value.dtype.hasobject:
        return value.copy()
    return saved(value)()
