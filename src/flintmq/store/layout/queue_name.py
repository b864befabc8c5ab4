"""Maps queues to directories, and lists the queues on disk."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from flintmq.storage.filesystem import REAL, Effects

PLAIN, BATCH = "consumequeue", "batchconsumequeue"  # the directories; also the kinds of queues


@dataclass(frozen=True, slots=True)
class Queue:
    """One queue: its kind (PLAIN or BATCH), its topic as raw bytes, and its id."""

    kind: str
    topic: bytes
    queue_id: int

    @property
    def path(self) -> str | None:
        """The queue's directory below the store's root; None if the topic cannot name a directory."""
        name = path_name(self.topic)
        return None if name is None else f"{self.kind}/{name}/{self.queue_id}"


def path_name(topic: bytes) -> str | None:
    """Return a topic as a directory's name: raw UTF-8, as RocketMQ writes it, or None."""
    if topic in (b"", b".", b"..") or b"/" in topic or b"\0" in topic or len(topic) > 255:
        return None
    return topic.decode("utf-8", "surrogateescape")


class QueueName(NamedTuple):
    """Name of a queue that has a directory."""

    topic: str
    queue_id: int


def queue_names(root: str, kind: str, effects: Effects = REAL, topics: Iterable[str] | None = None) -> list[QueueName]:
    """List the queues below `kind` (directories.QUEUES and the like), sorted.

    Directories that are no queues are left out.

    Args:
        root: of the store.
        kind: which queues.
        effects: the disk.
        topics: list only their queues; None for all.

    Raises:
        StoreAccessError: a directory may not be listed.
    """
    return list(each_queue_name(root, kind, effects, topics))


def each_queue_name(
    root: str, kind: str, effects: Effects = REAL, topics: Iterable[str] | None = None
) -> Iterator[QueueName]:
    """Yield the queues one by one; their topic's directory is open until the next one."""
    folder = os.path.join(root, kind)
    with effects.entered(folder, folder):
        for topic in effects.listdir(folder) if topics is None else sorted(filter(is_path, topics)):
            path = os.path.join(folder, topic)
            with effects.entered(path, folder):
                for queue_id in sorted(_queue_ids(effects.listdir(path, folder))):
                    yield QueueName(topic, queue_id)


def _queue_ids(names: list[str]) -> Iterator[int]:
    """Yield the queue ids among directory names: decimal numbers as Java writes them."""
    for name in names:
        digits = name.removeprefix("-")
        if len(digits) > 10 or not digits.isascii() or not digits.isdigit() or str(int(name)) != name:
            continue
        if -(1 << 31) <= int(name) < 1 << 31:
            yield int(name)


def is_path(topic: str) -> bool:
    """Return whether a topic can name a directory: one step, not empty, at most 255 bytes."""
    try:
        return path_name(os.fsencode(topic)) is not None
    except UnicodeEncodeError:
        return False
