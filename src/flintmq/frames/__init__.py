"""Offers stores, and the tables of their exports, as frames for users of Python.

Needs the extra `arrow`.

scan           reads stores as a stream of Arrow batches: scan_arrow
dataset        offers stores as a dataset for DuckDB and pyarrow
bodies         loads the decoder of bodies
history        reads stores and the table that they were exported into as one frame
messages       makes an Arrow table of messages that were read
asked          refuses topics that no store has
expression     reads comparisons out of an Arrow filter
polars         offers stores as a Polars LazyFrame
sql            answers a SQL query by DuckDB
statements     checks which statements of a query may answer, and keeps them out of the stores
"""

import flintmq.arrow  # noqa: F401  (raises the error of a missing pyarrow)
