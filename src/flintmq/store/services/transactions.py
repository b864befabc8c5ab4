"""Ends transactions: half messages are delivered, or dropped, as their senders say.

A half message lies in queue 0 of a topic of RocketMQ's own. To commit it is two records: the message in its real topic
first, then an outcome that names the half message; to roll it back is the outcome alone. Senders that say nothing are
asked (`MessageStore.on_check`). Each time the half message is put again at the queue's end, with a higher count, and
the earlier copy gets an outcome. The offsets of the group CID_RMQ_SYS_TRANS say up to where both queues are done. All
of this is on disk as RocketMQ's broker has it, so either goes on with the other's.

Nothing lost: the message comes before the outcome, the copy before the earlier one's outcome. Nothing twice: a stop
between the two leaves a committed message whose half message looks open. RocketMQ asks its sender again, who commits,
and it is delivered twice; it writes outcomes only every 3 s, so a kill does that to all of these seconds. Here:

- The outcome is put at once.
- A half message of before this start is looked for among the messages of its real topic, by its id in the key index,
  before it is committed and before anybody is asked. One that is there gets its outcome and nothing else. Without an
  index (messageIndexEnable=false) it is as with RocketMQ.
- All copies of a half message are one transaction: whichever of them the sender ends ends the open one. Copies are
  known by the sender's id, time of birth and host. An end that comes a second time is refused.

Other differences from upstream: an attempt to ask counts only if there was somebody to ask, so nothing is given up
while its senders are away; and one that may not be asked about yet is put again only if it keeps many outcomes.

Upstream: TransactionalMessageServiceImpl, EndTransactionProcessor, TransactionalMessageCheckService.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from flintmq.config.keys import StoreConfig
from flintmq.errors import MessageNotFoundError, UsageError
from flintmq.format import properties
from flintmq.format.group_topics import HALF_GROUP, HALF_TOPIC, OUTCOME_TOPIC
from flintmq.format.record import TRANSACTION_COMMIT
from flintmq.format.text import java_int
from flintmq.message import Message, PutMessageStatus, PutResult, StoredMessage
from flintmq.storage.files.filesystem import Effects
from flintmq.storage.threads.mutex import Lock
from flintmq.store import arguments
from flintmq.store.append import half_message
from flintmq.store.append.service import PutService
from flintmq.store.append.unique_keys import UniqueKeys
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.consumequeue.live_queues import ConsumeQueues
from flintmq.store.read.get import LiveReader
from flintmq.store.read.key_query import KeyQuery
from flintmq.store.reentry import lockless
from flintmq.store.services.consumer_offsets import ConsumerOffsets
from flintmq.store.services.scheduler import Upkeep

log = logging.getLogger("flintmq.transactions")

AT_ONCE: Final = 1000  # units that are read at a time
OUTCOMES_KEPT: Final = 10_000  # that a start must read, before the half message that keeps them is put again
_LONGEST_MS: Final = 1 << 31  # of an interval
_LIKE_IT: Final = 64  # messages of one id that are looked at
RAW_HALF, RAW_OUTCOME = HALF_TOPIC.encode(), OUTCOME_TOPIC.encode()


class Half:
    """A message that is stored, and delivered only if it is committed.

    Attributes:
        message: its record; its topic is RocketMQ's for half messages.
        topic, queue_id: where it is delivered.
        group: of its sender.
        checks: how often its sender was asked so far.

    Thread: any.
    """

    __slots__ = ("_transactions", "checks", "group", "message", "queue_id", "topic")

    def __init__(self, transactions: Transactions, message: StoredMessage) -> None:
        self._transactions, self.message = transactions, message
        self.topic, self.queue_id = half_message.real_place(message) or ("", 0)
        self.group = message.properties.get(properties.PGROUP, "")
        self.checks = half_message.checks_of(message)

    def commit(self, *, wait: bool = True) -> PutResult:
        """Deliver the message; return the result of the put to its real topic.

        Args:
            wait: for the disk and for replicas, as a put does.

        Raises:
            TypeError: a switch that is neither True nor False.
            UsageError: the transaction has ended; the store is closed.

        Durability: as for a put. If nothing was stored (a full disk), the transaction is still open.
        """
        arguments.flags(wait=wait)
        return self._transactions.end(self.message, commit=True, wait=wait)

    def rollback(self, *, wait: bool = True) -> PutResult:
        """Drop the message; return the result of the put of the record that says so.

        Args:
            wait: for the disk and for replicas, as a put does.

        Raises:
            TypeError: a switch that is neither True nor False.
            UsageError: the transaction has ended; the store is closed.

        Durability: as for a put. If nothing was stored (a full disk), the transaction is still open.
        """
        arguments.flags(wait=wait)
        return self._transactions.end(self.message, commit=False, wait=wait)

    def __repr__(self) -> str:
        """Return its sender, its place and its id."""
        return f"Half(group={self.group!r}, topic={self.topic!r}, queue_id={self.queue_id}, id={self.message.msg_id!r})"


Asks = Callable[[Half], object]


@dataclass(slots=True)
class _Open:
    """A half message of which nobody has said how it ends."""

    alike: tuple[object, ...]  # equal for all copies of one half message
    checks: int
    origin: int | None  # see half_message.origin_of
    is_copy: bool
    sure: bool  # no message of an earlier life was committed from it


class Transactions:
    """The half messages of one open store.

    `first`, `first_outcome`: queue offsets of the first half message and the first outcome of this life. Thread: any.
    """

    def __init__(
        self,
        root: str,
        config: StoreConfig,
        effects: Effects,
        peer: str,
        *,
        queues: ConsumeQueues,
        reader: LiveReader,
        puts: PutService,
        offsets: ConsumerOffsets,
        check: Callable[[], None],
        make_readable: Callable[[], object],
        first: int,
        first_outcome: int,
    ) -> None:
        self.root, self.config, self.effects, self.peer = root, config, effects, peer
        self.queues, self.reader, self.puts, self.offsets = queues, reader, puts, offsets
        self.check, self.make_readable, self.first, self.first_outcome = check, make_readable, first, first_outcome
        self._keys, self._asks = UniqueKeys(effects), list[Asks]()
        interval = min(max(config.transaction_check_interval, 1), _LONGEST_MS)
        self._upkeep, self._has_threads = Upkeep("flintmq-transactions", effects, root), False
        self._upkeep.every(interval, self.check_once)
        self._lock = Lock()  # held while records of one end are put, and never while somebody waits or is asked
        self._is_loaded = False
        self._open: dict[int, _Open] = {}  # queue offset, ascending: all that are open below `_seen`
        self._latest: dict[tuple[object, ...], int] = {}  # `alike` -> queue offset of the last of these
        self._moved: dict[int, int] = {}  # queue offset -> that of the copy which took its place in this life
        self._ended: set[int] = set()  # at or after `_seen`
        self._seen = 0  # queue offset up to which the queue was looked at
        self._outcomes: deque[tuple[int, int]] = deque()  # queue offset, largest half message that it names
        self._owed: list[int] = []  # half messages that have ended, and whose outcome could not be put
        self._noted = -1, -1  # the group's offsets

    # -- senders ------------------------------------------------------------------------------------------------------

    def begin(self, message: Message, group: str) -> Half:
        """Put a half message; see MessageStore.begin."""
        if not group:
            raise UsageError("the group of the sender is empty; a half message needs one, to be asked about")
        half = half_message.prepared(message, self.config, group, lambda: self._keys.take(1)[0])
        result = self.puts.put(half)
        result.raise_for_status()
        return self.at(result.physical_offset)

    def at(self, physical_offset: int) -> Half:
        """Return the half message at a log offset; see MessageStore.half_at."""
        message = self.reader.at(physical_offset)
        if message is None:
            self.make_readable()  # it may be in the pool still
            message = self.reader.at(physical_offset)
        if message is None or message.fields.topic != RAW_HALF or message.queue_id != 0:
            raise MessageNotFoundError(f"no half message begins at log offset {physical_offset}")
        return Half(self, message)

    def end(self, half: StoredMessage, *, commit: bool, wait: bool) -> PutResult:
        """Commit a half message, or roll it back; see Half."""
        self.check()
        with self._lock:
            self._load()
            offset = self._open_one(half)
            result, end = self._commit(half, offset) if commit else self._roll_back(half, offset)
            self._go_on()
        if result and wait and self.puts.waits and end:
            settled = self.puts.settle(end)
            return result if settled is end else result.with_status(settled.status)
        return result

    def _open_one(self, half: StoredMessage) -> int:
        """Return the queue offset of the open copy of a half message. The lock is held.

        Raises UsageError: none is open.
        """
        offset = half.queue_offset
        if offset < self.first and self._seen < self.first:
            self._look()  # an earlier life may have left a copy of it
        while (copy := self._moved.get(offset)) is not None:
            offset = copy
        if self._is_open(offset):
            return offset
        if offset != half.queue_offset:
            raise UsageError(f"{self.root}: the transaction of the half message at queue offset {offset} has ended")
        self._look()
        latest = self._latest.get(_alike(half), -1)
        if not self._is_open(latest) or (latest in self._open and not self._open[latest].is_copy):
            raise UsageError(f"{self.root}: the transaction of the half message at queue offset {offset} has ended")
        return latest

    def _is_open(self, offset: int) -> bool:
        return offset in self._open or (offset >= self._seen and offset not in self._ended)

    def _commit(self, half: StoredMessage, offset: int) -> tuple[PutResult, PutResult | None]:
        """Put the message of a half message and the outcome; return both results. The lock is held."""
        before = self._committed_before(half, offset)
        if before is not None:
            return _result_of(before), self._write(offset)
        message = half_message.committed(half, self.peer)
        if message is None:
            raise UsageError(f"{self.root}: the half message at queue offset {offset} names no topic; roll it back")
        result = self.puts.put(message)
        if result.physical_offset < 0:
            return result, None
        return result, self._write(offset) or result

    def _roll_back(self, half: StoredMessage, offset: int) -> tuple[PutResult, PutResult | None]:
        """Put the outcome of a half message that is dropped. The lock is held."""
        if self._committed_before(half, offset) is not None:
            self._write(offset)
            raise UsageError(f"{self.root}: the half message at queue offset {offset} was committed before")
        result = self.puts.put(half_message.outcome([offset]))
        if result.physical_offset >= 0:
            self._outcomes.append((result.queue_offset, offset))
            self._forget(offset)
        return result, result

    def _write(self, offset: int) -> PutResult | None:
        """Put the outcome of a half message that has ended.

        None: it is refused, and owed. The lock is held.
        """
        self._forget(offset)
        self._owed.append(offset)
        return self._pay()

    def _pay(self) -> PutResult | None:
        """Put the outcomes that are owed; return None if none is put. The lock is held."""
        if not self._owed:
            return None
        result = self.puts.put(half_message.outcome(self._owed))
        if result.physical_offset < 0:
            return None
        self._outcomes.append((result.queue_offset, max(self._owed)))
        self._owed.clear()
        return result

    # -- what is open -------------------------------------------------------------------------------------------------

    def _load(self) -> None:
        """Read what earlier lives ended, before the first change of this one. The lock is held."""
        if self._is_loaded:
            return
        self._seen = self._progress(HALF_TOPIC, self.first)
        begin = self._progress(OUTCOME_TOPIC, self.first_outcome)
        self._noted = self._seen, begin
        for offset, record in self._records(RAW_OUTCOME, begin):
            ended = [] if record is None else half_message.ended_by(record)
            self._ended.update(number for number in ended if self._seen <= number < self.first)
            self._outcomes.append((offset, max(ended, default=-1)))
        self._is_loaded = True

    def _progress(self, topic: str, high: int) -> int:
        """Return up to where a queue is done.

        Earlier lives have made the part before `high`.
        """
        low, noted = self.reader.bounds(topic, 0)[0], self.offsets.get(HALF_GROUP, topic, 0)
        return low if noted is None else max(min(noted, high), low)

    def _records(self, raw: bytes, begin: int) -> Iterator[tuple[int, StoredMessage | None]]:
        """Yield the records of a queue from an offset on; None for one that cannot be read."""
        queue, offset = self.queues.plain.get((raw, 0)), begin
        while queue is not None and offset < queue.max_offset:
            units = queue.units(offset, AT_ONCE)
            if not units:  # a file that is missing
                offset = queue.next_file(offset)
            for unit in units:
                ended = raw == RAW_HALF and offset in self._ended
                yield offset, None if ended else self.reader.record(unit, raw, 0, offset)
                offset += 1

    def _look(self) -> None:
        """Add the half messages that came since the last look and have not ended. The lock is held."""
        for offset, half in self._records(RAW_HALF, self._seen):
            if half is None:
                self._seen = offset + 1
                self._ended.discard(offset)
                continue
            checks, origin = half_message.checks_of(half), half_message.origin_of(half)
            found = _Open(_alike(half), checks, origin, half_message.is_copy(half), offset >= self.first)
            before = self._latest.get(found.alike, -1)
            if before in self._open and _replaces(found, before, self._open[before]):
                self._write(before)  # a stop came between the copy and this outcome
            self._open[offset] = found
            self._latest[found.alike] = offset
            self._seen = offset + 1

    def _forget(self, offset: int) -> None:
        """Note that a half message is not open any more. The lock is held."""
        known = self._open.pop(offset, None)
        if known is None:
            self._ended.add(offset)
        elif self._latest.get(known.alike) == offset:
            del self._latest[known.alike]

    def _go_on(self) -> None:
        """Move the group's offsets on, and put again what keeps too many outcomes. The lock is held."""
        if len(self._outcomes) + len(self._ended) > OUTCOMES_KEPT:
            self._look()
        self._note()
        while len(self._outcomes) > OUTCOMES_KEPT and self._open:
            offset = next(iter(self._open))
            half = self._half(offset)
            if half is not None and self._committed_before(half, offset) is not None:
                self._write(offset)
            elif half is not None and not self._put_again(half, half_message.moved(half)):
                break
            self._note()

    def _note(self) -> None:
        while self._seen in self._ended:
            self._ended.remove(self._seen)
            self._seen += 1
        half, outcome = next(iter(self._open), self._seen), self._noted[1]
        while self._outcomes and self._outcomes[0][1] < half:
            outcome = self._outcomes.popleft()[0] + 1
        for topic, offset, noted in zip((HALF_TOPIC, OUTCOME_TOPIC), (half, outcome), self._noted, strict=True):
            if offset != noted:
                self.offsets.commit(HALF_GROUP, topic, 0, offset)
        self._noted = half, outcome

    def _half(self, offset: int) -> StoredMessage | None:
        """Read an open half message; one that cannot be read is none any more. The lock is held."""
        queue = self.queues.plain.get((RAW_HALF, 0))
        units = queue.units(offset, 1) if queue is not None else []
        half = self.reader.record(units[0], RAW_HALF, 0, offset) if units else None
        if half is None:
            log.error("%s: the half message at queue offset %d is gone, and its sender never said how it ends",
                      self.root, offset)  # fmt: skip
            self._forget(offset)
        return half

    def _committed_before(self, half: StoredMessage, offset: int) -> StoredMessage | None:
        """Return the message that an earlier life committed from a half message or a copy of it.

        The lock is held.
        """
        known = self._open.get(offset)
        if known.sure if known is not None else offset >= self.first:
            return None
        place, key = half_message.real_place(half), half.msg_id
        if place is None or not key or not self.config.message_index_enable:
            return None
        is_copy = half.queue_offset != offset or half_message.is_copy(half)
        snapshot = Snapshot(self.root, self.config, self.effects)
        for one in KeyQuery(snapshot, place[0], key, None, None, _LIKE_IT).run():
            alike = (one.queue_id, one.born_timestamp, one.born_host) == (
                place[1], half.born_timestamp, half.born_host,
            )  # fmt: skip
            prepared = one.prepared_transaction_offset
            is_its = prepared == half.physical_offset or (alike and (is_copy or self._is_copy_at(prepared)))
            if one.fields.transaction == TRANSACTION_COMMIT and is_its:
                return one
        if known is not None:
            known.sure = True
        return None

    def _is_copy_at(self, physical_offset: int) -> bool:
        """Return whether the half message there is a copy.

        One of the same id that is none is another message.
        """
        record = self.reader.at(physical_offset)
        return record is not None and record.fields.topic == RAW_HALF and half_message.is_copy(record)

    # -- asking -------------------------------------------------------------------------------------------------------

    def on_check(self, callback: Asks) -> Callable[[], None]:
        """Have a function asked about half messages; see MessageStore.on_check."""
        with self._lock:
            self._asks.append(callback)
            if self._has_threads and not self._upkeep.is_started:
                self._upkeep.start()

        def end() -> None:
            with suppress(ValueError):
                self._asks.remove(callback)

        return end

    def check_once(self) -> bool:
        """Ask about each half message that is due; return False: nothing remains.

        Thread: any; one at a time. Upstream: TransactionalMessageServiceImpl.check.
        """
        if not self._asks:
            return False
        with self._lock:
            self._load()
            self._look()
            self._pay()
            self._forget_ended()
            known = list(self._open)
        for offset in known:
            if self._upkeep.stopping and self._has_threads:
                break
            try:
                self._ask_about(offset)
            except Exception:  # whatever it is: the others are asked about all the same
                log.exception("%s: the half message at queue offset %d cannot be asked about now", self.root, offset)
        with self._lock:
            self._go_on()
        return False

    def _ask_about(self, offset: int) -> None:
        with self._lock:
            half = self._due(offset)
        if half is not None and self._ask(Half(self, half)):
            with self._lock:
                if offset in self._open:  # else it has ended meanwhile
                    self._put_again(half, half_message.asked_again(half))

    def _forget_ended(self) -> None:
        self._moved = {old: new for old, new in self._moved.items() if new in self._moved or self._is_open(new)}
        self._latest = {alike: offset for alike, offset in self._latest.items() if self._is_open(offset)}

    def _due(self, offset: int) -> StoredMessage | None:
        """Return a half message if its sender is to be asked now. The lock is held."""
        half = self._half(offset) if offset in self._open else None
        if half is None:
            return None
        now = self.effects.now_ms()
        age, stored = now - half.born_timestamp, now - half.store_timestamp  # one is by the sender's clock
        too_old = min(age, stored) > self.config.file_reserved_time * 3_600_000
        too_often = half_message.checks_of(half) >= max(self.config.transaction_check_max, 1)
        if not too_old and not too_often and not self._is_late(half, age):
            return None
        if self._committed_before(half, offset) is not None:
            self._write(offset)
        elif too_old or too_often:
            log.error("%s: nobody says how %r ends; it goes to the topic TRANS_CHECK_MAX_TIME_TOPIC",
                      self.root, Half(self, half))  # fmt: skip
            self._put_again(half, half_message.given_up(half, too_old=not too_often))
        else:
            return half
        return None

    def _is_late(self, half: StoredMessage, age: int) -> bool:
        """Return whether a half message is so old that its sender is asked; `age` is in ms."""
        immunity = half.properties.get(properties.CHECK_IMMUNITY)
        if immunity is None:
            return not 0 <= age <= self.config.transaction_time_out
        seconds = java_int(immunity, 64)
        return age > (self.config.transaction_time_out if seconds is None or seconds == -1 else seconds * 1000)

    def _ask(self, half: Half) -> bool:
        """Ask whoever may know; return whether somebody was there. No lock is held."""
        for ask in list(self._asks):
            try:
                if ask(half) is not False:
                    return True
            except Exception:
                log.exception("%s: the function that was asked about %r failed", self.root, half)
                return True
        return False

    def _put_again(self, half: StoredMessage, message: Message) -> bool:
        """Put what takes the place of an open half message; return whether that is stored.

        The lock is held.
        """
        result = self.puts.put(message)
        if result.physical_offset < 0:
            return False  # the next round tries again
        self._write(half.queue_offset)
        if message.topic == HALF_TOPIC:
            self._moved[half.queue_offset] = result.queue_offset
            self._latest[_alike(half)] = result.queue_offset  # at once: its end may come before it is dispatched
        return True

    # -- threads ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Let a thread ask, once there is whom to ask."""
        self._has_threads = True

    def halt(self) -> None:
        """Make the thread end without waiting for it."""
        self._upkeep.halt()

    def stop(self) -> None:
        """Stop the thread; what is asked now is waited for."""
        self._upkeep.stop()

    def check_invariants(self) -> None:
        """Assert what holds between two calls."""
        with self._lock:
            assert list(self._open) == sorted(self._open), "open half messages are out of order"
            assert max(self._open, default=-1) < self._seen, "one is open beyond what was looked at"
            assert not self._open.keys() & self._ended, "one is open and has ended"
            assert self._noted[0] <= next(iter(self._open), self._seen), "the group's offset is after an open one"


def _alike(half: StoredMessage) -> tuple[object, ...]:
    """Return what all copies of a half message have in common."""
    return half.msg_id, half_message.real_place(half), half.born_timestamp, half.born_host


def _replaces(copy: _Open, offset: int, before: _Open) -> bool:
    """Return whether a half message is a copy of the one before, which lacks its outcome."""
    if copy.origin is not None and copy.checks == before.checks:
        return copy.origin in (offset, before.origin)
    return copy.checks == before.checks + 1


def _result_of(record: StoredMessage) -> PutResult:
    """Return the result of the put that a record is of."""
    fields = record.fields
    return PutResult(
        PutMessageStatus.PUT_OK, record.queue_offset, fields.physical_offset, record.size, fields.store_timestamp,
        fields.store_host, None, record.msg_id,
    )  # fmt: skip


lockless(Transactions.check_once.__code__)
lockless(Transactions._ask_about.__code__)
lockless(Transactions._ask.__code__)
