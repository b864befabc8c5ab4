"""Finds messages in the log that have no queue unit, because files of their queue were lost.

A stream learns from the queues which messages exist, so a queue whose directory was lost, or whose files were
truncated, would be skipped silently. The log still has its records. A task that walks them compares: a record that the
options select, that is dispatched, and that has no unit is reported. For each queue two such records are checked: the
first before the offsets that the task reads, and the first after them; this adds little to the cost of the walk.

A deleted topic looks similar. If FlintMQ deleted it, the store says up to where its records are in no queue. Else it is
recognized where possible: RocketMQ removes it from `config/topics.json` and removes all of its queues, and if it was
created again, its old records are in the log before its new ones.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy

from flintmq.config.text import short
from flintmq.format.consume_queue import UNIT, UNIT_SIZE
from flintmq.format.text import java_decode
from flintmq.lake.stream.plan import StreamTask
from flintmq.store.commitlog.predicate import Predicate, Selector
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.commitlog.walk import Piece
from flintmq.store.dispatch.dispatcher import Dispatcher, DispatchRules
from flintmq.store.layout import deleted_topics, directories
from flintmq.store.layout.queue_name import QueueName, is_path
from flintmq.store.read.queue_lookup import QueueLookup

NO_FILES = "the log has it, and its queue has no files"
REBUILD = "`flintmq rebuild --out DIR` rebuilds queues from the log"
GRACE_SECONDS = 5.0  # time for a running writer to write a record's unit when records after it have theirs
_UNIT = numpy.dtype(UNIT.columns())


class RecordPlace(NamedTuple):
    queue: QueueName
    queue_offset: int
    physical_offset: int

    def __str__(self) -> str:
        return f"topic {short(self.queue.topic)}, queue {self.queue.queue_id}, offset {self.queue_offset}"


class Unreached:
    """Records that a task walks but does not read. Thread: one at a time."""

    def __init__(self, part: StreamTask) -> None:
        self._part = part
        asked = part.options.predicate
        self._asked = Predicate(asked.topics, asked.topic_pattern, asked.queue_ids, asked.queues)
        self._selector = Selector(self._asked) if self._asked.asks_topics else None
        self._dispatcher: Dispatcher | None = None
        self._first: dict[tuple[QueueName, bool], RecordPlace] = {}
        self._last: dict[tuple[QueueName, bool], RecordPlace] = {}

    def look(self, piece: Piece, wanted: Any) -> None:
        """Remember records of a piece that the task does not read.

        `piece`: all records that were walked; its positions are overwritten.
        """
        count = piece.count if self._selector is None else self._selector.select(piece)
        if count == len(wanted):
            return
        rest: Any = numpy.setdiff1d(numpy.array(piece.positions[:count], numpy.int64), wanted, assume_unique=True)
        if self._dispatcher is None:
            deletions = deleted_topics.readable(self._part.root, self._part.log.effects)[0]
            rules = DispatchRules(self._part.options.config.delay_ms, index=False, deletions=deletions)
            self._dispatcher = Dispatcher(rules)
        for block in self._dispatcher.blocks(replace(piece, positions=memoryview(rest), count=len(rest))):
            units = numpy.frombuffer(block.units, numpy.uint8)
            for number, first, stop in block.queues:
                queue = self._dispatcher.queues.keys[number]
                found = units[UNIT_SIZE * first : UNIT_SIZE * stop].view(_UNIT)["physical_offset"]
                name = QueueName(java_decode(queue.topic), queue.queue_id)
                self._note(name, numpy.array(block.offsets[first:stop], numpy.int64), found)

    def _note(self, name: QueueName, offsets: Any, physical: Any) -> None:
        low = self._part.spans.get(name, (0, 0))[0]
        for before in (True, False):
            at = numpy.flatnonzero((offsets < low) == before)
            if len(at):
                first, last = (RecordPlace(name, int(offsets[i]), int(physical[i])) for i in (at[0], at[-1]))
                self._first.setdefault((name, before), first)
                self._last[name, before] = last

    def lost(self) -> Iterator[str]:
        """Yield one line for each queue that lost files."""
        until = time.monotonic() + GRACE_SECONDS
        places = list({*self._first.values(), *self._last.values()})
        places.sort(key=lambda place: place.physical_offset)
        while places:
            lookup = self._lookup()
            places = [place for place in places if not _has_unit(lookup, place)]
            found = self._reasons(lookup, places)
            if not found or not lookup.snapshot.facts.live or time.monotonic() >= until:
                yield from (f"{place}: {why}" for place, why in found.values())
                return
            time.sleep(0.1)  # a writer may be about to write the unit; only then is it worth waiting

    def _reasons(self, lookup: QueueLookup, places: list[RecordPlace]) -> dict[QueueName, tuple[RecordPlace, str]]:
        end = lookup.dispatched_end() if places and lookup.has_files else 0
        remade = self._remade(lookup, places)
        found: dict[QueueName, tuple[RecordPlace, str]] = {}
        for place in places:
            if remade.get(place.queue.topic, 0) <= place.physical_offset < end and place.queue not in found:
                why = self._why(lookup, place)
                if why:
                    found[place.queue] = (place, why)
        return found

    @staticmethod
    def _remade(lookup: QueueLookup, places: list[RecordPlace]) -> dict[str, int]:
        """Return the log offset at which each topic that was deleted began again.

        A queue of such a topic has another record at the queue offset of an older one.
        """
        found: dict[str, int] = {}
        for place in places:
            units = lookup.units(place.queue)
            unit = units.unit(units.number_of(place.queue_offset))
            if unit is not None and units.points_to_record(unit) and unit.physical_offset > place.physical_offset:
                topic = place.queue.topic
                found[topic] = max(unit.physical_offset, found.get(topic, 0))
        return found

    def _lookup(self) -> QueueLookup:
        return QueueLookup(Snapshot(self._part.root, self._part.options.config, self._part.log.effects))

    def _why(self, lookup: QueueLookup, place: RecordPlace) -> str:
        """Return why a dispatched record without a unit is lost; "" if its queue was deleted."""
        live, units = lookup.snapshot.facts.live, lookup.units(place.queue)
        found = lookup.file_bounds(place.queue) if live else lookup.bounds(place.queue)  # as the planner has it
        if not units.files:
            return NO_FILES if self._has_topic(lookup, place.queue.topic) else ""
        if place.queue_offset < found.min and found.min < found.max:
            return f"the log has it, and its queue's files begin at offset {found.min}"
        if place.queue_offset >= found.max and place.physical_offset >= found.physical_end:
            return f"the log has it, and its queue's files end at offset {found.max}"
        return ""

    def _has_topic(self, lookup: QueueLookup, topic: str) -> bool:
        """Return whether a topic exists, according to its configuration or to other queues of it."""
        snapshot = lookup.snapshot
        below = os.path.join(snapshot.root, directories.QUEUES)
        queues = snapshot.effects.listdir(os.path.join(below, topic), below) if is_path(topic) else []
        return topic in snapshot.broker.topics or bool(queues)


def _has_unit(lookup: QueueLookup, place: RecordPlace) -> bool:
    units = lookup.units(place.queue)
    unit = units.unit(units.number_of(place.queue_offset))
    return unit is not None and units.points_to_record(unit) and unit.physical_offset == place.physical_offset
