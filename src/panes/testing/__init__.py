"""Helpers for tests of your own: evaluate an aggregate on plain lists, and try to refute its laws."""

from __future__ import annotations

from panes.testing.evaluate import evaluate
from panes.testing.laws import check_laws

__all__ = ["check_laws", "evaluate"]
