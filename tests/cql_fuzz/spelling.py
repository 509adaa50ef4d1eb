"""Statements of random programs as text, in the many ways in which people may write them.

Not the printer of the library: that one is among what is tested.
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import singledispatch
from typing import Any

from panes.cql import tree
from panes.cql.clauses import EmitEarly, Evaluate, StreamClause
from panes.cql.windows.clause import WindowClause
from panes.cql.windows.content import DeltaClause, PunctuatedClause, SessionClause, ThresholdClause
from panes.cql.windows.sized import BandClause, CumulateClause, FixedClause, LandmarkClause, SizeClause
from tests.cql_fuzz.terms import Term, quoted, spelled, word

#: other words for the units
_UNITS = {
    "ms": ("ms", "millisecond", "milliseconds"),
    "sec": ("sec", "s", "second", "seconds", "SEC"),
    "min": ("min", "minute", "minutes"),
    "hour": ("hour", "hours", "h"),
    "day": ("day", "days"),
}


def text_of(statements: Any, rng: random.Random) -> str:
    """A program as text."""
    pieces = [written(statement, rng) for statement in statements]
    between = "; " if rng.random() < 0.3 else ";\n"
    end = rng.choice(("", ";", ";\n"))
    return between.join(pieces) + end


@singledispatch
def written(part: Any, rng: random.Random) -> str:
    raise TypeError(type(part).__name__)


def joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def clause(name: str, part: Any, rng: random.Random) -> str:
    if part is None or part == ():
        return ""
    space = "\n  " if rng.random() < 0.05 else " -- why\n " if rng.random() < 0.01 else " "
    return word(name, rng) + space + (listed(part, rng) if is_list(part) else written(part, rng))


def is_list(part: Any) -> bool:
    return isinstance(part, tuple) and not isinstance(part, Term)


def listed(parts: Any, rng: random.Random) -> str:
    comma = rng.choice((", ", ", ", ", ", " , ", ","))
    return comma.join(written(part, rng) for part in parts)


written.register(Term, lambda term, rng: spelled(term, rng))


@written.register
def _(name: tree.Name, rng: random.Random) -> str:
    return f"`{name.text}`" if rng.random() < 0.02 else name.text


@written.register
def _(length: tree.Quantity, rng: random.Random) -> str:
    number = repr(length.number) if isinstance(length.number, float) else str(length.number)
    return number if length.unit is None else f"{number} {rng.choice(_UNITS[length.unit])}"


@written.register
def _(measure: tree.Extent, rng: random.Random) -> str:
    return joined(written(measure.length, rng), clause("ON", measure.on, rng))


def schema(definition: Any, rng: random.Random) -> str:
    if definition is None or isinstance(definition, tree.Name):
        return "" if definition is None else written(definition, rng)
    return f"({', '.join(f'{written(a.name, rng)} {a.type.text}' for a in definition)})"


@written.register
def _(made: tree.CreateSchema, rng: random.Random) -> str:
    return joined(
        word("CREATE SCHEMA", rng),
        written(made.name, rng),
        schema(made.definition, rng),
        clause("EXTENDS", made.extends, rng),
    )


@written.register
def _(made: tree.CreateStream, rng: random.Random) -> str:
    return joined(
        word("CREATE STREAM", rng),
        written(made.name, rng),
        schema(made.schema, rng),
        clause("SOURCE", made.source, rng),
        clause("AS", made.query, rng),
        *(clause(c.word, c, rng) for c in made.clauses),
    )


@written.register
def _(source: tree.SourceStream, rng: random.Random) -> str:
    return f"{word('STREAM', rng)} ({quoted(source.name)})"


@written.register
def _(part: StreamClause, rng: random.Random) -> str:
    return joined(written(part.length, rng), clause("ON", getattr(part, "on", None), rng))


@written.register
def _(merge: tree.Merge, rng: random.Random) -> str:
    return f"{word('MERGE', rng)} {listed(merge.streams, rng)}"


@written.register
def _(select: tree.Select, rng: random.Random) -> str:
    call = as_call(select, rng)
    groups = [written(key, rng) for key in select.group_by]
    if call is not None:
        select = replace(select, source=replace(select.source, windows=()))
        groups.insert(rng.randint(0, len(groups)), call)
    return joined(
        word("SELECT", rng),
        word("DISTINCT", rng) if select.distinct else "",
        listed(select.entries, rng),
        clause("FROM", select.source, rng),
        clause("WHERE", select.where, rng),
        f"{word('GROUP BY', rng)} {', '.join(groups)}" if groups else "",
        clause("HAVING", select.having, rng),
        clause("ORDER BY", select.order_by, rng),
        "" if select.limit is None else f"{word('LIMIT', rng)} {select.limit}",
        *(clause.cql() if isinstance(clause, Evaluate) else written(clause, rng) for clause in select.clauses),
    )


@written.register
def _(early: EmitEarly, rng: random.Random) -> str:
    every = "BATCH" if early.every is None else written(early.every, rng)
    return joined(word("EMIT EARLY EVERY", rng), every, word("BY CLOCK", rng) if early.clock else "")


@written.register
def _(entry: tree.SelectItem, rng: random.Random) -> str:
    return joined(written(entry.expression, rng), clause("AS", entry.alias, rng))


@written.register
def _(item: tree.OrderItem, rng: random.Random) -> str:
    nulls = "" if item.nulls_first is None else f"NULLS {'FIRST' if item.nulls_first else 'LAST'}"
    up = "ASC" if rng.random() < 0.2 else ""
    return joined(written(item.expression, rng), "DESC" if item.descending else up, nulls)


def alias(name: tree.Name | None, rng: random.Random) -> str:
    if name is None:
        return ""
    return clause("AS", name, rng) if rng.random() < 0.7 else name.text


def on_one_time(window: WindowClause) -> str | None:
    """The attribute that all lengths of a window are on, if it is nothing but lengths of time."""
    if isinstance(window, SizeClause):
        lengths: list[Any] = [window.size, *([] if window.every is None else [window.every])]
        # table functions start their windows at every slide
        starts = window.align == ("start" if window.every is not None else None)
        if window.every == window.size or window.offset or window.changes or not starts:
            return None
    elif isinstance(window, CumulateClause):
        lengths = [window.step, window.longest]
    elif isinstance(window, SessionClause):
        lengths = [window.gap]
    else:
        return None
    if window.partitioned or window.where or window.label or not all(isinstance(m, tree.Extent) for m in lengths):
        return None
    names = {None if m.on is None or m.length.unit is None else m.on.text for m in lengths}
    return names.pop() if len(names) == 1 else None


def as_call(select: tree.Select, rng: random.Random) -> str | None:
    """The window of a stream as Spark's users write it: `window(ts, '10 s')` in GROUP BY."""
    source = select.source
    if not isinstance(source, tree.StreamRef) or len(source.windows) != 1 or rng.random() > 0.1:
        return None
    window = source.windows[0]
    on = on_one_time(window)
    if on is None or not isinstance(window, SizeClause | SessionClause):
        return None
    lengths = [window.size, window.every] if isinstance(window, SizeClause) else [window.gap]
    texts = [quoted(written(m.length, rng)) for m in lengths if isinstance(m, tree.Extent)]
    name = "window" if isinstance(window, SizeClause) else "session_window"
    return f"{word(name, rng)}({', '.join([on, *texts])})"


_INTERVALS = {"ms": "MILLISECONDS", "sec": "SECOND", "min": "MINUTES"}


def as_table_function(stream: tree.StreamRef, rng: random.Random) -> str | None:
    """The window of a stream as Flink's users write it: `TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '4' SECOND)`."""
    if len(stream.windows) != 1 or rng.random() > 0.1:
        return None
    window = stream.windows[0]
    on = on_one_time(window)
    if on is None:
        return None
    name = window.word
    if isinstance(window, SizeClause):
        name = "HOP" if window.every else "TUMBLE"
    fields = ("every", "size", "gap", "step", "longest")
    lengths = [m for f in fields if isinstance(m := getattr(window, f, None), tree.Extent)]
    texts = [f"INTERVAL '{m.length.number}' {_INTERVALS[m.length.unit or '']}" for m in lengths]
    call = f"{word(name, rng)}({', '.join([f'TABLE {stream.name.text}', f'DESCRIPTOR({on})', *texts])})"
    return call if rng.random() < 0.3 else f"TABLE({call})"


@written.register
def _(stream: tree.StreamRef, rng: random.Random) -> str:
    call = as_table_function(stream, rng)
    if call is not None:
        return joined(call, clause("AS", stream.alias, rng))
    windows = [written(w, rng) for w in stream.windows]
    return joined(written(stream.name, rng), *windows, alias(stream.alias, rng))


@written.register
def _(inner: tree.SubqueryRef, rng: random.Random) -> str:
    windows = [written(w, rng) for w in inner.windows]
    return joined(f"({written(inner.query, rng)})", *windows, alias(inner.alias, rng))


@written.register
def _(join: tree.Join, rng: random.Random) -> str:
    kind = "" if join.kind == "inner" and rng.random() < 0.5 else join.kind.upper()
    outer = "OUTER" if join.kind in ("left", "right", "full") and rng.random() < 0.3 else ""
    using = listed(join.using, rng)
    if using and (len(join.using) > 1 or rng.random() < 0.7):
        using = f"({using})"
    return joined(
        written(join.left, rng),
        word(joined(kind, outer, "JOIN"), rng),
        written(join.right, rng),
        clause("ON", join.on, rng),
        f"{word('USING', rng)} {using}" if using else "",
    )


@written.register
def _(window: WindowClause, rng: random.Random) -> str:
    parts = joined(
        word(window.word, rng),
        *lengths(window, rng),
        "" if isinstance(window, DeltaClause) else clause("ON", getattr(window, "on", None), rng),
        clause("OFFSET", getattr(window, "offset", None), rng),
        clause_of_align(window, rng),
        clause(rng.choice(("PARTITIONED BY", "PARTITIONED BY", "PARTITIONED ON")), window.partitioned, rng),
        clause("WHERE", window.where, rng),
        clause("AS", window.label, rng),
    )
    return f"[{parts}]"


def clause_of_align(window: WindowClause, rng: random.Random) -> str:
    if not isinstance(window, SizeClause):
        return ""
    align = "" if window.align is None else word(f"ALIGN {window.align.upper()}", rng)
    return joined(align, word("ON CHANGE", rng) if window.changes else "")


def lengths(window: WindowClause, rng: random.Random) -> list[str]:
    if isinstance(window, SizeClause):
        size, every = window.size, window.every
        both = every is not None and size.on is not None and size.on == every.on
        if both and size.length.unit and every.length.unit and rng.random() < 0.5:
            # one ON behind both lengths
            return [written(size.length, rng), clause("EVERY", every, rng)]
        return [written(size, rng), clause("EVERY", every, rng)]
    if isinstance(window, SessionClause):
        return [written(window.gap, rng)]
    if isinstance(window, LandmarkClause):
        return [written(window.start, rng), clause("EVERY", window.every, rng)]
    if isinstance(window, FixedClause):
        return [written(window.start, rng), clause("TO", window.end, rng)]
    if isinstance(window, BandClause):
        return [written(window.start, rng), clause("SIZE", window.size, rng)]
    if isinstance(window, DeltaClause):
        return [repr(window.threshold), clause("ON", window.on, rng)]
    if isinstance(window, PunctuatedClause):
        return [clause("BEGIN", window.begin, rng), clause("UNTIL", window.until, rng)]
    if isinstance(window, ThresholdClause):
        least = "" if window.min_rows is None else f"{word('AT LEAST', rng)} {window.min_rows} {word('ROWS', rng)}"
        return [written(window.condition, rng), least]
    assert isinstance(window, CumulateClause)
    return [written(window.step, rng), clause("MAX", window.longest, rng)]


@written.register
def _(insert: tree.Insert, rng: random.Random) -> str:
    as_word = word("AS", rng) if rng.random() < 0.5 else ""
    return joined(word("INSERT INTO", rng), written(insert.target, rng), as_word, written(insert.query, rng))


@written.register
def _(split: tree.Split, rng: random.Random) -> str:
    between = rng.choice((" ", ";\n", "\n"))
    return f"{word('ON', rng)} {written(split.source, rng)} {between.join(written(c, rng) for c in split.clauses)}"


@written.register
def _(part: tree.SplitClause, rng: random.Random) -> str:
    return joined(
        word("INSERT INTO", rng),
        written(part.target, rng),
        word("AS", rng) if rng.random() < 0.5 else "",
        word("SELECT", rng),
        listed(part.entries, rng),
        clause("FROM", part.stream, rng),
        clause("WHERE", part.where, rng),
    )
