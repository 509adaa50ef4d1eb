"""Kills a running stream again and again, and compares what it has written with an undisturbed run.

    python -m tests.chaos --kills 20          # or --budget 600 (seconds), --seed 7 to repeat the same plan

`job.py`     what runs: the data, the query, the two sinks
`driver.py`  a process that runs it on Spark and knows nothing of kills
`killer.py`  starts the driver, waits for a commit count, kills it, and starts it again
`verdict.py` what was lost, written twice or wrong
"""
