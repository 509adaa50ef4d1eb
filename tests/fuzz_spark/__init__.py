"""Random programs as Spark runs them, against the embedded operator: `python -m tests.fuzz_spark --programs 2000`.

A program of the engine's generator (tests/fuzz) is cut into micro-batches, input partitions and key groups at
random, with restarts, lost batches and batches without rows in between. What it must give is what the embedded
operator gives when it is driven as a micro-batch engine drives it: event time reaches the watermark that
earlier batches made, then the rows of the batch come.

- `workers.py` runs the very code that Spark's workers run, with a state store in memory: thousands of programs.
- `bundle.py` runs hundreds of programs in one query of a real Spark (`together.py`), streaming (with restarts) and
  static.

Left out: windows added or removed while running (a query on Spark does not change), and explicit watermarks
(on Spark they follow the rows); such programs run with a bound instead. Times in ns are read as us.
"""
