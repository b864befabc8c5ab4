"""Maps queues to directories, and lists the queues on disk.

A topic is UTF-8 in the name of its directory. Python reads and writes names by the locale's encoding, so where that is
another one, a topic that is not ASCII would be taken for a different one; all ways from a topic to a directory and back
lead through this module, and it refuses them (`refuse_other_encoding`). The command line starts again in UTF-8
(`flintmq.__main__`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from flintmq.config.text import short
from flintmq.errors import UsageError
from flintmq.storage.files.filesystem import REAL, Effects

PLAIN, BATCH = "consumequeue", "batchconsumequeue"  # the directories; also the kinds of queues
NO_UTF8 = f"would be in {sys.getfilesystemencoding()} by this locale, and RocketMQ has UTF-8; set PYTHONUTF8=1"
"""The end of an error about names of files."""

_IS_UTF8 = sys.getfilesystemencoding() == "utf-8"


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
    if not _is_step(topic):
        return None
    name = topic.decode("utf-8", "surrogateescape")
    refuse_other_encoding(name)
    return name


def can_be_stored(topic: bytes) -> bool:
    """Return whether a queue of a topic can have a directory, named as RocketMQ names it."""
    return _is_step(topic) and (_IS_UTF8 or topic.isascii())


def _is_step(topic: bytes) -> bool:
    return topic not in (b"", b".", b"..") and b"/" not in topic and b"\0" not in topic and len(topic) <= 255


def refuse_other_encoding(topic: str) -> None:
    """Refuse a topic that Python would not write in UTF-8 as a name of a directory."""
    if not _IS_UTF8 and not topic.isascii():
        raise UsageError(f"topic {short(topic)}: it names directories, and such a name {NO_UTF8}")


class QueueName(NamedTuple):
    topic: str
    queue_id: int


def queue_names(root: str, kind: str, effects: Effects = REAL, topics: Iterable[str] | None = None) -> list[QueueName]:
    """List the queues below `kind` (directories.QUEUES and the like), sorted.

    Directories that are no queues are left out.

    `topics`: list only their queues; None for all.
    """
    return list(each_queue_name(root, kind, effects, topics))


def each_queue_name(
    root: str, kind: str, effects: Effects = REAL, topics: Iterable[str] | None = None
) -> Iterator[QueueName]:
    """Yield the queues one by one; their topic's directory is open until the next one."""
    folder = os.path.join(root, kind)
    with effects.entered(folder, folder):
        for topic in effects.listdir(folder) if topics is None else sorted(filter(is_path, topics)):
            if not _IS_UTF8 and not topic.isascii():
                raise UsageError(f"{folder}: a topic there is not ASCII, and its name {NO_UTF8}")
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
    refuse_other_encoding(topic)
    try:
        return path_name(os.fsencode(topic)) is not None
    except UnicodeEncodeError:
        return False
