"""Finds the kind of a file: by its path within a store, else its name, else its content."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from flintmq.format import batch_queue, checkpoint, config_names, consume_queue, flintmq_mark, index, timer
from flintmq.format.record import MAGIC_BLANK, MAGIC_V1, MAGIC_V2, MIN_SIZE
from flintmq.format.record_view import HEAD_SIZE, magic_at, physical_offset_at, size_at
from flintmq.store.commitlog.files import LARGEST_OFFSET, file_start
from flintmq.store.layout import directories, root_names
from flintmq.store.layout.queue_name import refuse_other_encoding

LOG: Final = "commitlog"
QUEUE: Final = "consumequeue"
EXT: Final = "consumequeue_ext"
BATCH: Final = "batchconsumequeue"
COMPACTION_LOG: Final = "compactionlog"
COMPACTION_QUEUE: Final = "compactioncq"
INDEX: Final = "index"
CHECKPOINT: Final = "checkpoint"
MARK: Final = "mark"
TIMER_LOG: Final = "timerlog"
TIMER_WHEEL: Final = "timerwheel"
TIMER_CHECK: Final = "timercheck"
JSON: Final = "json"
TEXT: Final = "text"
OTHER: Final = "other"

KINDS: Final = {
    LOG: "commit log file",
    QUEUE: "consume queue file",
    EXT: "consume queue ext file",
    BATCH: "batch consume queue file",
    COMPACTION_LOG: "compaction log file",
    COMPACTION_QUEUE: "compaction queue file",
    INDEX: "index file",
    CHECKPOINT: "checkpoint",
    MARK: "FlintMQ's durable mark",
    TIMER_LOG: "timer log file",
    TIMER_WHEEL: "timer wheel",
    TIMER_CHECK: "timer checkpoint",
    JSON: "configuration file (JSON)",
    TEXT: "text",
    OTHER: "no file that FlintMQ reads",
}
"""Kind (a word for --as) -> its name for people."""

_UNIT_FOLDERS: Final = {
    directories.QUEUES: QUEUE,
    directories.EXT_QUEUES: EXT,
    directories.BATCH_QUEUES: BATCH,
    "compactionLog": COMPACTION_LOG,
    "compactionCq": COMPACTION_QUEUE,
}
_NAMES: Final = {
    "checkpoint": CHECKPOINT,
    flintmq_mark.FILE_NAME: MARK,
    "timerwheel": TIMER_WHEEL,
    "timercheck": TIMER_CHECK,
}
TEXTS: Final = {
    **root_names.TEXTS,
    "journal.json": "what a salvage in place changed, so that it can be finished and undone",
}
"""Text -> what it says; of an earlier one, `.bak`, too."""
_FOREIGN: Final = ("rocksdbstore", "kvStore")
_SETTINGS: Final = (directories.CONFIG, "compaction")
_TIMER_UNIT: Final = timer.LOG_UNIT.numbers("size", "magic")
_SWAPPED: Final = re.compile(r"/quarantine/salvage-[^/]+/(?:old|new)/")  # whole files, in folders as in the store
_QUARANTINED: Final = re.compile(r"([0-9]{20})(?:-([0-9]+))?(\.record|\.excess)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class FilePlace:
    """The kind of a file and the facts that its path gives."""

    kind: str
    how: str
    root: str | None = None  # directory of the store; None if the path does not show it
    start: int | None = None  # offset of its first byte in its queue of files, by its name
    topic: str | None = None
    queue_id: int | None = None


def by_path(path: str) -> FilePlace | None:
    """Find the kind by an absolute path or a URL; return None if it shows none."""
    *folders, name = _SWAPPED.sub("/", path).split("/")
    start = file_start(name)
    # Topics may have any name, so the folders of queues are looked for first.
    for below_folder in (_in_queue, _below):
        for number in range(len(folders) - 1, -1, -1):
            place = below_folder(folders[number], folders[number + 1 :], name, start)
            if place is not None:
                compacted = folders[number] in ("compactionLog", "compactionCq")
                return replace(place, root="/".join(folders[: number - compacted]) or "/")
    kind = _small(name)
    return None if kind is None else FilePlace(kind, "by its name", "/".join(folders) or "/")


def _in_queue(folder: str, below: list[str], name: str, start: int | None) -> FilePlace | None:
    how = f"by its place, in {folder}/"
    if folder in _UNIT_FOLDERS and start is not None and len(below) >= 2:
        refuse_other_encoding(below[0])
        queue = below[1]
        queue_id = int(queue) if re.fullmatch(r"[0-9]{1,10}", queue, re.ASCII) else None
        return FilePlace(_UNIT_FOLDERS[folder], how, None, start, below[0], queue_id)
    return None


def _below(folder: str, below: list[str], name: str, start: int | None) -> FilePlace | None:
    how = f"by its place, in {folder}/"
    if folder == "quarantine":
        return _quarantined(below, name, how)
    if folder in _FOREIGN or (folder == directories.QUEUES and not below):
        return FilePlace(OTHER, f"{how}: RocksDB")
    if below:
        return None
    if start is not None and folder in (directories.LOG, "timerlog"):
        return FilePlace(LOG if folder == directories.LOG else TIMER_LOG, how, None, start)
    kind = _small(name) or JSON
    if folder == directories.INDEX and index.NAME.fullmatch(name):
        return FilePlace(INDEX, how)
    return FilePlace(kind, how) if folder in _SETTINGS and kind in (JSON, TIMER_CHECK) else None


def _quarantined(below: list[str], name: str, how: str) -> FilePlace | None:
    """Find the kind of a file that recovery or salvage keeps."""
    match = _QUARANTINED.fullmatch(name)
    if match is None:
        return None
    start, position, suffix = match.groups()
    inside = len(below) == 2 and below[1] in ("before", "after") and suffix is None
    return FilePlace(LOG, how, None, int(start) + int(position or 0) * inside)


def _small(name: str) -> str | None:
    base = name.removesuffix(".bak")
    if base in _NAMES or re.fullmatch(r"timerwheel\.[0-9]+", name, re.ASCII):
        return _NAMES.get(base, TIMER_WHEEL)
    if base in config_names.FILES:
        return JSON
    return TEXT if base in TEXTS or name.endswith(".jsonl") else None


def by_content(head: bytes, size: int) -> FilePlace | None:
    """Find the kind by the first bytes (4 KiB suffice) and the size; return None in doubt."""
    how = "by its content"
    word, text = magic_at(head), head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if word in (MAGIC_V1, MAGIC_V2, MAGIC_BLANK) and size_at(head) >= HEAD_SIZE:
        offset = physical_offset_at(head) if len(head) >= MIN_SIZE else 0
        known = word != MAGIC_BLANK and 0 <= offset <= LARGEST_OFFSET - size
        return FilePlace(LOG, how, start=offset if known else None)
    if head.startswith(flintmq_mark.MAGIC.to_bytes(8, "big")):
        return FilePlace(MARK, how)
    if size == timer.WHEEL_SIZE:
        return FilePlace(TIMER_WHEEL, f"{how}: only a timer wheel has this size")
    if len(head) >= _TIMER_UNIT.size:
        width, bits = _TIMER_UNIT.unpack_from(head)
        if width == timer.LOG_UNIT.size and 0 <= bits < 256:
            return FilePlace(TIMER_LOG, how)
    if text in (b"{", b"["):
        return FilePlace(JSON if text == b"{" else TEXT, how)
    for kind, layout in ((BATCH, batch_queue.BATCH_UNIT), (QUEUE, consume_queue.UNIT)):
        units = [unit for unit in layout.iter(head) if unit != layout.unpack(bytes(layout.size))]
        offsets = [unit[0] for unit in units]
        sizes = all(MIN_SIZE <= unit[1] <= 1 << 30 for unit in units)
        if units and size % layout.size == 0 and sizes and offsets == sorted(offsets) and offsets[0] >= 0:
            return FilePlace(kind, how)
    return FilePlace(INDEX, how) if _is_index(head, size) else None


def _is_index(head: bytes, size: int) -> bool:
    # Checkpoint and timer checkpoint both have 4,096 bytes, and could pass for an index: no answer for that size.
    head_size = index.HEADER.size
    if size in (head_size, checkpoint.FILE_SIZE) or len(head) < head_size or (size - head_size) % index.SLOT.size:
        return False
    first, last, begin, end, _, count = index.HEADER.unpack(head)
    return 0 < first <= last < 1 << 42 and 0 <= begin <= end and 0 < count <= size // index.ITEM.size


def words() -> str:
    return ", ".join(KINDS)
