"""The heart knows lanes, stores and windows by their contracts, and asks none of them which one it is."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import panes
from panes.slicing.lane import Lane
from panes.slicing.partials.dense_store import DenseStore
from panes.slicing.partials.partial_lane import PartialLane
from panes.slicing.partials.sparse_store import SparseStore
from panes.slicing.partials.store import Store
from panes.slicing.rows.row_lane import RowLane

SLICING = Path(panes.__file__).parent / "slicing"
MODULES = sorted(SLICING.rglob("*.py"))
#: What slicing may know of windows: their protocols, their normal form, and how many of them are asked at once.
OF_WINDOWS = {f"panes.windows.{name}" for name in ("base", "codec", "grid", "normal_form")}


@pytest.mark.parametrize("kind", [PartialLane, RowLane])
def test_both_lanes_are_lanes(kind: type) -> None:
    assert issubclass(kind, Lane)
    assert not kind.__abstractmethods__


@pytest.mark.parametrize("kind", [DenseStore, SparseStore])
def test_both_stores_are_stores(kind: type) -> None:
    assert issubclass(kind, Store)
    assert not kind.__abstractmethods__


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(SLICING)))
def test_slicing_asks_no_lane_or_store_what_it_is_and_names_no_window(module: Path) -> None:
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            asked = {each.id for each in ast.walk(node.args[1]) if isinstance(each, ast.Name)}
            assert not asked & {"PartialLane", "RowLane", "DenseStore", "SparseStore"}, ast.unparse(node)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("panes.windows"):
            assert node.module in OF_WINDOWS, ast.unparse(node)
