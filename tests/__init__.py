"""Tests of Panes; a package so that `python -m tests.fuzz` finds its oracle."""
