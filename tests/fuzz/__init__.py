"""Random programs, run on the engine and on the oracle: `python -m tests.fuzz --budget 10m`.

Known gaps, which the generator leaves out:

- `emit_empty` together with windows that come and go while running: docs/semantics.md does not say which
  windows without rows an added query begins with.
- Windows on rows or of data, added while running where rows still wait for the watermark, or may come late:
  docs/semantics.md does not say which of the waiting rows they see. Users' own windows (which may count from
  position 0), "last rows" windows, sessions with a gap of their own, calendars and windows on a column are
  never added.
- Rounding of the average of decimals: compared to four digits.
- `approx_count_distinct`, users' own aggregates, `where`, `select` and `with_columns`: in tests of their own.
"""
