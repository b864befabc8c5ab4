"""Holds the options of a scan, beside the store, the columns and the rows."""

from __future__ import annotations

from dataclasses import dataclass

from flintmq.config.text import check_choice, check_integer
from flintmq.errors import UsageError
from flintmq.store.commitlog.walk import ACCESS

BATCH_BYTES = 8 << 20  # approximate size of a batch's columns
MAX_ROWS = 65_536
SEGMENT_BYTES = 8 << 20  # longest part of the log that a thread reads at once


@dataclass(frozen=True, slots=True)
class BatchOptions:
    decompress: bool = False  # bodies as the producer gave them, up to 64 MiB each, instead of as stored
    strict: bool = True  # damage, and a body that cannot be decompressed, is an error; otherwise it is reported
    batch_bytes: int = BATCH_BYTES  # approximate size of the columns of a batch
    max_rows: int = MAX_ROWS


DEFAULT = BatchOptions()


@dataclass(frozen=True, slots=True)
class ScanOptions(BatchOptions):
    """Options for reading a log into record batches.

    `zone_maps`: whether to skip zones of the log without wanted rows, and to keep maps of them in the user's cache.
    """

    begin: int = 0  # log offset of a record, or at or below the log's minimum
    end: int | None = None  # log offset to stop before, to which the log is known to extend; None for the log's end
    access: str = "pread"
    check_crc: bool = True  # compare checksums; otherwise a record is valid by its structure and offset alone
    threads: int = 1  # number of threads that read
    segment_bytes: int = SEGMENT_BYTES  # longest part of the log that a thread reads at once
    zone_maps: bool = True

    def __post_init__(self) -> None:
        check_choice("access", self.access, ACCESS)
        for name in ("batch_bytes", "threads", "begin", *(() if self.end is None else ("end",))):
            object.__setattr__(self, name, check_integer(name, getattr(self, name)))  # it is frozen
        if self.batch_bytes < 1 or self.threads < 1:
            raise UsageError(f"batch_bytes is {self.batch_bytes} and threads {self.threads}; both must be 1 at least")
