"""CPU time of this process and all processes under it: the driver, Java, and Spark's Python workers."""

from __future__ import annotations

import os
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def cpu_seconds(root: int | None = None) -> float:
    """CPU seconds used so far, those of processes that have ended included; 0 where there is no /proc."""
    children: dict[int, list[int]] = {}
    used: dict[int, float] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except OSError:  # it has ended meanwhile
            continue
        # the name of the program, in brackets, may hold anything; after it: state, parent, ...
        fields = text[text.rindex(")") + 2 :].split()
        pid = int(path.parent.name)
        children.setdefault(int(fields[1]), []).append(pid)
        used[pid] = sum(map(int, fields[11:15])) / _TICK
    total, todo = 0.0, [root or os.getpid()]
    while todo:
        pid = todo.pop()
        total += used.get(pid, 0.0)
        todo += children.get(pid, [])
    return total
