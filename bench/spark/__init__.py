"""Panes on Spark against Spark itself: `make bench-spark` or `python -m bench.spark`.

All contenders run interleaved in one session, as streams over the same Parquet files, until those are done.
"""
