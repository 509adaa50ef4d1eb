"""Python workers of Spark: made fit for tasks that come and go, and their errors as users read them.

After every task Spark has Python's collector look at all objects of the worker. Most of them belong to modules that
are loaded and are never garbage; to look at them takes a tenth of a second, more than most tasks of a stream need.
Arrays of some megabytes come and go with every batch. Left alone, the allocators give their memory back to the system
and take it again, page by page, which is a quarter of the CPU time of a worker.

Spark shows what a worker writes when it fails, which is a stack of calls with the error at its end, after thousands of
characters. A variable of the environment, which Spark's setting for hidden tracebacks sets, has it write the error
alone; the stack is then a note of the error.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

#: What a worker keeps of memory that is free, and how much more than it needs it asks the system for, in bytes.
_KEPT = 1 << 28
_AHEAD = 1 << 25
#: Larger blocks than this are given back at once.
_BLOCK = 1 << 27
# numbers of the options in <malloc.h>
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3

#: Read by PySpark when a worker fails, which then ends: nothing else sees it.
_ERROR_ALONE = "SPARK_HIDE_TRACEBACK"

_modules = 0
_keeps_memory = False


def tune_worker() -> None:
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


@contextmanager
def errors_first() -> Iterator[None]:
    """Around all that is done in a worker. Elsewhere errors are left as they are."""
    try:
        yield
    except Exception as error:
        from pyspark import TaskContext

        if TaskContext.get() is not None:
            error.add_note("\n" + "".join(traceback.format_exception(error)))
            os.environ[_ERROR_ALONE] = "1"
        raise
