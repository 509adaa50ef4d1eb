"""Hints for messages: the name the user probably meant, where in a text something is, and what to write here instead
of functions that people know from other SQLs, and methods that frames of pandas, Polars and Spark have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from panes.errors import NoSuchMethod, QueryError


class Hint(NamedTuple):
    """What would be right: a sentence of its own for CQL, the end of a message for Python."""

    cql: str = ""
    python: str = ""


NO_HINT = Hint()


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that `word` was probably meant to be, if there is one; case does not count."""
    by_lower = {name.lower(): name for name in known}
    near = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6) if len(word) <= 64 else ()
    return by_lower[near[0]] if near else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`"; did you mean 'price'?"`, or the known names if none is near, or nothing if there are too many."""
    return near(name, known).python


def near(name: str, known: Iterable[str]) -> Hint:
    """The nearest known name, or all of them if none is near, or nothing if there are too many."""
    names = list(known)
    found = nearest(name, names)
    if found is not None:
        text = f"did you mean {found!r}?"
    elif 0 < len(names) <= 12:
        text = f"there are: {', '.join(names)}"
    else:
        return NO_HINT
    return Hint(text, f"; {text}")


def position(text: str, start: int | None) -> str:
    """Where in `text` an error is: `"at character 5 of 'a + foo(b)'"`. Without a text, others show the place."""
    if not text:
        return "here"
    shown = text if len(text) <= 120 else text[:117] + "..."
    return f"in {shown!r}" if start is None else f"at character {start + 1} of {shown!r}"


def _each(names: str, hint: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), hint)


_SINK = "to_spark().writeStream, or rows() to go through results as they come"
#: Habits from elsewhere: a method that is not here, and what to write.
STREAM_HABITS: Mapping[str, str] = {
    **_each("filter query loc", 'where("price > 10")'),
    **_each("groupBy groupby group_by keyBy partitionBy partition_by", 'key_by("symbol"), or key= of pn.stream'),
    **_each("withWatermark with_watermark", 'pn.stream(..., watermark="10 s"), or with_time(..., watermark="10 s")'),
    **_each("withColumn with_column assign mutate selectExpr", 'with_columns(value="price * qty"), or select(...)'),
    **_each("agg sum mean avg min max count", 'window(pn.tumbling("1 min")).agg(total="sum(price)")'),
    **_each(
        "resample rolling group_by_dynamic windowed tumble", 'window(pn.tumbling("1 min")) or window(pn.sliding(...))'
    ),
    **_each(
        "orderBy order_by sort_values", "sort(...) within a window of rows, or order_by(...) on the results of a query"
    ),
    **_each("join merge_asof", 'pn.join(left, right, window=..., using="id"), or match(...) row by row'),
    **_each("merge union unionAll unionByName concat", "pn.merge(stream, other)"),
    **_each("dropDuplicates drop_duplicates distinct unique", "dedupe(...)"),
    **_each("toPandas to_df df", "to_pandas()"),
    **_each("collect show head take limit tail first", "rows() one by one, or to_arrow() for all of them"),
    **_each("writeStream write start foreachBatch", _SINK),
    **_each("identity latest", "window(...).agg(...) first: rows have no identity, only results of windows have one"),
}
WINDOWED_HABITS: Mapping[str, str] = {
    **_each(
        "to_pandas to_arrow to_polars rows collect show toPandas", 'agg(total="sum(price)") first, then to_pandas()'
    ),
    **_each(
        "to_spark operator explain plot identity latest", 'agg(total="sum(price)") first: only then there is a query'
    ),
    **_each("where filter query", "where(...) before window(...) for rows, or after agg(...) for results"),
    **_each("groupBy groupby group_by", 'key_by("symbol") before window(...)'),
    **_each("withWatermark with_watermark", 'pn.stream(..., watermark="10 s")'),
    **_each("select with_columns", "select(...) before window(...), or after agg(...) for results"),
    **_each("sum mean avg min max count aggregate apply reduce", 'agg(total="sum(price)", n="count(*)")'),
    **_each("join", 'pn.join(left, right, window=..., using="id")'),
}
QUERY_HABITS: Mapping[str, str] = {
    **_each("filter having query loc", 'where("total > 100") for results, or where(...) of the stream for rows'),
    **_each("groupBy groupby group_by key_by keyBy", 'key_by("symbol") of the stream, before window(...)'),
    **_each("withWatermark with_watermark", 'pn.stream(..., watermark="10 s")'),
    **_each("withColumn with_columns with_column assign mutate", 'select("total", "n", mean="total / n")'),
    **_each("agg window", "stream() for windows over the results: query.stream().window(...).agg(...)"),
    **_each("orderBy sort sort_values", 'order_by("total DESC")'),
    **_each("join merge union", "stream() of both, then pn.join(...) or pn.merge(...)"),
    **_each("toPandas to_df df", "to_pandas()"),
    **_each("collect show head take limit tail first", "rows() one by one, or to_arrow() for all of them"),
    **_each("push advance finish snapshot", "operator(), and push to that"),
    **_each("writeStream write start foreachBatch", _SINK),
}


class Hinted:
    """What is not there says what to write instead. To `hasattr`, it is not there."""

    _habits: ClassVar[Mapping[str, str]] = {}
    _called: ClassVar[str] = ""

    if not TYPE_CHECKING:  # type checkers shall see what is there, and nothing else

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):  # asked by libraries, copy and pickle, never by people
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            hint = self._habits.get(name)
            if hint is not None:
                raise NoSuchMethod(f"{self._called} has no {name!r}: write {hint}")
            near = did_you_mean(name, [n for n in dir(type(self)) if not n.startswith("_")])
            raise NoSuchMethod(f"{self._called} has no {name!r}{near}")


def is_spark_column(value: object) -> bool:
    """Whether this is an expression of PySpark, which Panes does not read."""
    kind = type(value)
    return kind.__name__ == "Column" and kind.__module__.startswith("pyspark.sql")


#: An operator printed as a function, as Spark Connect and Spark 4 do: `>(v, 1)`, `and(a, b)`.
_OPERATOR_CALL = re.compile(r"[-+*/%<>=!&|^~]\(|\b(and|or)\(", re.IGNORECASE)


def spark_text(column: object) -> str:
    """An expression of PySpark as it prints, if that is SQL; else nothing."""
    text = str(column).removeprefix("Column<'").removesuffix("'>")
    return "" if _OPERATOR_CALL.search(text) else text


def check_no_columns(call: str, given: Iterable[object], instead: str | None = None) -> None:
    """Refuse expressions of PySpark where `call` takes names or windows, before anything compares or hashes them."""
    for value in given:
        if is_spark_column(value):
            text = spark_text(value)
            write = instead or ("write it as SQL text" + (f": {call}({text!r})" if text else ""))
            raise QueryError(f"{call}: {value} is a Column of Spark; {write}")


def check_outputs(outputs: Mapping[str, object]) -> None:
    """Refuse what other libraries take for aggregates, and say how it is written here."""
    for name, given in outputs.items():
        if is_spark_column(given):
            text, _, alias = spark_text(given).partition(" AS ")
            own = alias or (name if name != str(given) else "total")
            write = f": agg({own}={text!r})" if text else ""
            raise QueryError(f"agg: {given} is a Column of Spark; write it as SQL text{write}")
        if isinstance(given, dict):
            pairs = ", ".join(f'{k}="{v}({k})"' for k, v in list(given.items())[:3])
            raise QueryError(f"agg: name each output and write it as SQL text, not as a dict: agg({pairs})")


_REPLAY = "it is another value each time, so a replay would give other results"
_CLOCK = Hint(
    f"{_REPLAY}. For the time at which rows arrive leave ON out of the window ([SIZE 10 min]), and select its "
    "window_end; or give the rows a column with their time",
    f"{_REPLAY}. Give the rows a column with their time",
)
_PLACE = Hint(
    "the first rows of each window are SELECT ... FROM t [SIZE ...] ORDER BY v DESC LIMIT 3",
    'the first rows of each window are window(...).relation("*", order_by="v DESC", limit=3)',
)


def _beside(name: str, instead: str, rest: str = "") -> Hint:
    start = f"rows beside each other are in one window: {name}(v) is {instead}(v) in"
    return Hint(
        f"{start} FROM t [SIZE 2 EVERY 1]{rest}", f"{start} window(pn.sliding(pn.rows(2), every=pn.rows(1))){rest}"
    )


#: Functions from elsewhere: what to write instead.
_FOREIGN: Mapping[str, Hint] = {
    **dict.fromkeys(("now", "current_timestamp", "localtimestamp", "current_time", "sysdate", "getdate"), _CLOCK),
    **dict.fromkeys(("current_date", "curdate", "today", "unix_timestamp"), _CLOCK),
    **dict.fromkeys(("rand", "random", "randn", "uuid"), Hint(_REPLAY, _REPLAY)),
    "lag": _beside("lag", "first"),
    "lead": _beside("lead", "last", "; first(v) is then the row itself"),
    **dict.fromkeys(("row_number", "rank", "dense_rank", "percent_rank", "ntile", "nth_value"), _PLACE),
}
#: Those that are also written without parentheses.
_BARE = ("current_timestamp", "current_date", "localtimestamp", "current_time")
#: What takes the place of OVER in Python.
OVER = 'the windows of the query take its place: key_by("k").window(pn.tumbling("1 min")).agg(total="sum(v)")'


def for_function(name: str, known: Iterable[str]) -> Hint:
    """What to write instead of a function that is not there."""
    found = _FOREIGN.get(name.lower())
    return near(name, known) if found is None else Hint(found.cql, f": {found.python}")


def for_column(name: str, known: Iterable[str]) -> Hint:
    """What to write instead of a column that is not there: functions without parentheses look like one."""
    return for_function(name, known) if is_bare_function(name) else near(name, known)


def is_bare_function(name: str) -> bool:
    """Whether people know a name from elsewhere as a function that is written without parentheses."""
    return name.lower() in _BARE
