"""Dense codes for values: each distinct value gets 0, 1, 2, ... in order of first appearance.

`IntIndex` does it for 64-bit integers: through a Python dict for small batches, through a compiled hash table
for large ones, both over the same list of values. `column_index` picks the index for one key column of
any type: numbers and times by their bits, everything else by a dictionary of its distinct values.
"""

from __future__ import annotations

import hashlib
import sys
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from panes.aggregates.columns import arrow_from_values, column_from_arrow
from panes.aggregates.types import kind_of, plain, storage_of
from panes.errors import QueryError
from panes.slicing import arrays
from panes.slicing.int_table import IntTable

Array = np.ndarray

#: From this many rows on the compiled table is worth the import of Numba; once imported, from far fewer.
LARGE = 2048
_LARGE_ONCE_LOADED = 256
_NONE = -1


def use_kernels(rows: int) -> bool:
    """Whether compiled loops pay for this many rows."""
    return rows >= LARGE or (rows >= _LARGE_ONCE_LOADED and "panes.slicing.kernels" in sys.modules)


class IntIndex:
    """Codes of 64-bit integers."""

    def __init__(self) -> None:
        self._names = np.empty(16, np.int64)  # value of each code
        self._n = 0
        self.null = _NONE  # the code that stands for null, if it was given
        self._dict: dict[int, int] = {}
        self._dict_n = 0  # codes known to the dict
        self._table = IntTable()

    def __len__(self) -> int:
        return self._n

    @property
    def nbytes(self) -> int:
        return self._names.nbytes + self._table.nbytes + 100 * len(self._dict)

    def codes(self, values: Array) -> Array:
        """The code of each value."""
        return self._by_table(values) if use_kernels(len(values)) else self._by_dict(values)

    def find(self, value: int) -> int:
        """The code of a value, -1 if it has none; none is given."""
        self._catch_up()
        return self._dict.get(value, _NONE)

    def forget_after(self, n: int) -> None:
        """Forget all codes but the first n."""
        self._n = n
        if self.null >= n:
            self.null = _NONE
        # both may be ahead of what was counted, if it was an error that stopped them
        self._dict, self._dict_n = {value: code for value, code in self._dict.items() if code < n}, min(self._dict_n, n)
        self._table = IntTable()  # it learns again what it is asked for

    def names(self, codes: Array) -> Array:
        """The value of each code (0 for the code of null)."""
        return self._names[codes]

    def code_of_null(self) -> int:
        if self.null == _NONE:
            self.null = self._n
            self._room(1)
            self._names[self._n] = 0
            self._n += 1
        return self.null

    def is_null(self, codes: Array) -> Array | None:
        return None if self.null == _NONE else codes == self.null

    def _room(self, more: int) -> None:
        if self._n + more > len(self._names):
            bigger = np.empty(max(self._n + more, 2 * len(self._names)), np.int64)
            bigger[: self._n] = self._names[: self._n]
            self._names = bigger

    def _unindexed(self, known: int) -> list[tuple[int, Array]]:
        """(first code, values) of what came after the first `known` codes, without that of null."""
        if known <= self.null < self._n:
            parts = [(known, self.null), (self.null + 1, self._n)]
        else:
            parts = [(known, self._n)]
        return [(a, self._names[a:b]) for a, b in parts if a < b]

    def _catch_up(self) -> None:
        """The dict learns what came through the table."""
        if self._dict_n == self._n:
            return
        for first, names in self._unindexed(self._dict_n):
            self._dict.update(zip(names.tolist(), range(first, first + len(names))))
        self._dict_n = self._n

    def _by_dict(self, values: Array) -> Array:
        known = self._dict
        self._catch_up()
        self._room(len(values))
        n = self._n
        out = np.empty(len(values), np.int64)
        for i, value in enumerate(values.tolist()):
            code = known.get(value)
            if code is None:
                code = known[value] = n
                self._names[n] = value
                n += 1
            out[i] = code
        self._n = self._dict_n = n
        return out

    def _by_table(self, values: Array) -> Array:
        values = np.ascontiguousarray(values)
        table = self._table
        if table.known < self._n or not table.limit:
            table.learn(self._unindexed(table.known), self._unindexed(0), self._n)
        out = arrays.empty(len(values))
        done = 0
        while True:
            self._room(min(len(values) - done, max(table.limit - self._n, 1)))
            done, self._n = table.lookup(values, done, self._names, self._n, out)
            if done == len(values):
                return out
            table.rebuild(self._unindexed(0), self._n + 1, coming=values[done:])


class ColumnIndex(ABC):
    """Codes of the values of one key column; null is a value of its own."""

    type: pa.DataType

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def codes(self, array: pa.Array) -> Array:
        """The code of each entry."""

    @abstractmethod
    def find(self, one: pa.Array) -> int:
        """The code of the only entry, -1 if it has none; none is given."""

    @abstractmethod
    def forget_after(self, n: int) -> None:
        """Forget all codes but the first n."""

    @abstractmethod
    def values(self, codes: Array) -> pa.Array:
        """The entry of each code."""

    @abstractmethod
    def hashes(self, codes: Array) -> Array:
        """A 64-bit hash of each entry, the same in every process, on every machine."""


class BitsIndex(ColumnIndex):
    """Numbers, booleans and times, by their bits. NaN is one value, and so are 0.0 and -0.0."""

    def __init__(self, type: pa.DataType) -> None:
        self.type = type
        self._dtype = storage_of(type)
        self._index = IntIndex()

    def __len__(self) -> int:
        return len(self._index)

    def codes(self, array: pa.Array) -> Array:
        column = column_from_arrow(array)
        if column.valid is None:
            return self._index.codes(self._bits(column.values))
        filled = np.flatnonzero(column.valid)
        bits = self._bits(column.values[filled])
        out = np.empty(len(column), np.int64)
        # Null gets its code where it first appears, so that codes don't depend on how rows were batched.
        before = int(np.argmin(column.valid))
        out[:before] = self._index.codes(bits[:before])
        out[~column.valid] = self._index.code_of_null()
        out[filled[before:]] = self._index.codes(bits[before:])
        return out

    def find(self, one: pa.Array) -> int:
        column = column_from_arrow(one)
        if column.valid is not None and not column.valid[0]:
            return self._index.null
        return self._index.find(int(self._bits(column.values)[0]))

    def forget_after(self, n: int) -> None:
        self._index.forget_after(n)

    def values(self, codes: Array) -> pa.Array:
        bits = self._index.names(codes)
        null = self._index.is_null(codes)
        if self._dtype.kind == "f":
            values = bits.astype(f"i{self._dtype.itemsize}").view(self._dtype)
        else:
            values = bits.astype(self._dtype, copy=False)
        return arrow_from_values(values, None if null is None else ~null, self.type)

    def hashes(self, codes: Array) -> Array:
        bits = self._index.names(codes)
        if self._dtype == np.float32:
            bits = bits.astype(np.int32).view(np.float32).astype(np.float64).view(np.int64)
        elif self.type == pa.uint64():
            pass  # beyond int64 the bits read as negative numbers, which is as good a hash
        elif pt.is_timestamp(self.type) or pt.is_duration(self.type):
            bits = bits * {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[self.type.unit]
        found = mix(bits.view(np.uint64))
        null = self._index.is_null(codes)
        return found if null is None else np.where(null, _NULL_HASH, found)

    def _bits(self, values: Array) -> Array:
        if self._dtype.kind == "f":
            values = values + self._dtype.type(0)  # -0.0 + 0.0 is 0.0
            values[values != values] = np.nan
            values = values.view(f"i{self._dtype.itemsize}")
        elif values.dtype == np.uint64:
            values = values.view(np.int64)
        return values.astype(np.int64, copy=False)


class DictionaryIndex(ColumnIndex):
    """Strings, binaries and decimals: rows are looked up through the distinct values of their batch."""

    def __init__(self, type: pa.DataType) -> None:
        self.type = type
        self._codes: dict[Any, int] = {}
        self._values = pa.array([], type)  # by code, without the latest
        self._latest: list[Any] = []
        self._hashes = np.empty(0, np.uint64)

    def __len__(self) -> int:
        return len(self._codes)

    def codes(self, array: pa.Array) -> Array:
        if not pt.is_dictionary(array.type):
            array = array.dictionary_encode("encode")
        values = array.dictionary.to_pylist()
        values.append(None)
        indices = array.indices
        if indices.null_count:
            indices = indices.fill_null(len(values) - 1)
        index = indices.to_numpy(zero_copy_only=False)
        known = self._codes
        of_value = np.array([known.get(v, _NONE) for v in values], np.int64)
        out = of_value[index]
        unknown = index[out == _NONE]
        if len(unknown):
            distinct, first = np.unique(unknown, return_index=True)
            for i in distinct[np.argsort(first)].tolist():
                if values[i] not in known:
                    known[values[i]] = len(known)
                    self._latest.append(values[i])
                of_value[i] = known[values[i]]
            out = of_value[index]
        return out

    def find(self, one: pa.Array) -> int:
        return self._codes.get(one[0].as_py(), _NONE)

    def forget_after(self, n: int) -> None:
        if n < len(self):
            self._values, self._latest = self._all().slice(0, n), []
            self._codes = {value: code for value, code in self._codes.items() if code < n}
            self._hashes = self._hashes[:n]

    def values(self, codes: Array) -> pa.Array:
        return self._all().take(pa.array(codes))

    def _all(self) -> pa.Array:
        if self._latest:
            self._values = pa.concat_arrays([self._values, pa.array(self._latest, self.type)])
            self._latest = []
        return self._values

    def hashes(self, codes: Array) -> Array:
        if len(self._hashes) < len(self):
            fresh = self._all().slice(len(self._hashes)).to_pylist()
            found = np.array([_hash_of(v) for v in fresh], np.uint64)
            self._hashes = np.concatenate((self._hashes, found))
        return self._hashes[codes]


def column_index(type: pa.DataType, name: str) -> ColumnIndex:
    """The index for a key column of this type."""
    kind = kind_of(type)
    if kind == "nested":
        raise QueryError(
            f"key column {name} is of type {type}: keys must be plain values, since nested ones have no "
            "one encoding that is equal when they are; use fields of it as several key columns"
        )
    if kind in ("text", "binary", "decimal", "null"):
        return DictionaryIndex(plain(type))
    return BitsIndex(plain(type))


def mix(values: Array) -> Array:
    """Spread 64-bit values over all bits (the finaliser of SplitMix64)."""
    with np.errstate(over="ignore"):
        z = values + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


_NULL_HASH = np.uint64(0x6E756C6C)


def _hash_of(value: Any) -> int:
    if value is None:
        return int(_NULL_HASH)
    if isinstance(value, bytes):
        data = b"b" + value
    elif isinstance(value, str):
        data = b"s" + value.encode("utf-8", "surrogatepass")
    else:
        data = b"d" + str(value.normalize()).encode()
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")
