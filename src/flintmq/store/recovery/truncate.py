"""Truncates a log at its end, so that nothing after it comes back (upstream defect D4).

Valid records after the end are copied to `quarantine/` first. An interrupted truncation that is repeated gives the same
result.
"""

from __future__ import annotations

import json
import os

from flintmq.storage.files.filesystem import Effects
from flintmq.storage.files.whole_file import replace_file
from flintmq.store.commitlog.files import LogFile, LogFiles, has_data
from flintmq.store.commitlog.records import record_at
from flintmq.store.commitlog.resync import next_record
from flintmq.store.recovery.decisions import Decisions

ZERO_STEP = 1 << 20


def truncate_log(
    root: str, files: LogFiles, end: int, effects: Effects, decisions: Decisions, *, comes_again: bool = False
) -> None:
    """Copy the records after the end, remove later files, zero the rest of the last one.

    `comes_again`: what follows is the beginning of a transfer, which a master sends again; nothing is copied, and
    `unused_files` stay.

    Durability: on return. Raises OSError: the disk refused; the next start does it again.
    """
    assert end >= files.min_offset  # otherwise even the first file would go, and offsets would begin at 0 again
    if not comes_again:
        # Before anything is removed: a kill halfway must lose no record.
        _quarantine(root, files, end, effects, decisions)
    # The transfer goes on in them at once; and who reads along may open every file that he finds listed.
    stay = unused_files(files, end, effects) if comes_again else []
    for file in reversed(files.files):  # the last one first: a kill on the way must leave no gap
        if file in stay:
            continue
        if file.start > end:
            # Durable one by one: of two names that go, a power cut could keep the later one, which is a gap.
            effects.unlink(file.path)
            effects.sync_dir(os.path.dirname(file.path))
            decisions.add(f"removed {file.path}, which begins after the log's end")
        elif file.start + file.size > end:
            _zero(file, end - file.start, effects, decisions)


def unused_files(files: LogFiles, end: int, effects: Effects) -> list[LogFile]:
    """Return the whole files after the end that hold nothing, up to the first that is another."""
    found: list[LogFile] = []
    for file in files.files:
        if file.start > end:
            if file.size != files.file_size or has_data(file, effects):
                break
            found.append(file)
    return found


def _zero(file: LogFile, position: int, effects: Effects, decisions: Decisions) -> None:
    fd = effects.open_write(file.path)
    try:
        first, zeroed = position, 0
        while True:
            data = effects.next_data(fd, position)
            if data is None or data >= file.size:
                break
            position = max(position, data)
            piece = effects.pread(fd, min(ZERO_STEP, file.size - position), position)
            if piece != bytes(len(piece)):  # a window that was allocated ahead is 64 MiB of zeros
                effects.pwrite(fd, bytes(len(piece)), position)
                zeroed += len(piece) - piece.count(0)
            position += max(len(piece), 1)
        if zeroed:
            effects.sync(fd)  # before the first append: truncated bytes must not come back between its records
            decisions.add(f"zeroed {zeroed} bytes of {file.path} from position {first}")
    finally:
        effects.close(fd)


def _quarantine(root: str, files: LogFiles, end: int, effects: Effects, decisions: Decisions) -> None:
    """Copy each valid record after the end to a file of its own, and report it."""
    folder = os.path.join(root, "quarantine")
    offset = next_record(files, end)
    while offset is not None:
        message = record_at(files, offset)
        if message is None:
            break
        effects.make_folder(folder)
        path = os.path.join(folder, f"{offset:020d}-{message.store_timestamp}.record")
        # A name alone proves nothing: an earlier start may have died before the bytes were in, and the original is
        # zeroed next.
        if effects.read_file(path, message.size + 1) != message.raw:
            replace_file(path, message.raw, effects)
            line = {"offset": offset, "size": message.size, "topic": message.topic, "cut_at": end}
            decisions.add(f"quarantine: {json.dumps(line)}")
        offset = next_record(files, offset + message.size)
    # Also if nothing was copied now: an earlier start may have died between a rename and this, and the originals go
    # next.
    if effects.is_dir(folder):
        effects.sync_dir(folder)
