"""Log bytes to Arrow record batches in the one schema. Needs the extra `arrow`; the core never imports it.

schema      the columns as Arrow types, and narrowing them
envelope    memory that is an Arrow IPC message becomes a batch in one call
layout      where the columns of a batch lie in its memory
block       the memory of one batch, filled by the kernel
batches     pieces of the log to batches
parallel    one scan on several threads
scan        scan_arrow for users, batches() for Spark's tasks
"""

from __future__ import annotations

from importlib.util import find_spec

from flintmq.errors import MissingExtraError

if find_spec("pyarrow") is None:
    raise MissingExtraError("reading a store as Arrow needs pyarrow; run: pip install 'flintmq[arrow]'")
