"""Finds units of queues that point beyond the files of a log.

After a clean stop there are none: a store that stops has dispatched no more than it flushed, and both RocketMQ and
FlintMQ cut the queues at the log's end when they start. So one that is there is evidence of log files that are gone.
RocketMQ's checkpoint alone is weak evidence, because its time of the last flush may be seconds old.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

from flintmq.format.batch_queue import BATCH_UNIT
from flintmq.format.consume_queue import POINTER, UNIT_SIZE
from flintmq.storage.files.filesystem import Effects
from flintmq.store.layout import directories
from flintmq.store.layout.queue_name import path_name, queue_names

_KINDS = ((directories.QUEUES, UNIT_SIZE), (directories.BATCH_QUEUES, BATCH_UNIT.size))


def queues_beyond(root: str, position: int, effects: Effects) -> Iterator[str]:
    """Yield which queues have a unit of a record at a log offset or later.

    Only the last unit of each queue is looked at: log offsets increase along a queue.
    """
    for kind, unit_size in _KINDS:
        for name in queue_names(root, kind, effects):
            folder = os.path.join(root, kind, name.topic, str(name.queue_id))
            offset = _last_pointer(folder, unit_size, effects)
            if offset >= position:
                yield f"the queue {f'{name.topic}/{name.queue_id}'!a} names a record at offset {offset}"


def _last_pointer(folder: str, unit_size: int, effects: Effects) -> int:
    """Return the log offset in the last unit of a queue that is written; -1 without one."""
    for name in reversed(effects.listdir(folder)):
        path = os.path.join(folder, name)
        count = (effects.size(path) or 0) // unit_size
        if not name.isdigit() or not count:
            continue
        with effects.reading(path) as fd:
            first, stop = 0, count  # units below `first` are written, those from `stop` on are not
            offset = -1
            while first < stop:
                number = (first + stop) // 2
                data = effects.pread(fd, POINTER.size, number * unit_size)
                found, size = POINTER.unpack(data) if len(data) == POINTER.size else (0, 0)
                if size > 0:
                    first, offset = number + 1, found
                else:
                    stop = number
        if offset >= 0:
            return offset
    return -1


def unit_at(root: str, topic: bytes, queue_id: int, queue_offset: int, effects: Effects) -> tuple[int, int]:
    """Return log offset and size in a plain queue's unit at a queue offset; zeros without one."""
    name = path_name(topic)
    if name is None or queue_offset < 0:
        return 0, 0
    folder = os.path.join(root, directories.QUEUES, name, str(queue_id))
    position = queue_offset * UNIT_SIZE
    starts = [int(name) for name in effects.listdir(folder) if name.isdigit() and int(name) <= position]
    if not starts:
        return 0, 0
    path = os.path.join(folder, f"{max(starts):020d}")
    with suppress(FileNotFoundError), effects.reading(path) as fd:
        data = effects.pread(fd, POINTER.size, position - max(starts))
        if len(data) == POINTER.size:
            place, size = POINTER.unpack(data)
            return place, size
    return 0, 0
