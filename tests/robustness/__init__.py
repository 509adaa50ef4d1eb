"""Odd data, odd calls, damaged bytes: each has a defined outcome (docs/robustness.md), and a test here."""
