"""The continuous query language: text -> tree -> rewritten tree -> resolved tree -> plan.

`parse` reads text, `rewrite` lifts windows and folds constants, `resolve` finds what every name means,
`compile` builds the streams and queries that the Python API builds. `session` holds what statements have made.
"""
