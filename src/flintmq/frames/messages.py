"""Makes an Arrow table of messages that were read.

Its rows are those that a scan makes of their records in the log.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate

import pyarrow as pa

from flintmq.arrow.batches import record_batches
from flintmq.arrow.schema import narrow
from flintmq.message import StoredMessage
from flintmq.store.commitlog.files import LogFile
from flintmq.store.commitlog.walk import Piece


def table(messages: Iterable[StoredMessage], columns: Sequence[str] | None = None) -> pa.Table:
    """Return a row for each message, in their order; bodies as stored.

    Args:
        messages: read by a view or a store.
        columns: names of columns, in the order wanted; None for all.

    Raises:
        UsageError: an unknown column.
    """
    schema, raws = narrow(columns), [message.raw for message in messages]
    data = memoryview(b"".join(raws))
    positions = memoryview(array("q", accumulate(map(len, raws), initial=0)))
    file = LogFile("", 0, len(data))  # named only where a body is decompressed
    piece = Piece(data=data, base=0, positions=positions, count=len(raws), end=len(data), file=file)
    return pa.Table.from_batches(record_batches([piece], schema) if raws else [], schema)
