"""`pn.spark()`: a local Spark session that is ready for Panes, in the shortest start that Spark allows."""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from panes.errors import QueryError
from panes.runners.spark import daemon
from panes.runners.spark.java import class_archive_options, find_java, installed_home, spark_home
from panes.runners.spark.scratch import scratch

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_CHECKPOINT_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
#: Where the messages of Spark go; set in sessions that Panes has started.
LOG = "spark.panes.log"
_LOCAL_FILES = "spark.local.dir"
#: Bytes that the path of a socket may have on any system, and that Spark's names for them take.
_LONGEST_SOCKET, _SOCKET_NAME = 103, 48
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
#: Compiles less and collects in one thread: the start takes half the time, long runs are slower.
_QUICK = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]


def spark(
    *,
    cores: int | None = None,
    memory: str = "2g",
    ui: bool = False,
    quick: bool = False,
    log: str | os.PathLike[str] | None = None,
    settings: dict[str, Any] | None = None,
) -> SparkSession:
    """A local Spark session: loopback only, no web page unless asked, as many partitions as cores.

    - `cores`: how many to use; None: all.
    - `memory`: of the Java process.
    - `ui`: Spark's web page, on loopback.
    - `quick`: a faster start and a lower top speed, for tests and short jobs.
    - `log`: the file for messages of Spark and its workers; None: a temporary one, which `spark.panes.log` names.
    - `settings`: further settings of Spark; they win over those of Panes.

    A session that is running already is given back; `settings` are then set in it. One whose Java process has died is
    forgotten, and a new one started; frames of the old one are of no use any more.
    """
    _need_libraries()
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    given = {name: _text(value) for name, value in (settings or {}).items()}
    _forget_dead()
    if SparkContext._active_spark_context is not None:
        return _running(given)
    n = cores or os.cpu_count() or 1
    wanted = {**_settings(n, memory, ui), **given}
    context = _start(f"local[{n}]", wanted, quick, log)
    context.setLogLevel("ERROR")
    return SparkSession(context)


def _settings(cores: int, memory: str, ui: bool) -> dict[str, str]:
    return {
        "spark.app.name": "panes",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": _text(ui),
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": memory,
        "spark.pyspark.python": sys.executable,
        "spark.pyspark.driver.python": sys.executable,
        "spark.sql.session.timeZone": "UTC",
        # counting the bytes of a batch after every row takes half of the time that rows need to reach Python;
        # few rows per batch, or few packed values, bound its size as well
        "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "4000",
        # a hash of every byte sent between tasks, for workers that fail and are done again elsewhere: here are none
        "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
        "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
        # packed rows are compressed already, and what is sent stays on this machine
        "spark.shuffle.compress": "false",
        # every micro-batch asks for its compiled code by its text; with Spark's 100 entries, which a few streams use
        # up, it is compiled again, and slow until Java has optimised it again
        "spark.sql.codegen.cache.maxEntries": "1000",
        # the other way to write a checkpoint starts a process per file, to see whether it is a link
        "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINT_FILES,
        **daemon.SETTINGS,
        # Spark sends a worker small pieces, and over TCP each second one waits 40 ms until the one before is confirmed
        "spark.python.unix.domain.socket.enabled": _text(_has_sockets_in(scratch())),
        _LOCAL_FILES: str(scratch()),
        SHUFFLE_PARTITIONS: str(cores),
        STATE_STORE: ROCKSDB,
        CHANGELOG: "true",
    }


def _has_sockets_in(folder: Path) -> bool:
    """Whether Java and Python can meet at sockets in this folder, whose paths must be short."""
    return os.name != "nt" and len(os.fsencode(folder)) + _SOCKET_NAME <= _LONGEST_SOCKET


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _need_libraries() -> None:
    try:
        import pyspark  # noqa: F401
    except ImportError as error:
        raise QueryError("pn.spark() needs PySpark: pip install 'panes[spark]'") from error


def _forget_dead() -> None:
    """Have PySpark forget a Java process that has ended, which it would go on asking."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway: Any = SparkContext._gateway
    if gateway is None:
        return
    try:
        gateway.jvm.java.lang.System.nanoTime()
        return
    except (Py4JError, OSError):
        pass
    context: Any = SparkContext._active_spark_context
    if context is not None:
        context._jsc = None  # what is behind it can't be stopped any more
        context.stop()
    with suppress(Py4JError, OSError):
        gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None


def _running(settings: dict[str, str]) -> SparkSession:
    """The session that runs in this process, with further settings as far as they can still be set."""
    from pyspark.sql import SparkSession

    session = SparkSession.builder.getOrCreate()
    for name, value in settings.items():
        if session.conf.get(name, None) == value:
            continue
        if not session.conf.isModifiable(name):
            raise QueryError(
                f"settings: {name} can't be changed in the session that is running; stop it first with "
                "pn.spark().stop(), or leave the setting out"
            )
        session.conf.set(name, value)
    return session


def _start(master: str, settings: dict[str, str], quick: bool, log: str | os.PathLike[str] | None) -> SparkContext:
    from pyspark import SparkConf, SparkContext

    # Spark starts some workers by this variable alone, whatever its settings say
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # otherwise Spark looks up the name of the machine, and complains if it stands for loopback
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    conf = SparkConf(loadDefaults=False).setMaster(master).setAll(list(settings.items()))
    # after stop() the Java process is still there, and used again
    if SparkContext._gateway is not None:
        return SparkContext(conf=conf)
    return _start_java(conf, quick, log)


def _start_java(conf: SparkConf, quick: bool, log: str | os.PathLike[str] | None) -> SparkContext:
    import pyspark
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    java, home = find_java(), installed_home(conf.get("spark.pyspark.python"), os.environ.get("PYSPARK_PYTHON"))
    options = class_archive_options(java, home, pyspark.__version__)
    options += _QUICK if quick else []
    options += [f"-Djava.io.tmpdir={scratch()}"]
    conf.set(_JAVA_OPTIONS, " ".join([*map(_quoted, options), conf.get(_JAVA_OPTIONS, "") or ""]).strip())
    path = _log_file(log)
    conf.set(LOG, str(path))
    with path.open("ab") as file:
        # Java, Spark and its workers write to stderr whatever the log level; errors also come as exceptions
        try:
            with spark_home(home):
                gateway = launch_gateway(conf, {"stdout": file, "stderr": file})
        except Exception as error:
            said = path.read_text(errors="replace").strip()[-2000:]
            raise QueryError(f"Spark did not start with Java {java.version} ({java.program}): {said}") from error
    return SparkContext(conf=conf, gateway=gateway)


def _quoted(option: str) -> str:
    return f'"{option}"' if shlex.quote(option) != option else option


def _log_file(log: str | os.PathLike[str] | None) -> Path:
    if log is not None:
        return Path(log).absolute()
    return scratch() / "spark.log"
