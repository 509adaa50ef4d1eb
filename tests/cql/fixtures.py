"""The statements of `grammar/*.txt`: each a line of CQL, and below it what it reads as, or the error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

FOLDER = Path(__file__).parent / "grammar"


@dataclass(frozen=True)
class Fixture:
    """`expected` is the text in normal form, or a piece of the error."""

    place: str
    text: str
    expected: str
    valid: bool


def fixtures() -> Iterator[Fixture]:
    for path in sorted(FOLDER.glob("*.txt")):
        lines = path.read_text(encoding="utf-8").split("\n")
        for number, (line, below) in enumerate(pairwise(lines), start=1):
            if below.startswith(("= ", "! ")):
                yield Fixture(f"{path.stem}:{number}", line, below[2:], below.startswith("="))
