"""Runs the examples of a Markdown page, and can write what they print back into the page.

The ```python blocks of a page run from top to bottom in one namespace. A ```text block right after one is
what it prints, to the letter. `python -m tests.docs.pages` refreshes every ```text block from a real run, so
no output in the docs is typed by hand; read the diff before you commit it.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Example:
    """A python block: its first line on the page, its code, and where its expected output is, if anywhere."""

    line: int
    code: str
    expected: str | None
    output_span: tuple[int, int] | None


def examples(text: str) -> list[Example]:
    """The python blocks of a page, in order."""
    fences = list(FENCE.finditer(text))
    found = []
    for fence, following in zip(fences, [*fences[1:], None]):
        if fence[1] != "python":
            continue
        line = text.count("\n", 0, fence.start(2))
        if following and following[1] == "text" and not text[fence.end() : following.start()].strip():
            found.append(Example(line, fence[2], following[2], following.span(2)))
        else:
            found.append(Example(line, fence[2], None, None))
    return found


def run(page: Path) -> Iterator[tuple[Example, str]]:
    """Run the examples of a page one by one; yields each with what it printed, trailing spaces removed."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    for example in examples(page.read_text(encoding="utf-8")):
        # Blank lines in front make line numbers in tracebacks those of the page.
        code = compile("\n" * example.line + example.code, str(page), "exec")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
        yield example, "".join(f"{line.rstrip()}\n" for line in printed.getvalue().rstrip().splitlines())


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
    for each in PAGES:
        with tempfile.TemporaryDirectory() as scratch, working_folder(Path(scratch)):
            refresh(each)
        print(f"refreshed {each.relative_to(ROOT)}")
