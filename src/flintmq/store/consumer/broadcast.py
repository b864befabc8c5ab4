"""Keeps the offsets of one member of a broadcast in a file of its own.

Each member gets every message, and the offsets of its group in the store could not tell members apart. Stock clients
keep theirs, too, below `~/.rocketmq_offsets/CLIENT/GROUP/offsets.json`, where CLIENT is made of the address of the
machine: a member that moves to another machine or container begins anew, and two processes of one machine overwrite
the same file. So here the user names the file, which says who the member is. One consumer has it at a time.

Stock clients' files are not read: they name queues by brokers, and neither the group nor the messages that were read.
Ours says group and topic, and for each queue the offset and the record before it. What does not fit is refused: a file
that was cut off, another group's, another store's, or one of a topic that was made again.

Upstream: LocalFileOffsetStore, OffsetSerializeWrapper.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final, NamedTuple

from flintmq.errors import StoreError, UsageError
from flintmq.storage.files.file_lock import FileLock
from flintmq.storage.files.versioned_json import VersionedJson, only, unreadable
from flintmq.storage.threads.mutex import Lock
from flintmq.store.commitlog.anchor import LogAnchor, anchor_of
from flintmq.store.consumer.source import TopicSource

log = logging.getLogger("flintmq.consumer")

FORMAT: Final = 1
ANEW: Final = "or name a new file, with which the member begins as `start` says"


class MemberOffset(NamedTuple):
    """The offset that a member wants next, and the record before it; None: none could be read."""

    offset: int
    before: LogAnchor | None


class BroadcastSource:
    """One topic, for a member of a group that keeps its offsets in a file. See TopicSource.

    Raises (when it is made):
        UsageError: the file is another group's or topic's, another consumer has it, or its directory is not there.
        StoreAccessError: the file cannot be read or understood, or its directory not be written.
        StoreError: it is of another store, or of a log or topic that was replaced.
    """

    def __init__(self, group: str, own: TopicSource, path: str) -> None:
        self.root, self.topic, self.wait_s = own.root, own.topic, own.wait_s
        self.check, self.queues, self.topics, self.bounds = own.check, own.queues, own.topics, own.bounds
        self.read, self.at_time, self.as_read, self.arrivals = own.read, own.at_time, own.as_read, own.arrivals
        self.news, self.wait, self.on_arrival = own.news, own.wait, own.on_arrival
        self.give_back, self.flush = own.give_back, own.flush
        self.group, self.path, self._saving = group, path, Lock()
        self._file = VersionedJson(
            path, ("format", FORMAT), unreadable(path, f"no offsets of a consumer ({{}}); bring the file back, {ANEW}")
        )
        self._lock = FileLock(path, "consumer")
        try:
            self._kept = self._saved = self._loaded()
            self._refuse_other_store()
        except BaseException:
            self._lock.release()
            raise

    def _loaded(self) -> dict[int, MemberOffset]:
        found = self._file.load(_built)
        if found is None:
            return {}
        group, topic, offsets = found
        if (group, topic) != (self.group, self.topic):
            raise UsageError(f"{self.path}: offsets of group {group!a:.100} on topic {topic!a:.100}; name another file")
        return offsets

    def _refuse_other_store(self) -> None:
        """Raise StoreError if other records are before the offsets than those that were read.

        Where retention deleted them nothing can be compared, which is said.
        """
        unsure = []
        for queue, (offset, before) in sorted(self._kept.items()):
            if offset and (before is None or offset <= self.bounds(queue)[0]):
                unsure.append(queue)
            elif before != self._before(queue, offset):
                raise StoreError(
                    f"{self.path}: {self.root} has another message of {self.topic[:100]!a}/{queue} before offset "
                    f"{offset} than was read, or none: it is another store, its log was put back, or the topic was "
                    f"made again; bring that store back, {ANEW}"
                )
        if unsure:
            log.warning("%s: the messages before its offsets are gone in queues %s of %s, so whether it is of this "
                        "store cannot be checked there", self.path, unsure[:20], self.root)  # fmt: skip

    def _before(self, queue: int, offset: int) -> LogAnchor | None:
        """Return the record before an offset; None if there is none that can be read."""
        low, high = self.bounds(queue)
        if not low < offset <= high:
            return None
        found = self.read(queue, offset - 1, 1, None).messages
        return anchor_of(found[0]) if found else None

    def committed(self, group: str, queue_id: int) -> int | None:
        found = self._kept.get(queue_id)
        return None if found is None else found.offset

    def note(self, group: str, offsets: Mapping[int, int]) -> None:
        if offsets:
            noted = {queue: MemberOffset(offset, self._before(queue, offset)) for queue, offset in offsets.items()}
            self._kept = self._kept | noted

    def save(self) -> None:
        """Write the noted offsets.

        Durability: on return; the log first, or a power cut could take a message that the file names.

        Raises:
            StoreError: the log could not be flushed; nothing was written.
            OSError: the disk refused; the next call tries again.
        """
        with self._saving:
            kept = self._kept
            if kept is not self._saved:
                self.flush()
                self._file.save(self._state(kept))
                self._saved = kept

    def _state(self, kept: Mapping[int, MemberOffset]) -> dict[str, Any]:
        rows = {
            str(queue): {"offset": one.offset, "before": one.before and asdict(one.before)}
            for queue, one in kept.items()
        }
        return {"group": self.group, "topic": self.topic, "offsets": rows}

    def close(self) -> None:
        """Write what is noted, and let another consumer have the file. Raises what `save` raises."""
        if self._lock.held:
            try:
                self.save()
            finally:
                self._lock.release()


def _built(state: dict[str, Any]) -> tuple[str, str, dict[int, MemberOffset]]:
    only(state, ("group", "topic", "offsets"))
    names = state["group"], state["topic"]
    if not all(isinstance(name, str) for name in names):
        raise ValueError("group or topic is no text")
    return *names, {int(queue): _offset_of(row) for queue, row in state["offsets"].items()}


def _offset_of(row: dict[str, Any]) -> MemberOffset:
    only(row, MemberOffset._fields)
    offset, before = row["offset"], row["before"]
    anchor = None if before is None else LogAnchor(**only(before, LogAnchor.__dataclass_fields__))
    numbers = [offset, *(() if anchor is None else asdict(anchor).values())]
    if any(type(number) is not int or number < 0 for number in numbers):
        raise ValueError("an offset is no number")
    return MemberOffset(offset, anchor)
