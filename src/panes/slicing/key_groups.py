"""Key groups: to which of the 128 a key belongs, which of them an operator holds, and what parts apart agree on.

State can be cut along key groups. An operator that was restored from a part holds the groups of that part and no
others: a row of another group would be lost when its parts are put together again, so it is refused. Each part counts
its rows on its own: spread out, arrival numbers keep their order within a part, and no two are alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np
import pyarrow as pa

from panes.aggregates.types import plain
from panes.errors import DataError, QueryError, SnapshotDamaged, SnapshotMismatch
from panes.exact import Inexact, exact_array
from panes.slicing.keys import KEY_GROUPS, KeyDirectory
from panes.slicing.lane import Agg

Spans = list[list[int]]


class KeyGroups:
    """Some of the key groups."""

    def __init__(self, groups: Iterable[int]) -> None:
        self._held = np.zeros(KEY_GROUPS, bool)
        self._held[list(groups)] = True

    @classmethod
    def every(cls) -> KeyGroups:
        return cls(range(KEY_GROUPS))

    @classmethod
    def of(cls, groups: object) -> KeyGroups:
        """Those that a user asks for."""
        if not isinstance(groups, range) or groups.step != 1 or not 0 <= groups.start <= groups.stop <= KEY_GROUPS:
            raise QueryError(f"key_groups must be a range within 0..{KEY_GROUPS}, in steps of 1; got {groups!r}")
        if not groups:
            raise QueryError(f"key_groups={groups!r} holds no key group: a part holds at least one")
        return cls(groups)

    @classmethod
    def read(cls, spans: object) -> KeyGroups:
        """Those of the part of a snapshot, as `spans` writes them."""
        at = -1
        found = cls(())
        for span in spans if isinstance(spans, list) else [None]:
            if not (isinstance(span, list) and len(span) == 2 and all(type(n) is int for n in span)):
                raise SnapshotDamaged(f"the part does not say which key groups it holds: {spans!r:.80}")
            start, stop = span
            if not at < start < stop <= KEY_GROUPS:
                raise SnapshotDamaged(f"the part says that it holds the key groups {spans!r:.80}, which can't be")
            found._held[start:stop] = True
            at = stop
        if at < 0:
            raise SnapshotDamaged("the part says that it holds no key group")
        return found

    @classmethod
    def union(cls, parts: Sequence[KeyGroups]) -> KeyGroups:
        """All groups of parts, each of which may come once."""
        times = np.sum([part._held for part in parts], axis=0)
        if (times > 1).any():
            group = int(np.argmax(times > 1))
            raise SnapshotMismatch(f"two parts hold key group {group}: each group may come once")
        return cls(np.flatnonzero(times).tolist())

    @property
    def whole(self) -> bool:
        return bool(self._held.all())

    @property
    def first(self) -> int:
        return int(np.argmax(self._held))

    def __contains__(self, group: int) -> bool:
        return bool(self._held[group])

    def __le__(self, other: KeyGroups) -> bool:
        return not (self._held & ~other._held).any()

    def __invert__(self) -> KeyGroups:
        return KeyGroups(np.flatnonzero(~self._held).tolist())

    def __or__(self, other: KeyGroups) -> KeyGroups:
        return KeyGroups(np.flatnonzero(self._held | other._held).tolist())

    def among(self, groups: np.ndarray) -> np.ndarray:
        """Whether each of these groups is one of them."""
        return self._held[groups]

    def spans(self) -> Spans:
        """As a list of [start, stop)."""
        edges = np.flatnonzero(np.diff(np.concatenate(([0], self._held.astype(np.int8), [0]))))
        return edges.reshape(-1, 2).tolist()

    def __str__(self) -> str:
        return ", ".join(f"{start}..{stop - 1}" if stop > start + 1 else f"{start}" for start, stop in self.spans())

    def check(self, table: pa.Table, keys: Sequence[str]) -> None:
        """Refuse rows with keys of other groups; without keys, all rows are in group 0."""
        if not table.num_rows:
            return
        if not keys:
            if 0 not in self:
                raise DataError(f"the stream has no key, so all rows are in key group 0; this operator holds {self}")
            return
        directory = KeyDirectory([table.schema.field(k).type for k in keys])  # one of its own: nothing has changed yet
        slots = directory.slots([table[k] for k in keys])
        of = directory.groups(np.arange(len(directory)))
        wrong = np.flatnonzero(~self.among(of))
        if len(wrong):
            row = int(np.argmax(slots == wrong[0]))
            key = ", ".join(f"{k}={table[k][row].as_py()!r}" for k in keys)
            raise DataError(
                f"row {row} of the batch has the key {key} of key group {of[wrong[0]]}; this operator was restored "
                f"from parts and holds the key groups {self}. query.key_group(...) says where a key belongs"
            )


def key_of(
    call: str, keys: Mapping[str, pa.DataType], values: Sequence[object], named: Mapping[str, object]
) -> list[pa.Array]:
    """A key that a user gives to a call, as values in the order of the key columns, or by their names."""
    if values and named:
        raise QueryError(f"{call}(): give the key by position or by name, not both")
    if named and set(named) != set(keys):
        raise QueryError(f"{call}({', '.join(named)}): the key of this stream is {_said(keys)}")
    found = tuple(named[name] for name in keys) if named else tuple(values)
    if len(found) != len(keys):
        raise QueryError(f"{call}() got {len(found)} values: the key of this stream is {_said(keys)}")
    columns = []
    for (name, kind), given in zip(keys.items(), found):
        try:
            columns.append(exact_array([given], plain(kind)))
        except Inexact as error:
            raise QueryError(f"{call}({name}={given!r}): the key column {name!r} is {kind}: {error.reason}") from error
    return columns


def key_group(keys: Mapping[str, pa.DataType], values: Sequence[object], named: Mapping[str, object]) -> int:
    """The group of a key that a user gives."""
    key = key_of("key_group", keys, values, named)
    if not keys:
        return 0
    directory = KeyDirectory(list(keys.values()))
    return int(directory.groups(directory.slots(key))[0])


def _said(keys: Mapping[str, pa.DataType]) -> str:
    return ", ".join(keys) if keys else "empty: all rows are in group 0"


#: Arrival numbers beyond this are marks, not numbers.
_NO_NUMBER = 2**60


def clash(parts: Sequence[Mapping[str, pa.Table]]) -> bool:
    """Whether rows that are found by their number have one number in two parts."""
    found = [tables["raw"]["panes.seq"].to_numpy() for tables in parts if "raw" in tables and "panes.seq" in
             tables["raw"].column_names]  # fmt: skip
    every = np.concatenate(found) if found else np.empty(0)
    return len(np.unique(every)) < len(every)


def spread(
    aggs_of: Sequence[Sequence[Agg]], part: tuple[Mapping[str, Any], Mapping[str, pa.Table]], number: int, parts: int
) -> tuple[dict[str, Any], dict[str, pa.Table]]:
    """Part `number` of so many parts, with numbers that no other part has; `aggs_of`: those of each lane."""
    facts, tables = part
    numbered = {"late": {"panes.seq"}, "raw": {"panes.seq"}}
    for i, aggs in enumerate(aggs_of):
        fields = {f"agg.{a}.{f.name}" for a, agg in enumerate(aggs) for f in agg.bound.fields if f.arrival}
        numbered.update({name: {"seq", *fields} for name in tables if name.startswith(f"lane.{i}.")})
    on_time = [[parts * n if n < _NO_NUMBER else n for n in stretch] for stretch in facts["on_time"]]
    spread = {**facts, "seq": parts * (1 + facts["seq"]), "on_time": on_time}
    return spread, {n: _spread(t, numbered.get(n, set()), number, parts) for n, t in tables.items()}


def _spread(table: pa.Table, numbered: Set[str], number: int, parts: int) -> pa.Table:
    for i, field in enumerate(table.schema):
        if field.name in numbered and field.type == pa.int64():
            old = table.column(i).to_numpy()
            new = np.where((old >= 0) & (old < _NO_NUMBER), old * parts + number, old)
            table = table.set_column(i, field, pa.chunked_array([pa.array(new, field.type)]))
    return table
