"""Sources that Spark does not have, as Python data sources: exact micro-batches, replay, sockets."""
