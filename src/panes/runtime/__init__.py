"""A running graph: the same nodes in this process and in Spark's workers."""
