"""The message store, the class that users call (upstream DefaultMessageStore).

    from flintmq import Message, MessageStore
    with MessageStore("store") as store:
        result = store.put(Message("orders", b"hello", tags="paid", keys="order-1"))

Each method checks its arguments and that the store is open, then calls a part; `assembly` makes the parts. The journey
of a message is in ARCHITECTURE.md.
"""

from __future__ import annotations

import inspect
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn, Self

from flintmq.config.key_effects import refuse_to_write
from flintmq.config.keys import StoreConfig
from flintmq.config.text import check_seconds
from flintmq.errors import MissingExtraError, NotAStoreError, StoreError, UsageError
from flintmq.format.group_topics import retry_topic
from flintmq.format.index import checked_peer
from flintmq.kernels.write.fast_append import Putter
from flintmq.message import (
    ColumnsResult,
    GetBatchResult,
    GetResult,
    Message,
    Messages,
    PutResult,
    RawResult,
    StoredMessage,
)
from flintmq.storage.files.filesystem import REAL, Effects
from flintmq.storage.files.store_url import local_only
from flintmq.storage.threads.mutex import Lock
from flintmq.storage.threads.stop_event import StopEvent
from flintmq.store import arguments
from flintmq.store.append.group_commit import unflushed
from flintmq.store.append.raw_log import RawLog
from flintmq.store.append.stats import LogPositions, StoreStats
from flintmq.store.assembly import Opening, StoreParts
from flintmq.store.consumer.consumer import Consumer, new_consumer
from flintmq.store.consumer.group import ConsumerGroups
from flintmq.store.consumer.source import StoreSource
from flintmq.store.delivered_later import DeliveredLater
from flintmq.store.layout.directories import outside_of_stores
from flintmq.store.layout.store_config import given_config
from flintmq.store.listening import ListenOptions, address_of
from flintmq.store.read.answer import Wanted
from flintmq.store.read.by_place import by_offset_msg_id, not_there
from flintmq.store.reentry import in_handler, lockless, reentered
from flintmq.store.topics_and_groups import TopicsAndGroups
from flintmq.store.view import StoreView, open_store

if TYPE_CHECKING:
    from typing import Unpack

    from flintmq.config import typed
    from flintmq.format.config_json import JsonObject
    from flintmq.store.services.copied_queues import CopiedQueues


LABORATORY = {"effects", "services", "cut_at"}
"""Arguments for simulations and for `flintmq follow`, left out of the signature that users are shown."""


class MessageStore(Putter, TopicsAndGroups, DeliveredLater):
    """A store that is open for writing. Use it in a `with` block, or `close` it.

    Args:
        path: the store's root; created if it is missing.
        config: RocketMQ's keys (`{"flushDiskType": "SYNC_FLUSH"}`) or a StoreConfig.
        dev: use small files, for experiments.
        peer: version of RocketMQ to follow on disk, "5.3.3", "5.4.0" or "5.5.0".
        dispatch: "thread": a thread of this store writes queues and index. "external": another process makes them from
            the log (`flintmq spark dispatch`); `get`, `wait_dispatched` and delivery after a delay are not available.
        accept_lost_log: accept a log whose last files are missing, or all, although mark, checkpoint or queues prove
            that there was more; queues, index and consumer offsets are truncated to its end. Without it such a store is
            refused: mostly a disk is not mounted, or a path is wrong.
        effects: the disk and the clock.
        services: False starts no thread: flush, dispatch and the rest run when their steps are called, or when a put or
            `close` needs them. For simulations, in which all steps have one order.
        unique_keys: give each message without one a unique key (property UNIQ_KEY), as RocketMQ's client does: its
            `PutResult.msg_id`, by which `query` finds it. False stores each message unchanged, for copies.
        sync_in_caller: under SYNC_FLUSH a put that waits syncs the log in its own thread if no other thread does, for
            itself and all who wait: faster where puts come one at a time. A sync that hangs then holds this one put
            beyond syncFlushTimeout; those who wait with it still end by that. False: the flusher's thread syncs.
        ha_listen: host and port (10912 in RocketMQ; 0: any free one) at which followers may have the log: RocketMQ's
            slaves, and other FlintMQ. The port has no authentication: whoever reaches it reads everything, and may
            answer puts that wait for replicas. None: the store does not listen.
        ha_allow: networks such as "10.1.2.0/24" from which followers may come; empty: all.
        ha_new_slave: "last": a follower without a log gets the last file, as RocketMQ does; "first": the whole log.
        ha_durable_only: send only what is on disk, so that no follower has more than this store after a power cut.
        ha_count: "host": several followers of one host are one replica for inSyncReplicas; "connection": each is one.
        ha_connections: largest number of followers.
        cut_at: log offset of a record: the log ends there. Records from there on are copied to `quarantine/`, and
            queues, index and consumer offsets are truncated. For `flintmq follow --resync`.
        keys: the same keys in snake case (`flush_disk_type="SYNC_FLUSH"`).

    Raises:
        TypeError: a switch that is neither True nor False; nothing was opened.
        StoreLockedError: another process has it open, or dispatches it while `dispatch` is "thread".
        LostLogError: log files are missing that were flushed once; nothing was changed.
        CorruptStoreError: damage that is no tail; no record was changed.
        ConfigError: an unknown key or an impossible value, or one that would break a promise
            (docs/operations/configuration.md).
        UnsupportedFormatError: a DLedger log, or consume queues in RocksDB.
        NotAStoreError: `path` is a file.
        StoreAccessError: a file of config/ is there and cannot be read.
        UsageError: `path` is empty, in bytes, a URL, or inside another store; `dispatch`, `peer` or an `ha_` option has
            another value; `ha_listen` names an address that cannot be used, or `services` is False; `direct_io`, which
            0.1.0 took, is given.
        OSError: the disk refused.

    Attributes:
        root: absolute path.
        config: RocketMQ's keys, with the sizes that the files have.
        effects: as given.
        recovered: the results of recovery.
        ha: with `ha_listen` the listener: `address`, `followers()`, `close()`; else None.

    Thread: any, for every method. After `close`, and in a forked child, every method raises UsageError; so does every
    method except `close` in a signal handler that interrupted another call of the same store.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        config: StoreConfig | Mapping[str, object] | None = None,
        *,
        dev: bool = False,
        peer: str = "5.3.3",
        dispatch: str = "thread",
        accept_lost_log: bool = False,
        effects: Effects = REAL,
        services: bool = True,
        unique_keys: bool = True,
        sync_in_caller: bool = False,
        ha_listen: tuple[str, int] | None = None,
        ha_allow: Iterable[str] = (),
        ha_new_slave: str = "last",
        ha_durable_only: bool = False,
        ha_count: str = "host",
        ha_connections: int = 64,
        cut_at: int | None = None,
        **keys: Unpack[typed.Settings],
    ) -> None:
        arguments.flags(
            dev=dev,
            accept_lost_log=accept_lost_log,
            services=services,
            unique_keys=unique_keys,
            sync_in_caller=sync_in_caller,
            ha_durable_only=ha_durable_only,
        )
        if dispatch not in ("thread", "external"):
            raise UsageError(f'dispatch={dispatch!r}; give "thread" or "external"')
        if "direct_io" in keys:
            raise UsageError("direct_io is gone; leave it out: the transient pool writes through the page cache")
        checked_peer(peer)
        gevent = sys.modules.get("gevent.monkey")
        if services and gevent is not None and gevent.is_module_patched("threading"):
            raise UsageError(
                "gevent has replaced this process's threads, and waits of a store's threads would stop its loop; open "
                "the store in a process without monkey.patch_all()"
            )
        self.root, self.effects = outside_of_stores(os.path.abspath(local_only(path)), effects), effects
        given = given_config(config, dev, keys)
        listen = None
        if ha_listen is not None:
            if not services:
                raise UsageError("ha_listen needs a thread; leave out services=False")
            listen = ListenOptions(
                address_of(ha_listen), tuple(ha_allow), ha_new_slave, ha_durable_only, ha_count, ha_connections
            )
        refuse_to_write(given, listens=listen is not None)
        self._external, self._services = dispatch == "external", services
        self._closer, self._is_closed = Lock(), StopEvent()  # taken by threads that close, and set after
        self._refused_close: BaseException | None = None
        self._groups = ConsumerGroups()
        try:
            opening = Opening(
                peer=peer,
                external=self._external,
                accept_lost_log=accept_lost_log,
                unique_keys=unique_keys,
                sync_in_caller=sync_in_caller,
                listen=listen,
                cut_at=cut_at,
            )
            parts = self._parts = StoreParts(self.root, given, effects, opening)
        except (FileExistsError, NotADirectoryError):
            if effects.size(self.root) is None:
                raise
            raise NotAStoreError(f"{self.root}: is a file; give a directory, which is made if it is missing") from None
        self.config, self.recovered, self.ha = parts.config, parts.recovered, parts.ha
        # Fields of Putter, which the compiled `put` reads: declared in kernels/write/fast_append.pxd, explained in
        # class Putter of kernels/write/fast_append.py. `flusher` is set last, once its thread runs.
        self.waits = parts.puts.waits
        self.after_put, self.flusher, self.loop_puts = parts.puts.after_put, None, None
        # The fast way is closed for a slave, which accepts no puts, and if each put must wake the flush service. To
        # puts that wait for replicas it is open by `put_async` only.
        self.close_ways()
        if not (self.config.wake_flush_when_put_message or self.config.broker_role == "SLAVE"):
            self.open_ways(parts.log.appender, put=parts.puts.replicas is None)
        self._fast = None if self._external else parts.reader.fast
        if services:
            try:
                parts.start()
                self.flusher = parts.flush.flusher
            except BaseException:  # of no thread, or a signal: the lock must not stay with a store that nobody gets
                self._close()
                raise
        else:
            parts.flush.stop()  # each put that waits flushes itself

    # -- put --------------------------------------------------------------------------------------------------------
    # `put` and `put_async` are inherited from Putter: one compiled call for a plain message; these continue it.

    def _put_slowly(self, message: Message) -> PutResult:
        self._parts.state.check()
        return self._parts.puts.put(message, tried=self.quick is not None)

    def _settle(self, result: PutResult) -> PutResult:
        if in_handler(self.root):  # the code that the signal interrupted may be the flush
            return unflushed(result)
        return self._parts.puts.settle(result)

    def _unsettled(self, result: PutResult) -> PutResult:
        return self._parts.puts.unsettled(result)

    def _put_async_slowly(self, message: Message, tried: bool) -> Awaitable[PutResult]:
        parts = self._parts
        parts.state.check()
        waiting = parts.puts.put_async(message, self.quick, tried)
        self.loop_puts = parts.puts.loop_puts
        return waiting

    def put_many(
        self, messages: Iterable[Message], *, until_refused: bool = False, delivered: bool = False
    ) -> list[PutResult]:
        """Store messages in order, with one wait for the disk at the end.

        Args:
            messages: the messages.
            until_refused: stop at the first message that is not stored, so that no later one is, and all from there on
                can be put again. Without it each message is tried.
            delivered: they are copies of what a broker stored, so properties TIMER_* have no effect any more and are no
                reason to refuse one, nor is a sys_flag of a prepared or rolled-back transaction.

        Returns:
            One result for each message, in order; with `until_refused` the last one may be that of the refused message.

        Raises:
            UsageError: the store is closed.
            TypeError: one of them is no Message, or a switch is neither True nor False; nothing was stored.

        Thread: any. Durability: as for put, for all of them when it returns.
        """
        arguments.flags(until_refused=until_refused, delivered=delivered)
        self._parts.state.check()
        listed = _listed(messages)  # may call the store
        self._parts.state.check()
        return self._parts.puts.put_many(listed, until_refused, delivered)

    def put_batch(self, messages: Iterable[Message], properties: Mapping[str, str] | None = None) -> list[PutResult]:
        """Store a batch as RocketMQ does: messages of one queue, all of them or none.

        They are contiguous in one file of the log, with consecutive queue offsets. In a topic of type
        BatchCQ the whole batch becomes one record, an inner batch.

        Args:
            messages: equal in topic, queue, sys_flag, sender's time and host, and reconsume_times.
            properties: of the batch itself. "5.3.3" adds them to those of each message, later versions do not store
                them; an inner batch has them as its record's.

        Returns:
            One result for each message, in order, all with the same status. MESSAGE_ILLEGAL: together they exceed
            maxMessageSize or a log file; one has a delay level, a transaction type or properties INNER_*; or its
            properties are too long together with the batch's own.

        Raises:
            UsageError: the messages differ in fields that a batch has once; the store is closed.
            TypeError: one of them is no Message; nothing was stored.

        Thread: any. Durability: as for put, for all of them when it returns. A crash meanwhile may leave the first
        ones.
        """
        self._parts.state.check()
        listed = _listed(messages)  # may call the store
        self._parts.state.check()
        return self._parts.puts.put_batch(listed, properties)

    def put_columns(self, topic: str, batch: Any) -> ColumnsResult:
        """Store the rows of a pyarrow.RecordBatch as messages of one topic, in order.

        No object is made for a row.

        Args:
            topic: of all of them.
            batch: columns by name: `body` (binary or string); optional `tags` and `keys` (string; null or empty for
                none), `queue_id` (int32, below 65,536; default 0), `born_timestamp` (int64 or timestamp[ms]; default
                the store's clock), `properties` (map<string, string>, without KEYS, TAGS, WAIT, DELAY, TIMER_* and
                INNER_*).

        Returns:
            The number of rows stored and their position. A row that makes no message refuses the whole batch.

        Raises:
            UsageError: a column that is missing, unknown or of another type; the store is closed.

        Thread: any. Durability: as for put, for all of them when it returns.
        """
        self._parts.state.check()
        return self._parts.puts.put_columns(topic, batch)

    def flush(self) -> None:
        """Make everything that was put so far durable.

        That is the log; queues and index are made from it again if a power cut takes them.

        Raises:
            StoreError: the disk refused, now or before.
            UsageError: the store is closed.

        Thread: any. Durability: on return.
        """
        self._parts.state.check()
        self._parts.flush.flush_once()
        self._check_disk()

    # -- read -------------------------------------------------------------------------------------------------------

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_messages: int = 32,
        *,
        tags: str | None = None,
        wait_ms: int = 0,
    ) -> GetResult:
        """Return messages of a queue from an offset on.

        Args:
            topic, queue_id, offset: from where.
            max_messages: at most so many; 0 and less mean 1, as in RocketMQ.
            tags: only messages with one of these tags (`a || b`); hash collisions pass, as in RocketMQ.
            wait_ms: if the queue has nothing there yet, wait so long for it (RocketMQ's clients wait up to 30000).

        Raises:
            TypeError: an argument of another type.
            UsageError: the store is closed, or its dispatch is left to another process.

        Thread: any.
        """
        fast = self._fast
        if fast is not None:
            found = fast.get(topic, queue_id, offset, max_messages, tags, wait_ms)
            if found is not None:
                return found
        self._check_dispatched("get")
        arguments.texts(topic=topic)
        queue_id, offset, max_messages, wait_ms = arguments.numbers(
            queue_id=queue_id, offset=offset, max_messages=max_messages, wait_ms=wait_ms
        )
        arguments.given_text("tags", tags)
        result = self._parts.reader.get_slowly(topic, queue_id, offset, max_messages, tags, wait_ms)
        self._parts.counters.got(len(result.messages))
        return result

    def get_raw(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_messages: int = 32,
        *,
        tags: str | None = None,
        max_bytes: int = 256 << 10,
        wanted: Wanted | None = None,
    ) -> RawResult:
        """Return the records of a queue from an offset on, end to end.

        Statuses and offsets are those of `get`, and so are its limits: those of RocketMQ's transfers hold, too.

        Args:
            topic, queue_id, offset: from where.
            max_messages: at most so many; 0 and less mean 1.
            tags: only messages with one of these tags (`a || b`); hash collisions pass, as in RocketMQ.
            max_bytes: at most so many, of whole records; the first one is always returned.
            wanted: of the properties of a message, whether it is wanted. Where no message is, the status says so, and
                the next offset is that after the 800 messages or so that were looked at.

        Raises:
            TypeError: an argument of another type.
            UsageError: the store is closed, or its dispatch is left to another process.

        Thread: any.
        """
        fast = self._fast
        if fast is not None and wanted is None:
            answer = fast.get_raw(topic, queue_id, offset, max_messages, tags, max_bytes)
            if answer is not None:
                return answer
        self._check_dispatched("get_raw")
        arguments.texts(topic=topic)
        queue_id, offset, max_messages, max_bytes = arguments.numbers(
            queue_id=queue_id, offset=offset, max_messages=max_messages, max_bytes=max_bytes
        )
        arguments.given_text("tags", tags)
        if wanted is not None:
            arguments.function("wanted", wanted)
        asked = topic, queue_id, offset, max_messages, tags, max_bytes
        reader = self._parts.reader
        found = reader.get_raw_slowly(*asked) if wanted is None else reader.get_wanted(*asked, wanted)
        self._parts.counters.got(found.count)
        return found

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Return min and max offset of a queue, the latter after its last message; else (0, 0).

        Raises:
            TypeError: an argument of another type.
            UsageError: the store is closed, or its dispatch is left to another process.

        Thread: any.
        """
        self._check_dispatched("bounds")
        arguments.texts(topic=topic)
        return self._parts.reader.bounds(topic, arguments.number("queue_id", queue_id))

    def get_batch(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_messages: int = 1024,
        *,
        max_bytes: int = 8 << 20,
        columns: Sequence[str] | None = None,
        wait_ms: int = 0,
    ) -> GetBatchResult:
        """Return messages of a queue from an offset on as a pyarrow.RecordBatch.

        No object is made for a row. Statuses and offsets are those of `get`. The limits are these two, not those of
        RocketMQ's transfers; an answer holds messages of one queue file, so it may be shorter.

        Args:
            topic, queue_id, offset: from where.
            max_messages: maximum number of rows.
            max_bytes: approximate maximum of bytes of log; the first message is always returned.
            columns: names of columns, in the order wanted; None for all (flintmq.COLUMNS).
            wait_ms: if the queue has nothing there yet, wait so long for it.

        Raises:
            UsageError: an unknown column, an impossible limit; the store is closed, or its dispatch is left to others.
            TypeError: an argument of another type.
            MissingExtraError: pyarrow is not installed.

        Thread: any.
        """
        self._check_dispatched("get_batch")
        arguments.texts(topic=topic)
        queue_id, offset, max_messages, max_bytes, wait_ms = arguments.numbers(
            queue_id=queue_id, offset=offset, max_messages=max_messages, max_bytes=max_bytes, wait_ms=wait_ms
        )
        try:  # by name: this layer knows no Arrow, and who never asks needs none
            module = import_module("flintmq.arrow.queue_batch")
        except ModuleNotFoundError as error:
            if error.name != "pyarrow":
                raise
            raise MissingExtraError("get_batch needs pyarrow: pip install 'flintmq[arrow]'") from error
        result: GetBatchResult = module.get_batch(
            self._parts.reader,
            topic=topic,
            queue_id=queue_id,
            offset=offset,
            max_messages=max_messages,
            max_bytes=max_bytes,
            columns=columns,
            wait_ms=wait_ms,
        )
        self._parts.counters.got(result.batch.num_rows)
        return result

    def get_at(self, physical_offset: int) -> StoredMessage:
        """Return the message whose record begins at this log offset.

        Raises:
            TypeError: an offset of another type.
            MessageNotFoundError: no valid record begins there.
            UsageError: the store is closed.

        Thread: any.
        """
        self._parts.state.check()
        physical_offset = arguments.number("physical_offset", physical_offset)
        message = self._parts.reader.at(physical_offset)
        if message is None:
            raise not_there(physical_offset, self._parts.files.min_offset, self._parts.log.end)
        return message

    def get_by_offset_msg_id(self, offset_msg_id: str) -> StoredMessage:
        """Return the message with this offset message id, in upper or lower case.

        Raises:
            TypeError: no text.
            UsageError: the text is no offset message id, or the store is closed.
            MessageNotFoundError: no record begins there, or one of another broker does.

        Thread: any.
        """
        self._parts.state.check()
        return by_offset_msg_id(offset_msg_id, self.get_at)

    def query(self, topic: str, key: str, begin: int | None = None, end: int | None = None) -> Messages:
        """Return the newest messages with a key, at most maxMsgsNumBatch, in log order.

        A message need not be dispatched yet: the part of the log that the index does not cover is searched.

        Args:
            topic, key: of the messages; a unique key (`PutResult.msg_id`) is a key too.
            begin, end: store times in Unix milliseconds, both inclusive; None: the first, the last.

        Raises:
            TypeError: an argument of another type.
            UsageError: the store is closed.

        Thread: any.
        """
        self._parts.state.check()
        arguments.texts(topic=topic, key=key)
        begin, end = arguments.given_number("begin", begin), arguments.given_number("end", end)
        with self.view() as view:
            return view.query(topic, key, begin, end, self.config.max_msgs_num_batch)

    def offset_at_time(self, topic: str, queue_id: int, ms: int, boundary: str = "lower") -> int:
        """Return the queue offset of a store time by RocketMQ's rule.

        Args:
            topic, queue_id: the queue.
            ms: Unix milliseconds.
            boundary: "lower": the first message not older; "upper": the last one not younger.

        Raises:
            TypeError: an argument of another type.
            UsageError: the store is closed.

        Thread: any.
        """
        self._parts.state.check()
        arguments.texts(topic=topic, boundary=boundary)
        queue_id, ms = arguments.numbers(queue_id=queue_id, ms=ms)
        with self.view() as view:
            return view.offset_at_time(topic, queue_id, ms, boundary)

    def consumer(
        self,
        group: str,
        topic: str,
        *,
        queues: Iterable[int] | None = None,
        tags: str | None = None,
        start: str = "earliest",
        idle_ms: int | None = None,
        retries: bool = False,
        broadcast: str | os.PathLike[str] | None = None,
    ) -> Consumer:
        """Make a consumer of a topic; its group's offsets are kept as a broker keeps them.

        Args:
            group: its group. Consumers of one group share the queues of a topic, in this process.
            topic: the topic to consume.
            queues: exactly these queues, which no other consumer of the group gets; None: a share of the others.
            tags: only messages with one of these tags (`a || b`), the same for all consumers of the group.
            start: where a group without offsets begins: "earliest" or "latest".
            idle_ms: the iteration ends when no message came for this long; None: it waits for ever.
            retries: read the group's retries as well, whatever their tags are, and let `retry` be called; the same for
                all consumers of the group. Queue -1 is queue 0 of the retries.
            broadcast: a file in which this consumer keeps offsets of its own, so that it gets every message, whatever
                others of its group get. One consumer has it at a time, until it is closed; without the file it begins
                as `start` says.

        Raises:
            TypeError: an argument of another type.
            UsageError: an illegal name; a queue of another consumer of the group; other tags or topics than theirs;
                retries of a topic that holds messages of others, beside `queues` or `broadcast`; a file that another
                consumer has, or that is of another group or topic; the store is closed, or its dispatch is left to
                another process.
            StoreAccessError: the file of `broadcast` cannot be read or understood.
            StoreError: that file is of another store, or of a log or topic that was replaced.

        Thread: any.
        """
        arguments.flags(retries=retries)
        self._check_dispatched("consumer")
        arguments.texts(group=group, topic=topic)
        retried = self._source(retry_topic(group)) if retries else None
        return new_consumer(
            self._groups, self._source(topic), group, topic, queues, tags, start, idle_ms, retried, broadcast
        )

    def _source(self, topic: str) -> StoreSource:
        parts = self._parts
        return StoreSource(
            self.root,
            topic,
            reader=parts.reader,
            keeping=parts.housekeeping,
            check=parts.state.check,
            at_time=self.offset_at_time,
            failure=parts.failure,
            put=self.put,
        )

    def view(self) -> StoreView:
        """Return a read-only view of this store as it is now, as another process sees it.

        Close it, or use it in a `with` block. `StoreView.refresh` shows later messages.

        Raises:
            UsageError: the store is closed.
            StoreAccessError: a file or directory may not be read.

        Thread: any.
        """
        self._parts.state.check()
        return open_store(self.root, config=self.config, effects=self.effects)

    def __iter__(self) -> Iterator[StoredMessage]:
        """Iterate over all messages of the log in order."""
        with self.view() as view:
            yield from view.messages()

    # -- being a copy of a master --------------------------------------------------------------------------------------

    @property
    def raw(self) -> RawLog:
        """The log, for whoever copies a master's log into this store.

        Raises:
            UsageError: the store's role is not SLAVE.
        """
        if self._parts.raw is None:
            raise UsageError(f'{self.root}: brokerRole={self.config.broker_role}; open it with brokerRole="SLAVE"')
        return self._parts.raw

    @property
    def copied(self) -> CopiedQueues:
        """The queues, for whoever copies a master's log into this store.

        Raises:
            UsageError: the store's role is not SLAVE.
        """
        _ = self.raw  # checks the role
        assert self._parts.copied is not None
        return self._parts.copied

    def follow_tables(self, tables: Mapping[str, JsonObject]) -> list[str]:
        """Replace topics, groups and offsets by those of a master's broker.

        The broker's are kept from now on; `create_topic` and `commit_offset` are refused. Call it with no table to
        begin before the first ones are here.

        Args:
            tables: name of a file of config/ to its content.

        Returns:
            Names of the files that changed.

        Raises:
            UsageError: the store's role is not SLAVE.
            StoreError: the disk refused before, so the tables may tell of messages that are not on it.
            StoreAccessError: a file that was not kept before is there and cannot be read.
            OSError: the disk refused; each file is the old one or the new one, and the next call goes on.

        Thread: any. Durability: on return.
        """
        _ = self.raw  # checks the role
        self._check_disk()
        return self._parts.housekeeping.follow(tables)

    # -- watch and close --------------------------------------------------------------------------------------------

    @property
    def min_physical_offset(self) -> int:
        """Log offset at which the log begins."""
        return self._parts.files.min_offset

    @property
    def max_physical_offset(self) -> int:
        """Log offset after the last record."""
        return self._parts.log.end

    def stats(self) -> StoreStats:
        """Return counters since the store was opened, and the lag of disk, queues and index.

        Raises:
            UsageError: the store is closed.

        Thread: any.
        """
        parts = self._parts
        parts.state.check()
        log_end, files, pool = parts.log.end, parts.files.files, parts.files.pool
        positions = LogPositions(
            begin=parts.files.min_offset,
            end=log_end,
            committed=log_end if parts.commits is None else parts.commits.committed,
            flushed=parts.files.flushed_where,
            dispatch_behind=parts.dispatch.behind,
        )
        return parts.counters.read(
            parts.log.next_offsets if parts.raw is None else parts.queues.next_offsets(),
            positions,
            parts.flush.all_times(),
            longest_in_lock_ms=parts.log.slow.longest_ms,
            pool_buffers_free=-1 if pool is None else pool.available(log_end, parts.files.last),
            mapped=(len(files), sum(file.size for file in files)),
        )

    def wait_dispatched(self, timeout: float | None = None) -> bool:
        """Wait until everything put so far is in queues and index, so that `get` finds it.

        Under SYNC_FLUSH it is flushed first: only durable messages are dispatched.

        Args:
            timeout: seconds; None: no limit.

        Returns:
            False if the time was up, or the disk failed, or dispatch has stopped at damage.

        Raises:
            UsageError: the store is closed, or its dispatch is left to another process; a timeout that is no time.

        Thread: any.
        """
        self._check_dispatched("wait_dispatched")
        timeout = 1e9 if timeout is None else timeout
        check_seconds("timeout", timeout)
        parts = self._parts
        end = parts.log.end
        if parts.flush.sync:
            parts.flush.flush_once()
        elif parts.commits is not None:
            parts.commits.commit_once()
        while not self._services and parts.dispatch.dispatch_once():
            pass
        return parts.dispatch.wait(end, timeout, parts.failure)

    def on_arrival(self, callback: Callable[[list[tuple[str, int]]], object]) -> Callable[[], None]:
        """Have a function called when messages can be read; return a function that ends this.

        Args:
            callback: gets (topic, queue_id) of each queue that has new messages, once for each block of messages that
                `get` finds from then on. It must return soon, for nothing is dispatched meanwhile, and must not wait
                for the store. An error of it is logged, once.

        Returns:
            A function without arguments. A call that is under way when it returns goes on.

        Raises:
            TypeError: the callback cannot be called.
            UsageError: the store is closed, or its dispatch is left to another process.

        Thread: any; the callback is called by the thread that dispatches.
        """
        self._check_dispatched("on_arrival")
        arguments.function("callback", callback)
        return self._parts.queues.on_arrival(callback)

    def close(self) -> None:
        """Flush and dispatch everything, then mark the store as stopped cleanly.

        May be called again. A forked child may call it, without effect. In a signal handler it does not wait for the
        interrupted code: if that is a call of this store, another thread closes the store when that call is over, and
        a later `close`, or the end of the interpreter, waits for it.

        Raises:
            StoreError: a sync failed, now or before, or a file of the next start could not be written. The store is
                closed and marked as stopped uncleanly; the next start recovers what is on disk. At the end of a `with`
                block that an exception leaves, it is logged instead.

        Thread: any. Durability: everything that was put, unless it raises.
        """
        state, amid = self._parts.state, reentered(self.root)
        if state.lock.held and not (amid and state.closing):  # else it is closed, or another process's
            state.begin_closing()
            self.close_ways()
            self._fast = None
            if amid or self._services:  # in a thread that no signal handler, and nobody else, interrupts
                self._close_aside(wait=not amid)
            else:
                self._close()
        refused, self._refused_close = self._refused_close, None
        if refused is not None:
            raise refused

    def _close_aside(self, *, wait: bool) -> None:
        """Close the store in a thread of its own.

        A call that is interrupted while it waits may be repeated, and waits again.
        """

        def close() -> None:
            try:
                with self._closer:
                    self._close()
            except BaseException as error:  # raised by the next `close`
                self._refused_close = error
            finally:
                self._is_closed.set()

        try:
            threading.Thread(target=close, name="flintmq-close").start()  # no daemon: the interpreter waits for it
        except RuntimeError:  # no thread can be started, any more or now
            close()
        if wait:
            self._is_closed.wait()

    def _close(self) -> None:
        parts = self._parts
        if parts.raw is not None:
            parts.raw.discard()  # a RocketMQ that opens the store finds a clean end
        parts.housekeeping.finish()
        with parts.log.lock:  # whoever puts now is through before the log is closed
            if parts.state.closed:
                return
            parts.state.close()
            self._fast = None
            parts.log.close()
        parts.stop()

    def __repr__(self) -> str:
        """Return its path and whether it is open."""
        return f"<flintmq.MessageStore {self.root!r}, {self._parts.state}>"

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or pickled: two would close one another.

        Raises:
            TypeError: always.
        """
        raise TypeError(f"{self.root}: an open store is neither copied nor pickled; give its path, and open a view")

    def __enter__(self) -> Self:
        """Return the store."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Close it; raise what `close` raises unless an exception is under way, which says more."""
        try:
            self.close()
        except StoreError:
            if kind is None:
                raise


def _listed(messages: Iterable[Message]) -> list[Message]:
    """Return messages as a list, before any of them is stored.

    Raises:
        TypeError: one is none.
    """
    listed = list(messages)
    if set(map(type, listed)) - {Message}:
        for at, one in enumerate(listed):
            if not isinstance(one, Message):
                raise TypeError(f"number {at} of the messages is of type {type(one).__name__}; give a flintmq.Message")
    return listed


_signature = inspect.signature(MessageStore.__init__)
vars(MessageStore.__init__)["__signature__"] = _signature.replace(
    parameters=[one for name, one in _signature.parameters.items() if name not in LABORATORY]
)
lockless(_listed.__code__)
lockless(MessageStore.put_many.__code__)
lockless(MessageStore.put_batch.__code__)
