"""Is this tree slower than another revision? Both run the same workloads in turns: `make bench-against REV=...`.

Flows in: a git revision. Flows out: a table with a verdict per workload. `__main__` is the command, `tree` lays the
other revision out, `worker` is the process that runs one tree, `client` asks it, `compare` asks both in turns,
`embedded` and `on_spark` hold the workloads, `verdict` the rule.
"""
