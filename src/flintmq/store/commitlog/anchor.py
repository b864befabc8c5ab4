"""Names a record of a log, by which a later run knows the log again.

Every progress that is kept has such an anchor. It is the last record of the log before the place that a run reached,
whether the run wanted that record or not. So a log that was cut below that place, replaced, or put back has another
record there, or none, and nothing that came since can be passed over. One function makes anchors (`anchor_of`), one
compares them (`why_lost`). Each progress, its anchor and what happens to it: docs/internals/progress.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from flintmq.message import StoredMessage
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.records import record_at

NO_TIME = -1
"""The store time of an anchor that says where a run began, not how far it read."""


@dataclass(frozen=True)
class LogAnchor:
    """A record that identifies a log.

    Attributes:
        physical_offset, size, store_timestamp (ms), body_crc: as in the record. A size of 0: FlintMQ 0.1 noted neither
            size nor body_crc.
    """

    physical_offset: int
    size: int
    store_timestamp: int
    body_crc: int

    @property
    def end(self) -> int:
        return self.physical_offset + max(self.size, 1)


class KnownLog(NamedTuple):
    """The files of a log, and the log offset after its last record."""

    files: LogFiles
    end: int

    def has_expired(self, anchor: LogAnchor) -> bool:
        """Return whether the record was deleted with its file, so that nothing can be compared."""
        return bool(self.files.files) and anchor.physical_offset < self.files.min_offset


def anchor_at(log: LogFiles, physical_offset: int, end: int | None = None) -> LogAnchor | None:
    """Return the anchor of the record at a log offset; None if no record is there.

    `end`: log offset after which no record counts; None for no bound.
    """
    found = record_at(log, physical_offset, end)
    return None if found is None else anchor_of(found)


def anchor_of(record: StoredMessage) -> LogAnchor:
    return LogAnchor(record.physical_offset, record.size, record.store_timestamp, record.body_crc)


def why_lost(log: KnownLog, anchor: LogAnchor) -> str:
    """Return why a log is not the one of an anchor, in words; empty if it is.

    It is also empty if the record has expired: then nothing can be compared.
    """
    if log.has_expired(anchor):
        return ""
    if anchor.end > log.end:
        return (
            f"the log ends at offset {log.end}, before {anchor.end}, which was read: it lost its tail, was put back, "
            "is another store's, or is a copy that is behind"
        )
    if not anchor.size and anchor.store_timestamp == NO_TIME:
        return ""
    found = anchor_at(log.files, anchor.physical_offset, log.end)
    if found is not None and (
        anchor.store_timestamp in (found.store_timestamp, NO_TIME)
        and (anchor.size, anchor.body_crc) in ((found.size, found.body_crc), (0, 0))
    ):
        return ""
    return (
        f"at log offset {anchor.physical_offset} is another record than the one that was read there, or none: the log "
        "was truncated, is another store's, or is damaged there"
    )
