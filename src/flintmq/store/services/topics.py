"""Keeps the topics of a running store in config/topics.json.

A topic exists once a message was put to it, as with a broker that has autoCreateTopicEnable. The put itself does not
look here: the table of next queue offsets names every queue that ever got a record, and `learn` adds the new ones.
Page: docs/internals/format/config.md. Upstream: TopicConfigManager.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable

from flintmq.errors import UsageError
from flintmq.format import config_json
from flintmq.format.config_json import JsonObject
from flintmq.format.consume_queue import SCHEDULE_TOPIC
from flintmq.format.group_topics import OF_GROUPS
from flintmq.format.text import java_decode, java_encode
from flintmq.store.append.checks import topic_status
from flintmq.store.layout import config_reader
from flintmq.store.layout.config_reader import BATCH_TYPE
from flintmq.store.layout.config_writer import ConfigFile
from flintmq.store.layout.queue_name import refuse_other_encoding

log = logging.getLogger("flintmq.topics")

TABLE = "topicConfigTable"
READ_WRITE = 6
MOST_QUEUES = 1024  # a larger queue id does not widen its topic: RocketMQ's clients make an object of each queue
_LIGHT = "%LMQ%"  # light queues are no topics
_ONE_QUEUE = (*OF_GROUPS, "RMQ_SYS_", "rmq_sys_")


class Topics:
    """The table of topics. Thread: any."""

    def __init__(self, file: ConfigFile, queues: int, levels: int) -> None:
        self.file, self.queues, self.levels = file, queues, levels

    def queue_count(self, topic: str) -> int | None:
        with self.file.lock:
            found = self.file.table(TABLE).get(topic)
            return config_json.integer(found.get("writeQueueNums")) if isinstance(found, dict) else None

    def names(self) -> set[str]:
        with self.file.lock:
            return set(map(str, self.file.table(TABLE)))

    def batch_topics(self) -> set[str]:
        with self.file.lock:
            return config_reader.batch_topics_of(self.file.value)

    def create(self, topic: str, queues: int, *, batch: bool = False) -> None:
        """Create a topic (of type BatchCQ with `batch`), or change its number of queues."""
        refuse_other_encoding(topic)
        if topic_status(topic, java_encode(topic)) is not None or topic.startswith(_LIGHT):
            raise UsageError(f"{topic[:100]!a} cannot be a topic's name; use at most 127 bytes without a slash")
        if not 1 <= queues <= MOST_QUEUES:
            raise UsageError(f"topic {topic!a}: {queues} queues; give a number from 1 to {MOST_QUEUES}")
        with self.file.lock:
            self._set(topic, queues, batch=batch)

    def learn(self, places: Iterable[tuple[bytes, int]], batch: Container[str]) -> None:
        """Add the new topics, and new queues of topics, among these (topic, queue id)."""
        wanted: dict[bytes, int] = {}
        for raw, queue_id in places:
            wanted[raw] = max(wanted.get(raw, 0), queue_id + 1 if queue_id < MOST_QUEUES else 0)
        for raw, least in wanted.items():
            topic = java_decode(raw)
            if topic.startswith(_LIGHT):
                continue
            known = self.queue_count(topic)
            if known is None:
                least = max(least, self._first_count(topic))
            elif known >= least:
                continue
            with self.file.lock:
                self._set(topic, least, batch=topic in batch)
            log.info("%s: topic %s has %d queues now", self.file.folder, topic, least)

    def _first_count(self, topic: str) -> int:
        if topic == SCHEDULE_TOPIC:
            return self.levels
        return 1 if topic.startswith(_ONE_QUEUE) else self.queues

    def _set(self, topic: str, queues: int, *, batch: bool) -> None:
        """Set the number of queues. The lock is held."""
        table = self.file.table(TABLE)
        found = table.get(topic)
        if not isinstance(found, dict):
            found = table[topic] = new_topic(topic, batch)
        found.update(readQueueNums=queues, writeQueueNums=queues)
        self.file.mark_changed()


def new_topic(topic: str, batch: bool) -> JsonObject:
    """Return a new topic's settings, fields in upstream's order."""
    return {
        "attributes": {"queue.type": BATCH_TYPE} if batch else {},
        "order": False,
        "perm": READ_WRITE,
        "readQueueNums": 0,
        "topicFilterType": "SINGLE_TAG",
        "topicName": topic,
        "topicSysFlag": 0,
        "writeQueueNums": 0,
    }
