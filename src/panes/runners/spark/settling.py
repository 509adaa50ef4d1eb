"""Python workers of Spark at rest between their tasks.

After every task Spark has Python's collector look at all objects of the worker. Most of them belong to modules that
are loaded and are never garbage; to look at them takes a tenth of a second, more than most tasks of a stream need.
"""

from __future__ import annotations

import gc
import sys

_modules = 0


def settle() -> None:
    """Called when a task begins: the collector passes over what is loaded by then. Does nothing outside of a worker."""
    global _modules
    from pyspark import TaskContext

    if len(sys.modules) > _modules and TaskContext.get() is not None:
        _modules = len(sys.modules)
        gc.freeze()
