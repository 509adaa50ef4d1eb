"""The experiments, a module each; `catalogue` lists them all.

Nothing is imported here: `bench.against` runs some of them with an older Panes, which may not have what others need.
"""
