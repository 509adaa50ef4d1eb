"""The files that pages for contributors name are there."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import ROOT

#: Where a reader looks for a file that is named without its folder, or with the end of its folders.
PLACES = ("src", "tests", "bench", "examples")


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md", "tests/README.md", "bench/README.md"])
def test_every_file_that_a_page_names_is_there(page: str) -> None:
    named = re.findall(r"`([\w/*]+\.py)`", (ROOT / page).read_text(encoding="utf-8"))
    missing = [name for name in named if not any(ROOT.glob(name)) and not any(_found(name))]
    assert not missing


def test_pages_name_files() -> None:
    assert len(re.findall(r"`[\w/*]+\.py`", (ROOT / "docs/architecture.md").read_text(encoding="utf-8"))) > 50


def _found(name: str) -> list[bool]:
    return [any((ROOT / place).glob(f"**/{name}")) for place in PLACES]
