"""Snapshots that an earlier format wrote restore, and the stream goes on as it did then."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.state import kept

FORMATS = sorted(folder.name for folder in kept.HERE.glob("format*"))
KEPT = [(form, name) for form in FORMATS for name in kept.QUERIES if (kept.HERE / form / f"{name}.json").exists()]


def given(form: str, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((kept.HERE / form / f"{name}.json").read_text())
    return found


def read(form: str, name: str, part: str) -> bytes:
    return (kept.HERE / form / f"{name}.{part}.snapshot").read_bytes()


def as_json(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(json.dumps(rows, default=str))
    return found


@pytest.mark.parametrize(("form", "name"), KEPT)
def test_a_snapshot_of_an_earlier_format_goes_on_as_it_did(form: str, name: str) -> None:
    op = kept.QUERIES[name]().operator(restore=read(form, name, "whole"))
    assert as_json(kept.rest(name, op)) == given(form, name)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", ["tumbling", "count_lateness"])
def test_parts_of_an_earlier_format_are_put_together(form: str, name: str) -> None:
    op = kept.QUERIES[name]().operator(restore=[read(form, name, part) for part in ("right", "left")])

    def sort(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))

    assert sort(as_json(kept.rest(name, op))) == sort(given(form, name))
