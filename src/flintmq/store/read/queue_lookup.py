"""Finds messages by queue and offset in a view: units are hints, the log is the truth.

A record is returned only if it is valid, is before the log's end, and has the queue and queue offset asked for. If no
unit points to it, it is searched for in the log itself:

*   after the last dispatched record (everywhere, if there are no queue files): through a LogMap;
*   where a unit is missing or wrong in the middle of a queue: between the neighbours that are right.

So a view answers with the content of the log, even where RocketMQ's queues have ghosts, holes or shifted units.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from flintmq.config.text import short
from flintmq.format.consume_queue import UNIT, UNIT_SIZE, Unit
from flintmq.format.record_view import size_at, texts_at
from flintmq.format.text import java_decode
from flintmq.message import StoredMessage, stored_message
from flintmq.storage.threads.mutex import ReentrantLock
from flintmq.store.commitlog.files import LARGEST_OFFSET
from flintmq.store.commitlog.report import Damage, DamageKind, Report
from flintmq.store.commitlog.resync import first_record
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.commitlog.walk import LogWalk
from flintmq.store.consumequeue.reader import AnyUnit, UnitQueue, batch_queue, known_plain_queue, plain_queue
from flintmq.store.dispatch.dispatcher import DispatchRules
from flintmq.store.dispatch.queue_positions import LMQ_PREFIX, is_at, places
from flintmq.store.layout import directories
from flintmq.store.layout.config_reader import BATCH_TYPE, SIMPLE_TYPE
from flintmq.store.layout.queue_name import QueueName, each_queue_name, is_path, queue_names
from flintmq.store.layout.store_config import batch_topics
from flintmq.store.read.log_map import SEGMENT_BYTES, LogMap, QueueRun, find_between, find_from, is_at_queue_offset
from flintmq.store.read.lost_records import LostRecords, in_its_file

KINDS = (directories.QUEUES, directories.BATCH_QUEUES)
UNITS_TRIED = 1000  # units that point nowhere, before a queue's files are ignored
OFFSETS_TRIED = 8  # offsets tried one by one, before the log is searched for the next message
QUEUES_KEPT = 4096  # listings of queue directories that are cached
BLOCK = 512  # units of a plain queue that are read and kept at once
BLOCKS_KEPT = 256  # 2.5 MiB
MOST_NAMED = 20  # queues in a note
OTHER_PLACE = "a unit of a queue leads here, and the record names another place"
NO_UNITS = "its files lack records of the log"


class Bounds(NamedTuple):
    """Queue offsets [min, max), and the end of the queue's last dispatched record (0: unknown)."""

    min: int
    max: int
    physical_end: int = 0


def lacking_text(names: Iterable[QueueName], what: str = "messages are not counted") -> str:
    """Return a line for people on queues that have messages and no directory."""
    found = sorted(names)
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    shown = ", ".join(f"{name.topic}/{name.queue_id}" for name in found[:MOST_NAMED])
    return f"files of {shown}{more} are missing, so their {what}; run `flintmq rebuild`"


def hidden_text(name: QueueName, lost: Damage) -> str:
    """Return a line for people on damage that hides messages of a queue."""
    mends = "`flintmq rebuild`" if lost.kind is DamageKind.END else "`flintmq verify`, then `flintmq salvage`"
    where = f"{lost.file}, position {lost.position}: {lost.reason}"
    return f"{where}, so the offsets of queue {short(name.topic)}/{name.queue_id} are not known; run {mends}"


class QueueLookup:
    """Queues and their messages, as of one snapshot.

    Thread: any. One call at a time computes a part that others then share.

    Args:
        plain_names: queues that are known to have a directory in consumequeue/; None to list them. If some are missing
            the log is read more than necessary, with the same result.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        before: QueueLookup | None = None,
        plain_names: frozenset[QueueName] | None = None,
    ) -> None:
        self.snapshot = snapshot
        # Queues with a directory, by kind and topic; of all topics under None.
        self._listed: dict[tuple[str, str | None], frozenset[QueueName]] = {}
        if plain_names is not None:
            self._listed[directories.QUEUES, None] = plain_names
        self._topics_there: dict[str, frozenset[str]] = {}  # names in the directory of a kind
        self._missing: frozenset[QueueName] | None = None  # see without_files
        self._map_before: LogMap | None = before.__dict__.get("_map") if before is not None else None
        self._lock = ReentrantLock()
        self._files: OrderedDict[QueueName, UnitQueue] = OrderedDict()
        self._blocks: OrderedDict[tuple[QueueName, int], bytes] = OrderedDict()  # by queue and number of the block
        self._bounds: dict[QueueName, Bounds] = {}
        self._topics: dict[QueueName, str] = {}  # of the first records, once they were read
        self._misleading = False  # the files of some queue are ignored: the log is read

    # -- which queues there are -------------------------------------------------------------------------------------

    def _with_directory(self, kind: str, topic: str | None) -> frozenset[QueueName]:
        """Return the queues that have a directory of a kind: of this topic at least.

        None is for all topics. Who asks for one topic lists no other one. A name that only a lax file system takes for
        a directory's is none.
        """
        listed, root, effects = self._listed, self.snapshot.root, self.snapshot.effects
        found = listed.get((kind, None), listed.get((kind, topic)))
        if found is None:
            if topic is not None and kind not in self._topics_there:
                self._topics_there[kind] = frozenset(effects.listdir(os.path.join(root, kind)))
            if topic is not None and topic not in self._topics_there[kind]:
                return frozenset()
            found = listed[kind, topic] = frozenset(
                queue_names(root, kind, effects, topic if topic is None else [topic])
            )
        return found

    @cached_property
    def has_files(self) -> bool:
        root, effects = self.snapshot.root, self.snapshot.effects
        kinds = [kind for kind in KINDS if (kind, None) not in self._listed]  # of `plain_names` no others count
        return any(self._listed.values()) or any(True for kind in kinds for _ in each_queue_name(root, kind, effects))

    def file_names(self, topic: str | None = None) -> set[QueueName]:
        """Return the queues of a topic, or of all, that have a directory."""
        return _of(topic, *(self._with_directory(kind, topic) for kind in KINDS))

    def names(self, topic: str | None = None) -> set[QueueName]:
        """Return the queues of a topic, or of all, by their directories and the log's end."""
        return self.file_names(topic) | _of(topic, self._tail().names())

    def type_of(self, topic: str) -> str:
        """Return BatchCQ or SimpleCQ for a topic.

        BatchCQ if topics.json says so, if batchconsumequeue/TOPIC exists, or if undispatched records are inner batches.
        """
        return BATCH_TYPE if topic in self._batch_topics or self._tail().is_batch(topic) else SIMPLE_TYPE

    @cached_property
    def _batch_topics(self) -> frozenset[str]:
        snapshot = self.snapshot
        listed = self._listed.get((directories.BATCH_QUEUES, None))
        return frozenset(batch_topics(snapshot.root, snapshot.effects, snapshot.broker, listed))

    @cached_property
    def _rules(self) -> DispatchRules:
        snapshot = self.snapshot
        return DispatchRules.of(snapshot.config, self._batch_topics, deletions=snapshot.deletions)

    def units(self, name: QueueName) -> UnitQueue:
        """Return the units of a queue's files; without files if it has none.

        They are listed once, and those of a short queue are read then.
        """
        with self._lock:
            found = self._files.get(name)
            if found is None:
                make = plain_queue if self.snapshot.effects.remote else known_plain_queue
                batches = self._with_directory(directories.BATCH_QUEUES, name.topic)
                make = batch_queue if name in batches else make
                found = make(self.snapshot.root, name, self.snapshot.effects)
                self._files[name] = found
                if len(self._files) > QUEUES_KEPT:
                    self._files.popitem(last=False)
            return found

    def plain_units(self, name: QueueName, offset: int, count: int) -> memoryview:
        """Return the bytes of up to `count` units of a plain queue in one file; none of others."""
        units = self.units(name)
        return memoryview(b"" if units.is_batch else units.raw(offset, count))

    def kept_units(self, name: QueueName, offset: int, count: int) -> memoryview:
        """Return the bytes of up to `count` units of one block of a plain queue, as read once.

        They may have changed since: hints that cost no call of the system. If one points to no right record, the unit
        must be read again.
        """
        number = offset // BLOCK
        with self._lock:
            known = None if number else self.units(name).known
            block = self._blocks.get((name, number)) if known is None else known
            if block is None:
                block = bytes(self.plain_units(name, number * BLOCK, BLOCK))
                self._blocks[name, number] = block
                if len(self._blocks) > BLOCKS_KEPT:
                    self._blocks.popitem(last=False)
        at = (offset - number * BLOCK) * UNIT_SIZE
        return memoryview(block)[at : min(at + count * UNIT_SIZE, len(block) - len(block) % UNIT_SIZE)]

    # -- one message --------------------------------------------------------------------------------------------------

    def message(self, name: QueueName, offset: int) -> StoredMessage | None:
        """Find the record at an offset of a queue, or None; of an inner batch the outer record."""
        if offset < 0:
            return None
        found = self._by_kept_unit(name, offset)
        if found is None:
            found = self._by_unit(name, offset)
        if found is None:
            found = self._tail_find(name, offset)
        return self._in_hole(name, offset) if found is None else found

    def kept_unit(self, name: QueueName, offset: int) -> Unit | None:
        """Return the unit of an offset if it is among `kept_units` and points to a record."""
        units = self.kept_units(name, offset, 1)
        unit = UNIT.unpack(units) if units else None
        return unit if unit is not None and UnitQueue.points_to_record(unit) else None

    def _by_kept_unit(self, name: QueueName, offset: int) -> StoredMessage | None:
        unit = self.kept_unit(name, offset)
        message = self.snapshot.record(unit.physical_offset) if unit is not None else None
        return message if message is not None and is_at_queue_offset(message, name, offset) else None

    def _by_unit(self, name: QueueName, offset: int) -> StoredMessage | None:
        units = self.units(name)
        message = self._record(units.unit(units.number_of(offset)))
        return message if message is not None and is_at_queue_offset(message, name, offset) else None

    def _record(self, unit: AnyUnit | None) -> StoredMessage | None:
        if unit is None or not UnitQueue.points_to_record(unit):
            return None
        return self.snapshot.record(unit.physical_offset)

    def _in_hole(self, name: QueueName, offset: int) -> StoredMessage | None:
        """Find a message whose unit is missing or wrong although later units exist."""
        bounds = self.bounds(name)
        if not bounds.min <= offset < bounds.max:
            return None
        units = self.units(name)
        number, log = units.number_of(offset), self.snapshot.log
        begin, end = log.min_offset, self.snapshot.end
        for at in _steps(number - 1, units.first - 1):
            message, first, _ = self._stands(name, units.unit(at))
            if message is not None and first <= offset:
                begin = message.physical_offset
                break
        for at in _steps(number, units.end()):
            message, _, stop = self._stands(name, units.unit(at))
            if message is not None and stop > offset:
                end = message.physical_offset + message.size
                break
        return find_between(log, name, offset, begin, end, self.snapshot.deletions)

    def _stands(self, name: QueueName, unit: AnyUnit | None) -> tuple[StoredMessage | None, int, int]:
        """Return a unit's record if it belongs to the queue, and its offsets [first, stop)."""
        message = self._record(unit)
        for place in places(message) if message is not None else ():
            if (place.topic, place.queue_id) == name:
                return message, place.offset, place.offset + place.messages
        return None, 0, 0

    def next_message(self, name: QueueName, offset: int, stop: int) -> tuple[int, StoredMessage] | None:
        """Return the first offset in [offset, stop) with a readable message, and the message."""
        for at in range(offset, min(stop, offset + OFFSETS_TRIED)):
            message = self.message(name, at)
            if message is not None:
                return at, message
        offset += OFFSETS_TRIED
        if offset >= stop:
            return None
        log = self.snapshot.log
        message = find_from(log, name, offset, stop, log.min_offset, self.snapshot.end, self.snapshot.deletions)
        if message is None:
            return None
        starts = (place.offset for place in places(message) if (place.topic, place.queue_id) == name)
        return max(offset, *starts), message

    def offset_at_time(self, name: QueueName, ms: int, boundary: str = "lower") -> int:
        """Return the queue offset at a store time by the rule of `StoreView.offset_at_time`."""
        first, stop, _ = self.bounds(name)
        low, high = first, stop
        while low < high:
            middle = (low + high) // 2
            found = self.next_message(name, middle, high)
            if found is None:
                high = middle
                continue
            at, message = found
            if message.store_timestamp < ms or (boundary == "upper" and message.store_timestamp == ms):
                low = at + 1
            else:
                high = middle
        return low if boundary == "lower" else max(low - 1, first)

    # -- what cannot be read ------------------------------------------------------------------------------------------

    @cached_property
    def _lost(self) -> LostRecords:
        return LostRecords(self.snapshot)

    def lost_units(self, name: QueueName, begin: int, stop: int) -> Iterator[Damage]:
        """Yield the places of damaged and missing records of the units in [begin, stop).

        A record that names another place is damaged, too: no checksum covers its topic, queue id and queue offset.
        After an unclean stop the unit may be what is wrong, left over from records that others have replaced.
        """
        units = self.units(name)
        first, end = max(units.number_of(begin), units.first), units.end()
        if begin >= stop or first >= end:
            return
        for _, unit in units.units(first, min(units.number_of(stop - 1) + 1, end)):
            if UnitQueue.points_to_record(unit):
                at = unit.physical_offset
                lost = self._lost.at(at, unit.size)
                if lost is not None:
                    yield lost
                elif self.snapshot.facts.clean and self._record(unit):
                    message, stands_at, _ = self._stands(name, unit)
                    own = None if message is None else units.unit(units.number_of(stands_at))
                    if own is None or own.physical_offset != at:  # salvage has a lost one's lead to the next message
                        yield Damage(*self.snapshot.log.path_at(at), at, unit.size, OTHER_PLACE, DamageKind.RECORD)

    def report_lost(self, name: QueueName, begin: int, stop: int, report: Report) -> None:
        """Report the losses among offsets [begin, stop) of a queue, none of which can be read.

        That is what `lost_units` yields; and after the last unit, where the log is read instead, all its damage there.
        """
        for lost in self.lost_units(name, begin, stop):
            report.damage(lost)
        units = self.units(name)
        if stop > begin and units.number_of(stop - 1) >= units.end():
            for lost in self._tail().report.damages:
                report.damage(in_its_file(self.snapshot.log, lost))

    def without_files(self, topic: str | None = None) -> frozenset[QueueName]:
        """Return the queues of a topic, or of all, that have no directory although they should.

        `flintmq.queues` names them, or the last megabytes of the log show them: their records there are before others
        that are dispatched. Of a topic that was deleted topics.json knows nothing; light queues need not be dispatched.
        Of a store without any queue the log is read anyway, so none is returned.
        """
        if self._missing is not None:
            return frozenset(_of(topic, self._missing))
        snapshot, there = self.snapshot, self.file_names(topic)
        if not self.has_files or self._misleading or self._tail().begin <= snapshot.log.min_offset:
            return frozenset()
        found = self._last_map if topic is None else self._last_dispatched(topic)
        topics = snapshot.broker.topics
        wanted = {
            name
            for name in found.names()
            if not name.topic.startswith(LMQ_PREFIX) and (not topics or name.topic in topics)
        }
        missing = {name for name in wanted - there if not self._was_deleted(found, name)}
        missing |= _of(topic, self._recorded) - there
        lost = frozenset(name for name in missing if is_path(name.topic) and not self._has_directory_now(name))
        self._missing = lost if topic is None else None
        return lost

    def _was_deleted(self, found: LogMap, name: QueueName) -> bool:
        """Return whether a queue's last record is of a topic that was deleted and made again since.

        Then the log has an older record than that of another queue's first unit at the same queue offset. That its
        queues begin later proves nothing: a queue may get its first message long after another one.
        """
        log, bounds, again = self.snapshot.log, found.bounds(name), LARGEST_OFFSET
        for other in self.names(name.topic):
            units = self.units(other)
            if units.is_batch:
                continue
            for unit in units.read(units.first, 1):
                if unit.size and find_between(log, other, units.first, found.begin, unit.physical_offset):
                    again = min(again, unit.physical_offset)
        if bounds is None or again == LARGEST_OFFSET:
            return False
        last = found.find(log, name, bounds[1] - 1)
        return last is not None and last.physical_offset < again

    def _last_dispatched(self, topic: str | None = None) -> LogMap:
        """Map the last dispatched megabytes of the log, of a topic or of all."""
        log, stop = self.snapshot.log, self._tail().begin
        found = LogMap(min(first_record(log, max(log.min_offset, stop - SEGMENT_BYTES)), stop), self._rules)
        found.extend(log, stop, topic)
        return found

    @cached_property
    def _last_map(self) -> LogMap:
        return self._last_dispatched()

    @cached_property
    def _last_runs(self) -> dict[QueueName, QueueRun]:
        """Return for each queue the last segment of the dispatched log that has its records."""
        log, stop, found = self.snapshot.log, self._tail().begin, dict[QueueName, QueueRun]()
        for file in log.files:  # a map of all has each queue in each segment
            part = LogMap(file.start, self._rules)
            part.extend(log, min(file.start + file.size, stop))
            found.update((name, part.runs(name)[-1]) for name in part.names())
        return found

    @cached_property
    def _recorded(self) -> dict[QueueName, int]:
        """Return the ends of the queues with messages at the last clean stop.

        None are known without a valid mark.
        """
        snapshot = self.snapshot
        if snapshot.facts.mark.flushed is None or snapshot.facts.live or not snapshot.facts.whole:
            return {}
        from flintmq.store.consumequeue import known_ends  # it loads the engine's writer

        ends = known_ends.read(snapshot.root, snapshot.effects)
        return {QueueName(java_decode(raw), queue_id): end for (raw, queue_id), end in ends.items() if end}

    @cached_property
    def _claimed(self) -> dict[QueueName, int]:
        """Return the ends that queues had by what was recorded of them, or that groups went up to."""
        found = dict(self._recorded)
        for _, topic, queue_id, offset in self.snapshot.broker.committed():
            name = QueueName(topic, queue_id)
            found[name] = max(offset, found.get(name, 0))
        return found

    def lost_outside(self, name: QueueName, thorough: bool = True) -> Damage | None:
        """Return the damage that hides messages outside of the bounds of a queue, or None.

        That is of a record after its last, or of its own files: these lack a record although later ones of others are
        dispatched. For it the last megabytes of the log are searched; and, if `thorough`, all after the queue's last
        record if its files have none, have no room for another, or if it had more by what else is known.
        """
        report, log = Report(), self.snapshot.log
        self.report_lost(name, self.bounds(name).max, LARGEST_OFFSET, report)
        if report.damages or name.topic.startswith(LMQ_PREFIX) or name not in self.file_names(name.topic):
            return next(iter(report.damages), None)
        units, (_, end, begin) = self.units(name), self.file_bounds(name)
        width = units.layout.size
        room = sum(units.files[-1][1:]) - units.end() * width if units.files else 0
        if not thorough or (end and room >= width and self._claimed.get(name, 0) <= end):
            run = next(reversed(self._last_map.runs(name)), None)
        else:
            run = self._last_runs.get(name)
        if run is None or run.end <= begin:
            return None
        begin = max(begin, run.begin)
        found = find_from(log, name, 0, LARGEST_OFFSET, begin, run.end, self.snapshot.deletions)
        if found is None:
            return None
        if QueueLookup(self.snapshot.again(), self).file_bounds(name).physical_end > found.physical_offset:
            return None  # dispatched meanwhile
        path = units.files[-1].path if units.files else units.folder
        return Damage(path, end * width, found.physical_offset, found.size, NO_UNITS, DamageKind.END)

    def is_configured(self, name: QueueName) -> bool:
        """Return whether topics.json has a queue, or a group has consumed messages of it."""
        broker = self.snapshot.broker
        settings = broker.topics.get(name.topic)
        if settings is not None and 0 <= name.queue_id < max(settings.read_queues, settings.write_queues):
            return True
        groups = (offsets for (topic, _), offsets in broker.consumer_offsets.items() if topic == name.topic)
        return any(offsets.get(name.queue_id, 0) > 0 for offsets in groups)

    def _has_directory_now(self, name: QueueName) -> bool:
        """Return whether a queue has a directory by now: another process may have made it."""
        root, effects = self.snapshot.root, self.snapshot.effects
        return any(effects.is_dir(os.path.join(root, kind, name.topic, str(name.queue_id))) for kind in KINDS)

    def read_log_of(self, topic: str) -> bool:
        """Read all queues from the log from now on if the topic lacks files; return whether."""
        with self._lock:
            return self._read_log_of(topic)

    def _read_log_of(self, topic: str) -> bool:
        if not self.without_files(topic):
            return False
        self.without_files()  # of all, now: once the log is read nothing tells them from others
        self._mislead()
        self._bounds.clear()
        return True

    # -- the ends of a queue ------------------------------------------------------------------------------------------

    def bounds(self, name: QueueName) -> Bounds:
        """Return the smallest queue offset and the one after the largest; equal if empty."""
        # While another process writes, a message that is dispatched between the two reads must be in one of them.
        tail, misleading = self._tail_bounds(name), self._misleading
        files = self.file_bounds(name)
        if self._misleading != misleading:
            tail = self._tail_bounds(name)
        if tail is None:
            return files
        if files.min == files.max:
            return Bounds(tail.min, max(files.max, tail.max))
        return Bounds(min(files.min, tail.min), max(files.max, tail.max), files.physical_end)

    def file_bounds(self, name: QueueName) -> Bounds:
        """Return the bounds in the queue's files, checked against the log: the dispatched messages."""
        with self._lock:
            if name not in self._bounds:
                self._bounds[name] = self._found_bounds(name)
            return self._bounds[name]

    def _found_bounds(self, name: QueueName) -> Bounds:
        units = self.units(name)
        found = self._short_bounds(name, units)
        if found is not None:
            return found
        with units.held() as held:
            return self._read_bounds(name, held)

    def release(self) -> None:
        """Forget listings and units, of which a planner needs the memory no longer."""
        with self._lock:
            self._files.clear()
            self._blocks.clear()

    def first_topic(self, name: QueueName) -> str | None:
        """Return the topic of the first record of the queue's files; None if it was not read."""
        return self._topics.get(name)

    def _short_bounds(self, name: QueueName, units: UnitQueue) -> Bounds | None:
        """Return the bounds of a short queue whose two ends lead to their records; None for others.

        Of thousands of queues most are like this, and a search in each would be most of an `inspect`.
        """
        ends, snapshot = units.ends(), self.snapshot
        if ends is None:
            return None
        first, last, own = ends
        if not UnitQueue.points_to_record(first) or not UnitQueue.points_to_record(last):
            return None
        if first.physical_offset < snapshot.log.min_offset or last.physical_offset >= snapshot.end:
            return None
        topic = os.fsencode(name.topic)
        data = snapshot.record_bytes(last.physical_offset)
        if data is None or not is_at(data, topic, name.queue_id, own - 1):
            return None
        physical_end = last.physical_offset + size_at(data)
        if own > 1:
            data = snapshot.record_bytes(first.physical_offset)
            if data is None or not is_at(data, topic, name.queue_id, 0):
                return None
        begin, end, _ = texts_at(data)
        self._topics[name] = java_decode(data[begin:end])
        return Bounds(0, own, physical_end)

    def _read_bounds(self, name: QueueName, units: UnitQueue) -> Bounds:
        """Find the last unit with a record of this queue, and the first that points into the log.

        Units at or after the log's end are left over from a truncation, and so may be some before it. If the end of the
        queue is below the log's beginning, everything in it has expired: min and max are equal then, as in RocketMQ.

        Files with a thousand units that point nowhere are not read any further; then all queues are read from the log.
        """
        log = self.snapshot.log
        if not units.files:
            return Bounds(0, 0)
        log_end, log_begin, stop = self.snapshot.end, log.min_offset, units.end()
        unit = units.unit(stop - 1)
        last = stop - 1
        if unit is None or not units.points_to_record(unit) or unit.physical_offset >= log_end:  # mostly none of it
            last = units.bisect(lambda u: not units.points_to_record(u) or u.physical_offset < log_end, stop) - 1
            unit = units.unit(last)
        for number in range(last, units.first - 1, -1):
            if number <= last - UNITS_TRIED:
                self._mislead()
                break
            unit = unit if number == last else units.unit(number)
            if unit is not None and unit.is_written:
                if not units.points_to_record(unit):
                    break  # pre-blank: no unit before it
                own = units.span(number, unit)[1]
                if unit.physical_offset < log_begin:
                    return Bounds(own, own)
                message, first, stop = self._stands(name, unit)
                if message is not None and stop >= own:
                    low = self._first_offset(name, units, number, message, first)
                    return Bounds(min(low, first), stop, message.physical_offset + message.size)
        return Bounds(0, 0)

    def _first_offset(
        self, name: QueueName, units: UnitQueue, last: int, last_message: StoredMessage, last_first: int
    ) -> int:
        """Return the queue offset of the first unit that points into the log, from its record.

        `last_message` is the record of the unit `last`, `last_first` its queue offset. Of many queues in a store most
        have few messages, and their first may be their last.

        If that record is damaged, the position of a plain unit counts; in a batch queue the next valid one.

        A queue's first files are removed when all their records have expired, so the first remaining unit points to an
        expired record, or to the beginning of the log. If it does not, a file may be missing, and the log is searched.
        """
        begin = self.snapshot.log.min_offset
        # A hole counts as content: its messages may still be found in the log.
        number, unit = units.first, units.unit(units.first)
        if (
            unit is None or not units.points_to_record(unit) or unit.physical_offset < begin
        ):  # mostly nothing has expired
            number = units.bisect(
                lambda u: u.is_written and not (units.points_to_record(u) and u.physical_offset >= begin), last
            )
        for at in range(number, min(last + 1, number + UNITS_TRIED)):
            message: StoredMessage | None = last_message
            first = last_first
            if at != last:
                message, first, _ = self._stands(name, units.unit(at))
            if message is not None:
                self._topics[name] = message.topic
                if at == units.first > 0:
                    return self._before_files(name, first, message.physical_offset)
                return first
            if not units.is_batch:
                return at
        return number

    def _before_files(self, name: QueueName, first: int, stop: int) -> int:
        """Return the least offset below `first` of a record before log offset `stop`; else `first`."""
        log = self.snapshot.log
        message = find_from(log, name, 0, first, log.min_offset, stop, self.snapshot.deletions)
        found = places(message) if message is not None else ()
        return min((place.offset for place in found if (place.topic, place.queue_id) == name), default=first)

    # -- what is not dispatched ---------------------------------------------------------------------------------------

    def dispatched_end(self) -> int:
        """Return the log offset up to which the queues have their units.

        It is the log's begin if the files of a queue are ignored.

        Dispatch follows the log, so the queues of its last records are examined first: if the very last record has its
        unit, or one of the last few megabytes has and the next has not, no other queue need be examined.
        """
        replay = self.snapshot.replay_start
        most = self.snapshot.end if replay is None else min(replay, self.snapshot.end)
        end = self._end_among_last() if self.has_files else None
        self._bounds.clear()  # bounds that were read before others are older than this answer
        self._files.clear()
        self._blocks.clear()
        if end is None:
            end = max((self.file_bounds(name).physical_end for name in self.file_names()), default=0)
        return max(min(0 if self._misleading else end, most), self.snapshot.log.min_offset)

    def _end_among_last(self) -> int | None:
        """Return the end of a dispatched record, the last one if dispatch followed the log.

        None if the last megabytes of the log have no dispatched record. If later ones are dispatched too, the log is
        only read more than necessary.
        """
        snapshot = self.snapshot
        last = snapshot.log_end.last
        if last is None:
            return None
        message = snapshot.record(last)
        if message is not None and (end := self._dispatched_at(message)):
            return end
        begin = first_record(snapshot.log, max(snapshot.log.min_offset, snapshot.end - SEGMENT_BYTES))
        found = None
        for piece in LogWalk(snapshot.log, begin=begin, end=snapshot.end, strict=False):
            low, high, before = 0, piece.count, found
            while low < high:
                middle = (low + high) // 2
                end = self._dispatched_at(stored_message(piece.data, piece.positions[middle]))
                low, high, found = (middle + 1, high, end) if end else (low, middle, found)
            if found == before:
                break
        return found

    def _dispatched_at(self, message: StoredMessage) -> int | None:
        """Return the end of the last dispatched record of this record's queues, if not before it."""
        ends = [self.file_bounds(QueueName(place.topic, place.queue_id)).physical_end for place in places(message)]
        return max(ends) if ends and min(ends) >= message.physical_offset + message.size else None

    def tail_names(self) -> set[QueueName]:
        return set(self._tail().names())

    def dispatch_behind(self) -> int:
        """Return the bytes of the log after the last dispatched record.

        0 if no queue lacks a message of them. Of a store that was killed: those that its next start dispatches again.
        """
        tail = self._tail()
        return max(0, self.snapshot.end - tail.begin) if any(tail.names()) else 0

    def tail_runs(self, name: QueueName) -> list[QueueRun]:
        """Return where the log holds records of a queue that its files lack, if any."""
        return self._tail().runs(name)

    @cached_property
    def _map(self) -> LogMap:
        begin, end = self.dispatched_end(), self.snapshot.end
        before, self._map_before = self._map_before, None
        is_same = before is not None and before.deletions == self._rules.deletions
        if before is not None and is_same and before.begin == begin and before.is_of(self.snapshot.log, end):
            found = before.copy()
        else:
            found = LogMap(begin, self._rules)
        found.extend(self.snapshot.log, end)
        return found

    def _mislead(self) -> None:
        """Ignore the files of queues: read all of the log, even if its map was made before."""
        if not self._misleading:
            self._misleading = True
            self.__dict__.pop("_map", None)

    def _tail(self) -> LogMap:
        with self._lock:
            return self._map

    def _tail_find(self, name: QueueName, offset: int) -> StoredMessage | None:
        return self._tail().find(self.snapshot.log, name, offset)

    def _tail_bounds(self, name: QueueName) -> Bounds | None:
        found = self._tail().bounds(name)
        return None if found is None else Bounds(*found)


def _of(topic: str | None, *names: Iterable[QueueName]) -> set[QueueName]:
    """Return the queues of a topic among these; all for None."""
    found = set[QueueName]().union(*names)
    return found if topic is None else {name for name in found if name.topic == topic}


def _steps(start: int, stop: int) -> Iterator[int]:
    """Yield start, then numbers 1, 2, 4, 8, ... away from it towards stop, never stop itself."""
    sign, away = (1 if stop > start else -1), 0
    while (stop - (start + sign * away)) * sign > 0:
        yield start + sign * away
        away = max(2 * away, 1)
