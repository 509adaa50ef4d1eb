"""What a stream of Panes needs of the Spark session that a user brings, said by name.

Nothing is changed in that session: it may serve other queries. What makes a stream fail is an error, what
makes it slow is a warning; both give the line that helps.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from panes.errors import QueryError
from panes.plan.graph import Node
from panes.plan.query import StreamPlan
from panes.plan.silence import span
from panes.runners.spark.session import CHANGELOG, ROCKSDB, SHUFFLE_PARTITIONS, STATE_STORE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkSettingWarning(UserWarning):
    """A setting of the session that makes a stream slower than it need be."""


def check_session(spark: SparkSession, *, key_groups: int = 16) -> None:
    """Raise if a stream can't run in this session, warn if it would be slow; each says what to set."""
    _check_libraries()
    _check_python(spark)
    provider = spark.conf.get(STATE_STORE, None)
    if provider != ROCKSDB:
        raise QueryError(
            f"{STATE_STORE} is {provider or 'not set'}, and streams of Panes need the RocksDB state store, the only "
            f"one that holds their state: {_set(STATE_STORE, ROCKSDB)}. It applies to streams that start after it"
        )
    partitions = int(spark.conf.get(SHUFFLE_PARTITIONS, "200") or 200)
    if partitions > key_groups:
        _warn(
            f"{SHUFFLE_PARTITIONS} is {partitions}, and the state of this stream has {key_groups} key groups: "
            f"{partitions - key_groups} partitions stay empty, and each takes time in every micro-batch. "
            f"Set it to the number of cores, for instance {_set(SHUFFLE_PARTITIONS, str(_cores(spark, key_groups)))}, "
            "before the stream starts for the first time; its checkpoint keeps it"
        )
    if (spark.conf.get(CHANGELOG, None) or "false") != "true":
        _warn(
            f"{CHANGELOG} is false, so every micro-batch uploads files of the whole state store instead of what "
            f"it has changed: {_set(CHANGELOG, 'true')}"
        )


def _set(name: str, value: str) -> str:
    return f'spark.conf.set("{name}", "{value}")'


def _warn(message: str) -> None:
    warnings.warn(message, SparkSettingWarning, stacklevel=5)


def _cores(spark: SparkSession, key_groups: int) -> int:
    try:
        return min(int(spark.sparkContext.defaultParallelism), key_groups)
    except Exception:  # Spark Connect has no context
        return min(os.cpu_count() or 1, key_groups)


@lru_cache(maxsize=1)
def _check_libraries() -> None:
    """Without protobuf all that Spark says is that a worker crashed; with pandas 3 parts of it don't import."""
    try:
        import google.protobuf  # noqa: F401
    except ImportError as error:
        raise QueryError("streams on Spark need the package protobuf: pip install 'panes[spark]'") from error
    try:
        import pandas
    except ImportError as error:
        raise QueryError("streams on Spark need pandas: pip install 'panes[spark]'") from error
    if int(pandas.__version__.split(".")[0]) >= 3:
        raise QueryError(
            f"pandas {pandas.__version__} is installed, and PySpark 4.3 works with pandas 2 only: "
            "pip install 'pandas<3'"
        )


def _check_python(spark: SparkSession) -> None:
    """Workers on this machine must be able to import Panes. Those of a cluster can't be asked from here."""
    try:
        context = spark.sparkContext
    except Exception:  # Spark Connect: the server chooses its Python
        return
    if not str(context.master).startswith("local"):
        return
    # some workers are started by the variable alone, as it was when Java started
    jvm: Any = context._jvm
    programs = [context.pythonExec, jvm.System.getenv("PYSPARK_PYTHON") or "python3"]
    for program in dict.fromkeys(programs):
        found = shutil.which(program) or program
        if found == sys.executable:
            continue
        problem = _import_problem(found)
        if problem is not None:
            raise QueryError(
                f"Spark starts its Python workers with {program!r}, where Panes can't be imported: {problem}. "
                f"Before the session starts: os.environ['PYSPARK_PYTHON'] = sys.executable ({sys.executable}), "
                "or use pn.spark()"
            )


@lru_cache(maxsize=8)
def _import_problem(python: str) -> str | None:
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    code = "import sys, panes.runners.spark.group_work; print('%d.%d' % sys.version_info[:2])"
    try:
        # away from this folder, whose own `panes` would be found and not the installed one
        asked = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False, timeout=120, cwd="/")
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if asked.returncode != 0:
        return (asked.stderr.strip().splitlines() or ["it does not start"])[-1]
    if asked.stdout.strip() != here:
        return f"it is Python {asked.stdout.strip()}, and this is Python {here}; both must be the same"
    return None


def check_silence(stream: StreamPlan, node: Node, *, alone: bool = False) -> None:
    """Refuse what a streaming frame can't do when no rows come. `alone`: one stream, whose windows nobody reads on."""
    for silence in (stream.silence, *node.silences):
        if silence.timeout is not None:
            raise QueryError(
                f"timeout={span(silence.timeout)!r}: a streaming query ends when it is stopped, and not because its "
                "DataFrame is silent; leave timeout out there"
            )
        if silence.idle is None:
            continue
        if not alone:
            raise QueryError(
                f"idle={span(silence.idle)!r}: of streaming DataFrames the clock can move the watermark of one stream "
                "with windows on it, not of streams that are merged, joined or given to operators, nor of windows over "
                "windows; leave idle out there"
            )
        if silence.clock is not None and not hasattr(silence.clock, "path"):
            raise QueryError("clock: a streaming DataFrame goes by the clock of the machine that Spark's driver is on")
