"""The row lane: rows in event-time order, for every kind of window."""
