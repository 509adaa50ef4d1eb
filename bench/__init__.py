"""Benchmarks: rival techniques (`rivals/`), workloads (`workloads/`), and the harness that runs both.

Not part of the installed package: it runs from a checkout, as `panes bench` or `python -m bench`.
"""
