"""The ways to run a query on Spark, one file each."""
