"""Log bytes to Arrow record batches in the one schema. Needs the extra `arrow`; the core never imports it.

schema         declares the columns as Arrow types, and narrows them
scan           scans a store's log: scan_arrow for users, batches() for Spark's tasks
batches        makes batches of pieces of the log
column_block   holds the memory of one batch, filled by the kernel
column_layout  lays the columns of a batch out in its memory
ipc_template   makes a batch of memory that is an Arrow IPC message, in one call
by_topic       gathers frequent topics in batches of their own
parallel       scans on several threads
queue_batch    reads messages of one queue as a batch
dataset        offers a store as a dataset for DuckDB and pyarrow
expression     reads comparisons out of an Arrow filter
polars         offers a store as a Polars LazyFrame
sql            answers a question in SQL by DuckDB
s3             reads object storage through the door to files
remote_file    reads one object in ranges of bounded size
"""

from __future__ import annotations

from importlib.util import find_spec

from flintmq.errors import MissingExtraError

if find_spec("pyarrow") is None:
    raise MissingExtraError("reading a store as Arrow needs pyarrow; run: pip install 'flintmq[arrow]'")
