"""Lines that the formatter writes: atoms one after another, with comments where they belong."""

from __future__ import annotations

from panes.cql.layout_atoms import Atom, Comment


class Page:
    """What is written so far. Atoms go to the current line, and comments to where they belong."""

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
