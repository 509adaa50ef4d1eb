"""The grammar of CQL: readers that turn tokens into the classes of `tree`, one file per part of the language.

Each reader is a sqlglot parser and builds on the one before it: `words` (keywords, names, numbers, errors),
`expressions`, `windows`, `queries`, `statements`.
"""
