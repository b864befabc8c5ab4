"""The file `checkpoint`: store times up to which its writer had flushed.

Bytes and rules: docs/internals/format/checkpoint.md.

Upstream: StoreCheckpoint.
"""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

from flintmq.errors import FormatError
from flintmq.format.layout import TIME, Buffer, Int, Layout

FILE_SIZE: Final = 4096
LEAST: Final = 40  # bytes that a file must have: the numbers of 5.3.3 and 5.4.0


class Checkpoint(NamedTuple):
    """The six numbers of a checkpoint. A missing file counts as all zeros."""

    physic_timestamp: Annotated[int, Int("i64", "ms, store time of the last record flushed to the log", TIME)] = 0
    logics_timestamp: Annotated[int, Int("i64", "ms, store time of the last record dispatched to the queues", TIME)] = 0
    index_timestamp: Annotated[int, Int("i64", "ms, end timestamp of the last full index file", TIME)] = 0
    master_flushed_offset: Annotated[int, Int("i64", "replication: how far the master has flushed")] = 0
    confirm_physical_offset: Annotated[int, Int("i64", "where the last valid record began at the last recovery")] = 0
    logics_physical_offset: Annotated[int, Int("i64", "5.5.0: where the last record whose units are flushed began")] = 0


CHECKPOINT: Final = Layout("Checkpoint", Checkpoint)


def decode(data: Buffer) -> Checkpoint:
    """Decode the numbers of a checkpoint file. A sixth number that is missing is 0.

    The bytes after the numbers are not looked at.
    """
    if len(data) < LEAST:
        raise FormatError(f"Checkpoint needs {LEAST} bytes, {len(data)} are left")
    return CHECKPOINT.unpack(bytes(data[: CHECKPOINT.size]).ljust(CHECKPOINT.size, b"\0"))


def encode(checkpoint: Checkpoint) -> bytes:
    return CHECKPOINT.pack(checkpoint).ljust(FILE_SIZE, b"\0")
