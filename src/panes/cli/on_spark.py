"""Queries of the command line on Spark: batches and streams, read table by table or written to files by Spark."""

from __future__ import annotations

import logging
import queue
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from panes.errors import DataError, PanesError, QueryError

if TYPE_CHECKING:
    from panes.cql.compile import Built

    Ready = queue.SimpleQueue[pa.Table]

#: How often whoever shows results hears how far a query is, in seconds.
PAUSE = 0.25
_LOCAL = re.compile(r"local(?:\[(\*|[1-9]\d*)\])?")


def start_spark(master: str | None, settings: dict[str, str]) -> Any:
    """The Spark session: `local[2]`, `local[*]` (the default), or the address of a cluster."""
    from panes.runners.spark.session import spark as start

    def spark(**options: Any) -> Any:
        if not sys.stderr.isatty():
            return start(**options)
        from rich.console import Console

        with Console(stderr=True).status("starting Spark"):
            return start(**options)

    if master is None:
        return spark(settings=settings)
    found = _LOCAL.fullmatch(master)
    if found is None:
        if master.startswith("local["):
            raise QueryError(f"--master {master}: the number of cores must be * or a whole number from 1")
        if master.startswith("sc:"):
            raise QueryError("--master: Spark Connect (sc://) is not possible here; in Python, pn.sql takes its frames")
        return spark(settings={"spark.master": master, **settings})
    return spark(cores=None if found[1] == "*" else int(found[1] or 1), settings=settings)


class SparkWork:
    """A query on Spark. It runs once its tables are asked for, or `write` is called."""

    rows_read = None  # facts() says more
    unused = 0  # Spark counts late rows, but does not keep them

    def __init__(self, query: Built, checkpoint: Path | None, continuous: bool) -> None:
        from panes.connectors.spark_types import arrow_schema

        with spark_errors():
            self._frame: Any = query.to_spark()
            self.schema = arrow_schema(self._frame.schema)
        self._checkpoint = checkpoint
        self._continuous = continuous
        self._facts = "started"

    def tables(self) -> Iterator[pa.Table]:
        ready: Ready = queue.SimpleQueue()
        if not self._frame.isStreaming:
            return self._batch(lambda: ready.put(self._frame.toArrow()), ready)
        # a batch that fails or is stopped is told by the stream; py4j would print its stack as well
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        return self._stream(lambda writer: writer.foreachBatch(lambda frame, _: ready.put(frame.toArrow())), ready)

    def write(self, form: str, path: str) -> Iterator[pa.Table]:
        """Let Spark write the results into a folder; gives tables without rows while it does."""
        options = {"header": "true"} if form == "csv" else {}
        if not self._frame.isStreaming:
            writer = self._frame.write.format(form).options(**options)
            return self._batch(lambda: writer.save(path), queue.SimpleQueue())
        return self._stream(
            lambda writer: writer.format(form).options(**options).option("path", path), queue.SimpleQueue()
        )

    def facts(self) -> str:
        """What Spark has reported last: of micro-batches, or how many tasks are done."""
        return self._facts

    def _batch(self, work: Callable[[], Any], ready: Ready) -> Iterator[pa.Table]:
        context = self._frame.sparkSession.sparkContext
        tracker = context.statusTracker()

        def look() -> None:
            stages = [stage for stage in map(tracker.getStageInfo, tracker.getActiveStageIds()) if stage]
            done, all_of_them = sum(s.numCompletedTasks for s in stages), sum(s.numTasks for s in stages)
            self._facts = f"Spark: {done} of {all_of_them} tasks"

        return Following([work], look, context.cancelAllJobs, ready, self.schema)

    def _stream(self, sink: Callable[[Any], Any], ready: Ready) -> Iterator[pa.Table]:
        from panes.runners.spark.progress import line, progress
        from panes.runners.spark.scratch import scratch

        folder = None if self._checkpoint else tempfile.TemporaryDirectory(dir=scratch(), ignore_cleanup_errors=True)
        place = self._checkpoint or Path(folder.name if folder else "")
        writer = sink(self._frame.writeStream).option("checkpointLocation", str(place.absolute()))
        if not self._continuous:
            writer = writer.trigger(availableNow=True)
        with spark_errors():
            stream = writer.start()

        def look() -> None:
            self._facts = line(progress(stream))

        def stop() -> None:
            stream.stop()
            if folder is not None:
                folder.cleanup()

        return Following([stream.awaitTermination, stop], look, stop, ready, self.schema)


class Following:
    """What a query on Spark gives while it runs, in turn with tables without rows.

    All that talks with Spark does so in other threads: Ctrl-C must not hit a call that is under way. `steps` are
    done one after the other, `look` is called now and then meanwhile, and `stop` ends it all before its time.
    """

    def __init__(
        self,
        steps: Sequence[Callable[[], Any]],
        look: Callable[[], None],
        stop: Callable[[], Any],
        ready: Ready,
        schema: pa.Schema,
    ) -> None:
        self._ready = ready
        self._stop = stop
        self._nothing = schema.empty_table()
        self._failed: list[BaseException] = []
        self._over = threading.Event()
        threading.Thread(target=self._work, args=[steps], daemon=True).start()
        threading.Thread(target=self._look, args=[look], daemon=True).start()

    def __iter__(self) -> Following:
        return self

    def __next__(self) -> pa.Table:
        over = self._over.is_set()  # asked first: what is ready then is all there is
        try:
            return self._ready.get(timeout=0 if over else PAUSE)
        except queue.Empty:
            if not over:
                return self._nothing
        if self._failed:
            with spark_errors():
                raise self._failed.pop()
        raise StopIteration

    def close(self) -> None:
        """Stop it if it still runs."""
        if self._over.is_set():
            return
        ending = threading.Thread(target=self._stop, daemon=True)
        ending.start()
        ending.join()

    def _work(self, steps: Sequence[Callable[[], Any]]) -> None:
        try:
            for step in steps:
                step()
        except BaseException as error:  # told to whoever waits
            self._failed.append(error)
        finally:
            self._over.set()

    def _look(self, look: Callable[[], None]) -> None:
        while not self._over.wait(PAUSE):
            look()


@contextmanager
def spark_errors() -> Iterator[None]:
    """Errors of Spark as errors of the library, without the stacks of Java."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except PanesError:
        raise
    except (PySparkException, Py4JError) as error:
        raise DataError(f"Spark: {reason(str(error))}") from error


def reason(text: str) -> str:
    """The lines of an error of Spark that say what is wrong."""
    lines = text.strip().splitlines()
    said = [
        line.rstrip() for line in lines if not re.match(r"\s+at |\s*\.\.\. \d+ more|\s*File \"|JVM stacktrace", line)
    ]
    raised = [line for line in said if re.match(r"(panes\.errors\.\w+|\w+Error): ", line)]
    return raised[-1].partition(": ")[2] if raised else "\n".join(said[:6])
