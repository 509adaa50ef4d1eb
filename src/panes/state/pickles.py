"""Pickles in states, and who may read them. Reading one runs whatever code is in it: it is done here and nowhere else.

Only what users' own Python code keeps is pickled: cells of their aggregates, state of their windows, policies and
operators. Two things must hold for a pickle to be read. The reader asks for one in that place, because the query has
code of its own there. And whoever brought the bytes trusts them: `trusting(True)` around the reading says so. Nothing
is trusted unless somebody says so. What this process itself has pickled and kept (`saved`) needs no trust.
"""

from __future__ import annotations

import pickle
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import deepcopy
from typing import Any

import numpy as np

from panes.errors import SnapshotDamaged, SnapshotUntrusted
from panes.state.constants import all_constant, constant

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


def dumps(value: Any) -> bytes:
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


def saved(value: Any) -> Callable[[], Any]:
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
