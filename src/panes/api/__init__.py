"""What users hold: streams, queries, and the functions of `pn` that make them."""
