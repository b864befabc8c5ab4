"""Derives queue units and index keys from records, for dispatch, rebuild and verify.

`Dispatcher.blocks` turns pieces of a log into blocks: units sorted by queue, and index keys in log order. Plain records
go through the kernel. The few that it leaves out (batch queues, light queues, text that is not UTF-8, a delay level
that is no number) are done here, by the same rules, from `format/`.

Pages: docs/internals/format/consume-queue.md, consume-queue-ext.md, batch-queue.md, index.md. Upstream:
CommitLogDispatcherBuildConsumeQueue, CommitLogDispatcherBuildIndex, ConsumeQueue.dispatchLMQ.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from flintmq.config.keys import StoreConfig
from flintmq.format import batch_queue, consume_queue
from flintmq.format.consume_queue import UNIT_SIZE
from flintmq.format.index import PEER_533, key_hash, keys_of
from flintmq.format.record import INNER_BATCH, TRANSACTION_COMMIT, TRANSACTION_NONE
from flintmq.format.record_view import store_times
from flintmq.format.text import java_decode, java_encode, java_hash
from flintmq.kernels.buffers import Numbers
from flintmq.kernels.read import derive as kernel
from flintmq.kernels.read import group_units
from flintmq.message import StoredMessage, stored_message
from flintmq.storage.files.libc_memory import Kind, zeros_of
from flintmq.storage.threads.mutex import Lock
from flintmq.store.commitlog.walk import Piece
from flintmq.store.dispatch.handover import HandedRows
from flintmq.store.dispatch.queue_positions import lmq_positions, tags_code_of
from flintmq.store.layout.deleted_topics import NONE, Deletions
from flintmq.store.layout.queue_name import BATCH, PLAIN, Queue

if TYPE_CHECKING:
    from concurrent.futures import Future

SCHEDULE_TOPIC = consume_queue.SCHEDULE_TOPIC.encode()
MOST_UNITS = 1 << 17
MOST_KEYS = 1 << 18
ENOUGH_UNITS = 1 << 17  # units or keys of a block if units may be held back: longer runs, fewer writes
MOST_OF_ONE = 1 << 15  # units or keys of one record: its properties have at most 32,767 bytes


@dataclass(frozen=True, slots=True)
class DispatchRules:
    """Settings that determine a record's units and keys, besides the record itself."""

    delay_ms: tuple[int, ...]  # milliseconds of each delay level, level 1 first
    batch_topics: frozenset[bytes] = frozenset()  # topics of type BatchCQ, raw
    light_queues: bool = False
    index: bool = True
    peer: str = PEER_533  # "5.3.3", "5.4.0" or "5.5.0" (the later two index tags too)
    deletions: Deletions = field(default_factory=dict, hash=False)  # topics whose earlier records get no unit

    @staticmethod
    def of(
        config: StoreConfig,
        batch_topics: Iterable[str] = (),
        peer: str = PEER_533,
        deletions: Deletions = NONE,
    ) -> DispatchRules:
        return DispatchRules(
            config.delay_ms,
            frozenset(java_encode(topic) for topic in batch_topics),
            config.enable_lmq and config.enable_multi_dispatch,
            config.message_index_enable,
            peer,
            deletions,
        )


class QueueTable:
    """The queues met so far, by number, with the kernel's lookup table."""

    def __init__(self) -> None:
        self.keys: list[Queue] = []
        self.numbers: dict[Queue, int] = {}
        self.names = bytearray(b"\0")  # never empty, which the kernel requires
        self.table = array("q", bytes(8 * kernel.COLUMNS))
        self.slots = array("i", [-1]) * 1024

    def number(self, queue: Queue) -> int:
        """Return the queue's number; a new one if it was not met before."""
        if queue not in self.numbers:
            self.numbers[queue] = len(self.keys)
            self.keys.append(queue)
        return self.numbers[queue]

    def learn(self, topic: bytes, queue_id: int, kind: int) -> None:
        """Add a queue to the kernel's table, keyed by topic and queue id."""
        number = self.number(Queue(BATCH if kind == kernel.BATCH else PLAIN, topic, queue_id))
        prefix = java_hash(java_decode(topic) + "#") & 0xFFFFFFFF
        row = [len(self.names), len(topic), queue_id, kernel.queue_hash(topic, queue_id), prefix, kind, 0, 0]
        self.names += topic
        missing = (number + 1) * kernel.COLUMNS - len(self.table)
        if missing > 0:
            self.table.extend([0] * missing)
        self.table[number * kernel.COLUMNS : (number + 1) * kernel.COLUMNS] = array("q", row)
        if number * 2 >= len(self.slots):
            self._grow(number)
        self._enter(number)

    def _grow(self, number: int) -> None:
        known = [n for n in self.slots if n >= 0]
        self.slots = array("i", [-1]) * (4 * len(self.slots))
        while number * 2 >= len(self.slots):
            self.slots *= 2
        for other in known:
            self._enter(other)

    def _enter(self, number: int) -> None:
        at = self.table[number * kernel.COLUMNS + 3] & (len(self.slots) - 1)
        while self.slots[at] >= 0:
            at = (at + 1) & (len(self.slots) - 1)
        self.slots[at] = number


class _BlockArrays:
    """The arrays of a block. There are two sets, used in turn."""

    KINDS: ClassVar[tuple[tuple[Kind, int], ...]] = (
        ("q", MOST_UNITS), ("q", MOST_UNITS), ("B", UNIT_SIZE * MOST_UNITS),
        ("i", MOST_KEYS), ("q", MOST_KEYS), ("q", MOST_KEYS),
    )  # fmt: skip

    def __init__(self, arrays: list[memoryview]) -> None:
        self.offset, self.time, self.bytes, self.key_hashes, self.key_offsets, self.key_times = arrays


@dataclass(slots=True)
class UnitBlock:
    """Units and keys of some records, in log order.

    Valid until the next block but one is made.

    Attributes:
        queues: (queue number, first, end) of each plain queue with units here, which are offsets[first:end].
        light: indexes into offsets of units made for light queues.
    """

    queues: list[tuple[int, int, int]]
    offsets: memoryview  # int64, queue offset of each unit
    times: memoryview  # int64, store time in ms of each unit's record
    units: memoryview  # UNIT_SIZE bytes a unit
    batch_units: list[tuple[int, batch_queue.BatchUnit]]  # (queue number, unit) for batch queues
    key_hashes: Numbers
    key_offsets: Numbers
    key_times: Numbers
    keys: int
    last_offset: int  # last_offset, last_time: log offset and store time in ms of the last record taken
    last_time: int


class Dispatcher:
    """Turns pieces into blocks; keeps the table of queues and the arrays.

    Attributes:
        batch_found: if it is set, a queue whose first record is an inner batch makes its topic one of type BatchCQ, and
            this is called with the topic. For a follower, whose master takes inner batches for such topics only and may
            create a topic before anybody here has heard of it.
        knows: if it is set, it is asked with the raw topic of each new queue whether the topic's type is known. If not,
            `blocks` ends before the record, whose log offset is then `held_at`; else `held_at` is None.

    Thread: one.
    """

    def __init__(self, rules: DispatchRules) -> None:
        self.rules, self._changing = rules, Lock()
        self.batch_found: Callable[[str], None] | None = None
        self.knows: Callable[[bytes], bool] | None = None
        self.held_at: int | None = None
        self.queues = QueueTable()
        self.lmq_numbers: set[int] = set()  # queues met as light queues
        self.flags = 0
        self.follow(rules.peer)
        self.delays = array("q", rules.delay_ms or (0,))
        mine: tuple[tuple[Kind, int], ...] = (
            ("i", MOST_UNITS),
            ("q", MOST_UNITS),
            ("q", MOST_UNITS),
            ("B", UNIT_SIZE * MOST_UNITS),
        )
        given = len(_BlockArrays.KINDS)
        arrays = zeros_of(*mine, *_BlockArrays.KINDS, *_BlockArrays.KINDS)
        self.unit_queue, self.unit_offset, self.unit_time, self.unit_bytes = arrays[:4]
        self.given, self.spare = _BlockArrays(arrays[4 : 4 + given]), _BlockArrays(arrays[4 + given :])
        self.batch_units: list[tuple[int, batch_queue.BatchUnit]] = []
        self.units = self.keys = 0
        self._held: tuple[int, int] | None = None  # log offset and store time of the last record held back

    def follow(self, peer: str) -> None:
        """Make index keys as this version does from the next block on.

        Versions are "5.3.3", "5.4.0" and "5.5.0".
        """
        self.rules = replace(self.rules, peer=peer)
        self.flags = (kernel.LMQ if self.rules.light_queues else 0) | (
            (kernel.INDEX | (kernel.TAG_KEYS if peer != PEER_533 else 0)) if self.rules.index else 0
        )

    def learn_batch_topic(self, topic: str) -> None:
        """Note that a topic without records is of type BatchCQ from now on. Thread: any."""
        with self._changing:
            self.rules = replace(self.rules, batch_topics=self.rules.batch_topics | {java_encode(topic)})

    def remove_topic(self, topic: bytes, deletions: Deletions) -> None:
        """Make no units of records that a deletion covers, and learn queues anew.

        Thread: the dispatcher's, with nothing held back.
        """
        assert self.units == self.keys == 0
        with self._changing:
            self.rules = replace(self.rules, batch_topics=self.rules.batch_topics - {topic}, deletions=deletions)
        self.queues, self.lmq_numbers = QueueTable(), set()  # whose kinds are kept per queue; they are learned again

    def blocks(self, piece: Piece, hold: bool = False) -> Iterator[UnitBlock]:
        """Yield the blocks of one piece: mostly one, more if its records have many units or keys.

        `hold`: buffer up to 131,072 units across pieces, so that queues are written in longer runs. Call `rest` at the
        end.
        """
        at, self.held_at = 0, None
        while at < piece.count:
            if self.units + (piece.count - at) > MOST_UNITS:
                yield self._block(piece, at)
            at, why, self.units, self.keys = kernel.derive(
                piece.data,
                piece.base,
                piece.positions,
                at,
                piece.count,
                self.queues.slots,
                self.queues.table,
                self.queues.names,
                self.delays,
                self.flags,
                self.unit_queue,
                self.unit_offset,
                self.unit_time,
                self.unit_bytes,
                self.units,
                self.given.key_hashes,
                self.given.key_offsets,
                self.given.key_times,
                self.keys,
            )
            if why == kernel.NEW_QUEUE:
                message = stored_message(piece.data, piece.positions[at])
                if self.knows is not None and not self.knows(message.fields.topic):
                    self.held_at = piece.base + piece.positions[at]
                    if at:
                        yield self._block(piece, at)
                    return
                self._learn(message)
            elif why == kernel.KEYS_FULL:
                yield self._block(piece, at)
            elif why == kernel.SPECIAL:
                message = stored_message(piece.data, piece.positions[at])
                if self.keys + MOST_OF_ONE > MOST_KEYS or self.units + MOST_OF_ONE > MOST_UNITS:
                    yield self._block(piece, at)
                self._special(message)
                at += 1
        if not hold or self.units >= ENOUGH_UNITS or self.keys >= ENOUGH_UNITS:
            yield self._block(piece, piece.count)
        else:
            assert piece.count > 0  # a walk gives no empty piece
            self._held = piece.base + piece.positions[piece.count - 1], self._time(piece, piece.count)

    def handed_over(self, rows: HandedRows) -> UnitBlock | None:
        """Make the block of rows that are still columns; None if their records must be read."""
        topic, tag_keys = rows.topic, self.flags & kernel.TAG_KEYS
        if topic in self.rules.batch_topics or topic == SCHEDULE_TOPIC or tag_keys or self.units or self.keys:
            return None
        count, numbers = rows.last - rows.first, array("i", bytes(4 * len(rows.next_offsets)))
        if count > MOST_UNITS:
            return None
        for queue_id in rows.queue_ids:
            numbers[queue_id] = self.queues.number(Queue(PLAIN, topic, queue_id))
        last = rows.columns.units(
            rows.first,
            rows.last,
            rows.begin,
            rows.store_time,
            numbers,
            array("q", rows.next_offsets),
            self.unit_queue,
            self.unit_offset,
            self.unit_time,
            self.unit_bytes,
            self.rules.index,
        )
        if last < 0:
            return None
        self.units = count
        return self._collected(last, rows.store_time)

    def rest(self) -> Iterator[UnitBlock]:
        if self._held is not None:
            yield self._collected(*self._held)

    def _learn(self, message: StoredMessage) -> None:
        topic = message.fields.topic
        kind = kernel.PLAIN
        if self.batch_found is not None and message.sys_flag & INNER_BATCH and topic not in self.rules.batch_topics:
            self.learn_batch_topic(java_decode(topic))
            self.batch_found(java_decode(topic))
        if topic in self.rules.batch_topics:
            kind = kernel.BATCH
        elif topic == SCHEDULE_TOPIC:
            kind = kernel.SCHEDULE
        self.queues.learn(topic, message.queue_id, kind)

    @staticmethod
    def _time(piece: Piece, taken: int) -> int:
        return next(store_times(piece.data, piece.positions[max(taken, 1) - 1 :], 1))

    def _block(self, piece: Piece, taken: int) -> UnitBlock:
        return self._collected(piece.base + piece.positions[max(taken, 1) - 1], self._time(piece, taken))

    def _collected(self, last_offset: int, last_time: int) -> UnitBlock:
        """Return the collected block, sorted by queue, and begin a new collection."""
        assert self.units <= len(self.unit_offset) and self.keys <= len(self.given.key_hashes)
        given, self.given, self.spare = self.given, self.spare, self.given
        starts = array("q", bytes(8 * (len(self.queues.keys) + 1)))
        group_units.group(
            self.unit_queue,
            self.unit_offset,
            self.unit_time,
            self.unit_bytes,
            self.units,
            starts,
            given.offset,
            given.time,
            given.bytes,
        )
        assert starts[-1] == self.units  # every unit is of a queue that was numbered
        queues = [(n, starts[n], starts[n + 1]) for n in range(len(starts) - 1) if starts[n] != starts[n + 1]]
        if self.rules.deletions:
            queues = list(self._not_deleted(queues, given))
        block = UnitBlock(
            queues,
            given.offset,
            given.time,
            memoryview(given.bytes),
            self.batch_units,
            given.key_hashes,
            given.key_offsets,
            given.key_times,
            self.keys,
            last_offset,
            last_time,
        )
        self._held = None
        self.units = self.keys = 0
        self.batch_units = []
        return block

    def _not_deleted(
        self, queues: Iterable[tuple[int, int, int]], given: _BlockArrays
    ) -> Iterator[tuple[int, int, int]]:
        """Leave out units whose records a deletion covers; they are the first of their queue."""
        deletions, keys = self.rules.deletions, self.queues.keys
        for number, first, end in queues:
            one = deletions.get(keys[number].topic)
            while one is not None and first < end:
                if not one.covers(consume_queue.record_offset_at(given.bytes, first), given.time[first]):
                    break
                first += 1
            if first < end:
                yield number, first, end
        self.batch_units = [
            (number, unit)
            for number, unit in self.batch_units
            if (one := deletions.get(keys[number].topic)) is None
            or not one.covers(unit.physical_offset, unit.store_timestamp)
        ]

    # -- the slow way ---------------------------------------------------------------------------------------------

    def _special(self, message: StoredMessage) -> None:
        """Make units and keys of one record by the rules of `format/`."""
        if self.rules.index:
            for key in keys_of(message.properties, message.sys_flag, self.rules.peer):
                self.given.key_hashes[self.keys] = key_hash(message.topic, key)
                self.given.key_offsets[self.keys] = message.physical_offset
                self.given.key_times[self.keys] = message.store_timestamp
                self.keys += 1
        if message.fields.transaction not in (TRANSACTION_NONE, TRANSACTION_COMMIT):
            return
        code = tags_code_of(message, self.rules.delay_ms)
        topic = message.fields.topic
        if topic in self.rules.batch_topics:
            base, messages = batch_queue.messages_of(message.properties, message.queue_offset)
            unit = batch_queue.BatchUnit(
                message.physical_offset, message.size, code, message.store_timestamp, base, messages
            )
            self.batch_units.append((self.queues.number(Queue(BATCH, topic, message.queue_id)), unit))
        else:
            self._append(Queue(PLAIN, topic, message.queue_id), message.queue_offset, message, code)
        if self.rules.light_queues:
            for place in lmq_positions(message):
                queue = Queue(PLAIN, java_encode(place.topic), place.queue_id)
                self.lmq_numbers.add(self.queues.number(queue))
                self._append(queue, place.offset, message, code)

    def _append(self, queue: Queue, queue_offset: int, message: StoredMessage, code: int) -> None:
        self.unit_queue[self.units] = self.queues.number(queue)
        self.unit_offset[self.units] = queue_offset
        self.unit_time[self.units] = message.store_timestamp
        unit = kernel.unit(message.physical_offset, message.size, code)
        self.unit_bytes[UNIT_SIZE * self.units : UNIT_SIZE * (self.units + 1)] = unit
        self.units += 1


def each_block(blocks: Iterable[UnitBlock], take: Callable[[UnitBlock], bool], *, beside: bool) -> bool:
    """Call take(block) for each block until it returns False.

    `beside`: take a block in another thread while the next one is made. Kernels and system calls do not hold the GIL.
    """
    if not beside:
        return all(take(block) for block in blocks)
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1, "flintmq-units") as writer:
        taken: Future[bool] | None = None
        for block in blocks:
            if taken is not None and not taken.result():
                return False
            taken = writer.submit(take, block)
        return taken is None or taken.result()
