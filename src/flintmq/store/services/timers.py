"""Delivers messages that wait for a time, and leaves out those that were recalled.

A waiting message is a record of the timer's topic (`append/timed_message.py`). `step` takes new records of that topic's
queue into slots, one for each moment, and puts the messages of slots that are over to their own topics. What is in
memory follows from the disk: a unit of the timer log for each record, and `config/timercheck` (`timer_log.py`), both as
RocketMQ's broker writes and reads them, so either goes on where the other stopped
(docs/internals/decisions/timers.md).

Each once. `timercheck` says a time `read_time`: slots before it are done. It is noted once a second and at the end,
after the log is flushed, so what it calls done is on disk. A kill between a put and this note leaves messages that are
delivered and seem to wait. So a start looks for them in their own queues, among what was stored since that time, or
since the first of them was due: copies are compared as a whole, and counted: for each that is found one is left out.
So is a record that was stored once more for another round, if that copy is in the timer's queue: its slot is not done,
or its unit is gone (kill, salvage).

Never early. A slot is delivered when the clock of the store is past its end. A clock that is set forward is believed.
One that is set back delays what is put before it comes to `read_time` again: slots before that time count as done.

Upstream: TimerMessageStore. Differences: it keeps what waits on disk alone; it puts what came too late for its slot at
once and notes no unit of it, so such messages come again after a restart; it drops what could not be put three times;
its clock set back hides what is put until the old time comes.
"""

from __future__ import annotations

import heapq
import logging
from array import array
from collections import Counter, deque
from collections.abc import Callable, Container, Hashable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from flintmq.config.keys import StoreConfig
from flintmq.errors import FlintError
from flintmq.format import properties
from flintmq.format.text import java_encode, java_hash, java_int
from flintmq.format.timer import TIMER_TOPIC, UNIT_ALWAYS, UNIT_DELETES, UNIT_ROLLED, WHEEL_SLOTS, LogUnit
from flintmq.message import Message, PutResult, StoredMessage
from flintmq.storage.files.filesystem import Effects
from flintmq.storage.threads.mutex import Lock
from flintmq.store.append.delayed_message import again, delivered
from flintmq.store.consumequeue.live_queue import RunningQueue
from flintmq.store.consumequeue.live_queues import ConsumeQueues
from flintmq.store.read.get import LiveReader
from flintmq.store.services.delay import AT_ONCE, REFUSED
from flintmq.store.services.timer_log import NewUnit, TimerLog

log = logging.getLogger("flintmq.timers")

Entry: TypeAlias = tuple[int, int, int]  # log offset, size (negative: rolled), time of taking

RAW_TOPIC = TIMER_TOPIC.encode()
WIDTH = 3  # numbers of an entry
LEAST_STEP_MS = 10  # between two steps
_SET_BACK_MS = 60_000  # from which on a clock that is set back is said
_SPARE_SLOTS = 60  # of a round of the wheel, which a window may not have
_NONE_AGAIN = 1 << 62  # an offset that no queue has
_VARIES = frozenset({
    properties.TIMER_ENQUEUE_MS, properties.TIMER_DEQUEUE_MS, properties.REAL_TOPIC, properties.REAL_QID,
    properties.CRC32, properties.WAIT, properties.INNER_MULTI_QUEUE_OFFSET, properties.TIMER_ROLL_TIMES,
})  # fmt: skip
"""Properties in which two deliveries of one message may differ."""


class AtStart(NamedTuple):
    """Represents the log as a start of the store found it, before anything was put.

    Attributes:
        log_end: the log's end.
        queue_end: the end of the timer's queue.
        last_time: store time of the last record after an unclean stop, in ms; 0: the stop was clean, or there is none.
    """

    log_end: int
    queue_end: int
    last_time: int


class TimerService:
    """Delivers what is due.

    `put`: appends to the log without waiting for the disk; `flush`: makes the log durable up to now, and returns False
    if it cannot; `log_bounds`: begin and end of the log; `found`: what the start of the store found. Thread: see each
    method.

    Attributes:
        lost: messages that retention deleted while they waited, since the start.
    """

    def __init__(
        self,
        queues: ConsumeQueues,
        reader: LiveReader,
        put: Callable[[Message], PutResult],
        file: TimerLog,
        *,
        flush: Callable[[], bool],
        log_bounds: Callable[[], tuple[int, int]],
        found: AtStart,
        config: StoreConfig,
        effects: Effects,
    ) -> None:
        self.queues, self.reader, self.put, self.file = queues, reader, put, file
        self.flush, self.log_bounds, self.found, self.effects = flush, log_bounds, found, effects
        self.precision = config.timer_precision_ms
        window, most = config.timer_roll_window_slot, WHEEL_SLOTS // 2 - _SPARE_SLOTS
        self.window = window if 2 <= window <= most else most
        self.lost = 0
        self._step = Lock()
        self._next = -1  # queue offset of the next record to take; negative: nothing is loaded
        self._read_time = 0  # slots before it are done
        # Slot -> its entries: three numbers in a row for each, as millions may wait.
        self._slots: dict[int, array[int]] = {}
        self._order: list[int] = []  # slots, a heap
        self._at = 0  # place in the first slot, of which all before is done
        self._late: deque[Entry] = deque()  # messages that are due, whose slot was done before they came
        self._late_recalled: set[str] = set()  # keys of those that are not to be delivered
        self._recalled: dict[int, set[str]] = {}  # slot -> keys of its messages that are not to be delivered
        self._new: list[NewUnit] = []  # units that are not in the timer log yet
        self._changed = False  # something was taken or delivered since `timercheck` was written
        self._given: Counter[Hashable] = Counter()  # deliveries that the start found, of messages that seem to wait
        self._given_until = 0  # slots from here on were not due at the start
        self._copied: set[int] = set()  # log offsets of records that were stored once more before the start
        self._finished = False  # the store is being closed
        self._said_set_back = False

    # -- steps ------------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Take new messages, and deliver those that are due; return whether there may be more to do.

        Thread: any; one at a time. Durability: as an ASYNC_FLUSH put; `save_once` writes the progress.
        """
        with self._step:
            queue = self.queues.plain.get((RAW_TOPIC, 0))
            if queue is None or queue.max_offset == 0 or self._finished:
                return False
            if self._next < 0 and not self._load(queue):
                return False
            more = self._take_all(queue)  # first: it may recall what is due
            return self._deliver(AT_ONCE) or more

    def _take_all(self, queue: RunningQueue) -> bool:
        """Take all records that are there now; return whether there may be more."""
        end, more = queue.max_offset, self._take(queue)
        while more and self._next < end and not self._finished:
            more = self._take(queue)
        return more

    def finish(self) -> None:
        """Deliver the rest of a slot that was begun; then do nothing more.

        RocketMQ delivers a slot as a whole. Thread: any, before the log is closed.
        """
        self._finished = True  # before the lock: a step that reads much ends
        with self._step:
            self._deliver_rest()

    def _deliver_rest(self) -> None:
        try:
            while self._at and self._deliver_one():
                pass
        except (OSError, FlintError) as error:  # the store is being closed, and goes on with that
            log.error("%s: a slot of the timer is left half delivered (%s)", self.file.root, error)

    def save_once(self) -> bool:
        """Note on disk what was taken and delivered; return False: nothing remains.

        Thread: any. Durability: on return. Raises OSError: the disk refused; the next call tries again.
        """
        with self._step:
            # First the log: units and notes are of records that are on disk, and so are the deliveries.
            if not self._changed or not self.flush():
                return False
            late = {entry[0] for entry in self._late}
            self.file.append([self._placed(unit, unit.physical_offset in late) for unit in self._new])
            self._new = []
            self.file.note(self._read_time, self._next)
            self._changed = False
            self.file.forget(self._read_time, self.log_bounds()[0])
            self._forget_recalled()
        return False

    def _forget_recalled(self) -> None:
        self._recalled = {slot: keys for slot, keys in self._recalled.items() if slot >= self._read_time}

    def _placed(self, unit: NewUnit, waits: bool) -> NewUnit:
        """Return a unit in a slot that says whether its message still waits.

        One of a time long past would be entered in the wheel where a slot of 14 days later is.
        """
        least = self._read_time if waits else self._read_time - self.precision
        return unit if unit.slot >= least else unit._replace(slot=least)

    # -- taking -----------------------------------------------------------------------------------------------------

    def _load(self, queue: RunningQueue) -> bool:
        """Read what the last stop left, of this store or of RocketMQ.

        Returns False if the store is closed meanwhile.
        """
        for what in (self._slots, self._order, self._late, self._late_recalled, self._recalled, self._new):
            what.clear()  # an attempt before, which the disk refused
        self._given.clear()
        self._copied.clear()
        self._at = 0
        check, known = self.file.check(), set[int]()
        self._read_time, last = check.last_read_time, -1
        if self.found.last_time:  # deliveries that the check knows of may be cut off with the log's end
            self._read_time = min(self._read_time, self.found.last_time - self.found.last_time % self.precision)
        for unit in self.file.load(self.found.log_end):
            if self._finished:
                return False
            last = unit.physical_offset
            known.add(last)
            if unit.slot_time >= self._read_time:
                self._enter_unit(unit)
        first = self._next = self._following(queue, check.queue_offset, last)
        found = False
        try:
            while self._take(queue, known) and not self._finished:
                pass
            self._find_given(queue, first)
            self._new = [unit for unit in self._new if unit.physical_offset not in self._copied]
            self._pin(queue, self._new[-1].physical_offset if self._new else last)
            found = not self._finished
        finally:
            if not found:
                self._next, self._changed = -1, False
        return found

    def _following(self, queue: RunningQueue, noted: int, last: int) -> int:
        """Return the queue offset of the first record to take.

        It is the one that was noted if the timer log ends with the record before that. If not, units are gone, or Java
        has noted none of messages that came too late: all records after that of the last unit are taken again.
        """
        following = min(noted, self.found.queue_end)
        before = queue.units(following - 1, 1) if following > queue.min_offset else []
        if not before or before[0].physical_offset != last:
            record = self.reader.at(last) if last >= 0 else None
            following = record.queue_offset + 1 if record is not None and record.fields.topic == RAW_TOPIC else 0
        return min(max(following, queue.min_offset), self.found.queue_end)

    def _pin(self, queue: RunningQueue, last: int) -> None:
        """Note a unit of the last record that was taken, unless the timer log ends with it.

        It is of a slot that is done. A start of RocketMQ takes all records again after that of the last unit, and it
        notes no unit of messages that came too late for their slot.
        """
        taken = queue.units(self._next - 1, 1) if self._next > queue.min_offset else []
        slot = self._read_time - self.precision
        if taken and slot >= 0 and taken[0].physical_offset != last:
            self._new.append(NewUnit(slot, UNIT_ALWAYS, slot, taken[0].physical_offset, taken[0].size, 0))
            self._changed = True

    def _enter_unit(self, unit: LogUnit) -> None:
        key = ""
        if unit.magic & UNIT_DELETES:
            record = self._record(unit.physical_offset, unit.record_size)
            key = record.properties.get(properties.TIMER_DEL_UNIQKEY, "") if record is not None else ""
            if record is not None and unit.magic & UNIT_ROLLED:
                self._note_recalled(record, key)
                key = ""
        size = -unit.record_size if unit.magic & UNIT_ROLLED else unit.record_size
        self._enter(unit.slot_time, (unit.physical_offset, size, unit.write_time), key)

    def _note_recalled(self, mark: StoredMessage, key: str) -> None:
        """Know a mark that is to be stored once more.

        What it recalls may come before that, after a long stop.
        """
        out = java_int(mark.properties.get(properties.TIMER_OUT_MS, ""), 64) or 0
        if key:
            self._recalled.setdefault(out - out % self.precision, set()).add(key)

    def _take(self, queue: RunningQueue, known: Container[int] = ()) -> bool:
        """Take the next records of the timer's topic; return whether there are more.

        `known`: log offsets of records that have a unit in the timer log.
        """
        units = queue.units(self._next, AT_ONCE)
        if not units and self._next < queue.max_offset:  # a file that is missing: on to the next one
            self._next, self._changed = min(queue.next_file(self._next), queue.max_offset), True
            return True
        for unit in units:
            record = None
            if unit.physical_offset not in known:
                record = self.reader.record(unit, RAW_TOPIC, 0, self._next)
            if record is not None:
                self._take_record(record)
            self._next, self._changed = self._next + 1, True
        return len(units) > 0 and self._next < queue.max_offset

    def _take_record(self, record: StoredMessage) -> None:
        pairs, now = record.properties, self.effects.now_ms()
        out = java_int(pairs.get(properties.TIMER_OUT_MS, ""), 64)
        if out is None:  # no put takes such a record, and RocketMQ would not get past it
            log.error("%s: the record at log offset %d says no time; it is left out",
                      self.file.root, record.physical_offset)  # fmt: skip
            return
        written = now - now % self.precision
        slot, magic = self._slot_of(out, written), UNIT_ALWAYS
        is_rolled = slot < out - out % self.precision
        key = pairs.get(properties.TIMER_DEL_UNIQKEY, "")
        magic |= (UNIT_ROLLED if is_rolled else 0) | (UNIT_DELETES if key else 0)
        topic = java_hash(pairs.get(properties.REAL_TOPIC, ""))
        at, size = record.physical_offset, record.size
        self._new.append(NewUnit(slot, magic, written, at, size, topic))
        entry = at, -size if is_rolled else size, written
        if is_rolled:
            self._note_recalled(record, key)
        if slot < self._read_time:
            if slot + self.precision <= now and key and not is_rolled:
                self._late_recalled.add(key)
                return
            if slot + self.precision <= now:
                self._late.append(entry)
                return
            self._say_set_back(slot)
            slot = self._read_time
            self._new[-1] = self._new[-1]._replace(slot=slot)
        self._enter(slot, entry, "" if is_rolled else key)

    def _say_set_back(self, slot: int) -> None:
        """Say, once, that the clock was set back so far that messages come later than they ask for."""
        late_ms = self._read_time - slot
        if late_ms > _SET_BACK_MS and not self._said_set_back:
            log.error("%s: the clock was %d s ahead once, and slots before that time count as done: messages for later "
                      "come so much too late until then; to end that stop the store, and remove config/timercheck",
                      self.file.root, late_ms // 1000)  # fmt: skip
        self._said_set_back = self._said_set_back or late_ms > _SET_BACK_MS

    def _slot_of(self, out: int, written: int) -> int:
        """Return the slot for a time, or one before it where the message is stored once more."""
        window = self.window * self.precision
        left = out - written
        if left < window:
            return out - out % self.precision
        # Time enough remains for the next round.
        short = left - window < self.window // 3 * self.precision
        return written + (self.window // 2 * self.precision if short else window)

    def _enter(self, slot: int, entry: Entry, recalled: str) -> None:
        """Enter a message in a slot, or the key of one that is recalled."""
        if recalled:
            self._recalled.setdefault(slot, set()).add(recalled)
            return
        if slot not in self._slots:
            self._slots[slot] = array("q")
            heapq.heappush(self._order, slot)
        self._slots[slot].extend(entry)

    # -- delivering ---------------------------------------------------------------------------------------------------

    def _deliver(self, most: int) -> bool:
        """Deliver what is due, up to `most` messages; return whether more is due."""
        now = self.effects.now_ms()
        reach = now - now % self.precision
        while self._late:
            if most <= 0 or self._finished:
                return True
            if not self._is_done(self._late[0], self._late_recalled):
                return False
            self._late.popleft()
            most -= 1
        self._late_recalled.clear()
        for _ in range(most):
            if self._finished:
                return True
            if not self._order or self._order[0] >= reach:
                self._read_time = max(self._read_time, reach)
                if self._given_until <= self._read_time:
                    self._given.clear()
                return False
            if not self._deliver_one():
                return False
        return True

    def _deliver_one(self) -> bool:
        """Deliver the next message of the first slot; return False if it could not be put."""
        slot = self._order[0]
        entries = self._slots[slot]
        self._read_time = max(self._read_time, slot)
        if not self._is_done(_entry(entries, self._at), self._recalled.get(slot, ())):
            return False
        self._at += WIDTH
        if self._at == len(entries):
            heapq.heappop(self._order)
            del self._slots[slot]
            self._at = 0
            self._read_time = max(self._read_time, slot + self.precision)
        return True

    def _is_done(self, entry: Entry, recalled: Container[str]) -> bool:
        """Deliver one message, or leave it out; return False if it could not be put."""
        self._changed = True
        at, size, written = entry
        if at in self._copied:
            self._copied.discard(at)
            return True
        record = self._record(at, abs(size))
        if record is None:
            self._note_lost(at)
            return True
        pairs = record.properties
        key, topic = pairs.get(properties.UNIQ_KEY), pairs.get(properties.REAL_TOPIC)
        if size < 0 and self._is_over(record):  # it was to be stored once more, and its own time has come meanwhile
            out = java_int(pairs.get(properties.TIMER_OUT_MS, ""), 64) or 0
            recalled = self._recalled.get(out - out % self.precision, ())
        if key and (key in recalled or f"{topic}+{key}" in recalled):
            return True
        message = self._message(record, size < 0, written)
        if message is None:
            log.error("%s: the record at log offset %d names no topic to deliver to; it is left out",
                      self.file.root, at)  # fmt: skip
            return True
        if self._given and self._was_given(message):
            return True
        result = self.put(message)
        if result.status in REFUSED:
            log.error("%s: the record at log offset %d cannot be delivered to %r (%s); it is left out",
                      self.file.root, at, message.topic[:100], result.status.name)  # fmt: skip
        return result.physical_offset >= 0 or result.status in REFUSED

    def _message(self, record: StoredMessage, is_rolled: bool, written: int) -> Message | None:
        """Return the message of a record, or the record once more, for another round."""
        more = {properties.TIMER_ENQUEUE_MS: str(written), properties.TIMER_DEQUEUE_MS: str(self.effects.now_ms())}
        return _once_more(record, more) if is_rolled and not self._is_over(record) else delivered(record, more)

    def _is_over(self, record: StoredMessage) -> bool:
        """Return whether the moment is over that a message waits for.

        That of a mark is never: it is not delivered.
        """
        out = java_int(record.properties.get(properties.TIMER_OUT_MS, ""), 64) or 0
        is_mark = bool(record.properties.get(properties.TIMER_DEL_UNIQKEY))
        return not is_mark and out - out % self.precision + self.precision <= self.effects.now_ms()

    def _record(self, physical_offset: int, size: int) -> StoredMessage | None:
        """Read a record of the timer's topic; None if it is gone or damaged."""
        record = self.reader.at(physical_offset)
        return record if record is not None and record.size == size and record.fields.topic == RAW_TOPIC else None

    def _note_lost(self, physical_offset: int) -> None:
        """Count and log a message that cannot be read. Upstream leaves it out, too."""
        is_expired = physical_offset < self.log_bounds()[0]
        self.lost += is_expired
        why = "was deleted with its log file" if is_expired else "is damaged (see `flintmq verify`)"
        log.error("%s: the waiting message at log offset %d %s before its time came",
                  self.file.root, physical_offset, why)  # fmt: skip

    # -- after a kill -------------------------------------------------------------------------------------------------

    def _find_given(self, timers: RunningQueue, first: int) -> None:
        """Find deliveries of messages that seem to be due: they are stored after their slots.

        `first`: offset in the timer's queue of the first record that was taken again.
        """
        now, since, places = self.effects.now_ms(), self._read_time, set[tuple[bytes, int]]()
        self._given_until = now - now % self.precision
        due = [slot for slot in self._order if slot < self._given_until]
        entries = [_entry(self._slots[slot], at) for slot in due for at in range(0, len(self._slots[slot]), WIDTH)]
        seem = [*self._late, *entries]
        self._find_copied(timers, first, seem)
        for at, size, written in seem:
            record = None if at in self._copied else self._record(at, abs(size))
            message = None if record is None else self._message(record, size < 0, written)
            if record is not None and message is not None and message.topic != TIMER_TOPIC:
                places.add((java_encode(message.topic), message.queue_id))
                since = min(since, java_int(record.properties.get(properties.TIMER_OUT_MS, ""), 64) or 0)
        for place in places:
            queue = self.queues.plain.get(place)
            if queue is not None and not self._finished:
                self._given.update(self._deliveries(queue, *place, since))

    def _find_copied(self, timers: RunningQueue, first: int, due: list[Entry]) -> None:
        """Find records that seem to wait beside the copy that was stored for another round.

        Those are due, or were taken again at the start.
        """
        since = self._read_time
        for at, size, written in due:
            if size < 0 and (record := self._record(at, -size)) is not None:
                out = java_int(record.properties.get(properties.TIMER_OUT_MS, ""), 64) or 0
                since = min(since, self._slot_of(out, written))  # its unit may be in a later slot (`_placed`)
        copies = Counter(self._deliveries(timers, RAW_TOPIC, 0, since, first))
        seem = {at: abs(size) for at, size, _ in due} | {unit.physical_offset: unit.record_size for unit in self._new}
        for at in sorted(seem) if copies else ():
            record = self._record(at, seem[at])
            if record is None:
                continue
            copy = _identity(_once_more(record))
            if copies[copy] > 0:
                copies[copy] -= 1
                self._copied.add(at)

    def _deliveries(
        self, queue: RunningQueue, topic: bytes, queue_id: int, since: int, first: int = _NONE_AGAIN
    ) -> Iterator[Hashable]:
        """Yield the identity of each message of a queue that a timer stored, the newest first.

        `first`: back to this offset, whatever their time is.
        """
        for offset in range(queue.max_offset - 1, queue.min_offset - 1, -1):
            for unit in queue.units(offset, 1):
                record = self.reader.record(unit, topic, queue_id, offset)
                if record is None:
                    continue
                if (record.store_timestamp < since and offset < first) or self._finished:
                    return
                if properties.TIMER_DEQUEUE_MS in record.properties:
                    yield _identity(record)

    def _was_given(self, message: Message) -> bool:
        one = _identity(message)
        if self._given[one] <= 0:
            return False
        self._given[one] -= 1
        return True

    def check_invariants(self) -> None:
        """Assert that each slot is in the heap once, not empty, and not before what is done.

        Thread: any.
        """
        with self._step:
            self._check_slots()

    def _check_slots(self) -> None:
        assert sorted(self._order) == sorted(self._slots), "heap and slots differ"
        assert all(len(entries) and len(entries) % WIDTH == 0 for entries in self._slots.values())
        assert all(slot >= self._read_time for slot in self._slots), f"a slot before {self._read_time} waits"
        assert 0 <= self._at < (len(self._slots[self._order[0]]) if self._order else WIDTH)


def _entry(entries: array[int], at: int) -> Entry:
    return entries[at], entries[at + 1], entries[at + 2]


def _once_more(record: StoredMessage, more: Mapping[str, str] | None = None) -> Message:
    """Return a record for another round."""
    rounds = java_int(record.properties.get(properties.TIMER_ROLL_TIMES, "")) or 0
    return again(record, TIMER_TOPIC, 0, {**(more or {}), properties.TIMER_ROLL_TIMES: str(rounds + 1)})


def _identity(message: Message | StoredMessage) -> Hashable:
    """Return a value that is equal for two deliveries of one message, or of messages alike.

    Records of two rounds differ: one is not its own copy.
    """
    if isinstance(message, StoredMessage):
        pairs: Mapping[str, str] = message.properties
    else:
        pairs = properties.parse_bytes(message.properties_bytes or b"")
    same = frozenset((name, value) for name, value in pairs.items() if name not in _VARIES)
    rounds = pairs.get(properties.TIMER_ROLL_TIMES) if message.topic == TIMER_TOPIC else None
    return message.topic, message.queue_id, message.born_timestamp, message.flag, message.body, same, rounds
