"""The rooms of the house: data flows down the list, and a room imports only from rooms above it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "panes"

#: Shared by every room; they import no room themselves.
FOUNDATION = ("errors", "units", "exact", "clock")
#: From where data comes in to where results go out.
ROOMS = (
    *("state", "windows", "aggregates", "slicing", "policies", "operators", "plan", "runtime", "connectors"),
    *("runners.local", "runners.spark", "api", "cql", "cli", "testing"),
)
#: The two runners know nothing of each other.
APART = {"runners.local", "runners.spark"}
#: The one way back: a query that users hold can be written as text, which is made of the graph alone.
WRITTEN = "panes.cql.write"
#: Rooms that may only know numbers: no engine, no language, no display.
HEART = ("windows", "aggregates", "slicing", "policies")
HEART_LIBRARIES = {"numpy", "pyarrow", "numba"}


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def room_of(module: Path) -> str:
    """`windows/base.py` -> "windows"; `runners/local/plot.py` -> "runners.local"; `errors.py` -> "errors"."""
    return _room(module.relative_to(SOURCE).with_suffix("").parts)


def _room(parts: Sequence[str]) -> str:
    return ".".join(parts[:2]) if parts[0] == "runners" else parts[0]


def runtime_imports(tree: ast.AST) -> Iterator[str]:
    """Dotted names of all imports, also those inside functions, but not those for type checkers only."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for part in node.orelse:
                yield from runtime_imports(part)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import of {node.module}: write the full name"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        else:
            yield from runtime_imports(node)


def imports_of(module: Path) -> list[str]:
    return list(runtime_imports(ast.parse(module.read_text(encoding="utf-8"))))


@pytest.mark.parametrize("room", ROOMS)
def test_room_imports_only_from_rooms_above(room: str) -> None:
    above = {*FOUNDATION, *ROOMS[: ROOMS.index(room) + 1]} - (APART - {room} if room in APART else set())
    wrong = []
    for module in modules():
        if room_of(module) != room:
            continue
        for name in imports_of(module):
            parts = name.split(".")
            if parts[0] != "panes" or (room == "api" and name.startswith(WRITTEN)):
                continue
            if len(parts) == 1 and room == "testing":
                continue  # users write their tests with `pn`, and so does the kit
            if len(parts) == 1 or _room(parts[1:]) not in above:
                wrong.append(f"{module.relative_to(SOURCE)} imports {name}")
    assert not wrong


@pytest.mark.parametrize("name", FOUNDATION)
def test_foundation_imports_no_room(name: str) -> None:
    imports = imports_of(SOURCE / f"{name}.py")
    assert [i for i in imports if i.startswith("panes.") and i.split(".")[1] not in FOUNDATION] == []


def test_heart_imports_no_engine() -> None:
    wrong = []
    for module in modules():
        if room_of(module) not in HEART:
            continue
        for name in imports_of(module):
            top = name.split(".")[0]
            if top != "panes" and top not in HEART_LIBRARIES and top not in sys.stdlib_module_names:
                wrong.append(f"{module.relative_to(SOURCE)} imports {name}")
    assert not wrong


def test_every_module_has_a_place() -> None:
    assert {room_of(module) for module in modules()} == {"__init__", "runners.__init__", *FOUNDATION, *ROOMS}


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports inside functions count too: a circle that works by luck of order is still one."""
    names = {".".join(module.relative_to(SOURCE.parent).with_suffix("").parts): module for module in modules()}
    names = {name.removesuffix(".__init__"): module for name, module in names.items()}
    imports = {name: _modules_named(imports_of(module), names) - {name, "panes"} for name, module in names.items()}
    left = dict(imports)
    while True:
        free = [name for name, wanted in left.items() if not wanted & left.keys()]
        if not free:
            break
        for name in free:
            del left[name]
    assert sorted(left) == [], "each of these imports another of them"


def _modules_named(imports: Iterable[str], names: Container[str]) -> set[str]:
    """`panes.plan.graph.Node` -> `panes.plan.graph`."""
    return {name if name in names else name.rpartition(".")[0] for name in imports if name.startswith("panes.")}


#: Names that others give: parts of a dialect of sqlglot.
FOREIGN = {"Generator", "Parser"}
#: Words of users that are windows, aggregates and policies at once.
OF_USERS = {"Count", "Delta", "Session", "Window"}


def test_no_class_name_means_two_things() -> None:
    found: dict[str, set[str]] = {}
    for module in modules():
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, set()).add(str(module.relative_to(SOURCE)))
    twice = {name: sorted(where) for name, where in found.items() if len(where) > 1}
    assert {name: where for name, where in twice.items() if name not in FOREIGN | OF_USERS} == {}
