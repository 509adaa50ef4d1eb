"""Drives queries on Spark: streaming DataFrames in and out, static ones too, with the embedded runner's results."""
