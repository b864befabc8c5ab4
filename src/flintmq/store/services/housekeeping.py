"""The broker's work around its store: topics, offsets, messages for later, old files.

This module only wires: `topics`, `consumer_offsets`, `delay`, `timers` and `retention` do the work, `scheduler` calls
them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from flintmq.config.keys import StoreConfig
from flintmq.errors import StoreError, UsageError
from flintmq.format.config_json import JsonObject
from flintmq.format.group_topics import is_system_topic, retry_topic
from flintmq.format.text import java_encode
from flintmq.storage.files.filesystem import Effects
from flintmq.storage.threads.mutex import Lock
from flintmq.store.layout import config_reader
from flintmq.store.layout.config_writer import ConfigFile, save
from flintmq.store.services.consumer_offsets import OFFSETS, ConsumerOffsets, check_group
from flintmq.store.services.delay import FIRST_MS as FIRST_DELIVERY_MS
from flintmq.store.services.delay import STEP_MS, DelayService
from flintmq.store.services.delay import TABLE as DELAYS
from flintmq.store.services.groups import FORBIDDEN, Groups, GroupSettings
from flintmq.store.services.groups import TABLE as GROUPS
from flintmq.store.services.retention import FIRST_MS, Retention
from flintmq.store.services.scheduler import Upkeep
from flintmq.store.services.timers import LEAST_STEP_MS, TimerService
from flintmq.store.services.topics import TABLE, Topics, TopicSettings, check_topic
from flintmq.store.services.zone_mapping import INTERVAL_MS, ZoneMapping

log = logging.getLogger("flintmq.store")


@dataclass(frozen=True, slots=True)
class ConfigTables:
    topics: ConfigFile
    groups: ConfigFile
    offsets: ConfigFile
    delays: ConfigFile

    @classmethod
    def of(cls, root: str, config: StoreConfig, effects: Effects, peer: str) -> ConfigTables:
        """Read the files of the store at `root`; log which of them cannot be used."""

        def file(name: str, *tables: str) -> ConfigFile:
            made = ConfigFile(root, name, tables, effects, peer)
            for problem in made.problems:
                kept = problem.file.endswith(name) and not made.usable and effects.size(problem.file)
                log.warning("%s%s", problem.text, f"; the first change keeps it as {name}.unusable" if kept else "")
            return made

        return cls(
            topics=file(config_reader.TOPICS, TABLE),
            groups=file(config_reader.GROUPS, GROUPS, FORBIDDEN),
            offsets=file(config_reader.LMQ_OFFSETS if config.enable_lmq else config_reader.OFFSETS, OFFSETS),
            delays=file(config_reader.DELAYS, DELAYS),
        )


@dataclass(frozen=True, slots=True)
class KnownTopics:
    """The topics of a store, as its log and its dispatcher know them."""

    queues: Callable[[], Collection[tuple[bytes, int]]]  # returns (topic, queue id) of every queue that has a record
    batch: set[str]  # topics whose queues are of type BatchCQ; `create` adds to it
    new_batch: Callable[[str], None]  # called with each topic that is added, before it may be put to


class Housekeeping:
    """Services of one open store that no put waits for.

    `flush`: makes the log durable up to now and returns False if it cannot. Thread: any.
    """

    def __init__(
        self,
        config: StoreConfig,
        effects: Effects,
        *,
        tables: ConfigTables,
        known: KnownTopics,
        flush: Callable[[], bool],
        delay: DelayService,
        retention: Retention,
        timers: TimerService | None = None,
        mapping: ZoneMapping | None = None,
    ) -> None:
        self.config, self.known, self.flush = config, known, flush
        self.delay, self.retention, self.timers = delay, retention, timers
        self.files = tables.topics, tables.groups, tables.offsets, tables.delays
        self.topics = Topics(tables.topics, config.default_topic_queue_nums, len(config.delay_ms))
        self.groups = Groups(tables.groups)
        self.offsets = ConsumerOffsets(tables.offsets, self.groups.know)
        self.followed = False  # another broker's tables are kept here; nothing of this store is added to them
        self._queues_seen = -1
        self._saving, self._learning = Lock(), Lock()  # the latter for moments only
        self._upkeep = Upkeep("flintmq-upkeep", effects, retention.root)
        interval = min(config.flush_consumer_offset_interval, config.flush_delay_offset_interval)
        self._upkeep.every(max(interval, STEP_MS), self.save_once)
        self._cleaning = Upkeep(
            "flintmq-retention", effects, retention.root
        )  # waits between deletions, so it has its own thread
        self._cleaning.every(max(config.clean_resource_interval, 1), retention.clean_once, first_ms=FIRST_MS)
        self._threads = [self._upkeep, self._cleaning]
        if timers is not None:  # whose first step may read much
            timing = Upkeep("flintmq-timers", effects, retention.root)
            step_ms = min(STEP_MS, max(config.timer_precision_ms, LEAST_STEP_MS))
            timing.every(step_ms, timers.step, FIRST_DELIVERY_MS)
            timing.every(max(config.timer_flush_interval_ms, step_ms), timers.save_once)
            self._threads.append(timing)
        if mapping is not None:
            mapping.stopping = lambda: self._cleaning.stopping
            self._cleaning.every(INTERVAL_MS, mapping.map_once)
        if config.broker_role != "SLAVE":  # a master delivers, and its slaves get what it delivered
            self._upkeep.every(STEP_MS, delay.deliver_once, FIRST_DELIVERY_MS)

    def save_once(self) -> bool:
        """Add new topics and write changed files of config/; return False: nothing remains.

        Thread: any. Durability: on return. Raises OSError: the disk refused; the next call tries again.
        """
        with self._saving:
            self._save()
        if self.timers is not None:
            self.timers.save_once()
        return False

    def save_now(self, what: str = "offsets are") -> None:
        """Write all changes to disk.

        Thread: any. Durability: on return. Raises StoreError: the log could not be flushed, so tables that refer to it
        must not be written.
        """
        with self._saving:
            changed = self._has_changes()
            if not self._save() and changed:
                raise StoreError(f"{what} not written: the log could not be flushed; restart the store")

    def _has_changes(self) -> bool:
        return any(file.changed for file in self.files)

    def _save(self) -> int:
        # The table of queue offsets tells which topics are new: a put takes microseconds, and does not look for them.
        self._learn()
        return save(self.files, self.flush)

    def _learn(self) -> None:
        """Add the topics of new queues to the table; syncs nothing. Thread: any."""
        with self._learning:  # whoever deletes a topic has it too: nobody adds one of before
            if not self.followed and len(queues := self.known.queues()) != self._queues_seen:
                self.topics.learn(queues, self.known.batch)
                self._queues_seen = len(queues)

    def topic(self, name: str) -> TopicSettings | None:
        """Return a topic's settings, also if its first message was put just now."""
        found = self.topics.settings(name)
        if found is None:
            self._learn()
            found = self.topics.settings(name)
        return found

    def all_topics(self) -> dict[str, TopicSettings]:
        self._learn()
        return self.topics.all_settings()

    def follow(self, tables: Mapping[str, JsonObject]) -> list[str]:
        """Replace tables by those of another broker, and keep that broker's from now on.

        Topics of the log are not added any more, and `create` and commits of offsets are refused. Call it with no table
        to begin before the first ones are here.

        Thread: any. Durability: on return. Raises OSError: the disk refused; each file is the old one or the new one,
        and the next call goes on.
        """
        with self._saving:
            # First: from here on nothing of ours is added to tables that are replaced next.
            self.followed = self.offsets.followed = True
            written = self._replace(tables)
            self._learn_batch_topics()
        return written

    def _replace(self, tables: Mapping[str, JsonObject]) -> list[str]:
        """Write the tables that differ from their files; return their names. The caller saves."""
        written = []
        for name, value in tables.items():
            file = next((file for file in self.files if file.name == name), None) or self.files[0].sibling(name)
            if file.replace(value):
                written.append(name)
        return written

    def _learn_batch_topics(self) -> None:
        for topic in self.topics.batch_topics():  # all: two threads learn, and one may have missed the other's
            self.known.new_batch(topic)
            self.known.batch.add(topic)

    def create(self, topic: str, queues: int | TopicSettings, queue_type: str) -> None:
        """Create a topic and write it; see MessageStore.create_topic."""
        with self._saving:
            self._refuse_followed(f"topic {topic!a}")
            if queue_type not in (config_reader.BATCH_TYPE, config_reader.SIMPLE_TYPE):
                raise UsageError(f"queue_type={queue_type!r}; give SimpleCQ or BatchCQ")
            if isinstance(queues, TopicSettings):
                queue_type = queues.type_given(topic, queue_type)
            batch = queue_type == config_reader.BATCH_TYPE
            if batch != (topic in self.known.batch) and self._exists(topic):
                raise UsageError(f"topic {topic!a} exists with queues of the other type; give another name")
            self._learn()  # first: what the log knows would widen the topic after it
            self.topics.create(topic, queues, batch=batch)
            if batch and topic not in self.known.batch:
                # The dispatcher before the topic can be put to: its first record must become a unit of the right kind.
                self.known.new_batch(topic)
                self.known.batch.add(topic)
        self.save_now(f"topic {topic!a} is")

    def checked_retry_topics(self, topic: str) -> list[str]:
        """Return the retry topics that pop consumers of a topic have.

        Raises UsageError: the topic may not be deleted.
        """
        self._refuse_followed(f"topic {topic[:100]!a}")
        check_topic(topic)
        if is_system_topic(topic):
            raise UsageError(f"topic {topic!a} is one of RocketMQ's own, and is not deleted")
        groups = self.offsets.groups_of(topic)
        names = self.all_topics()
        both = (retry_topic(f"{group}{sign}{topic}") for group in groups for sign in "_+")
        return [name for name in both if name in names]

    def forget_topic(self, topic: str) -> None:
        """Remove a topic's settings, and its offsets of all groups.

        Durability: on return. Raises OSError, StoreError: not written; call it again.
        """
        with self._saving:
            with self._learning:
                self.topics.remove(topic)
                self._queues_seen = -1
            self.offsets.remove(topic=topic)
        self.save_now(f"the deletion of topic {topic!a} is")

    def create_group(self, group: str, settings: GroupSettings) -> None:
        """Create a group and write it; see MessageStore.create_group."""
        self._refuse_followed(f"group {group[:100]!a}")
        check_group(group)
        self.groups.create(group, settings)
        self.save_now(f"group {group!a} is")

    def delete_group(self, group: str, clean_offsets: bool) -> None:
        """Delete a group and write that; see MessageStore.delete_group."""
        self._refuse_followed(f"group {group[:100]!a}")
        check_group(group)
        self.groups.remove(group)
        if clean_offsets:
            self.offsets.remove(group=group)
        self.save_now(f"group {group!a} is")

    def _refuse_followed(self, what: str) -> None:
        if self.followed:
            raise UsageError(f"{what}: this store follows a broker; change it there")

    def _exists(self, topic: str) -> bool:
        raw = java_encode(topic)
        return self.topics.queue_count(topic) is not None or any(name == raw for name, _ in self.known.queues())

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def finish(self) -> None:
        """Deliver the rest of what is delivered together, and then nothing more."""
        if self.timers is not None:
            self.timers.finish()

    def halt(self) -> None:
        """Make the threads end without waiting: the store may belong to another process."""
        for thread in self._threads:
            thread.halt()

    def stop(self) -> None:
        """Stop the threads. Later changes are not saved: call `save_once` after the last change."""
        for thread in self._threads:
            thread.stop()
