"""Spark's own `window()` and `session_window()` as oracles for late rows: `python -m tests.spark_oracle`."""
