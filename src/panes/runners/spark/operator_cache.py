"""Operators that a worker keeps from one micro-batch to the next, and how much memory they may take."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

from panes.runners.spark.group_operator import GroupOperator

#: What an operator takes beside its state, in bytes.
_EACH = 1 << 12
#: Bytes that a worker keeps at least.
_LEAST_KEPT = 1 << 28
#: Where the kernel says how much memory a container may take, in its two versions.
_CONTAINER_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


class OperatorCache:
    """Operators kept in this process, one per lineage; those not used for longest leave first."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = _share_of_memory() if limit is None else limit
        self._operators: OrderedDict[str, tuple[str, GroupOperator, int]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._operators)

    def take(self, lineage: str, stamps: Sequence[str]) -> tuple[GroupOperator, str] | None:
        """The operator of the lineage, and its stamp, if it is one of these; it is the caller's then."""
        known = self._operators.get(lineage)
        if known is None or known[0] not in stamps:
            return None
        self._drop(lineage)
        return known[1], known[0]

    def put(self, lineage: str, stamp: str, op: GroupOperator, held: int) -> None:
        """Keep an operator, which holds so many bytes."""
        self._drop(lineage)
        size = held + _EACH
        self._operators[lineage] = (stamp, op, size)
        self._bytes += size
        while self._bytes > self._limit:
            self._drop(next(iter(self._operators)))

    def clear(self) -> None:
        self._operators.clear()
        self._bytes = 0

    def _drop(self, lineage: str) -> None:
        found = self._operators.pop(lineage, None)
        if found is not None:
            self._bytes -= found[2]


def _share_of_memory() -> int:
    """Half of the memory of this machine or container, for as many workers as there are cores."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on every system
        return 4 * _LEAST_KEPT
    for limit in _CONTAINER_LIMITS:
        if limit.exists() and (text := limit.read_text().strip()).isdigit():
            memory = min(memory, int(text))
    return max(memory // 2 // (os.cpu_count() or 1), _LEAST_KEPT)
