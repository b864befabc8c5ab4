"""Appends to the commit log: queue offset, record, roll-over.

One lock, the put lock, covers the choice of the queue offset and the bytes of the record. (Upstream has a second lock
per queue, so that records can be encoded in parallel; here encoding is a kernel call inside the lock.) A queue offset
counts as taken only once its record is in the map.

Plain messages go the fast way, one kernel call (kernels/write/fast_append.py) that does not take the lock: it holds the
GIL, and leaves everything to the slow way while another thread holds the lock. Both ways write the same bytes.
Upstream: CommitLog.asyncPutMessage.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from flintmq.config.keys import StoreConfig
from flintmq.errors import FormatError
from flintmq.format import properties as names
from flintmq.format import record
from flintmq.format.message_id import parse_host
from flintmq.format.record import (
    BORN_HOST_V6,
    INNER_BATCH,
    STORE_HOST_V6,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    TRANSACTION_NONE,
)
from flintmq.format.start_fields import TIMER_TOPIC
from flintmq.format.text import java_encode, java_int
from flintmq.kernels.write import encode_one as kernel
from flintmq.kernels.write.fast_append import CLOCK_SET_BACK_MS, MOST_SENDERS, Appender, QueueCounter, Topic, forked
from flintmq.message import Message, PutMessageStatus, PutResult, PutRule, refused
from flintmq.storage.memory.mapped_file import MappedFile
from flintmq.storage.memory.mapped_file_queue import MappedFileQueue
from flintmq.storage.threads.mutex import Lock
from flintmq.store.append import multi_queue, timed_message
from flintmq.store.append.checks import encode_properties, message_rule, start_rule, topic_status, unread_rule
from flintmq.store.append.delayed_message import scheduled
from flintmq.store.append.multi_queue import TakenOffsets
from flintmq.store.append.slow_section import SlowPart
from flintmq.store.append.unique_keys import UniqueKeys
from flintmq.store.dispatch.handover import HandedOver

log = logging.getLogger("flintmq.commitlog")

DEFAULT_HOST = "127.0.0.1:10911"
T = TypeVar("T")
os.register_at_fork(after_in_child=forked)


@dataclass(frozen=True, slots=True)
class LogState:
    end: int
    last_time: int  # its store time in ms
    next_offsets: dict[tuple[bytes, int], int]  # (topic, queue id) -> queue offset of the next record


class PendingAppend(NamedTuple):
    """An append under way.

    One remains after an exception that a signal raised in the middle of an append. It notes each queue's next offset
    before a byte is written, so that one rule finishes the append or takes it back, wherever the signal fell.

    `nexts`: (topic, queue id, the queue's next offset once it counts) of each of its queues.
    """

    file: MappedFile
    position: int
    bound: int  # position in the file before which it certainly ends
    nexts: tuple[tuple[Topic, int, int], ...]
    time: int  # its store time in ms
    records: int = 1  # number of its records, which become visible together or not at all


class CommitLog:
    """The append side of a log.

    Args:
        ours: returns whether this process still owns the store; called before each new file.
        unique: gives a unique key to messages without one; None: they get none.
        handed_over: takes notes of rows put as columns, for dispatch; None: nobody uses them.

    Attributes:
        appender: the log's end and the queues: the state that both ways share.
    """

    def __init__(
        self,
        files: MappedFileQueue,
        config: StoreConfig,
        state: LogState,
        host: str = DEFAULT_HOST,
        batch_topics: Container[str] = frozenset(),
        ours: Callable[[], bool] = lambda: True,
        unique: UniqueKeys | None = None,
        handed_over: HandedOver | None = None,
    ) -> None:
        self.files, self.config, self.batch_topics = files, config, batch_topics
        self.effects = effects = files.effects
        self.ours, self.unique = ours, unique
        self.host = parse_host(host)
        self.hosts = self.host + self.host
        self.host_flag = STORE_HOST_V6 if len(self.host) == 20 else 0
        self.lock = Lock()
        self.slow = SlowPart(effects, files.place)
        self.handed_over = handed_over
        self.fast = not effects.watches  # whether messages may go the fast way
        self.appender = Appender(
            PutMessageStatus.PUT_OK,
            self.hosts,
            config.max_message_size,
            config.enabled_append_prop_crc,
            state.end,
            state.last_time,
        )
        self.appender.keys = unique
        self._lacking = False
        self._by_raw: dict[bytes, Topic] = {}
        for (raw, queue_id), offset in state.next_offsets.items():
            self._by_raw.setdefault(raw, Topic(raw)).places[queue_id] = QueueCounter(offset)

    @property
    def end(self) -> int:
        """Log offset after the last whole record; everything below it may be read."""
        return self.appender.end

    @property
    def last_time(self) -> int:
        """Store time in ms of the last record."""
        return self.appender.last_time

    @property
    def next_offsets(self) -> dict[tuple[bytes, int], int]:
        """Return (topic, queue id) -> queue offset of the next record, at this moment."""
        topics = list(self._by_raw.items())  # lists: puts may add to both dicts meanwhile
        queues = ((raw, q, place.next) for raw, topic in topics for q, place in list(topic.places.items()))
        return {(raw, q): following for raw, q, following in queues if following}  # 0: its topic was deleted

    def append(self, message: Message) -> PutResult:
        """Append one message.

        Returns:
            PUT_OK with the record's position; MESSAGE_ILLEGAL or PROPERTIES_SIZE_EXCEEDED (refused by a check);
            CREATE_MAPPED_FILE_FAILED (no space, no file): nothing is stored then, and a later put may succeed;
            SERVICE_NOT_AVAILABLE: the log was closed meanwhile.

        Thread: any. Durability: the kernel has it; nothing is on disk yet.
        """
        result = self.appender.append(message)
        return result if result is not None else self.append_slowly(message)

    def append_many(
        self, messages: Sequence[Message], until_refused: bool = False, delivered: bool = False
    ) -> list[PutResult]:
        """Append messages in order; return a result for each, as from `append`.

        `delivered`: they are copies of what a broker stored, so none waits for a timer, and `checks.unread_rule` does
        not apply.

        Thread: any. Messages of other threads may come between. Durability: as for `append`.
        """
        results: list[PutResult] = []
        rest, at = list(messages), 0
        while (at := self.appender.append_list(rest, at, results)) < len(rest):
            results.append(self.append_slowly(rest[at], delivered))
            at += 1
            if until_refused and results[-1].status is not PutMessageStatus.PUT_OK:
                break
        return results

    def append_slowly(self, message: Message, delivered: bool = False) -> PutResult:
        """Append a message that the fast way left, with a result as from `append`.

        Thread: any. Durability: as for `append`.
        """
        message = message.copied()  # its dict of properties may have changed, and may change again
        # Before the checks: the key is part of the properties, whose size is limited.
        if self.unique is not None:
            self.unique.add_to(message)
        if message.delay_level == 0 and message.properties:  # as upstream, which reads a delay only from its property
            level = java_int(message.properties.get(names.DELAY, "")) if message.properties_bytes is None else None
            message.delay_level = max(level or 0, 0)
        if message.delay_level > 0:
            waiting = scheduled(message, self.config)
            if waiting is None:
                return refused(PutRule.DELAY)
            message = waiting
        elif not delivered:
            timed = timed_message.waiting(message, self.config, self.effects.now_ms())
            if isinstance(timed, PutRule):
                return refused(timed)
            message = timed
        topic = self.get_or_create_topic(message.topic)
        properties = encode_properties(message)
        hosts = self.hosts_of(message)
        if topic is None:
            return refused(PutRule.TOPIC)
        if properties is None:
            return refused(PutRule.PROPERTY_TEXT)
        if hosts is None:
            return refused(PutRule.BORN_HOST)
        rule = self._refusal(message, properties)
        if rule is None and not delivered:
            rule = unread_rule(message)
        if rule is not None:
            return refused(rule)
        return self.locked(
            lambda: self.append_locked(message, topic, properties, hosts),
            PutResult(PutMessageStatus.SERVICE_NOT_AVAILABLE),
        )

    def _refusal(self, message: Message, properties: bytes) -> PutRule | None:
        """Return the rule that refuses this message before anything is changed, or None."""
        rule = message_rule(message, properties, self.config)
        if multi_queue.is_wrong_inner_batch(message, properties, message.topic in self.batch_topics):
            return PutRule.INNER_BATCH
        rule = rule or start_rule(message.topic, properties)
        if multi_queue.MARK not in properties:
            return rule
        listed = multi_queue.lmq_names(message, properties, self.config)
        if listed and rule is PutRule.PROPERTIES_SIZE:
            return PutRule.LIGHT_SIZE  # the only status of upstream's encoder for such messages
        if rule is None and multi_queue.are_wrong_lmqs(listed, self.config):
            return PutRule.LIGHT_QUEUES
        return rule

    def locked(self, append: Callable[[], T], refused: T) -> T:
        """Call `append` with the put lock held and the fast way closed.

        Returns its result, or `refused` if the log is closed.

        Thread: any.
        """
        # Lock order: the put lock first, then `held`, which closes the fast way. A context manager of our own could be
        # interrupted by a signal between the two; the lock's own `with` cannot.
        with self.lock:
            # Asked with the lock held: `close` sets it with the same lock, and after that nothing is added to what it
            # flushes.
            if self.appender.closed or self.appender.forked:
                return refused
            self.appender.held = True
            try:
                return append()
            finally:
                self.appender.held = False

    def refuse(self, refusing: bool) -> None:
        """Close or open the fast way; the slow way then decides whether it may put. Thread: any."""
        self.appender.refusing = refusing

    def refuse_for_good(self) -> None:
        """Refuse all puts from now on. Unlike `close`, an interrupted append is left as it is.

        Thread: any.
        """
        self.appender.closed = True

    def get_or_create_topic(self, name: str) -> Topic | None:
        """Return a topic; None if it is refused. Thread: any."""
        return self.appender.topics.get(name) or self._topic(name)

    def settle_and_next_time(self) -> int:
        """Settle an append that a signal interrupted; return the next store time in ms.

        Thread: the one that holds the put lock.
        """
        self.settled()
        return self._store_time()

    def settled(self) -> tuple[int, int]:
        """Settle an append that a signal interrupted; return the log's end and its last store time.

        Thread: the one that holds the put lock.
        """
        if self.appender.begun is not None:
            self._settle(self.appender.begun)
        return self.end, self.last_time

    def begin_again(self, raw: bytes) -> None:
        """Have the next record of each queue of a topic get the queue offset 0.

        Thread: the one that holds the put lock.
        """
        topic = self._by_raw.get(raw)
        for counter in topic.places.values() if topic is not None else ():
            counter.next = 0

    def reserve_space(self, room: int) -> MappedFile | None:
        """Return the file for the next record with this many bytes reserved, as far as it goes.

        Returns:
            None if there is no space, or no file can be made.

        Thread: the one that holds the put lock.
        """
        file = self._file()
        try:
            # A store into pages without blocks on the disk would kill the process once the disk is full.
            if file is not None and min(file.wrote + room, file.size) > file.reserved:
                with self.slow:
                    file.reserve(min(file.wrote + room, file.size))
        except OSError as error:
            if error.errno is None:
                raise  # a signal handler's own, such as TimeoutError: each error of the disk has a number
            self._lacks(f"{file.path if file else ''}: no space for the next records ({error.strerror})")
            return None
        if file is not None:
            self._lacks("")
        return file

    def begin(self, pending: PendingAppend) -> PendingAppend:
        """Note an append under way, which the next put settles if a signal interrupts it.

        Thread: the one that holds the put lock.
        """
        self.appender.begun = pending
        return pending

    def open_fast_way(self, file: MappedFile) -> None:
        """Let plain messages go the fast way into this file, the last one.

        Thread: the one that holds the put lock.
        """
        self.appender.target = file if self.fast else None

    def _topic(self, name: str) -> Topic | None:
        """Create a topic; None if it is refused."""
        raw = java_encode(name)
        if topic_status(name, raw) is not None:
            return None
        topic = self._by_raw.setdefault(raw, Topic(raw))
        if name != TIMER_TOPIC:  # of which each message is checked
            self.appender.topics[name] = topic
        return topic

    def hosts_of(self, message: Message) -> bytes | None:
        """Return raw born host and store host of a message; None if its born host is malformed."""
        text, senders = message.born_host, self.appender.senders
        if text is None:
            return self.hosts
        hosts: bytes | None = senders.get(text)
        if hosts is None:
            with suppress(FormatError):
                hosts = parse_host(text) + self.host
                if len(senders) >= MOST_SENDERS:
                    senders.clear()
                senders[text] = hosts  # its next message may go the fast way
        return hosts

    def _taken(
        self, message: Message, topic: Topic, properties: bytes, hosts: bytes
    ) -> TakenOffsets | PutMessageStatus:
        # Prepared and rolled-back records are in no queue: nobody but the broker reads them.
        if message.sys_flag & TRANSACTION_MASK not in (TRANSACTION_NONE, TRANSACTION_COMMIT):
            return TakenOffsets(0, properties, ())
        if multi_queue.MARK in properties or message.sys_flag & INNER_BATCH:
            return multi_queue.taken(message, properties, hosts, topic, self.config, self._light)
        place = topic.places.get(message.queue_id)
        offset = place.next if place is not None else 0
        return TakenOffsets(offset, properties, ((topic, message.queue_id, offset + 1),))

    def _light(self, name: str) -> Topic:
        raw = java_encode(name)
        return self._by_raw.setdefault(raw, Topic(raw))

    def append_locked(self, message: Message, topic: Topic, properties: bytes, hosts: bytes) -> PutResult:
        """Write the record of a checked message; `hosts` are its raw born host and store host.

        Thread: the one that holds the put lock and has set `appender.held`.
        """
        now = self.settle_and_next_time()
        took = self._taken(message, topic, properties, hosts)
        if not isinstance(took, TakenOffsets):
            return PutResult(took, reason=PutRule.LIGHT_SIZE if took is PutRule.LIGHT_SIZE.status else None)
        for _ in range(2):
            room = 4096 + len(message.body) + len(topic.raw) + len(took.properties)
            file = self.reserve_space(room)
            if file is None:
                return PutResult(PutMessageStatus.CREATE_MAPPED_FILE_FAILED)
            at = file.wrote
            # Noted before the first byte: wherever a signal falls, the next put knows how far to look, and to zero.
            begun = PendingAppend(file, at, min(at + room, file.size), took.nexts, now)
            self.appender.begun = begun
            end = self.encode(file, at, message, topic, took.properties, hosts, took.offset, now)
            if end == kernel.REFUSED:
                self.appender.begun = None
                return refused(PutRule.RECORD_SIZE)
            # The blank record fills the file, and the second try is in the next one.
            if end == kernel.FULL:
                self._rolled(file, at)
                self.appender.begun = None
                continue
            self.count_record(begun, end)
            # Now that it is the last file, and its blocks are there: plain messages go on in it.
            self.appender.target = file if self.fast else None
            return PutResult(
                PutMessageStatus.PUT_OK, took.offset, file.start + at, end - at, now, self.host, None, took.properties
            )
        raise AssertionError("a record that fits an empty file did not fit one")

    def encode(
        self,
        file: MappedFile,
        at: int,
        message: Message,
        topic: Topic,
        properties: bytes,
        hosts: bytes,
        queue_offset: int,
        now: int,
    ) -> int:
        """Write the bytes of one record to the map, after the log's end.

        Returns:
            As kernels/write/encode_one.py: its end, FULL or REFUSED.

        Thread: the one that holds the put lock.
        """
        host_flags = (BORN_HOST_V6 if len(hosts) - len(self.host) == 20 else 0) | self.host_flag
        end = kernel.encode(
            file.room(at),
            0,
            file.start + at,
            message.body,
            topic.raw,
            properties,
            hosts,
            message.queue_id,
            queue_offset,
            message.flag,
            message.sys_flag & ~(BORN_HOST_V6 | STORE_HOST_V6) | host_flags,
            now if message.born_timestamp is None else message.born_timestamp,
            now,
            message.reconsume_times,
            message.prepared_transaction_offset,
            self.config.enabled_append_prop_crc,
            file.size - at,
            file.size,
        )
        return end if end < 0 else at + end

    def count_record(self, begun: PendingAppend, end: int) -> None:
        """Publish a record that was written up to `end`. May be repeated.

        Thread: the one that holds the put lock.
        """
        assert begun.file is self.files.last and begun.position <= end <= begun.file.size  # the files before are full
        file = begun.file
        self.effects.wrote(file.fd, begun.position, end - begun.position)
        assert end >= file.wrote  # readers and the disk may have what lies below
        # fast_append.py, W5. The queue offsets come after it, unlike there: no other writer is here before the lock is
        # free.
        file.wrote = end
        for topic, queue_id, following in begun.nexts:
            topic.places.setdefault(queue_id, QueueCounter(0)).next = following
        # W6. `begun` goes last: until then an exception from a signal has `_settle` do all of this once more.
        self.appender.last_time, self.appender.end = begun.time, file.start + end
        self.appender.begun = None

    def close(self) -> None:
        """Refuse every later put, after settling an interrupted append. The put lock is held."""
        # First: no put may come between what is settled here and the last flush.
        self.appender.closed = True
        if self.appender.begun is not None:
            self._settle(self.appender.begun)

    def _settle(self, begun: PendingAppend) -> None:
        """Finish an interrupted append if all its records are whole, else remove it.

        Otherwise it would be a record without a queue unit, which RocketMQ's next clean start skips for good (upstream
        defect D6).
        """
        file, at = begun.file, begun.position
        for _ in range(begun.records):
            try:
                left = file.size - at
                at += record.check(file.room(at), 0, file.start + at, file_end=left, max_size=file.size).size
            except record.RecordError as error:
                if error.kind == "BLANK":
                    self._rolled(file, at)
                else:
                    # Back to zeros up to the bound: what follows the log's end must be zeros, also if nothing is ever
                    # put again.
                    with file.room(begun.position) as room:
                        room[: begun.bound - begun.position] = bytes(begun.bound - begun.position)
                self.appender.begun = None
                return
        self.count_record(begun, at)

    def check_invariants(self) -> None:
        """Assert what always holds between two puts of the files and of the shared state.

        An append that a signal interrupted may remain; the next put settles it.

        Thread: the one that holds the put lock, or any while no thread puts. Others may flush, commit and dispatch.
        """
        self.files.check_invariants()
        appender, last = self.appender, self.files.last
        if last is not None:
            assert appender.end == last.end, (
                f"the log ends at {appender.end}, and {last.path} is written up to {last.end}"
            )
        assert self.files.flushed_where <= appender.end, (
            f"flushed up to {self.files.flushed_where}, past {appender.end}"
        )
        assert appender.begun is None or appender.begun.file is last, "the interrupted append is not in the last file"
        target = appender.target
        assert target is None or target is last or target.wrote == target.size, "the fast way writes to an old file"
        assert not appender.held or self.lock.locked(), "the fast way is closed, and nobody has the put lock"
        assert min(self.next_offsets.values(), default=0) >= 0
        for name, topic in list(appender.topics.items()):
            assert self._by_raw.get(topic.raw) is topic, f"{name!r}: two tables of next queue offsets"

    def roll(self, file: MappedFile) -> None:
        """Fill the rest of a file with a blank record; the next record begins in the next file.

        Thread: the one that holds the put lock.
        """
        assert file.size - file.wrote >= record.BLANK_SIZE  # every put leaves room for the blank
        at = file.wrote
        self.appender.begun = PendingAppend(file, at, at + record.BLANK_SIZE, (), 0)
        with file.room(at) as room:
            room[: record.BLANK_SIZE] = record.encode_blank(file.size - at)
        self._rolled(file, at)
        self.appender.begun = None

    def _rolled(self, file: MappedFile, at: int) -> None:
        """Publish the blank record at `at`: the file is full."""
        assert file is self.files.last
        self.effects.wrote(file.fd, at, 8)
        # In this order: who sees a full file must know which of its bytes nobody stored (kernels/threads/ring.py, W4).
        file.end_here(at + 8)
        file.wrote = file.size
        self.appender.end = file.start + file.size
        log.info("%s is full", file.path)

    def _file(self) -> MappedFile | None:
        """Return the file for the next record; None if none can be made."""
        last = self.files.last
        if last is not None and last.wrote < last.size:
            return last
        # Before a name is made: in a store that was taken over, the other process makes the file of this name.
        if not self.ours():
            return None
        start = last.start + last.size if last is not None else self.end - self.end % self.files.file_size
        try:
            with self.slow:
                return self.files.append_file(start)
        except OSError as error:
            if error.errno is None:
                raise  # as in `reserve_space`
            self._lacks(f"no commit log file can be made at offset {start} ({error.strerror})")
            return None

    def _lacks(self, what: str) -> None:
        """Log once that puts are refused for a reason, or (with "") accepted again."""
        if bool(what) != self._lacking:
            self._lacking = bool(what)
            if what:
                log.warning("%s: %s; puts are refused until this is resolved", self.files.place, what)
            else:
                log.info("%s: puts are accepted again", self.files.place)

    def _store_time(self) -> int:
        """Return the clock's time, not before the last record unless it was set back an hour."""
        now, last = self.effects.now_ms(), self.last_time
        if now >= last:
            return now
        if last - now < CLOCK_SET_BACK_MS:
            return last
        log.warning(
            "%s: the clock is %d s earlier than the last record; store times follow the clock",
            self.files.place, (last - now) // 1000,
        )  # fmt: skip
        return now
