"""What people bring along from other SQLs, and what to write here instead: hints for words that CQL has not."""

from __future__ import annotations

_SLIDING = "[SIZE 10 min EVERY 1 min ON ts]"
_MERGE = (
    "rows of several streams are put together by MERGE a, b; a query becomes a stream by CREATE STREAM a AS SELECT ..."
)
_SLIDE = "the slide is called EVERY: [SIZE 10 min EVERY 1 min ON ts]"
_STREAM = "write CREATE STREAM name (column Type, ...) SOURCE ..., or CREATE STREAM name AS SELECT ..."
_OVER = (
    "the window in brackets behind the stream takes its place: SELECT k, sum(v) FROM t [SIZE 10 EVERY 1] GROUP BY k; "
    "lag(v) is first(v) in [SIZE 2 EVERY 1]"
)

#: Words where a statement can't go on: what to write instead.
WORDS = {
    "OVER": _OVER,
    "UNION": _MERGE,
    "INTERSECT": "rows that two streams share are found by a join of the same windows: a [SIZE ...] JOIN b [SIZE ...]",
    "EXCEPT": "rows without a partner are those of a LEFT JOIN with null on the other side",
    "TABLE": _STREAM,
    "VIEW": _STREAM,
    "SLIDE": _SLIDE,
    "HOP": f"write {_SLIDING}; as in Flink: FROM HOP(TABLE t, DESCRIPTOR(ts), slide, size)",
    "ADVANCE": _SLIDE,
    "TUMBLE": "write [SIZE 10 min ON ts]; as in Flink: FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTES)",
    "TUMBLING": "write [SIZE 10 min ON ts]",
    "SLIDING": f"write {_SLIDING}",
    "HOPPING": f"write {_SLIDING}",
    "RANGE": f"a length of time is written {_SLIDING}",
    "ROWS": "a number of rows is written [SIZE 100], or [SIZE 100 EVERY 10]",
}

#: Words at the start of a statement: what to write instead.
STATEMENTS = {"WITH": "name the query first: CREATE STREAM a AS SELECT ...; then SELECT ... FROM a"}
#: Words behind CREATE: what to write instead.
CREATED = {
    "OR": "nothing is replaced in place: write DROP STREAM name; then CREATE STREAM name ...",
    **dict.fromkeys(("TEMP", "TEMPORARY", "EXTERNAL", "MATERIALIZED", "GLOBAL"), _STREAM),
}
#: Words behind DROP: what to write instead.
DROPPED = dict.fromkeys(
    ("TABLE", "VIEW", "TEMP", "TEMPORARY", "EXTERNAL", "MATERIALIZED"), "write DROP STREAM name, or DROP SCHEMA name"
)
