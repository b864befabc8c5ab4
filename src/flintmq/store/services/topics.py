"""Keeps the topics of a running store in config/topics.json.

A topic exists once a message was put to it, as with a broker that has autoCreateTopicEnable. The put itself does not
look here: the table of next queue offsets names every queue that ever got a record, and `learn` adds the new ones.
Page: docs/internals/format/config.md. Upstream: TopicConfigManager.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace

from flintmq.errors import UsageError
from flintmq.format import config_json
from flintmq.format.config_json import JsonObject
from flintmq.format.consume_queue import SCHEDULE_TOPIC
from flintmq.format.group_topics import GIVEN_UP_TOPIC, OF_GROUPS
from flintmq.format.text import java_decode, java_encode
from flintmq.store import arguments
from flintmq.store.append.checks import topic_status
from flintmq.store.layout import config_reader
from flintmq.store.layout.config_reader import BATCH_TYPE
from flintmq.store.layout.config_writer import ConfigFile
from flintmq.store.layout.kept_members import KeptMembers
from flintmq.store.layout.queue_name import refuse_other_encoding
from flintmq.store.services.groups import check_attributes

log = logging.getLogger("flintmq.topics")

TABLE = "topicConfigTable"
READ_WRITE = 6
MOST_PERM = 7
MOST_QUEUES = 1024  # a larger queue id does not widen its topic: RocketMQ's clients make an object of each queue
_LIGHT = "%LMQ%"  # light queues are no topics
_ONE_QUEUE = (*OF_GROUPS, GIVEN_UP_TOPIC, "RMQ_SYS_", "rmq_sys_")
_TYPE = "queue.type"


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """Settings of a topic, as RocketMQ's TopicConfig.

    Args:
        read_queues: number of queues that consumers see.
        write_queues: number of queues that producers see. The store itself holds no put to it.
        perm: 4 readable, 2 writable, 1 inherited by topics that a put makes, added up.
        order: whether name servers are to give consumers a fixed order of its queues.
        attributes: RocketMQ's, such as message.type (NORMAL, FIFO, DELAY, TRANSACTION, MIXED), queue.type (SimpleCQ,
            BatchCQ) and cleanup.policy. The store acts on queue.type.
    """

    read_queues: int = 8
    write_queues: int = 8
    perm: int = READ_WRITE
    order: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a switch of another type.

        Raises:
            TypeError: it is neither True nor False.
        """
        arguments.flags(order=self.order)

    def type_given(self, topic: str, queue_type: str) -> str:
        """Return the type of its queues, by the attribute or else as given.

        Raises UsageError: the two contradict.
        """
        named = self.attributes.get(_TYPE, queue_type)
        if named != queue_type != config_reader.SIMPLE_TYPE:
            raise UsageError(f"topic {topic!a}: the attribute {_TYPE} is {named!a}, and queue_type={queue_type!r}")
        return named

    @classmethod
    def of(cls, name: str, value: JsonObject) -> TopicSettings:
        """Read a topic's member of topics.json; what it lacks has RocketMQ's defaults."""
        read = config_reader.topic_of(name, value)
        order = value.get("order") is True
        return cls(read.read_queues, read.write_queues, read.perm, order, dict(read.attributes))

    def fields(self) -> JsonObject:
        """Return the members that a topic has of them in topics.json."""
        return {
            "attributes": dict(sorted(self.attributes.items())),
            "order": self.order,
            "perm": self.perm,
            "readQueueNums": self.read_queues,
            "writeQueueNums": self.write_queues,
        }

    def check(self, topic: str) -> None:
        """Raise UsageError for a number that RocketMQ does not write, TypeError for a type."""
        queues = arguments.numbers(read_queues=self.read_queues, write_queues=self.write_queues)
        for one in queues:
            if not 1 <= one <= MOST_QUEUES:
                raise UsageError(f"topic {topic!a}: {one} queues; give a number from 1 to {MOST_QUEUES}")
        if not 0 <= arguments.number("perm", self.perm) <= MOST_PERM:
            raise UsageError(f"topic {topic!a}: perm {self.perm}; give a sum of 4 (read), 2 (write) and 1 (inherit)")
        check_attributes(f"topic {topic!a}", self.attributes)
        if self.attributes.get(_TYPE, BATCH_TYPE) not in (BATCH_TYPE, config_reader.SIMPLE_TYPE):
            raise UsageError(f"queue_type={self.attributes[_TYPE]!r}; give SimpleCQ or BatchCQ")


class Topics:
    """The table of topics. Thread: any."""

    def __init__(self, file: ConfigFile, queues: int, levels: int) -> None:
        self.file, self.queues, self.levels = file, queues, levels
        self._members = KeptMembers(file, TABLE, TopicSettings.of)

    def queue_count(self, topic: str) -> int | None:
        with self.file.lock:
            found = self.file.table(TABLE).get(topic)
            return config_json.integer(found.get("writeQueueNums")) if isinstance(found, dict) else None

    def names(self) -> set[str]:
        with self.file.lock:
            return set(map(str, self.file.table(TABLE)))

    def settings(self, topic: str) -> TopicSettings | None:
        """Return the settings of a topic, which a broker asks for with each message."""
        return self._members.get(topic)

    def all_settings(self) -> dict[str, TopicSettings]:
        with self.file.lock:
            return self._all()

    def _all(self) -> dict[str, TopicSettings]:
        table = self.file.table(TABLE)
        return {str(name): TopicSettings.of(str(name), one) for name, one in table.items() if isinstance(one, dict)}

    def batch_topics(self) -> set[str]:
        with self.file.lock:
            return config_reader.batch_topics_of(self.file.value)

    def create(self, topic: str, queues: int | TopicSettings, *, batch: bool = False) -> None:
        """Create a topic, of type BatchCQ with `batch`, or change its queues or all settings."""
        check_topic(topic)
        settings = queues if isinstance(queues, TopicSettings) else TopicSettings(queues, queues)
        settings.check(topic)
        with self.file.lock:
            if settings is not queues:
                self._set(topic, settings.write_queues, batch=batch)
                return
            if batch:
                settings = replace(settings, attributes=dict(settings.attributes) | {_TYPE: BATCH_TYPE})
            self._of(topic, batch=batch).update(settings.fields())
            self.file.mark_changed()

    def remove(self, topic: str) -> None:
        """Remove a topic's settings, if there are any."""
        with self.file.lock:
            if self.file.table(TABLE).pop(topic, None) is not None:
                self.file.mark_changed()

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
        self._of(topic, batch=batch).update(readQueueNums=queues, writeQueueNums=queues)
        self.file.mark_changed()

    def _of(self, topic: str, *, batch: bool) -> JsonObject:
        """Return a topic's member of the table, made if it is missing. The lock is held."""
        table = self.file.table(TABLE)
        found = table.get(topic)
        if not isinstance(found, dict):
            found = table[topic] = new_topic(topic, batch)
        return found


def check_topic(topic: str) -> None:
    """Raise UsageError for what cannot be a topic's name."""
    refuse_other_encoding(topic)
    if topic_status(topic, java_encode(topic)) is not None or topic.startswith(_LIGHT):
        raise UsageError(f"{topic[:100]!a} cannot be a topic's name; use at most 127 bytes without a slash")


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
