"""One program on the library and on the oracle: None if they agree, else what differs."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Iterator
from functools import cache
from typing import Any

import pyarrow as pa
from sqlglot import exp

from panes.cql.layout import lay_out
from panes.cql.parse import Located, parse
from panes.cql.session import QueryRows, Session
from tests.cql_fuzz.emitting import early_of, finals, text_of_early
from tests.cql_fuzz.feeds import Answer, Feed
from tests.cql_fuzz.generate import generate
from tests.cql_fuzz.oracle import World
from tests.cql_fuzz.programs import Data, Program
from tests.cql_fuzz.spelling import text_of
from tests.cql_fuzz.terms import Term, term_of
from tests.fuzz.faults import exception_text

_ARROW = {
    "byte": pa.int8(), "short": pa.int16(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "string": pa.string(), "boolean": pa.bool_(), "datetime": pa.timestamp("us"),
}  # fmt: skip


def program_text(program: Program) -> str:
    return text_of(program.statements, random.Random(program.seed))


def check(program: Program) -> str | None:
    formatted, found = lay_out(program_text(program))
    wrong = text_difference(program, formatted, found)
    if wrong is not None:
        return f"text: {wrong}"
    return results_difference(program, found)


def failure(program: Program) -> str | None:
    """Like `check`, with an exception of the library as a failure too."""
    try:
        return check(program)
    except Exception as error:
        return exception_text(error)


def check_seed(seed: int) -> str | None:
    return failure(generate(seed))


# --- the text ---


def text_difference(program: Program, formatted: str, found: tuple[Located, ...]) -> str | None:
    """Parsing, printing and formatting: the tree that was meant is the one that is read, again and again."""
    read = [located.statement for located in found]
    if len(read) != len(program.statements):
        return f"{len(program.statements)} statements are read as {len(read)}"
    for number, (meant, got) in enumerate(zip(program.statements, read, strict=True)):
        if not is_meant(meant, got):
            return f"statement {number} is read as another: {got.cql()}"
        printed = got.cql()
        (again,) = parse(printed)
        if again.statement != got:
            return f"statement {number} is printed as another: {printed}"
    twice, again_found = lay_out(formatted)
    if [located.statement for located in again_found] != read:
        return f"formatted, it is another program:\n{formatted}"
    if twice != formatted:
        return f"formatted twice, it looks different:\n{formatted}\n--- and then ---\n{twice}"
    return None


def is_meant(meant: Any, got: Any) -> bool:
    """Whether a tree is the one that was meant: with terms for expressions, and without places."""
    if isinstance(meant, Term):
        return isinstance(got, exp.Expr) and term_of(got) == meant
    if isinstance(meant, tuple):
        return isinstance(got, tuple) and len(meant) == len(got) and all(map(is_meant, meant, got))
    if type(meant) is not type(got):
        return False
    fields = compared(type(meant))
    return meant == got if fields is None else all(is_meant(getattr(meant, f), getattr(got, f)) for f in fields)


@cache
def compared(kind: type) -> tuple[str, ...] | None:
    """The fields of a dataclass that count when its values are compared; None: it is none."""
    if not dataclasses.is_dataclass(kind):
        return None
    return tuple(f.name for f in dataclasses.fields(kind) if f.compare)


# --- the results ---


def results_difference(program: Program, found: tuple[Located, ...]) -> str | None:
    clock: Iterator[int] | None = None
    session = Session({n: given(d) for n, d in program.data.items()}, clock=lambda: 0 if clock is None else next(clock))
    world = World({n.lower(): Feed(d.columns, d.rows) for n, d in program.data.items()})
    for number, (statement, located) in enumerate(zip(program.statements, found, strict=True)):
        ticks = program.clocks.get(number)
        clock = None if ticks is None else iter(ticks)
        answer = session.execute(located)
        if not isinstance(answer, QueryRows):
            world.make(statement)
            continue
        world.ticks = None if ticks is None else list(ticks)
        want = world.query(statement)
        got = answer.query.to_arrow()
        wrong = difference(want, got) or (
            early_difference(session, statement, want, program.seed) if not ticks else None
        )
        if wrong is not None:
            return f"statement {number}: {wrong}"
    return None


def early_difference(session: Session, statement: Any, want: Answer, seed: int) -> str | None:
    """The same query with EMIT EARLY, for some: what it gives in the end."""
    select = early_of(statement, seed)
    if select is None:
        return None
    formatted, found = text_of_early(select, seed)
    wrong = text_difference(Program(seed, {}, (select,), {}), formatted, found)
    if wrong is not None:
        return f"with EMIT EARLY, text: {wrong}"
    given = finals(session, found[0])
    wrong = None if given is None else difference(dataclasses.replace(want, exact=False), given)
    return wrong and f"with EMIT EARLY: {wrong}"


def given(data: Data) -> Any:
    if data.tuples:
        return list(data.rows)
    arrays = [pa.array([row[i] for row in data.rows], _ARROW[kind]) for i, (_, kind) in enumerate(data.columns)]
    return pa.table(arrays, names=[name for name, _ in data.columns])


def difference(want: Answer, got: pa.Table) -> str | None:
    names = list(got.column_names)
    if len(names) != len(want.columns) or any(
        a and a.lower() != b.lower() for a, b in zip(want.names, names, strict=True)
    ):
        return f"columns should be {want.names}, are {names}"
    found = [tuple(row[n] for n in names) for row in got.to_pylist()]
    if want.exact and len(found) == len(want.rows):
        pairs = zip(want.rows, found, strict=True)
        if all(map(same, *zip(*pairs, strict=True))) if found else True:
            return None
    wanted = sorted(want.rows, key=by_value)
    ordered = sorted(found, key=by_value)
    if len(wanted) == len(ordered) and all(map(same, wanted, ordered)):
        return f"the order should be {list(want.rows)}, is {found}" if want.exact else None
    missing, extra = list(wanted), []
    for row in ordered:
        match = next((w for w in missing if same(w, row)), None)
        if match is None:
            extra.append(row)
        else:
            missing.remove(match)
    if not missing and not extra:
        return f"the order should be {list(want.rows)}, is {found}" if want.exact else None
    return f"missing {missing[:5]}, too much {extra[:5]} of {len(wanted)} and {len(ordered)} rows"


def same(want: Any, got: Any) -> bool:
    if isinstance(want, (tuple, list)):
        return len(want) == len(got) and all(map(same, want, got))
    if isinstance(want, float) and isinstance(got, float):
        return (want != want and got != got) or math.isclose(want, got, rel_tol=1e-6, abs_tol=1e-9)
    return type(want) is type(got) and want == got


def by_value(row: Any) -> Any:
    return [(v is None, type(v).__name__, 0 if v is None else repr(v) if isinstance(v, list) else v) for v in row]
