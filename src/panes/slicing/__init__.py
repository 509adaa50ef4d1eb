"""The heart: the operator, its two lanes (`partials/`, `rows/`), keys, lateness and results."""
