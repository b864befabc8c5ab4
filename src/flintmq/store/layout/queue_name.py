"""A queue as a directory: the name that its topic gives it, and the queues that are there."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from flintmq.storage.filesystem import REAL, Effects

PLAIN, BATCH = "consumequeue", "batchconsumequeue"  # the directories, and so the kinds of queues


@dataclass(frozen=True, slots=True)
class Queue:
    """One queue: the directory it stands in (PLAIN or BATCH), its topic as raw bytes, and its id."""

    kind: str
    topic: bytes
    queue_id: int

    @property
    def path(self) -> str | None:
        """The queue's directory below the store's root, or None if the topic cannot be a directory's name."""
        name = path_name(self.topic)
        return None if name is None else f"{self.kind}/{name}/{self.queue_id}"


def path_name(topic: bytes) -> str | None:
    """A topic as a directory's name: raw UTF-8, as RocketMQ makes it; None if it cannot be one."""
    if topic in (b"", b".", b"..") or b"/" in topic or b"\0" in topic or len(topic) > 255:
        return None
    return topic.decode("utf-8", "surrogateescape")


class QueueName(NamedTuple):
    """A queue that has a directory."""

    topic: str
    queue_id: int


def queue_names(root: str, kind: str, effects: Effects = REAL, topics: Iterable[str] | None = None) -> list[QueueName]:
    """The queues below `kind` (directories.QUEUES and the like), sorted. Directories that are no queues are left out.

    Args:
        root: of the store.
        kind: which queues.
        effects: the disk.
        topics: only of these; None for all.

    Raises:
        StoreAccessError: a directory may not be listed.
    """
    return list(each_queue_name(root, kind, effects, topics))


def each_queue_name(
    root: str, kind: str, effects: Effects = REAL, topics: Iterable[str] | None = None
) -> Iterator[QueueName]:
    """The same one by one, with the directory of each queue's topic kept open until the next one is asked for."""
    folder = os.path.join(root, kind)
    with effects.entered(folder, folder):
        for topic in effects.listdir(folder) if topics is None else sorted(filter(is_path, topics)):
            path = os.path.join(folder, topic)
            with effects.entered(path, folder):
                for queue_id in sorted(_queue_ids(effects.listdir(path, folder))):
                    yield QueueName(topic, queue_id)


def _queue_ids(names: list[str]) -> Iterator[int]:
    """Directory names that are the decimal text of a queue id, as Java writes them."""
    for name in names:
        digits = name.removeprefix("-")
        if len(digits) > 10 or not digits.isascii() or not digits.isdigit() or str(int(name)) != name:
            continue
        if -(1 << 31) <= int(name) < 1 << 31:
            yield int(name)


def is_path(topic: str) -> bool:
    """Whether a topic can be a directory's name: one step, not empty, at most 255 bytes."""
    try:
        return path_name(os.fsencode(topic)) is not None
    except UnicodeEncodeError:
        return False
