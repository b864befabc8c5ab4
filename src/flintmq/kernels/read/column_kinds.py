"""Names the kind of each column for the kernels that write columns.

Those are `gather`, into Arrow memory, and `json_line`, as JSON.
"""

from __future__ import annotations

from flintmq.format.record_view import number_at
from flintmq.kernels.read import gather as kernel

# Column -> (kind, position in a record with two IPv4 hosts); see docs/internals/format/commit-log.md.
NUMBERS = {
    name: (kind, number_at(name))
    for name, kind in {
        "queue_id": kernel.INT32,
        "queue_offset": kernel.INT64,
        "born_timestamp": kernel.INT64,
        "store_timestamp": kernel.INT64,
        "physical_offset": kernel.INT64,
        "size": kernel.INT32,
        "flag": kernel.INT32,
        "sys_flag": kernel.INT32,
        "reconsume_times": kernel.INT32,
        "prepared_transaction_offset": kernel.INT64,
        "body_crc": kernel.UINT32,
    }.items()
}
TEXTS = {
    "topic": kernel.TOPIC,
    "body": kernel.BODY,
    "offset_msg_id": kernel.OFFSET_MSG_ID,
    "born_host": kernel.BORN_HOST,
    "store_host": kernel.STORE_HOST,
    "magic": kernel.MAGIC,
}
# Columns from the properties, in the order of gather's plan rows.
NAMED = {"tags": kernel.TAGS, "keys": kernel.KEYS, "msg_id": kernel.UNIQ_KEY}
