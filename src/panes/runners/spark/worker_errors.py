"""Errors of Spark's Python workers, as users read them: what is wrong comes first, and where it was raised after it.

Spark shows what a worker writes when it fails, which is a stack of calls with the error at its end, after thousands of
characters. A variable of the environment, which Spark's setting for hidden tracebacks sets, has it write the error
alone; the stack is then a note of the error.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

#: Read by PySpark when a worker fails, which then ends: nothing else sees it.
_ERROR_ALONE = "SPARK_HIDE_TRACEBACK"


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
