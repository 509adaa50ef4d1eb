"""Wrong expressions, many of them, in every place where one can stand: in CQL and in Python."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator
from itertools import product

import pyarrow as pa

import panes as pn

VALUES = ["i", "n", "x", "s", "b", "d", "at", "m", "y", "l", "r", "`My Col`", "1", "1.5", "'t'", "true", "NULL"]
OPERATORS = "+ - * / % = < AND || LIKE DIV & <<".split()
FUNCTIONS = """
    abs ceil round sqrt upper length trim substring concat coalesce greatest year date_trunc date_add datediff
    split_part lpad regexp_like regexp_replace size array_contains nvl if pow log left repeat startswith last_day
    unix_seconds bit_count isnan replace to_timestamp date_format mod locate chr levenshtein add_months
    """.split()
AGGREGATES = "sum avg stddev median percentile count_if every max_by corr listagg approx_count_distinct min".split()
BOUNDS = [
    f"{bound} {sign} {value}"
    for bound, sign, value in product(("window_start", "window_end", "window"), ("-", "*", "AND"), ("true", "x", "l"))
]


def table() -> pa.Table:
    """A row with a column of each type."""
    return pa.table(
        {
            "i": pa.array([1], pa.int32()),
            "n": pa.array([1]),
            "x": pa.array([1.5]),
            "s": pa.array(["a"]),
            "b": pa.array([True]),
            "d": pa.array([dt.date(2020, 1, 1)]),
            "at": pa.array([dt.datetime(2020, 1, 1)], pa.timestamp("us")),
            "m": pa.array([1], pa.decimal128(10, 2)),
            "y": pa.array([1], pa.int8()),
            "l": pa.array([[1]]),
            "r": pa.array([{"a": 1, "b": "x"}]),
            "My Col": pa.array(["a"]),
            "ts": pa.array([1]),
        }
    )


def of_rows() -> Iterator[str]:
    """Expressions over a row; most of them have values of wrong types, or too many."""
    yield from (f"{left} {sign} {right}" for sign, left, right in product(OPERATORS, VALUES, VALUES))
    for name, value in product(FUNCTIONS, VALUES):
        yield f"{name}({value})"
        yield from (f"{name}({value}, {other})" for other in ("n", "s", "l"))
        yield f"{name}({value}, n, b)"
    for value in VALUES:
        yield from (f"CAST({value} AS {kind})" for kind in ("INT", "DATE", "TIMESTAMP", "BOOLEAN"))
        yield from (f"-{value}", f"NOT {value}", f"{value}[0]", f"{value} IN (at, true)", f"{value} BETWEEN at AND 1")
        yield from (f"CASE WHEN {value} THEN 1 END", f"CASE {value} WHEN l THEN 1 END", f"1 + ({value} - l) * 2")
    yield from (f"{value}.q" for value in ("n", "s", "r", "l"))


def of_groups() -> Iterator[str]:
    """Expressions with aggregates."""
    for name, value in product(AGGREGATES, VALUES):
        yield from (f"{name}({value})", f"{name}({value}, s)", f"{name}({value}, 1) - l", f"{name}({value}, 't')")
        yield from (f"{name}({value}) FILTER (WHERE {value})", f"{name}(DISTINCT {value})", f"{name}({value} * at)")
        yield from (f"upper({name}({value})) - 1", f"{name}({value}) + true", f"{name}({value}, n, n, n)", f"{name}()")


_JOIN = "FROM t [SIZE 2 ON at] AS a JOIN t [SIZE 2 ON at] AS c ON a.n = c.n"
_NESTED = "(SELECT count(*) AS c, window_start, window_end, x, l, s FROM t [SIZE 2 ON at] {})"
OF_ROWS = (
    "SELECT n,\n  ? AS z FROM t",
    "SELECT n FROM t WHERE ?",
    "SELECT ? AS z FROM t [SIZE 2 ON ts]",
    "SELECT count(*) AS c FROM t [SIZE 2 ON ts] GROUP BY ?",
    "SELECT n FROM t [SIZE 2 ON ts] ORDER BY ?",
    "SELECT n FROM t [SIZE 2 ON ts WHERE ?]",
    "SELECT n FROM t [DELTA 1 ON ?]",
    "SELECT k + 1 AS j FROM (SELECT ? AS k FROM t) AS q",
    "SELECT count(*) AS c FROM t [SIZE 2 ON ts] GROUP BY n, s, at, b, x, d HAVING count(*) > 0 AND ?",
    "CREATE STREAM o (z Long); INSERT INTO o SELECT ? FROM t",
)
OF_PAIRS = (
    "SELECT a.n FROM t [SIZE 2 ON at] AS a JOIN t [SIZE 2 ON at] AS c ON ?",
    f"SELECT ? AS z {_JOIN}",
    f"SELECT a.n {_JOIN} WHERE ?",
    f"SELECT count(*) AS k {_JOIN} GROUP BY ?",
)
OF_GROUPS = (
    "SELECT ? AS z FROM t [SIZE 2 ON ts]",
    "SELECT s, ? AS z FROM t [SIZE 2 ON at PARTITIONED BY s]",
    "SELECT count(*) AS c FROM t [SIZE 2 ON ts] HAVING ?",
    "SELECT count(*) AS c FROM t [SIZE 2 ON ts] ORDER BY ?",
    "SELECT z - window_end AS h FROM (SELECT ? AS z FROM t [SIZE 2 ON at]) [SIZE 5 sec] AS q",
)
OF_WINDOWS = (
    "SELECT ? AS z, n FROM t [SIZE 2 ON at]",
    "SELECT count(*) AS c FROM t [SIZE 2 ON at] GROUP BY x, l HAVING count(*) > 0 AND ?",
    f"SELECT ? AS z FROM {_NESTED.format('')} [SIZE 5 sec ON window_end] AS b",
    f"SELECT max(b.window_end * (?)) AS z FROM {_NESTED.format('')} [SIZE 5 sec ON window_end] AS b",
)
_COLUMN = re.compile(r"(?<![\w'`.])(i|n|x|s|b|d|at|m|y|l|r|`My Col`)(?![\w'(`])")


def statements(step: int) -> Iterator[str]:
    """Statements with a wrong expression each; every place has one in `step` of them."""
    place = 0
    for texts, expressions in ((OF_ROWS, of_rows), (OF_PAIRS, of_rows), (OF_GROUPS, of_groups), (OF_WINDOWS, None)):
        for text in texts:
            place += 1
            chosen = BOUNDS if expressions is None else list(expressions())[place % step :: step]
            for one in chosen:
                yield text.replace("?", _COLUMN.sub(r"a.\1", one) if texts is OF_PAIRS else one)


def calls(step: int) -> Iterator[tuple[str, Callable[[str], object]]]:
    """The same in Python: expressions, and what takes them."""
    stream = pn.stream(table(), time="ts")
    windowed = stream.window(pn.tumbling(2))
    results = windowed.agg(n="sum(n)", s="max(s)", b="max(b)", at="max(at)", x="max(x)")
    rows: list[Callable[[str], object]] = [
        stream.where,
        lambda text: stream.select(z=text),
        lambda text: stream.with_columns(more="n + 1").where(f"more > 1 AND {text}"),
        lambda text: windowed.relation({"z": text}),
        lambda text: windowed.relation(["n"], where=text),
        results.where,
        lambda text: results.select(z=text),
        lambda text: pn.join(left=stream, right=stream, window=pn.tumbling(2), on=_COLUMN.sub(r"left.\1", text)),
    ]
    groups: list[Callable[[str], object]] = [
        lambda text: windowed.agg(z=text),
        lambda text: windowed.relation({"z": text}, group_by=["n"]),
    ]
    for takers, expressions in ((rows, of_rows), (groups, of_groups)):
        for place, taker in enumerate(takers):
            yield from ((text, taker) for text in list(expressions())[place % step :: step])
