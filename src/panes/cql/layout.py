"""The formatter: keywords in capitals, short statements on one line, long ones with a clause per line.

It works on tokens, not on trees, so that comments stay where they are and names and numbers as they were
written. What it gives depends on the tokens and comments alone, so formatting twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from panes.cql.clauses import STREAM_CLAUSES
from panes.cql.errors import CqlError
from panes.cql.grammar.queries import CLAUSES
from panes.cql.grammar.windows import OPTIONS
from panes.cql.layout_atoms import Atom, Comment, atoms_of, gap
from panes.cql.parse import Located, Read, Reading, joined
from panes.cql.windows import KINDS

INDENT = 4
_OPEN = {"(": ")", "[": "]"}
_JOIN_WORDS = ("CROSS", "INNER", "LEFT", "RIGHT", "FULL", "JOIN")
#: Words that begin a line of their own where a statement or query does not fit one line.
_CLAUSES = ("FROM", *CLAUSES, *_JOIN_WORDS)
_STATEMENT_PARTS = ("SOURCE", *STREAM_CLAUSES, "EXTENDS", "INSERT")
_WINDOW_PARTS = (
    *(text.split()[0] for option in OPTIONS for text in option.spellings if not text.startswith("ON")),
    *(word for kind in KINDS.values() for word in kind.breaks),
)
_QUERIES = ("SELECT", "MERGE")


@dataclass
class Bracketed:
    """Brackets and what is in them."""

    first: Atom
    inner: list[Node]
    last: Atom


Node = Atom | Bracketed


def format_text(text: str, width: int = 100) -> str:
    """CQL laid out in lines of about `width` characters; raises CqlError where it can't be read.

    >>> print(format_text("select a,avg( b ) from t[size 10]  group by a ; -- done"), end="")
    SELECT a, avg(b) FROM t [SIZE 10] GROUP BY a; -- done
    """
    return lay_out(text, width)[0]


def lay_out(text: str, width: int = 100) -> tuple[str, tuple[Located, ...]]:
    """CQL laid out, and the statements that it was read as."""
    reading = Reading(text)
    page = Page(width)
    end = 0
    read: list[Read] = []
    waiting: list[Comment] = []  # on lines of their own before a semicolon: they go above the next statement
    for item in reading.items():
        if isinstance(item, CqlError):
            raise item
        read.append(item)
        piece = item.piece
        atoms = atoms_of(text, piece, _start(text, end), reading.name_places, reading.call_places)
        indent = INDENT if item.more else 0
        page.between(waiting, indent)
        _write_statement(page, atoms, indent)
        comments = gap(text, piece.tokens[-1].end + 1, piece.end)[0]
        page.semicolon([comment for comment in comments if not comment.own_line])
        waiting = [comment for comment in comments if comment.own_line]
        end = piece.end
    page.between([*waiting, *gap(text, _start(text, end), len(text), at_start=end == 0)[0]], 0)
    return page.text(), tuple(found for found in joined(read) if isinstance(found, Located))


def _start(text: str, end: int) -> int:
    return end + 1 if text[end : end + 1] == ";" else end


def _write_statement(page: Page, atoms: list[Atom], indent: int) -> None:
    first = atoms[0]
    page.between(first.above, indent)
    first.above = []
    if first.after_blank:
        page.blank()
    page.start(indent)
    _write_block(page, _grouped(iter(atoms), None)[0], indent, _CLAUSES + _STATEMENT_PARTS)


def _grouped(atoms: Iterator[Atom], closing: str | None) -> tuple[list[Node], Atom | None]:
    nodes: list[Node] = []
    for atom in atoms:
        if atom.text == closing and atom.kind is not None:
            return nodes, atom
        if atom.text in _OPEN:
            inner, last = _grouped(atoms, _OPEN[atom.text])
            assert last is not None, "the parser has checked that brackets match"
            nodes.append(Bracketed(atom, inner, last))
        else:
            nodes.append(atom)
    return nodes, None


def _flat(nodes: list[Node]) -> list[Atom]:
    flat: list[Atom] = []
    for node in nodes:
        flat += [node.first, *_flat(node.inner), node.last] if isinstance(node, Bracketed) else [node]
    return flat


def _length(nodes: list[Node]) -> int:
    """How long the nodes are on one line; comments inside that end a line make it endless."""
    total = 0
    flat = _flat(nodes)
    for atom in flat:
        if (atom.above and atom is not flat[0]) or (atom.ends_line and atom is not flat[-1]):
            return 1 << 30
        total += len(atom.text) + (not atom.tight)
        if atom.behind:
            total += sum(len(comment.text) + 1 for comment in atom.behind if not comment.ends_line)
    return total


def _fits(page: Page, nodes: list[Node], indent: int) -> bool:
    return indent + _length(nodes) <= page.width


def _write_block(page: Page, nodes: list[Node], indent: int, starters: tuple[str, ...]) -> None:
    """A statement, query or window: on the current line, or with a line for each part."""
    if _fits(page, nodes, indent):
        _write_flat(page, nodes, indent)
        return
    for place, part in enumerate(_parts(nodes, starters)):
        if place:
            page.start(indent)
        _write_part(page, part, indent)


def _parts(nodes: list[Node], starters: tuple[str, ...]) -> list[list[Node]]:
    """Cut before the words that begin a clause; words of one join stay together."""
    parts: list[list[Node]] = [[]]
    for node in nodes:
        last = parts[-1][-1] if parts[-1] else None
        if parts[-1] and _begins(node, last, starters):
            parts.append([])
        parts[-1].append(node)
    return parts


def _begins(node: Node, last: Node | None, starters: tuple[str, ...]) -> bool:
    if not isinstance(node, Atom) or not node.keyword:
        return False
    before = last.text if isinstance(last, Atom) and last.keyword else ""
    if node.text in _JOIN_WORDS or node.text == "OUTER":
        return before not in (*_JOIN_WORDS, "OUTER") and node.text in starters
    if node.text == "AS" and "AT" in starters:
        return True
    if node.text in _QUERIES and "SOURCE" in starters:
        return before in ("AS", "EXPLAIN", "PARSE", "REWRITE", "RESOLVE", "COMPILE")
    return node.text in starters and before not in ("DISTINCT", "IS")


def _write_part(page: Page, part: list[Node], indent: int) -> None:
    """A clause: on one line, or a line for each item of its list, or for each AND and OR."""
    if _fits(page, part, indent):
        _write_flat(page, part, indent)
        return
    head = _head(part)
    body = part[head:]
    if any(isinstance(n, Atom) and n.text == "," for n in body):
        _write_flat(page, part[:head], indent)
        for item in _items(body):
            page.start(indent + INDENT)
            _write_nodes(page, item, indent + INDENT)
        return
    for place, item in enumerate(_terms(part)):
        if place:
            page.start(indent + INDENT)
        _write_nodes(page, item, indent + INDENT if place else indent)


def _head(part: list[Node]) -> int:
    """How many words at the beginning belong to the clause itself: SELECT DISTINCT."""
    for count, node in enumerate(part):
        if not (isinstance(node, Atom) and node.keyword):
            return count
    return len(part)


def _items(nodes: list[Node]) -> list[list[Node]]:
    """Cut behind commas."""
    items: list[list[Node]] = [[]]
    for node in nodes:
        items[-1].append(node)
        if isinstance(node, Atom) and node.text == ",":
            items.append([])
    return [item for item in items if item]


def _terms(nodes: list[Node]) -> list[list[Node]]:
    """Cut before AND and OR, but not before the AND of BETWEEN, nor inside of CASE."""
    terms: list[list[Node]] = [[]]
    between, cases = 0, 0
    for node in nodes:
        word = node.text if isinstance(node, Atom) and node.keyword else ""
        between += word == "BETWEEN"
        cases += (word == "CASE") - (word == "END" and cases > 0)
        if word in ("AND", "OR") and not cases:
            if word == "AND" and between:
                between -= 1
            else:
                terms.append([])
        terms[-1].append(node)
    return [term for term in terms if term]


def _write_nodes(page: Page, nodes: list[Node], indent: int) -> None:
    """One line, or else with brackets opened: the largest first, until the rest fits."""
    groups = sorted((n for n in nodes if isinstance(n, Bracketed)), key=lambda g: -_length([g]))
    opened: list[Bracketed] = []
    rest = _length(nodes)
    while groups and indent + rest > page.width:
        group = groups.pop(0)
        if len(_flat(group.inner)) > 1:
            opened.append(group)
            rest = _length([n for n in nodes if not any(n is o for o in opened)])
    for node in nodes:
        if isinstance(node, Bracketed) and any(node is group for group in opened):
            _write_group(page, node, indent)
        else:
            _write_flat(page, [node], indent)


def _write_group(page: Page, group: Bracketed, indent: int) -> None:
    page.atom(group.first, indent)
    inner = group.inner
    page.start(indent + INDENT)
    if group.first.text == "[":
        _write_block(page, inner, indent + INDENT, _WINDOW_PARTS)
    elif isinstance(inner[0], Atom) and inner[0].keyword and inner[0].text in _QUERIES:
        _write_block(page, inner, indent + INDENT, _CLAUSES)
    elif not _fits(page, inner, indent + INDENT) or any(isinstance(n, Atom) and n.text == "," for n in inner):
        for place, item in enumerate(_items(inner)):
            if place:
                page.start(indent + INDENT)
            _write_part(page, item, indent + INDENT)
    else:
        _write_flat(page, inner, indent + INDENT)
    page.start(indent)
    page.atom(group.last, indent)


def _write_flat(page: Page, nodes: list[Node], indent: int) -> None:
    for atom in _flat(nodes):
        page.atom(atom, indent + INDENT)


class Page:
    """The lines that are written so far. Atoms go to the current line, and comments to where they belong."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._done: list[str] = []
        self._indent = 0
        self._line = ""
        self._must_break = False

    def text(self) -> str:
        self.end()
        return "\n".join(self._done) + "\n" if self._done else ""

    def end(self) -> None:
        """Finish the current line, if anything is on it."""
        if self._line:
            self._done.append(" " * self._indent + self._line)
        self._line = ""
        self._must_break = False

    def blank(self) -> None:
        self.end()
        if self._done and self._done[-1]:
            self._done.append("")

    def start(self, indent: int) -> None:
        """Go to a new line, unless the current one is still empty."""
        self.end()
        self._indent = indent

    def atom(self, atom: Atom, indent: int) -> None:
        """Write an atom on the current line; `indent` is for further lines that its comments make necessary."""
        indent = indent if self._line else self._indent
        for comment in atom.above:
            self.comment(comment, indent)
        if self._must_break:
            self.start(indent)
        self._line += ("" if atom.tight or not self._line else " ") + atom.text
        for comment in atom.behind:
            self.comment(comment, indent)

    def comment(self, comment: Comment, indent: int) -> None:
        if comment.own_line or self._must_break:
            self.start(indent)
        self._line += (" " if self._line else "") + comment.text
        self._must_break = comment.own_line or comment.ends_line

    def between(self, comments: list[Comment], indent: int) -> None:
        """Comments between statements: the one behind a semicolon stays on its line."""
        for comment in comments:
            if comment.after_blank:
                self.blank()
            if not comment.own_line and not self._line and self._done:
                self._line, self._indent = self._done.pop(), 0
            self.comment(comment, indent)

    def semicolon(self, comments: list[Comment]) -> None:
        """End a statement; comments before its semicolon go behind it."""
        if self._must_break:
            self.start(0)
        self._line += ";"
        self.end()
        self.between(comments, 0)
