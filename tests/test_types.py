"""How often a signature says `Any`, room by room: only at the border to data of users, JSON and untyped libraries."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.test_rooms import modules, room_of

#: How many `Any` the signatures of a room have at most, and what they stand for. The numbers may only become smaller.
ALLOWED = {
    "windows": (14, "state and rows that users' own windows are handed"),
    "aggregates": (26, "values, partials and results of users' own aggregates"),
    "state": (8, "objects of users that are pickled; facts of a snapshot (JSON) before they are checked"),
    "slicing": (53, "rows, keys and results of users; facts of a snapshot; slots of arrays or of a map"),
    "runtime": (0, "nothing"),
    "plan": (9, "data and clauses as users hand them over; what sqlglot has no types for"),
}


@pytest.mark.parametrize("room", ALLOWED)
def test_any_in_signatures_of_a_room_becomes_rarer(room: str) -> None:
    found = [f"{m.name}:{line}" for m in modules() if room_of(m) == room for line in any_lines(m.read_text("utf-8"))]
    most, reason = ALLOWED[room]
    assert len(found) <= most, f"only for {reason}; say a type, or object for what nobody looks into: {found}"


def test_any_is_found_wherever_a_signature_may_say_it() -> None:
    source = "def f(a: Any, *b: list[Any], c: 'Any | None' = None, **d: int) -> dict[str, Any]:\n    e: Any = a\n"
    assert list(any_lines(source)) == [1, 1, 1, 1]


def any_lines(source: str) -> Iterator[int]:
    """The line of each `Any` in the annotations of parameters and results."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            annotations = [a.annotation for a in ast.walk(node.args) if isinstance(a, ast.arg)] + [node.returns]
            for annotation in filter(None, annotations):
                if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
                    annotation = ast.parse(annotation.value, mode="eval").body
                yield from (node.lineno for n in ast.walk(annotation) if isinstance(n, ast.Name) and n.id == "Any")
