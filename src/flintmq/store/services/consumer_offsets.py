"""Keeps the offsets of consumer groups in config/consumerOffset.json.

An offset is that of the next message to consume. A group is created by its first offset (`groups.py`), as a broker
creates it by its first consumer. Page: docs/internals/format/config.md. Upstream: ConsumerOffsetManager,
LmqConsumerOffsetManager.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from flintmq.config.keys import StoreConfig
from flintmq.errors import UsageError
from flintmq.format import config_json
from flintmq.format.config_json import JsonObject
from flintmq.format.text import has_lone_surrogate, java_encode
from flintmq.storage.files.filesystem import Effects
from flintmq.store.layout import config_reader
from flintmq.store.layout.config_reader import numbers_of
from flintmq.store.layout.config_writer import ConfigFile, save
from flintmq.store.layout.kept_members import KEPT_MAX

log = logging.getLogger("flintmq.recovery")

OFFSETS = "offsetTable"
LIGHT_OFFSETS = "lmqOffsetTable"
_TOPICS_OF = "groupTopicMap"  # written by upstream and never read
_LIGHT = "%LMQ%"


class ConsumerOffsets:
    """The table of consumer offsets. Thread: any."""

    def __init__(self, file: ConfigFile, know_group: Callable[[str], None]) -> None:
        self.file, self._know_group = file, know_group  # the latter is called with the group of each commit
        self.followed = False  # another broker keeps the offsets; commits are refused
        # Where the offset of a group's queue is kept, with its key: as of the file's last change of another kind.
        self._kept: tuple[int, dict[tuple[str, str, int], tuple[JsonObject, str]]] = -1, {}

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        key = f"{topic}@{group}"
        with self.file.lock:
            if group.startswith(_LIGHT):
                return config_json.integer(self.file.table(LIGHT_OFFSETS).get(key))
            queues = self.file.table(OFFSETS).get(key)
            if not isinstance(queues, dict):
                return None
            return config_json.integer(queues.get(queue_id, queues.get(str(queue_id))))

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        if self.followed:
            raise UsageError(f"group {group[:100]!a}: this store follows a broker; commit offsets there")
        place = group, topic, queue_id
        at, kept = self._kept
        known = kept.get(place)
        if known is None:
            check_names(group, topic)
        if not (0 <= queue_id < 1 << 31 and 0 <= offset < 1 << 63):
            raise UsageError(f"{topic}/{queue_id}: offset {offset}: queue ids are 0 to 2^31 - 1, offsets 0 to 2^63 - 1")
        self._know_group(group)
        with self.file.lock:
            if known is not None and at == self.file.changes:  # so it is with each pull of a broker's consumers
                self.file.mark_changed(OFFSETS, known[1])
                known[0][queue_id] = offset
                return
            key = f"{topic}@{group}"
            if group.startswith(_LIGHT):
                self.file.mark_changed(LIGHT_OFFSETS, key)
                self.file.table(LIGHT_OFFSETS)[key] = offset
            else:
                self.file.mark_changed(OFFSETS, key)
                table = self.file.table(OFFSETS)
                queues = table.get(key)
                if not isinstance(queues, dict):
                    queues = table[key] = {}
                queues.pop(str(queue_id), None)
                queues[queue_id] = offset
                self._note_topic(group, topic)
                if at != self.file.changes or len(kept) >= KEPT_MAX:
                    kept = {}
                    self._kept = self.file.changes, kept
                kept[place] = queues, key

    def _note_topic(self, group: str, topic: str) -> None:
        table = self.file.table(_TOPICS_OF)
        topics = table.get(group)
        if not isinstance(topics, list) or topic not in topics:
            self.file.mark_changed(_TOPICS_OF, group)
            table[group] = [*(topics if isinstance(topics, list) else ()), topic]

    def of_group(self, group: str) -> dict[tuple[str, int], int]:
        """Return (topic, queue id) -> offset, of one group."""
        with self.file.lock:
            return self._of_group(group)

    def _of_group(self, group: str) -> dict[tuple[str, int], int]:
        return {
            (key.partition("@")[0], queue_id): offset
            for name, key, queues in self._entries(lambda topic, owner: owner == group)
            for queue_id, offset in numbers_of({0: queues} if name == LIGHT_OFFSETS else queues).items()
        }

    def of_all(self) -> dict[tuple[str, str], dict[int, int]]:
        """Return (topic, group) -> queue id -> offset, of all groups; commits wait for copies alone."""
        with self.file.lock:
            found = self._copies()
        return {(key.partition("@")[0], key.partition("@")[2]): numbers_of(queues) for key, queues in found}

    def _copies(self) -> list[tuple[str, dict[Any, Any]]]:
        return [
            (key, {0: queues} if name == LIGHT_OFFSETS else queues.copy())
            for name, key, queues in self._entries(lambda topic, owner: True)
            if name == LIGHT_OFFSETS or isinstance(queues, dict)
        ]

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups with offsets of a topic."""
        with self.file.lock:
            found = list(self._entries(lambda of, owner: of == topic))
        return sorted({key.partition("@")[2] for _, key, _ in found})

    def remove(self, topic: str | None = None, group: str | None = None) -> None:
        """Remove the offsets of a topic in all groups, or of a group in all topics."""
        with self.file.lock:
            self._remove(topic, group)

    def _remove(self, topic: str | None, group: str | None) -> None:
        found = list(self._entries(lambda of, owner: topic in (None, of) and group in (None, owner)))
        if not found:
            return
        for name, key, _ in found:
            self.file.table(name).pop(key)
            topics = self.file.table(_TOPICS_OF).get(key.partition("@")[2])
            if isinstance(topics, list) and key.partition("@")[0] in topics:
                topics.remove(key.partition("@")[0])
        if group is not None:
            self.file.table(_TOPICS_OF).pop(group, None)
        self.file.mark_changed()

    def _entries(self, wanted: Callable[[str, str], bool]) -> Iterator[tuple[str, str, Any]]:
        """Yield (table, `topic@group`, its value) of those that are wanted. The lock is held."""
        for name in (OFFSETS, LIGHT_OFFSETS):
            table = self.file.table(name) if name in self.file.value else {}
            for key, value in table.items():
                topic, at, group = str(key).partition("@")
                if at and "@" not in group and wanted(topic, group):
                    yield name, str(key), value


def bring_back(
    root: str, ends: Mapping[tuple[bytes, int], int], config: StoreConfig, effects: Effects, peer: str
) -> None:
    """Lower offsets beyond the end of their queue: else new messages would count as consumed.

    `ends`: (topic, queue id) -> queue offset after the last message.

    Durability: on return. Raises OSError: the disk refused; the next start repeats it.
    """
    name = config_reader.LMQ_OFFSETS if config.enable_lmq else config_reader.OFFSETS
    file = ConfigFile(root, name, (OFFSETS,), effects, peer)
    lowered: list[str] = []

    def within(topic: str, queue_id: int | None, table: JsonObject, field: str | int) -> None:
        end, offset = ends.get((java_encode(topic), queue_id or 0), 0), config_json.integer(table[field])
        if offset is not None and offset > end:
            table[field] = end
            lowered.append(f"{topic}/{queue_id}: {offset} -> {end}")

    with file.lock:
        for key, queues in file.table(OFFSETS).items():
            for queue in list(queues) if isinstance(queues, dict) else ():
                within(str(key).partition("@")[0], config_json.integer(queue), queues, queue)
        light = file.table(LIGHT_OFFSETS) if LIGHT_OFFSETS in file.value else {}
        for key in list(light):
            within(str(key).partition("@")[0], 0, light, key)
        if lowered:
            file.mark_changed()
    if lowered:
        log.warning(
            "%s: committed offsets after the end of their queue are set back to that end: %s",
            file.folder, "; ".join(lowered[:5]),
        )  # fmt: skip
        save([file], lambda: True)


def check_names(group: str, topic: str) -> None:
    check_group(group)
    _check_name("topic", topic)


def check_group(group: str) -> None:
    """Raise UsageError for what cannot be a group's name."""
    _check_name("group", group)


def _check_name(what: str, name: str) -> None:
    if not name or "@" in name or has_lone_surrogate(name):
        raise UsageError(f"{name[:100]!a} cannot be a {what}'s name; it is Unicode, not empty, without an @")
