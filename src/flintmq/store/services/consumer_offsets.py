"""Keeps the offsets of consumer groups in config/consumerOffset.json, and the groups.

Groups are in subscriptionGroup.json. An offset is that of the next message to consume. A group is created by its first
offset, as a broker creates it by its first consumer. Page: docs/internals/format/config.md. Upstream:
ConsumerOffsetManager, LmqConsumerOffsetManager, SubscriptionGroupManager.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from flintmq.config.keys import StoreConfig
from flintmq.errors import UsageError
from flintmq.format import config_json
from flintmq.format.config_json import JsonObject
from flintmq.format.text import has_lone_surrogate, java_encode
from flintmq.storage.files.filesystem import Effects
from flintmq.store.layout import config_reader
from flintmq.store.layout.config_writer import ConfigFile, save

log = logging.getLogger("flintmq.recovery")

OFFSETS = "offsetTable"
LIGHT_OFFSETS = "lmqOffsetTable"
GROUPS = "subscriptionGroupTable"
_TOPICS_OF = "groupTopicMap"  # written by upstream and never read
_LIGHT = "%LMQ%"


class ConsumerOffsets:
    """The table of consumer offsets. Thread: any."""

    def __init__(self, file: ConfigFile, groups: ConfigFile) -> None:
        self.file, self.groups = file, groups
        self.followed = False  # another broker keeps the offsets; commits are refused

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
        check_names(group, topic)
        if not (0 <= queue_id < 1 << 31 and 0 <= offset < 1 << 63):
            raise UsageError(f"{topic}/{queue_id}: offset {offset}: queue ids are 0 to 2^31 - 1, offsets 0 to 2^63 - 1")
        self._know_group(group)
        key = f"{topic}@{group}"
        with self.file.lock:
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

    def _note_topic(self, group: str, topic: str) -> None:
        table = self.file.table(_TOPICS_OF)
        topics = table.get(group)
        if not isinstance(topics, list) or topic not in topics:
            self.file.mark_changed(_TOPICS_OF, group)
            table[group] = [*(topics if isinstance(topics, list) else ()), topic]

    def _know_group(self, group: str) -> None:
        with self.groups.lock:
            table = self.groups.table(GROUPS)
            if not isinstance(table.get(group), dict):
                table[group] = new_group(group)
                self.groups.mark_changed()


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
    for what, name in (("group", group), ("topic", topic)):
        if not name or "@" in name or has_lone_surrogate(name):
            raise UsageError(f"{name[:100]!a} cannot be a {what}'s name; it is Unicode, not empty, without an @")


def new_group(group: str) -> JsonObject:
    """Return a new group's settings: upstream's defaults, fields in its order."""
    return {
        "attributes": {},
        "brokerId": 0,
        "consumeBroadcastEnable": True,
        "consumeEnable": True,
        "consumeFromMinEnable": True,
        "consumeMessageOrderly": False,
        "consumeTimeoutMinute": 15,
        "groupName": group,
        "groupRetryPolicy": {"type": "CUSTOMIZED"},
        "groupSysFlag": 0,
        "notifyConsumerIdsChangedEnable": True,
        "retryMaxTimes": 16,
        "retryQueueNums": 1,
        "whichBrokerWhenConsumeSlowly": 1,
    }
