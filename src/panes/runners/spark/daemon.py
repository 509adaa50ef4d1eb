"""The process that Spark's Python workers are forked from, in sessions that Panes has started.

What every worker of a query needs is loaded here once, so that a worker is ready as soon as it begins: `python -m
panes.runners.spark.daemon pyspark.worker`, as Spark starts `pyspark.daemon`. Nothing that is loaded may start a thread:
one that holds a lock when a worker is forked would hold it there for ever.
"""

from __future__ import annotations

import importlib

#: Settings of a session with such a process. Arrow's allocator would start a thread to give memory back; workers use
#: another one (settling.py).
SETTINGS = {
    "spark.python.daemon.module": __name__,
    "spark.executorEnv.JE_ARROW_MALLOC_CONF": "background_thread:false",
}
_LOADED = (
    "numpy",
    "pandas",
    "pyarrow.compute",
    "pyspark.worker",
    "panes.runners.spark.group_work",
    "panes.runners.spark.strategies.key_groups",
)


def load() -> None:
    """Load what workers need."""
    for name in _LOADED:
        importlib.import_module(name)


if __name__ == "__main__":
    from pyspark import daemon

    load()
    daemon.manager()
