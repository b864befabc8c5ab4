"""Reads log bytes into Arrow record batches of the one schema.

Needs the extra `arrow`; the core never imports it.

schema         declares the columns as Arrow types, and narrows them
options        holds how a scan reads, and how it makes batches
scan           scans the log of a store, or of several
members        reads several stores as one
batches        makes batches from pieces of the log
column_block   holds the memory of one batch, filled by the kernel
column_layout  lays out the columns of a batch in its memory
vanished       accounts for log files that were deleted while they were read
view_block     holds the memory of a batch whose text and bodies are views of the log
ipc_template   turns memory into a batch in one call, as an Arrow IPC message
by_topic       gathers frequent topics in batches of their own
parallel       scans on several threads
queue_batch    reads messages of one queue as a batch
kafka_shape    gives rows the columns of Spark's Kafka source
answers        makes a table of the rows of an answer, such as `flintmq trace`
"""

from __future__ import annotations

from importlib.util import find_spec

from flintmq.errors import MissingExtraError

if find_spec("pyarrow") is None:
    raise MissingExtraError("reading a store as Arrow needs pyarrow; run: pip install 'flintmq[arrow]'")
