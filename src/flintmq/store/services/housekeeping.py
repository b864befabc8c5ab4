"""The broker's work around its store: topics, offsets, delayed messages, old files.

This module only wires: `topics`, `consumer_offsets`, `delay` and `retention` do the work, `scheduler` calls them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from flintmq.config.keys import StoreConfig
from flintmq.errors import StoreError, UsageError
from flintmq.format.text import java_encode
from flintmq.message import Message, PutResult
from flintmq.storage.filesystem import Effects
from flintmq.store.consumequeue.live_queues import ConsumeQueues
from flintmq.store.layout import config_reader
from flintmq.store.layout.config_writer import ConfigFile, save
from flintmq.store.services import delay
from flintmq.store.services.consumer_offsets import GROUPS, OFFSETS, ConsumerOffsets
from flintmq.store.services.delay import DelayService, Lookup
from flintmq.store.services.retention import FIRST_MS, Retention
from flintmq.store.services.scheduler import Upkeep
from flintmq.store.services.topics import TABLE, Topics


class Housekeeping:
    """Services of one open store that no put waits for.

    Args:
        root, config, peer, effects: of the store.
        places: (topic, queue id) of every queue that has a record.
        batch: topics whose queues are of type BatchCQ; `create_topic` adds to it.
        new_batch: called with each topic that is added, before it may be put to.
        flush: makes the log durable up to now and returns False if it cannot.
        queues, lookup, put: for DelayService.
        retention: deletes old files.

    Attributes:
        topics, offsets: the tables.
        delay: the service of delayed messages.

    Thread: any.
    """

    def __init__(
        self,
        root: str,
        config: StoreConfig,
        peer: str,
        effects: Effects,
        places: Callable[[], Iterable[tuple[bytes, int]]],
        batch: set[str],
        new_batch: Callable[[str], None],
        flush: Callable[[], bool],
        queues: ConsumeQueues,
        lookup: Lookup,
        put: Callable[[Message], PutResult],
        retention: Retention,
    ) -> None:
        def file(name: str, *tables: str) -> ConfigFile:
            return ConfigFile(root, name, tables, effects, peer)

        self.config, self.places, self.batch, self.new_batch, self.flush = config, places, batch, new_batch, flush
        topics, groups = file(config_reader.TOPICS, TABLE), file(config_reader.GROUPS, GROUPS, "forbiddenTable")
        offsets = file(config_reader.LMQ_OFFSETS if config.enable_lmq else config_reader.OFFSETS, OFFSETS)
        delays = file(config_reader.DELAYS, delay.TABLE)
        self.files = topics, groups, offsets, delays
        self.topics = Topics(topics, config.default_topic_queue_nums, len(config.delay_ms))
        self.offsets = ConsumerOffsets(offsets, groups)
        self._places_seen = -1
        self._saving = threading.Lock()
        self._upkeep = Upkeep("flintmq-upkeep", effects)
        self.delay = DelayService(queues, lookup, put, delays, config, effects)
        interval = min(config.flush_consumer_offset_interval, config.flush_delay_offset_interval)
        self._upkeep.every(max(interval, delay.STEP_MS), self.save_once)
        self.retention = retention
        self._cleaning = Upkeep("flintmq-retention", effects)  # waits between deletions, so it has its own thread
        self._cleaning.every(max(config.clean_resource_interval, 1), retention.clean_once, first_ms=FIRST_MS)
        if config.broker_role != "SLAVE":  # a master delivers, and its slaves get what it delivered
            self._upkeep.every(delay.STEP_MS, self.delay.deliver_once, delay.FIRST_MS)

    def save_once(self) -> bool:
        """Add new topics and write changed files of config/; return False: nothing remains.

        Raises:
            OSError: the disk refused; the next call tries again.

        Thread: any. Durability: on return.
        """
        with self._saving:
            self._save()
        return False

    def save_now(self) -> None:
        """Write all noted offsets to disk.

        Raises:
            StoreError: the log could not be flushed, so offsets that refer to it must not be written.
            OSError: the disk refused; the next call tries again.

        Thread: any. Durability: on return.
        """
        with self._saving:
            changed = any(file.changed for file in self.files)
            if not self._save() and changed:
                raise StoreError("offsets are not written: the log could not be flushed; restart the store")

    def _save(self) -> int:
        places = list(self.places())
        if len(places) != self._places_seen:
            self.topics.learn(places, self.batch)
            self._places_seen = len(places)
        return save(self.files, self.flush)

    def create(self, topic: str, queues: int, queue_type: str) -> None:
        """Create a topic and write it; see MessageStore.create_topic."""
        batch = queue_type == config_reader.BATCH_TYPE
        with self._saving:
            if not batch and queue_type != config_reader.SIMPLE_TYPE:
                raise UsageError(f"queue_type={queue_type!r}; give SimpleCQ or BatchCQ")
            if batch != (topic in self.batch):
                raw = java_encode(topic)
                if self.topics.queue_count(topic) is not None or any(name == raw for name, _ in self.places()):
                    raise UsageError(f"topic {topic!a} is there with queues of the other type; take another name")
            self.topics.create(topic, queues, batch=batch)
            if batch and topic not in self.batch:
                self.new_batch(topic)
                self.batch.add(topic)
        self.save_once()

    def start(self) -> None:
        """Start the threads."""
        self._upkeep.start()
        self._cleaning.start()

    def halt(self) -> None:
        """Make the threads end without waiting: the store may belong to another process."""
        self._upkeep.halt()
        self._cleaning.halt()

    def stop(self) -> None:
        """Stop the threads. Later changes are not saved: call `save_once` after the last change."""
        self._upkeep.stop()
        self._cleaning.stop()
