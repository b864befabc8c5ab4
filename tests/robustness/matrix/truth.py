"""What a log says, read by the codecs of `flintmq.format` alone: record by record, file by file, no kernel."""

import hashlib
import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from flintmq.format import properties, record


class Row(NamedTuple):
    """What is compared of a message. `body` is the first 16 hex digits of the SHA-1 of the bytes as stored."""

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    size: int
    body: str
    tags: str | None
    keys: str | None


def body_digest(body: bytes) -> str:
    """16 hex digits that stand for a body."""
    return hashlib.sha1(body, usedforsecurity=False).hexdigest()[:16]


def row_of(found: record.Record) -> Row:
    named = properties.parse_bytes(found.properties)
    return Row(
        found.topic.decode("utf-8", "replace"),
        found.queue_id,
        found.queue_offset,
        found.physical_offset,
        found.size,
        body_digest(found.body),
        named.get("TAGS"),
        named.get("KEYS"),
    )


def log_files(store: Path) -> list[Path]:
    """The files of a log that are named as RocketMQ names them, in the order of their offsets; no links."""
    folder = store / "commitlog"
    found = folder.iterdir() if folder.is_dir() else []
    return sorted(
        path
        for path in found
        if len(path.name) == 20 and path.name.isdigit() and path.is_file() and not path.is_symlink()
    )


def records_of(path: Path) -> Iterator[record.Record]:
    """The records of one log file up to the first place where none counts."""
    start, at = int(path.name), 0
    if not path.stat().st_size:
        return
    with path.open("rb") as file:  # mapped: most of a file of 1 GiB is a hole, which reading would make memory
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    while at < len(data):
        try:
            found = record.check(data, at, start + at, file_end=len(data))
        except record.RecordError:
            return
        yield found
        at += found.size


def records(store: Path) -> list[record.Record]:
    return [found for path in log_files(store) for found in records_of(path)]


def rows(store: Path) -> list[Row]:
    return [row_of(found) for found in records(store)]


def has_unit(found: record.Record) -> bool:
    """Whether RocketMQ dispatches this record into a queue: neither prepared nor rolled back."""
    return found.transaction not in (record.TRANSACTION_PREPARED, record.TRANSACTION_ROLLBACK)
