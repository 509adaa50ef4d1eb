"""Random programs, run on the engine and on the oracle: `python -m tests.fuzz --budget 10m`."""
