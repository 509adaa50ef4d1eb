"""The order of values as Spark SQL has it: NaN is larger than any number and equal to itself.

Each helper picks NumPy functions that give this order natively, so that no value is ever converted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from panes.aggregates.base import Array


def least(dtype: np.dtype) -> tuple[np.ufunc, Any]:
    """The reduction to the smallest value, and its identity (the largest value of the order)."""
    if dtype.kind == "f":
        return np.fmin, np.nan  # fmin passes over NaN unless there is nothing else
    if dtype.kind == "b":
        return np.logical_and, True
    if dtype.kind == "O":
        return np.minimum, None
    return np.minimum, np.iinfo(dtype).max


def greatest(dtype: np.dtype) -> tuple[np.ufunc, Any]:
    """The reduction to the largest value, and its identity (the smallest value of the order)."""
    if dtype.kind == "f":
        return np.maximum, -np.inf
    if dtype.kind == "b":
        return np.logical_or, False
    if dtype.kind == "O":
        return np.maximum, None
    return np.maximum, np.iinfo(dtype).min


def same(a: Array, b: Array) -> Array:
    """Elementwise equality, NaN equal to NaN."""
    equal = np.asarray(a == b, bool)
    if a.dtype.kind == "f":
        equal |= np.isnan(a) & np.isnan(b)
    return equal


def less(a: Array, b: Array) -> Array:
    """Elementwise a < b, NaN last."""
    below = np.asarray(a < b, bool)
    if a.dtype.kind == "f":
        below |= np.isnan(b) & ~np.isnan(a)
    return below


def normal(values: Array) -> Array:
    """The same values with -0.0 written as 0.0, so that equal values have equal bits."""
    return values + values.dtype.type(0) if values.dtype.kind == "f" else values
