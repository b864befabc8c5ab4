"""The file `checkpoint`: what its writer believed to be on disk (docs/format/checkpoint.md).

Upstream: StoreCheckpoint.
"""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

from flintmq.format.layout import TIME, Buffer, Int, Layout

FILE_SIZE: Final = 4096


class Checkpoint(NamedTuple):
    """The five numbers of a checkpoint. A missing file counts as all zeros."""

    physic_timestamp: Annotated[int, Int("i64", "ms, store time of the last record flushed to the log", TIME)] = 0
    logics_timestamp: Annotated[int, Int("i64", "ms, store time of the last record dispatched to the queues", TIME)] = 0
    index_timestamp: Annotated[int, Int("i64", "ms, end timestamp of the last full index file", TIME)] = 0
    master_flushed_offset: Annotated[int, Int("i64", "replication: how far the master has flushed")] = 0
    confirm_physical_offset: Annotated[int, Int("i64", "where the last valid record began at the last recovery")] = 0


CHECKPOINT: Final = Layout("Checkpoint", Checkpoint)


def decode(data: Buffer) -> Checkpoint:
    """The numbers of a checkpoint file's bytes; what follows them is not looked at.

    Raises:
        FormatError: there are fewer than 40 bytes.
    """
    return CHECKPOINT.unpack(data)


def encode(checkpoint: Checkpoint) -> bytes:
    """The whole file, 4,096 bytes.

    Raises:
        FormatError: a number does not fit 64 bits.
    """
    return CHECKPOINT.pack(checkpoint).ljust(FILE_SIZE, b"\0")
