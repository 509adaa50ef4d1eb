"""Windowing table functions that Flink SQL users know, read as streams with a window clause.

    TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTES [, offset])
    HOP(TABLE t, DESCRIPTOR(ts), slide, size [, offset])
    CUMULATE(TABLE t, DESCRIPTOR(ts), step, longest [, offset])
    SESSION(TABLE t [PARTITION BY k], DESCRIPTOR(ts), gap)

each also inside of TABLE(...), and with named arguments (DATA => TABLE t, SIZE => ...).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sqlglot.tokens import TokenType

from panes.cql.grammar.windows import Windows
from panes.cql.tree import Duration, Measure, Name, Select, StreamRef, SubqueryRef, WindowClause

#: The lengths that each function takes, in Flink's order; the last is optional where it is the offset.
_LENGTHS = {
    "TUMBLE": ("SIZE", "OFFSET"),
    "HOP": ("SLIDE", "SIZE", "OFFSET"),
    "CUMULATE": ("STEP", "SIZE", "OFFSET"),
    "SESSION": ("GAP",),
}


@dataclass
class _Arguments:
    """What has been read of a call so far."""

    source: StreamRef | SubqueryRef | None = None
    time: Name | None = None
    lengths: dict[str, Duration] = field(default_factory=dict)


class TableFunctions(Windows):
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
        return self.at("TABLE") or self._curr.token_type == TokenType.L_PAREN or self.at_name()

    def _source(self) -> StreamRef | SubqueryRef:
        self.take("TABLE")
        if self._curr.token_type == TokenType.L_PAREN:
            first = self._curr
            return SubqueryRef(self.in_parentheses(self.select), span=self.span(first))
        source = StreamRef(self.name("a stream"), self.windows())
        if self.take("PARTITION", "BY"):
            wrapped = self._curr.token_type == TokenType.L_PAREN
            columns = self.in_parentheses(self.names) if wrapped else (self.name("a column"),)
            self.session_keys = (*self.session_keys, *columns)
        return source

    def _length_of(self, word: str, label: str, lengths: dict[str, Duration]) -> None:
        possible = _LENGTHS[word]
        free = [name for name in possible if name not in lengths]
        if label and label not in free:
            self.fail(f"{word} has no argument {label}, or has it already", f"there are: {', '.join(possible)}")
        if not free:
            self.fail(f"{word} takes {len(possible)} lengths", f"they are: {', '.join(possible)}")
        lengths[label or free[0]] = self.duration("a length such as INTERVAL '10' MINUTES")

    def _window_of(self, word: str, time: Name, lengths: dict[str, Duration], first: Any) -> WindowClause:
        missing = [name for name in _LENGTHS[word] if name not in lengths and name != "OFFSET"]
        if missing:
            self.fail(f"{word} needs {' and '.join(missing)}", token=first)
        measures = {name: Measure(length, time) for name, length in lengths.items()}
        offset = lengths.get("OFFSET")
        if word == "SESSION":
            return WindowClause("session", gap=measures["GAP"])
        if word == "CUMULATE":
            return WindowClause("cumulate", size=measures["STEP"], longest=measures["SIZE"], offset=offset)
        if word == "TUMBLE":
            return WindowClause("size", size=measures["SIZE"], offset=offset)
        # as in Flink, windows start at every slide
        return WindowClause("size", size=measures["SIZE"], every=measures["SLIDE"], offset=offset, align="start")
