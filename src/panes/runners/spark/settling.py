"""Python workers of Spark at rest between their tasks, and the memory that they keep.

After every task Spark has Python's collector look at all objects of the worker. Most of them belong to modules that
are loaded and are never garbage; to look at them takes a tenth of a second, more than most tasks of a stream need.

Arrays of some megabytes come and go with every batch. Left alone, the allocators give their memory back to the system
and take it again, page by page, which is a quarter of the CPU time of a worker.
"""

from __future__ import annotations

import ctypes
import gc
import sys

#: What a worker keeps of memory that is free, and how much more than it needs it asks the system for, in bytes.
_KEPT = 1 << 28
_AHEAD = 1 << 25
#: Larger blocks than this are given back at once.
_BLOCK = 1 << 27
# numbers of the options in <malloc.h>
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3

_modules = 0
_keeps_memory = False


def settle() -> None:
    """Called when a task begins: the collector passes over what is loaded by then, and memory is kept for the next
    batch. Does nothing outside of a worker."""
    global _modules, _keeps_memory
    from pyspark import TaskContext

    if TaskContext.get() is None:
        return
    if not _keeps_memory:
        _keeps_memory = True
        _keep_memory()
    if len(sys.modules) > _modules:
        _modules = len(sys.modules)
        gc.freeze()


def _keep_memory() -> None:
    """Have the allocator of the C library keep free memory, and Arrow use it, as NumPy does. Its limits can be set in
    a running process; where it has none (on macOS and Windows, and with musl) all stays as it is."""
    try:
        set_limit = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    limits = ((_MMAP_THRESHOLD, _BLOCK), (_TRIM_THRESHOLD, _KEPT), (_TOP_PAD, _AHEAD))
    if all(set_limit(option, value) for option, value in limits):
        import pyarrow as pa

        pa.set_memory_pool(pa.system_memory_pool())
