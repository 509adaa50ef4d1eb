"""Make a failing program small: fewer rows, statements, clauses, entries and smaller expressions."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from panes.cql import tree
from tests.cql_fuzz.programs import Program
from tests.cql_fuzz.run import failure
from tests.cql_fuzz.terms import Term, const

Fails = Callable[[Program], bool]
#: clauses that may be left out, and what they are then
_OPTIONAL: dict[str, Any] = {
    "where": None, "having": None, "limit": None, "distinct": False, "order_by": (), "group_by": (), "partitioned": (),
    "every": None, "label": None, "offset": None, "until": None, "min_rows": None, "clauses": (),
    "align": None, "changes": False,
}  # fmt: skip


def minimised(program: Program, reason: str, *, seconds: float = 60.0) -> tuple[Program, str]:
    """The smallest program found that fails alike, and how that fails."""
    kind = sort_of(reason)
    stop = time.monotonic() + seconds
    smaller = True
    while smaller and time.monotonic() < stop:
        smaller = False
        for candidate in cuts(program):
            found = failure(candidate)
            if found is not None and sort_of(found) == kind:
                program, reason, smaller = candidate, found, True
                break
            if time.monotonic() > stop:
                break
    return program, reason


def sort_of(reason: str) -> str:
    """What two failures of one cause have in common: wrong rows, or an exception of the same place and words."""
    first = reason.splitlines()[0]
    if first.startswith(("statement", "text")):
        return first.split(":")[0].split()[0]
    words = "".join(c for c in first if not c.isdigit())
    return words[:60]


def cuts(program: Program) -> Iterator[Program]:
    """Programs with one thing less, the largest cuts first; many of them are no valid programs."""
    for number in range(len(program.statements)):
        yield without_statement(program, number)
    for name, data in program.data.items():
        size = len(data.rows) // 2 or 1
        while size and data.rows:
            for at in range(0, len(data.rows), size):
                rows = data.rows[:at] + data.rows[at + size :]
                yield replace(program, data={**program.data, name: replace(data, rows=rows)})
            size //= 2
    for number, statement in enumerate(program.statements):
        for less in smaller(statement):
            statements = (*program.statements[:number], less, *program.statements[number + 1 :])
            yield replace(program, statements=statements)


def without_statement(program: Program, number: int) -> Program:
    clocks = {n - (n > number): ticks for n, ticks in program.clocks.items() if n != number}
    statements = program.statements[:number] + program.statements[number + 1 :]
    return replace(program, statements=statements, clocks=clocks)


def smaller(part: Any) -> Iterator[Any]:
    """Versions of a tree with one piece less."""
    if isinstance(part, Term):
        yield from smaller_terms(part)
        return
    if isinstance(part, tuple):
        for i in range(len(part)):
            if len(part) > 1:
                yield part[:i] + part[i + 1 :]
            for less in smaller(part[i]):
                yield (*part[:i], less, *part[i + 1 :])
        return
    if not dataclasses.is_dataclass(part) or isinstance(part, (tree.Name, tree.Extent, tree.Quantity)):
        return
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        if field.name in _OPTIONAL and value != _OPTIONAL[field.name]:
            yield replace(part, **{field.name: _OPTIONAL[field.name]})
    if isinstance(part, tree.Join):
        yield part.left
        yield part.right
    for field in dataclasses.fields(part):
        if field.compare:
            for less in smaller(getattr(part, field.name)):
                yield replace(part, **{field.name: less})


def smaller_terms(term: Term) -> Iterator[Term]:
    if term.op in ("col", "star", "int", "str", "bool", "null", "float"):
        return
    if term.op == "agg":
        yield Term("agg", ("count", "", None, None))
        if term.args[3] is not None:
            yield Term("agg", (*term.args[:3], None))
    for argument in term.args:
        if isinstance(argument, Term):
            yield argument
    yield const(1)
    yield const(value=True)
    for i, argument in enumerate(term.args):
        if isinstance(argument, Term):
            for less in smaller_terms(argument):
                yield Term(term.op, (*term.args[:i], less, *term.args[i + 1 :]))
