"""Statements to text: `to_text` writes a tree on one line, so that parsing the line gives the tree again.

`format_text` lays out text that people wrote; it is in `layout` and works on tokens, to keep comments.

>>> from panes.cql.parse import parse_one
>>> to_text(parse_one("select avg(p) from s[size 10 minutes on ts every 5sec on ts] t group by k"))
'SELECT avg(p) FROM s [SIZE 10 min ON ts EVERY 5 sec ON ts] AS t GROUP BY k'
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import singledispatch

from sqlglot import exp

from panes.cql.dialect import RESERVED, Cql
from panes.cql.layout import format_text
from panes.cql.tree import (
    Attributes,
    CreateSchema,
    CreateStream,
    Describe,
    Drop,
    Duration,
    EmitEarly,
    Entry,
    Explain,
    FileSource,
    Insert,
    InsertSink,
    Join,
    Measure,
    Merge,
    Name,
    NamedSource,
    OrderItem,
    Policies,
    Policy,
    Select,
    Show,
    SocketSource,
    Split,
    SplitClause,
    Statement,
    StreamRef,
    SubqueryRef,
    Watermark,
    WindowClause,
)
from panes.plan.writing import writer

__all__ = ["expression_text", "format_text", "to_text"]

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_TYPE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\(\d+(, \d+)*\)|\[\w+\])?\Z")


def to_text(statement: Statement) -> str:
    """A statement, or any part of one, as CQL on one line."""
    return _text(statement)


def part_text(part: object) -> str:
    """A part of a statement, a window clause for instance."""
    return _text(part)


#: A scalar expression as CQL writes it.
expression_text = writer(Cql, normalize_functions="lower")


@singledispatch
def _text(part: object) -> str:
    raise TypeError(f"{type(part).__name__} is no part of a CQL statement")


# sqlglot's nodes are instances of exp.Expr, whatever their class
_text.register(exp.Expr, expression_text)


@_text.register
def _(name: Name) -> str:
    if _PLAIN.match(name.text) and name.text.upper() not in RESERVED:
        return name.text
    return "`" + name.text.replace("`", "``") + "`"


@_text.register
def _(length: Duration) -> str:
    number = repr(length.number) if isinstance(length.number, float) else str(length.number)
    return number if length.unit is None else f"{number} {length.unit}"


@_text.register
def _(measure: Measure) -> str:
    on = measure.on
    if on is not None and on.text.upper() == "CHANGE":  # without quotes it would be ON CHANGE
        return f"{_text(measure.length)} ON `{on.text}`"
    return _joined(_text(measure.length), _clause("ON", on))


# --- definitions ------------------------------------------------------------------------------------------


def _schema(definition: Name | Attributes) -> str:
    if isinstance(definition, Name):
        return _text(definition)
    columns = (f"{_text(a.name)} {a.type.text if _TYPE.match(a.type.text) else _text(a.type)}" for a in definition)
    return f"({', '.join(columns)})"


@_text.register
def _(made: CreateSchema) -> str:
    return _joined("CREATE SCHEMA", _text(made.name), _schema(made.definition), _clause("EXTENDS", made.extends))


@_text.register
def _(made: CreateStream) -> str:
    return _joined(
        "CREATE STREAM",
        _text(made.name),
        "" if made.schema is None else _schema(made.schema),
        _clause("SOURCE", made.source),
        _clause("AS", made.query),
        _clause("WATERMARK", made.watermark),
        _clause("LATENESS", made.lateness),
        _clause("IDLE", made.idle),
        _clause("TIMEOUT", made.timeout),
    )


@_text.register
def _(source: FileSource) -> str:
    return f"FILE ({_quoted(source.path, source.delimiter)})"


@_text.register
def _(source: SocketSource) -> str:
    delimiter = "" if source.delimiter is None else f", {_quoted(source.delimiter)}"
    return f"SOCKET ({_quoted(source.host)}, {source.port}{delimiter})"


@_text.register
def _(source: NamedSource) -> str:
    return f"STREAM ({_quoted(source.name)})"


@_text.register
def _(watermark: Watermark) -> str:
    return _joined(_text(watermark.delay), _clause("ON", watermark.on))


# --- queries ----------------------------------------------------------------------------------------------


@_text.register
def _(merge: Merge) -> str:
    return f"MERGE {_list(merge.streams)}"


@_text.register
def _(select: Select) -> str:
    return _joined(
        "SELECT DISTINCT" if select.distinct else "SELECT",
        _list(select.entries),
        _clause("FROM", select.source),
        _clause("WHERE", select.where),
        _clause("GROUP BY", select.group_by),
        _clause("HAVING", select.having),
        _clause("ORDER BY", select.order_by),
        "" if select.limit is None else f"LIMIT {select.limit}",
        f"EVALUATE {select.model.upper()} DRIVEN" if select.model else "",
        "" if select.early is None else _text(select.early),
    )


@_text.register
def _(early: EmitEarly) -> str:
    every = "BATCH" if early.every is None else _text(early.every)
    return f"EMIT EARLY EVERY {every}{' BY CLOCK' if early.clock else ''}"


@_text.register
def _(entry: Entry) -> str:
    return _joined(_text(entry.expression), _clause("AS", entry.alias))


@_text.register
def _(item: OrderItem) -> str:
    nulls = "" if item.nulls_first is None else f"NULLS {'FIRST' if item.nulls_first else 'LAST'}"
    return _joined(_text(item.expression), "DESC" if item.descending else "", nulls)


@_text.register
def _(stream: StreamRef) -> str:
    return _joined(_text(stream.name), *map(_text, stream.windows), _clause("AS", stream.alias))


@_text.register
def _(inner: SubqueryRef) -> str:
    return _joined(f"({_text(inner.query)})", *map(_text, inner.windows), _clause("AS", inner.alias))


@_text.register
def _(join: Join) -> str:
    using = f"USING ({_list(join.using)})" if join.using else ""
    word = f"{join.kind.upper()} JOIN"
    return _joined(_text(join.left), word, _text(join.right), _clause("ON", join.on), using)


@_text.register
def _(window: WindowClause) -> str:
    return f"[{_joined(*_window_parts(window))}]"


def _window_parts(window: WindowClause) -> Iterable[str]:
    yield _joined(window.kind.upper(), *_kind_parts(window))
    # lengths say their own ON; it is only for windows without any
    if window.kind != "delta":
        yield _clause("ON", window.on)
    yield _clause("OFFSET", window.offset)
    yield "" if window.time_zone is None else f"AT TIME ZONE {_quoted(window.time_zone)}"
    yield "" if window.align is None else f"ALIGN {window.align.upper()}"
    yield "ON CHANGE" if window.changes else ""
    yield _clause("PARTITIONED BY", window.partitioned)
    yield _clause("WHERE", window.where)
    yield _clause("AS", window.label)


def _kind_parts(window: WindowClause) -> Iterable[str]:
    """What follows the first word of the clause."""
    start = "" if window.start is None else _text(window.start)
    if window.kind == "size":
        return _of(window.size), _clause("EVERY", window.every)
    if window.kind == "session":
        return (_of(window.gap),)
    if window.kind == "landmark":
        return start, _clause("EVERY", window.every)
    if window.kind == "fixed":
        return start, _clause("TO", window.end)
    if window.kind == "band":
        return start, _clause("SIZE", window.size)
    if window.kind == "delta":
        return f"{window.threshold:.17g}", _clause("ON", window.on)
    if window.kind == "punctuated":
        return _clause("BEGIN", window.begin), _clause("UNTIL", window.until)
    if window.kind == "threshold":
        return _of(window.begin), "" if window.min_rows is None else f"AT LEAST {window.min_rows} ROWS"
    if window.kind == "cumulate":
        return _of(window.size), _clause("MAX", window.longest)
    keep = "" if window.keep is None else f"KEEP {_policies(window.keep, 'UNTIL')}"
    return keep, "" if window.due is None else f"EVERY {_policies(window.due, 'WHEN')}"


def _policies(given: Policy | Policies, condition: str, inside: bool = False) -> str:
    if isinstance(given, Policies):
        text = f" {given.rule} ".join(_policies(part, condition, inside=True) for part in given.parts)
        return f"({text})" if inside else text
    if given.measure is not None:
        return f"{_text(given.measure)} ROWS" if given.measure.kind == "rows" else _text(given.measure)
    if given.threshold is None:
        return f"{condition} ({_of(given.value)})"
    value = _of(given.value)
    return f"DELTA {given.threshold:.17g} ON {value if isinstance(given.value, exp.Column) else f'({value})'}"


# --- INSERT, splits, questions ----------------------------------------------------------------------------


@_text.register
def _(insert: Insert) -> str:
    # without quotes it would be the sink
    target = "`" * (insert.target.text.upper() == "CONSOLE")
    return f"INSERT INTO {target}{_text(insert.target)}{target} AS {_text(insert.query)}"


@_text.register
def _(insert: InsertSink) -> str:
    sink = "CONSOLE" if insert.path is None else f"FILE ({_quoted(insert.path)})"
    return f"INSERT INTO {sink} AS {_text(insert.query)}"


@_text.register
def _(split: Split) -> str:
    return f"ON {_text(split.source)} {' '.join(map(_text, split.clauses))}"


@_text.register
def _(clause: SplitClause) -> str:
    return _joined(
        f"INSERT INTO {_text(clause.target)} AS SELECT {_list(clause.entries)}",
        _clause("FROM", clause.stream),
        _clause("WHERE", clause.where),
    )


@_text.register
def _(question: Explain) -> str:
    return _joined("EXPLAIN", (question.phase or "").upper(), _text(question.statement))


@_text.register
def _(question: Show) -> str:
    return f"SHOW {question.what.upper()}"


@_text.register
def _(question: Describe) -> str:
    return f"DESCRIBE {_text(question.name)}"


@_text.register
def _(order: Drop) -> str:
    return f"DROP {order.what.upper()} {_text(order.name)}"


# --- pieces -----------------------------------------------------------------------------------------------


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _of(part: object) -> str:
    return "" if part is None else _text(part)


def _clause(word: str, part: object) -> str:
    """A word and what belongs to it, or nothing."""
    if part is None or part == ():
        return ""
    return f"{word} {_list(part) if isinstance(part, tuple) else _text(part)}"


def _list(parts: Iterable[object]) -> str:
    return ", ".join(map(_text, parts))


def _quoted(*texts: str | None) -> str:
    literals = (exp.Literal.string(text) for text in texts if text is not None)
    return ", ".join(map(expression_text, literals))
