"""A naive oracle of docs/semantics.md: lists, loops and no cleverness, to be checked by eye."""
