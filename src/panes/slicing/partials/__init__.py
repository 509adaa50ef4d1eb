"""The partial lane: slices that keep partial aggregates only, and take rows in any order."""
