"""Statements of random programs as text, in the many ways in which people may write them.

Not the printer of the library: that one is among what is tested.
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import singledispatch
from typing import Any

from panes.cql import tree
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
def _(length: tree.Duration, rng: random.Random) -> str:
    number = repr(length.number) if isinstance(length.number, float) else str(length.number)
    return number if length.unit is None else f"{number} {rng.choice(_UNITS[length.unit])}"


@written.register
def _(measure: tree.Measure, rng: random.Random) -> str:
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
        clause("WATERMARK", made.watermark, rng),
        clause("LATENESS", made.lateness, rng),
        clause("IDLE", made.idle, rng),
        clause("TIMEOUT", made.timeout, rng),
    )


@written.register
def _(source: tree.NamedSource, rng: random.Random) -> str:
    return f"{word('STREAM', rng)} ({quoted(source.name)})"


@written.register
def _(watermark: tree.Watermark, rng: random.Random) -> str:
    return joined(written(watermark.delay, rng), clause("ON", watermark.on, rng))


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
        f"EVALUATE {select.model.upper()} DRIVEN" if select.model else "",
        clause("EMIT", select.early, rng),
    )


@written.register
def _(early: tree.EmitEarly, rng: random.Random) -> str:
    every = "BATCH" if early.every is None else written(early.every, rng)
    return joined(word("EARLY EVERY", rng), every, word("BY CLOCK", rng) if early.clock else "")


@written.register
def _(entry: tree.Entry, rng: random.Random) -> str:
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


def on_one_time(window: tree.WindowClause) -> str | None:
    """The attribute that all lengths of a window are on, if it is nothing but lengths of time."""
    lengths = [m for m in (window.size, window.every, window.gap, window.longest) if m is not None]
    more = window.partitioned or window.where or window.label or window.offset or window.kind in ("landmark", "band")
    if more or not lengths or not all(isinstance(m, tree.Measure) for m in lengths) or window.every == window.size:
        return None
    # table functions start their windows at every slide
    if window.changes or window.align != ("start" if window.every is not None else None):
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
    if on is None or window.kind not in ("size", "session"):
        return None
    lengths = [window.size, window.every] if window.kind == "size" else [window.gap]
    texts = [quoted(written(m.length, rng)) for m in lengths if isinstance(m, tree.Measure)]
    return f"{word('window' if window.kind == 'size' else 'session_window', rng)}({', '.join([on, *texts])})"


_INTERVALS = {"ms": "MILLISECONDS", "sec": "SECOND", "min": "MINUTES"}


def as_table_function(stream: tree.StreamRef, rng: random.Random) -> str | None:
    """The window of a stream as Flink's users write it: `TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '4' SECOND)`."""
    if len(stream.windows) != 1 or rng.random() > 0.1:
        return None
    window = stream.windows[0]
    on = on_one_time(window)
    if on is None:
        return None
    name = {"size": "HOP" if window.every else "TUMBLE", "session": "SESSION", "cumulate": "CUMULATE"}[window.kind]
    lengths = [m for m in (window.every, window.size, window.gap, window.longest) if isinstance(m, tree.Measure)]
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
def _(window: tree.WindowClause, rng: random.Random) -> str:
    zone = "" if window.time_zone is None else f"AT TIME ZONE {quoted(window.time_zone)}"
    parts = joined(
        word(window.kind.upper(), rng),
        *lengths(window, rng),
        "" if window.kind == "delta" else clause("ON", window.on, rng),
        clause("OFFSET", window.offset, rng),
        zone,
        clause_of_align(window, rng),
        clause(rng.choice(("PARTITIONED BY", "PARTITIONED BY", "PARTITIONED ON")), window.partitioned, rng),
        clause("WHERE", window.where, rng),
        clause("AS", window.label, rng),
    )
    return f"[{parts}]"


def clause_of_align(window: tree.WindowClause, rng: random.Random) -> str:
    align = "" if window.align is None else word(f"ALIGN {window.align.upper()}", rng)
    return joined(align, word("ON CHANGE", rng) if window.changes else "")


def lengths(window: tree.WindowClause, rng: random.Random) -> list[str]:
    size, every = window.size, window.every
    if window.kind == "size":
        assert size is not None
        both = every is not None and size.on is not None and size.on == every.on
        if both and size.length.unit and every.length.unit and rng.random() < 0.5:
            # one ON behind both lengths
            return [written(size.length, rng), clause("EVERY", every, rng)]
        return [written(size, rng), clause("EVERY", every, rng)]
    if window.kind == "session":
        return [written(window.gap, rng)]
    if window.kind == "landmark":
        return [written(window.start, rng), clause("EVERY", every, rng)]
    if window.kind == "fixed":
        return [written(window.start, rng), clause("TO", window.end, rng)]
    if window.kind == "band":
        return [written(window.start, rng), clause("SIZE", size, rng)]
    if window.kind == "delta":
        return [repr(window.threshold), clause("ON", window.on, rng)]
    if window.kind == "punctuated":
        return [clause("BEGIN", window.begin, rng), clause("UNTIL", window.until, rng)]
    if window.kind == "threshold":
        least = "" if window.min_rows is None else f"{word('AT LEAST', rng)} {window.min_rows} {word('ROWS', rng)}"
        return [written(window.begin, rng), least]
    return [written(size, rng), clause("MAX", window.longest, rng)]


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
