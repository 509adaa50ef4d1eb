"""Random CQL programs, run by the library and by an oracle: `python -m tests.cql_fuzz --programs 1000`.

Each program makes schemas and streams in all the ways of the language and asks one or two queries over small data
with nulls, duplicates and ties. Its text is parsed, printed and formatted, and every answer compared with that of
an interpreter over lists. Mutated programs must be refused with a place, or be valid.

What the generator leaves out:

- sockets and files as sources, sinks, EXPLAIN, SHOW, DESCRIBE and DROP: in tests of their own.
- LATENESS, policies, calendar units, time zones, and the window functions of Spark and Flink.
- LIMIT with GROUP BY (the limit is per key), and order-dependent windows or aggregates over results that are due
  at the same time, whose order is not said.
- Windows of system time over anything but data itself, except with a clock that stands still.
- Columns named as those that windows have (window_end ...) next to the windows' own.
"""
