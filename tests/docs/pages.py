"""Runs the examples of a Markdown page, and can write what they print back into the page.

The blocks of a page run from top to bottom, those of a kind in one namespace or session:

- ```python
- ```sql: statements, as in the shell `panes sql`; ```sql fails if they must not work
- ```sh: lines that call `panes`; ```sh fails if they must not work

A block of any kind with a file name, ```csv trades.csv, is no example but a file that examples read. A ```text
block right after an example is what it prints, to the letter. `python -m tests.docs.pages [page ...]` refreshes
every ```text block from a real run, so no output in the docs is typed by hand; read the diff before you commit it.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_KINDS = ("python", "sql", "sh")
FENCE = re.compile(r"^```(\w*)(?: ([\w.]+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Example:
    """A block: its kind, what stands behind that, its first line on the page, and its output there, if any."""

    kind: str
    note: str
    line: int
    code: str
    expected: str | None = None
    output_span: tuple[int, int] | None = None

    @property
    def is_file(self) -> bool:
        return "." in self.note


def examples(text: str) -> list[Example]:
    """The blocks of a page that are run or written to files, in order."""
    fences = list(FENCE.finditer(text))
    found = []
    for fence, following in zip(fences, [*fences[1:], None]):
        kind, note, code = fence[1], fence[2] or "", fence[3]
        if kind not in _KINDS and not note:
            continue
        line = text.count("\n", 0, fence.start(3))
        if following and following[1] == "text" and not text[fence.end() : following.start()].strip():
            found.append(Example(kind, note, line, code, following[3], following.span(3)))
        else:
            found.append(Example(kind, note, line, code))
    return found


class Reader:
    """Somebody who reads a page and tries every example."""

    def __init__(self, page: Path) -> None:
        from panes.cli.engine import Engine, Runner
        from panes.cli.shell import Shell

        self._page = page
        self._namespace: dict[str, object] = {"__name__": "__main__"}
        self._shell = Shell(Engine(Runner.local))

    def python(self, example: Example) -> bool:
        # Blank lines in front make line numbers in tracebacks those of the page.
        exec(compile("\n" * example.line + example.code, str(self._page), "exec"), self._namespace)
        return True

    def sql(self, example: Example) -> bool:
        return self._shell.answer(example.code)

    def sh(self, example: Example) -> bool:
        from panes.cli.main import app

        commands = [words for line in example.code.splitlines() if (words := shlex.split(line, comments=True))]
        assert all(words[0] == "panes" for words in commands), f"{self._page.name}, line {example.line}: only panes"
        codes = [app(words[1:], standalone_mode=False) for words in commands]
        return not any(codes)


def run(page: Path) -> Iterator[tuple[Example, str]]:
    """Run the examples of a page one by one; yields each with what it printed, trailing spaces removed."""
    reader = Reader(page)
    for example in examples(page.read_text(encoding="utf-8")):
        if example.is_file:
            Path(example.note).write_text(example.code, encoding="utf-8")
            continue
        # commands also write bytes, to what is below stdout
        printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n", write_through=True)
        # what is wrong with statements is told on stderr
        told = contextlib.nullcontext() if example.kind == "python" else contextlib.redirect_stderr(printed)
        with contextlib.redirect_stdout(printed), told:
            worked = getattr(reader, example.kind)(example)
        text = printed.buffer.getvalue().decode()
        assert worked == (example.note != "fails"), f"{page.name}, line {example.line}:\n{text}"
        yield example, "".join(f"{line.rstrip()}\n" for line in text.rstrip().splitlines())


@contextlib.contextmanager
def working_folder(folder: Path) -> Iterator[None]:
    """Work in `folder`, with the project's `examples/` in it; what an example writes stays there."""
    (folder / "examples").symlink_to(ROOT / "examples")
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def refresh(page: Path) -> None:
    """Write what the examples print into the page."""
    text = page.read_text(encoding="utf-8")
    outputs = list(run(page))
    for example, printed in reversed(outputs):
        if example.output_span:
            start, end = example.output_span
            text = text[:start] + printed + text[end:]
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for each in [page for page in PAGES if not sys.argv[1:] or page.name in sys.argv[1:]]:
        with tempfile.TemporaryDirectory() as scratch, working_folder(Path(scratch)):
            refresh(each)
        print(f"refreshed {each.relative_to(ROOT)}")
