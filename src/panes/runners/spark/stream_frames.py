"""Frames of streams that are looked at when they are written, before Spark begins.

Windows are given when they are complete, which is what Spark calls append mode. And a checkpoint belongs to one query:
Spark asks for no state before there are rows, so which query it is stands in a file beside what Spark keeps there.
A checkpoint also keeps the strategy that it began with: where the planner would choose another one by now, the frame
is made again with that of the checkpoint. Frames that are made from such a frame are looked at as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from inspect import isfunction
from typing import TYPE_CHECKING, Any

from panes.errors import QueryError, SnapshotMismatch
from panes.runners.spark.stored import changed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Where a checkpoint says which query it is of.
FILE = "panes.json"
_LOCATION = "checkpointlocation"
_FACTS = "_panes_facts"
_REMAKE = "_panes_remake"
#: Gives the frame anew, with the strategy of this name.
Remake = Callable[[str], Any]
#: What checkpoints were made with that don't say it.
_FIRST_STRATEGY = "key_groups"
_START = "_panes_start"
#: Methods of a writer that begin the stream.
_STARTING = ("start", "toTable")


def watched(frame: DataFrame, facts: Mapping[str, Any], remake: Remake | None = None) -> DataFrame:
    """The frame, with a look before it is written.

    - `facts`: what must stay the same for a checkpoint to be of use.
    - `remake`: how it is made with another strategy; None: the one that it has was asked for.
    """
    kind: Any = type(frame)
    frame.__class__ = _frame_class(kind)
    setattr(frame, _FACTS, facts)
    setattr(frame, _REMAKE, remake)
    return frame


@lru_cache
def _frame_class(base: Any) -> Any:
    def passing_on(method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(self: Any, *arguments: Any, **options: Any) -> Any:
            made = method(self, *arguments, **options)
            if type(made) is not base or made is self:
                return made
            remake: Remake | None = getattr(self, _REMAKE)
            again = None if remake is None else lambda name: call(remake(name), *arguments, **options)
            return watched(made, getattr(self, _FACTS), again)

        return call

    def writer(self: Any) -> Any:
        made = base.writeStream.fget(self)
        kind: Any = type(made)
        made.__class__ = _writer_class(kind)
        setattr(made, _START, _Start(self.sparkSession, getattr(self, _FACTS), getattr(self, _REMAKE)))
        return made

    methods = {n: passing_on(m) for n, m in vars(base).items() if isfunction(m) and not n.startswith("_")}
    return type(base.__name__, (base,), {**methods, "writeStream": property(writer)})


@lru_cache
def _writer_class(base: Any) -> Any:
    """Spark's writer, which tells what it is told to a `_Start`."""

    def telling(method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(self: Any, *arguments: Any, **options: Any) -> Any:
            getattr(self, _START).told.append((method.__name__, arguments, options))
            return method(self, *arguments, **options)

        return call

    class Telling(base):
        locals().update(
            {n: telling(m) for n, m in vars(base).items() if isfunction(m) and n[0] != "_" and n not in _STARTING}
        )

    class Writer(Telling):
        def outputMode(self, outputMode: str) -> Any:
            _check_mode(outputMode)
            return super().outputMode(outputMode)

        def option(self, key: str, value: Any) -> Any:
            getattr(self, _START).option(key, value)
            return super().option(key, value)

        def options(self, **options: Any) -> Any:
            for key, value in options.items():
                getattr(self, _START).option(key, value)
            return super().options(**options)

        def queryName(self, queryName: str) -> Any:
            getattr(self, _START).name = queryName
            return super().queryName(queryName)

        def start(self, *arguments: Any, **options: Any) -> Any:
            again = self._look(*arguments[2:3], **options)
            return super().start(*arguments, **options) if again is None else again.start(*arguments, **options)

        def toTable(self, *arguments: Any, **options: Any) -> Any:
            again = self._look(*arguments[2:3], **options)
            return super().toTable(*arguments, **options) if again is None else again.toTable(*arguments, **options)

        def _look(self, outputMode: str | None = None, queryName: str | None = None, **options: Any) -> Any:
            """A writer of the frame made with the strategy of the checkpoint, if that is another one."""
            if outputMode is not None:
                _check_mode(outputMode)
            start = getattr(self, _START)
            for key, value in options.items():
                start.option(key, value)
            start.name = queryName or start.name
            return start.look()

    Writer.__name__ = Writer.__qualname__ = base.__name__
    return Writer


def _check_mode(mode: Any) -> None:
    if str(mode).lower() != "append":
        raise QueryError(
            f"outputMode({mode!r}): a window is given when it is complete, which is Spark's append mode; leave "
            "outputMode out. Corrections by late rows come as rows of their own: see lateness= and the column revision"
        )


class _Start:
    """What is known of a stream that is about to begin."""

    def __init__(self, spark: SparkSession, facts: Mapping[str, Any], remake: Remake | None) -> None:
        self._spark = spark
        self._facts = facts
        self._remake = remake
        #: names of methods of the writer with what they were called with
        self.told: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self._location: str | None = None
        self.name: str | None = None

    def option(self, key: str, value: Any) -> None:
        if key.lower() == _LOCATION and value is not None:
            self._location = str(value)

    def look(self) -> Any:
        """Refuse a checkpoint of another query; a new one is told which query it is of.

        A writer of the frame made anew, if the checkpoint has another strategy than the planner would choose.
        """
        folder = self._folder()
        if folder is None or not hasattr(self._spark, "_jvm"):
            return None  # Spark Connect: the files are the server's
        files = _Files(self._spark, folder)
        facts = json.loads(json.dumps(self._facts))
        if not files.any_in("commits"):
            files.write(FILE, json.dumps(facts, sort_keys=True))
            return None
        text = files.read(FILE)
        known = {**facts, "strategy": _FIRST_STRATEGY} if text is None else json.loads(text)
        if known == facts:
            return None
        if self._remake is not None and {**facts, "strategy": known.get("strategy")} == known:
            return self._again(self._remake(known["strategy"]))
        said = changed(known, facts)
        raise SnapshotMismatch(
            f"the checkpoint belongs to another query: {said}. Start the changed query with a new checkpoint than "
            f"{folder}, or undo the change"
        )

    def _again(self, frame: Any) -> Any:
        writer = frame.writeStream
        for name, arguments, options in self.told:
            writer = getattr(writer, name)(*arguments, **options)
        return writer

    def _folder(self) -> str | None:
        if self._location is not None:
            return self._location
        root = self._spark.conf.get("spark.sql.streaming.checkpointLocation", None)
        return f"{root}/{self.name}" if root and self.name else None


class _Files:
    """A folder, wherever Spark's file systems have it."""

    def __init__(self, spark: Any, folder: str) -> None:
        self._jvm = spark._jvm
        self._root = self._jvm.org.apache.hadoop.fs.Path(folder)
        session = spark._jsparkSession
        self._system = self._root.getFileSystem(session.sessionState().newHadoopConf())

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name)

    def any_in(self, folder: str) -> bool:
        path = self._path(folder)
        return bool(self._system.exists(path)) and len(self._system.listStatus(path)) > 0

    def read(self, name: str) -> str | None:
        path = self._path(name)
        if not self._system.exists(path):
            return None
        stream = self._system.open(path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        stream = self._system.create(self._path(name), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
