"""Writes a commit log as a Parquet file, batch by batch, and asks the file a question.

    $ tar xf tests/compat/golden/basic.tar.xz
    $ python examples/log_to_parquet.py basic messages.parquet
    3000 messages, 719 KiB of records
    Orders: 763 messages, 157 of them with the tag TagA

A store of any size fits: only the columns that are named are decoded, and one batch is in memory at a time. It needs
the extra `arrow`: pip install 'flintmq[arrow]'. A table that grows with the store is written by `flintmq spark export`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

import flintmq

COLUMNS = ["topic", "queue_id", "queue_offset", "store_timestamp", "tags", "keys", "size", "body"]


def write(store: Path, out: Path) -> None:
    """Write the records of a store's log, in their order, as rows of a Parquet file."""
    reader = flintmq.scan_arrow(store, columns=COLUMNS)
    rows = log_bytes = 0
    with pq.ParquetWriter(out, reader.schema, compression="zstd") as writer:
        for batch in reader:
            writer.write_batch(batch)
            rows += batch.num_rows
            log_bytes += pc.sum(batch["size"]).as_py() or 0
    print(f"{rows} messages, {log_bytes // 1024} KiB of records")


def ask(path: Path) -> None:
    """Count the messages of a topic; the Parquet file is an ordinary one, and any tool reads it."""
    table = pq.read_table(path, columns=["topic", "tags"], filters=[("topic", "==", "Orders")])
    tagged = table.filter(pc.field("tags") == "TagA")
    print(f"Orders: {table.num_rows} messages, {tagged.num_rows} of them with the tag TagA")


def main(store: Path, out: Path) -> None:
    """Write the file, then ask it."""
    write(store, out)
    ask(out)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("name two paths: python examples/log_to_parquet.py basic messages.parquet")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
