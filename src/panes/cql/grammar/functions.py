"""Windows as functions, which users of other SQLs know, read as streams with a window clause.

Table functions of Flink SQL, each also inside of TABLE(...), and with named arguments (DATA => TABLE t, SIZE => ...):

    TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTES [, offset])
    HOP(TABLE t, DESCRIPTOR(ts), slide, size [, offset])
    CUMULATE(TABLE t, DESCRIPTOR(ts), step, longest [, offset])
    SESSION(TABLE t [PARTITION BY k], DESCRIPTOR(ts), gap)

Functions of Spark in GROUP BY, `window(ts, size [, slide [, offset]])` and `session_window(ts, gap)`: they become the
window of the stream, and `window.start` and `window.end` the columns window_start and window_end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn

from sqlglot import exp
from sqlglot.tokens import TokenType

from panes.cql.errors import CqlError, span_of
from panes.cql.grammar.windows import WindowReader
from panes.cql.lengths import length_of, number_of, unit_of
from panes.cql.tree import Extent, Join, Name, Quantity, Select, SelectItem, StreamRef, SubqueryRef
from panes.cql.windows.clause import WindowClause
from panes.cql.windows.content import SessionClause
from panes.cql.windows.sized import CumulateClause, SizeClause

#: The lengths that each function takes, in Flink's order; the last is optional where it is the offset.
_LENGTHS = {
    "TUMBLE": ("SIZE", "OFFSET"),
    "HOP": ("SLIDE", "SIZE", "OFFSET"),
    "CUMULATE": ("STEP", "SIZE", "OFFSET"),
    "SESSION": ("GAP",),
}
#: How many arguments the functions of Spark take.
_ARGUMENTS = {"window": (2, 4), "session_window": (2, 2)}


@dataclass
class _Arguments:
    """What has been read of a call so far."""

    source: StreamRef | SubqueryRef | None = None
    time: Name | None = None
    lengths: dict[str, Quantity] = field(default_factory=dict)


class FunctionReader(WindowReader):
    #: columns that SESSION(... PARTITION BY ...) names: GROUP BY must name them, too
    session_keys: tuple[Name, ...] = ()

    if TYPE_CHECKING:  # `Queries` reads these

        def select(self) -> Select: ...

        def alias(self) -> Name | None: ...

    def at_table_function(self) -> bool:
        word = self._curr.text.upper()
        if self._curr.token_type != TokenType.VAR or self._next.token_type != TokenType.L_PAREN:
            return False
        return word in _LENGTHS or word == "TABLE"

    def table_function(self) -> StreamRef | SubqueryRef:
        """The stream in a call, with its window and an alias behind the call."""
        first = self._curr
        wrapped = self.take("TABLE")
        reference = self.in_parentheses(self._call_of_function) if wrapped else self._call_of_function()
        window = replace(reference.windows[0], span=self.span(first))
        return replace(reference, windows=(window,), alias=self.alias() or reference.alias)

    def _call_of_function(self) -> StreamRef | SubqueryRef:
        first = self._curr
        word = next((word for word in _LENGTHS if self.take(word)), None)
        if word is None:
            self.fail_expecting(*_LENGTHS)
        read = _Arguments()
        self.in_parentheses(lambda: self.listing(lambda: self._argument(word, read)))
        if read.source is None:
            self.fail(f"{word} needs TABLE and the name of a stream", token=first)
        if read.time is None:
            self.fail(f"{word} needs DESCRIPTOR(...) with the column of the time", token=first)
        window = self._window_of(word, read.time, read.lengths, first)
        if read.source.windows:
            self.fail(f"{word} is the window of its stream, which can't have one in brackets, too", token=first)
        return replace(read.source, windows=(window,))

    def _argument(self, word: str, read: _Arguments) -> None:
        named = self._next.token_type == TokenType.FARROW
        label = self._curr.text.upper() if named else ""
        if named:
            self._advance(2)
        if self.at("DESCRIPTOR") and self._next.token_type == TokenType.L_PAREN:
            self.take("DESCRIPTOR")
            read.time = self.in_parentheses(lambda: self.name("a column"))
        elif read.source is None and (label in ("", "DATA") and self._at_source()):
            read.source = self._source()
        else:
            self._length_of(word, label, read.lengths)

    def _at_source(self) -> bool:
        return self.at("TABLE") or self.at_sign(TokenType.L_PAREN) or self.at_name()

    def _source(self) -> StreamRef | SubqueryRef:
        self.take("TABLE")
        if self.at_sign(TokenType.L_PAREN):
            first = self._curr
            return SubqueryRef(self.in_parentheses(self.select), span=self.span(first))
        source = StreamRef(self.name("a stream"), self.windows())
        if self.take("PARTITION", "BY"):
            wrapped = self.at_sign(TokenType.L_PAREN)
            columns = self.in_parentheses(self.names) if wrapped else (self.name("a column"),)
            self.session_keys = (*self.session_keys, *columns)
        return source

    def _length_of(self, word: str, label: str, lengths: dict[str, Quantity]) -> None:
        possible = _LENGTHS[word]
        free = [name for name in possible if name not in lengths]
        if label and label not in free:
            self.fail(f"{word} has no argument {label}, or has it already", f"there are: {', '.join(possible)}")
        if not free:
            self.fail(f"{word} takes {len(possible)} lengths", f"they are: {', '.join(possible)}")
        lengths[label or free[0]] = self.duration("a length such as INTERVAL '10' MINUTES")

    def _window_of(self, word: str, time: Name, lengths: dict[str, Quantity], first: Any) -> WindowClause:
        missing = [name for name in _LENGTHS[word] if name not in lengths and name != "OFFSET"]
        if missing:
            self.fail(f"{word} needs {' and '.join(missing)}", token=first)
        return _clause_of(word, time, lengths)


def _clause_of(word: str, time: Name, lengths: Mapping[str, Quantity]) -> WindowClause:
    """The window of a function; as in Flink and Spark, windows start at every slide."""
    extents = {name: Extent(length, time) for name, length in lengths.items()}
    offset = lengths.get("OFFSET")
    if word == "SESSION":
        return SessionClause(extents["GAP"])
    if word == "CUMULATE":
        return CumulateClause(extents["STEP"], extents["SIZE"], offset)
    if word == "TUMBLE":
        return SizeClause(extents["SIZE"], offset=offset)
    return SizeClause(extents["SIZE"], extents["SLIDE"], offset, align="start")


def desugar(select: Select, text: str) -> Select:
    """`select` without functions of Spark in GROUP BY."""
    calls = [tree for tree in select.group_by if _is_window(tree)]
    if not calls:
        return select
    call = calls[0]
    if len(calls) > 1:
        _fail("there can be one window in GROUP BY", calls[1], text)
    source = select.source
    if isinstance(source, Join) or source.windows:
        _fail(f"{call.name} in GROUP BY stands for the window of a stream that has none in brackets", call, text)
    return replace(
        select,
        source=replace(source, windows=(_clause(call, text),)),
        group_by=tuple(tree for tree in select.group_by if tree is not call),
        entries=tuple(_entry(entry, call, text) for entry in select.entries),
        having=select.having and _columns(select.having, call, text),
        order_by=tuple(replace(item, expression=_columns(item.expression, call, text)) for item in select.order_by),
    )


def _is_window(tree: exp.Expr) -> bool:
    return isinstance(tree, exp.Anonymous) and tree.name.lower() in _ARGUMENTS


def _clause(call: exp.Expr, text: str) -> WindowClause:
    name = call.name.lower()
    fewest, most = _ARGUMENTS[name]
    if not fewest <= len(call.expressions) <= most:
        _fail(f"{name} takes a column and {fewest - 1} to {most - 1} lengths", call, text)
    column, *lengths = call.expressions
    if not isinstance(column, exp.Column) or isinstance(column.this, exp.Star):
        _fail(f"the first argument of {name} must be a column", call, text)
    on = Name(column.name, span_of(column, text))
    given = [_length(tree, text) for tree in lengths]
    if name == "session_window":
        return _clause_of("SESSION", on, {"GAP": given[0]})
    found = dict(zip(("SIZE", "SLIDE", "OFFSET"), given))
    return _clause_of("TUMBLE" if found.get("SLIDE", given[0]) == given[0] else "HOP", on, found)


def _length(tree: exp.Expr, text: str) -> Quantity:
    length: Quantity | None = None
    if isinstance(tree, exp.Literal) and tree.is_string:
        length = length_of(tree.name)
    elif isinstance(tree, exp.Interval) and isinstance(tree.this, exp.Literal):
        number, unit = number_of(tree.this.name), unit_of(tree.text("unit"))
        length = Quantity(number, unit) if number is not None and unit else None
    if length is None:
        _fail("expected a length such as '10 minutes'", tree, text)
    return length


def _entry(entry: SelectItem, call: exp.Expr, text: str) -> SelectItem:
    bound = _bound_of(entry.expression, call)
    alias = entry.alias or (Name(bound) if bound else None)
    return SelectItem(_columns(entry.expression, call, text), alias)


def _bound_of(tree: exp.Expr, call: exp.Expr) -> str | None:
    """`start` or `end` for `window.start` and `window(ts, '10 s').start`."""
    of_column = isinstance(tree, exp.Column) and tree.table.lower() == call.name.lower()
    of_call = isinstance(tree, exp.Dot) and tree.this == call
    name = (tree.name if of_column else tree.expression.name if of_call else "").lower()
    return name if name in ("start", "end") else None


def _columns(tree: exp.Expr, call: exp.Expr, text: str) -> exp.Expr:
    """A tree in which the window and its bounds are the columns that results have."""

    def change(node: Any) -> Any:
        bound = _bound_of(node, call)
        if bound:
            return exp.column(f"window_{bound}")
        if isinstance(node, exp.Dot) and node.this == call:
            _fail(f"{call.name} has a start and an end, and no {node.expression.name!r}", node, text)
        return exp.column("window") if node == call else node

    changed: exp.Expr = tree.transform(change)
    return changed


def _fail(short: str, tree: exp.Expr, text: str) -> NoReturn:
    raise CqlError(short, text=text, span=span_of(tree, text))
