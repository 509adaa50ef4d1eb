"""Every example in README, docs and docstrings is run, and its output compared."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import panes
from tests.docs.pages import PAGES, ROOT, examples, run, working_folder

#: How many examples each page has, so that a change of the fence pattern can't silently run nothing.
EXAMPLES = {
    "README.md": 4,
    "aggregates.md": 6,
    "architecture.md": 0,
    "cql.md": 48,
    "explain.md": 2,
    "flows.md": 5,
    "index.md": 0,
    "operators.md": 8,
    "policies.md": 12,
    "pushing.md": 12,
    "relations.md": 4,
    "robustness.md": 2,
    "semantics.md": 0,
    "sources.md": 8,
    "storing.md": 5,
    "spark.md": 4,
    "testing.md": 2,
    "window-library.md": 9,
    "windows.md": 28,
}


def in_one_process(page: Path) -> object:
    """Examples on Spark share a session, apart from that of the other tests on Spark, which take long enough."""
    marks = [pytest.mark.xdist_group("spark apart")] if "pn.spark(" in page.read_text(encoding="utf-8") else []
    return pytest.param(page, id=page.name, marks=marks)


@pytest.mark.parametrize("page", [in_one_process(page) for page in PAGES])
def test_examples_print_what_the_page_says(page: Path, tmp_path: Path) -> None:
    ran = 0
    with working_folder(tmp_path):
        for example, printed in run(page):
            ran += 1
            if example.expected is not None:
                assert printed == example.expected, f"{page.name}, line {example.line + 1}"
    assert ran == EXAMPLES[page.name]


def test_the_program_of_the_readme_is_the_example() -> None:
    (program,) = [e for e in examples((ROOT / "README.md").read_text(encoding="utf-8")) if e.note == "wikipedia.cql"]
    assert program.code == (ROOT / "examples" / "wikipedia.cql").read_text(encoding="utf-8")


def test_every_page_is_counted() -> None:
    assert {page.name for page in PAGES} == set(EXAMPLES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#\s]+)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_examples_in_docstrings_print_what_they_say() -> None:
    names = [info.name for info in pkgutil.walk_packages(panes.__path__, "panes.")]
    outcomes = {name: doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS) for name in names}
    assert [name for name, outcome in outcomes.items() if outcome.failed] == []
    # At least as many as there were when this was written: none is skipped by accident.
    assert len(outcomes) >= 120
    assert sum(outcome.attempted for outcome in outcomes.values()) >= 100
