"""Reads the records of one task of a stream: all of them, or it fails.

The task's range of the log is walked, or, if few records are wanted, only the parts that units point to. The records
at the wanted offsets are taken. They must fill these offsets without a gap. A record that is missing, because a unit
misled the planning, is searched for in the log; if it is nowhere, it is lost.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy
import pyarrow as pa

from flintmq.arrow.vanished import accounted
from flintmq.config.text import short
from flintmq.errors import CorruptStoreError, StoreError
from flintmq.format.record import INNER_BATCH, TRANSACTION_PREPARED
from flintmq.format.record_view import SYS_FLAG_LAST
from flintmq.lake.read.scan import BATCH_BYTES, rows_of
from flintmq.lake.stream.offset_index import unit_columns
from flintmq.lake.stream.plan import StreamTask
from flintmq.lake.stream.unreached import REBUILD, Unreached
from flintmq.message import stored_message
from flintmq.store.commitlog.predicate import Predicate, Selector
from flintmq.store.commitlog.report import LOST, Report
from flintmq.store.commitlog.snapshot import Snapshot
from flintmq.store.commitlog.walk import PIECE_BYTES, LogWalk, Piece
from flintmq.store.consumequeue.reader import plain_queue
from flintmq.store.dispatch.queue_positions import places
from flintmq.store.layout import directories
from flintmq.store.layout.queue_name import QueueName
from flintmq.store.read.log_map import is_at_queue_offset
from flintmq.store.read.queue_lookup import QueueLookup

GAP_BYTES = 64 * 1024  # unwanted bytes between records up to which the log is read on instead of skipped
LEAST_PIECE = 4096
NAMED_MOST = 3  # lost messages that an error names


def read_part(
    part: StreamTask, schema: pa.Schema, report: Report, batch_bytes: int = BATCH_BYTES, apart: bool = False
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of a task in log order (but see `apart`), the same rows every time.

    `apart`: give frequent topics batches of their own; rows are then in log order within each topic.
    """
    options = part.options
    # What the plan has not judged by queue, offset and place: all that is about a record itself.
    of_rows = replace(options.predicate, topics=None, topic_pattern=None, queue_ids=None, queues=None, offsets=(),
                      since=None, until=None, any_key=None)  # fmt: skip
    wanted, unreached = Wanted(part), Unreached(part)
    try:
        pieces = wanted.of(pieces_of(part, report, options.fail_on_data_loss), unreached)
        yield from rows_of(pieces, options, schema, of_rows, report, batch_bytes, apart)
    except CorruptStoreError as error:
        raise _with_place(part, error) from None
    for line in unreached.lost():
        advice = f"{REBUILD}; {options.skip_option} goes on without it"
        if options.fail_on_data_loss:
            raise StoreError(f"{part.root}: {line}: {advice}")
        report.note(LOST, f"{line}: {advice}")
    missing = _missing(part) if wanted.filled != wanted.full else {}
    yield from rows_of(_light(part, missing, report), options, schema, of_rows, report)
    if not missing:
        return
    lookup = QueueLookup(Snapshot(part.root, options.config, part.log.effects))
    yield from rows_of(_found(lookup, missing, report), options, schema, of_rows, report)
    if missing and options.fail_on_data_loss:
        raise _lost(part, missing, lookup)
    for (topic, queue), offsets in missing.items():
        report.note(LOST, f"topic {short(topic)}, queue {queue}: {len(offsets)} messages from offset {offsets[0]} on")


def pieces_of(part: StreamTask, report: Report, strict: bool) -> Iterator[Piece]:
    """Yield the records of a task's range; if few are wanted, only parts of the range."""
    for begin, end in _runs(part) if part.sparse else [(part.begin, part.end)]:
        walk = LogWalk(
            part.log,
            begin=begin,
            end=end,
            access=part.options.access,
            strict=strict,
            report=report,
            piece_bytes=min(PIECE_BYTES, max(LEAST_PIECE, end - begin)),
        )
        yield from walk if strict else accounted(walk)


def lmq_pieces(part: StreamTask, name: QueueName, report: Report) -> Iterator[tuple[int, Piece]]:
    """Yield queue offset and record for each unit of an LMQ's span that points to a record."""
    low, high = part.spans[name]
    for offset, at in enumerate(
        unit_columns(plain_queue(part.root, name, part.log.effects), low, high)[0].tolist(), low
    ):
        for piece in LogWalk(part.log, begin=at, end=at + 1, strict=False, report=report, piece_bytes=LEAST_PIECE):
            yield offset, piece


def _runs(part: StreamTask) -> list[tuple[int, int]]:
    """Return log offsets [begin, end) that contain the wanted records, by the units.

    The result is the whole range if the units do not show them.
    """
    found = []
    for name, span in part.spans.items():
        if name not in part.light:
            if part.log.effects.is_dir(os.path.join(part.root, directories.BATCH_QUEUES, name.topic)):
                return [(part.begin, part.end)]
            found.append(unit_columns(plain_queue(part.root, name, part.log.effects), *span))
    begins: Any = numpy.concatenate([places for places, _ in found] or [numpy.zeros(0, numpy.int64)])
    ends: Any = begins + numpy.concatenate([sizes for _, sizes in found] or [begins])
    if not len(begins) or begins.min() < part.begin or ends.max() > part.end:
        return [(part.begin, part.end)] if len(begins) else []
    order = numpy.argsort(begins, kind="stable")
    begins, ends = begins[order], ends[order]
    breaks = numpy.flatnonzero(begins[1:] - ends[:-1] > GAP_BYTES)
    firsts, lasts = numpy.concatenate(([0], breaks + 1)), numpy.concatenate((breaks, [len(begins) - 1]))
    return list(zip(begins[firsts].tolist(), ends[lasts].tolist(), strict=True))


class Wanted:
    """Selects the wanted records of a walk, and counts the queue offsets that they fill.

    Attributes:
        filled: number of offsets filled so far: one per message; an inner batch has several.
        full: number of offsets to fill in total.
    """

    def __init__(self, part: StreamTask) -> None:
        spans = {name: span for name, span in sorted(part.spans.items()) if name not in part.light}
        queues = frozenset((topic, queue) for topic, queue in spans)
        offsets = tuple((*name, *span) for name, span in spans.items())
        self._selector = Selector(Predicate(queues=queues, offsets=offsets))
        self._spans, self._firsts = spans, {name: at for name, at in part.firsts.items() if name in spans}
        self._of_firsts: Selector | None = None
        self.filled, self.full = 0, sum(high - low for low, high in spans.values())

    def of(self, pieces: Iterable[Piece], unreached: Unreached | None = None) -> Iterator[Piece]:
        """Yield the pieces with only the wanted records.

        Prepared and rolled-back records are in no queue, whatever queue they name.
        """
        for piece in pieces:
            strangers = self._strangers(piece) if self._firsts else None
            walked: Any = numpy.array(piece.positions[: piece.count], numpy.int64)
            count = self._selector.select(piece)
            positions: Any = numpy.frombuffer(piece.positions, numpy.int64, count)
            if strangers:
                positions = positions[~numpy.isin(positions, strangers)]
            if unreached is not None and len(positions) < len(walked):
                unreached.look(replace(piece, positions=memoryview(walked)), positions)
            flags = numpy.frombuffer(piece.data, numpy.uint8)[positions + SYS_FLAG_LAST]
            queued = flags & TRANSACTION_PREPARED == 0
            for at in positions[queued & (flags & INNER_BATCH != 0)].tolist():
                self.filled += sum(place.messages - 1 for place in places(stored_message(piece.data, at))[:1])
            positions = positions[queued]
            self.filled += len(positions)
            if len(positions):
                yield replace(piece, positions=memoryview(positions), count=len(positions))

    def _strangers(self, piece: Piece) -> list[int]:
        """Return positions of records before the first of their queue: of a deleted namesake."""
        begin = piece.base + piece.positions[0] if piece.count else 0
        ahead = {name: at for name, at in self._firsts.items() if at > begin}
        if len(ahead) < len(self._firsts) or self._of_firsts is None:
            self._firsts = ahead
            offsets = tuple((*name, *self._spans[name]) for name in sorted(ahead))
            self._of_firsts = Selector(Predicate(queues=frozenset((*name,) for name in ahead), offsets=offsets))
        positions: Any = numpy.array(piece.positions[: piece.count], numpy.int64)
        copy = replace(piece, positions=memoryview(positions))
        found = []
        for at in copy.positions[: self._of_firsts.select(copy)] if ahead else ():
            place = next(iter(places(stored_message(piece.data, at))), None)
            if place is not None and piece.base + at < ahead.get(QueueName(place.topic, place.queue_id), 0):
                found.append(at)
        return found


def _light(part: StreamTask, missing: dict[QueueName, list[int]], report: Report) -> Iterator[Piece]:
    """Yield the records of LMQs; offsets whose units do not point to them are missing.

    Of an LMQ that the options do not name only the records that have its name as their topic: the others are rows of
    theirs.
    """
    named = part.options.predicate.named_topics or ()
    for name in sorted(part.light):
        offsets = set(range(*part.spans[name]))
        for offset, piece in lmq_pieces(part, name, report):
            message = stored_message(piece.data, piece.positions[0])
            if is_at_queue_offset(message, name, offset):
                offsets.discard(offset)
                if name.topic in named or message.topic == name.topic:
                    yield piece
        if offsets:
            missing[name] = sorted(offsets)


def _missing(part: StreamTask) -> dict[QueueName, list[int]]:
    """Return the wanted offsets that no record of the range fills. Slow; used after a loss."""
    found: dict[QueueName, set[int]] = {name: set() for name in part.spans if name not in part.light}
    for piece in Wanted(part).of(pieces_of(part, Report(), strict=False)):
        for at in piece.positions[: piece.count]:
            for place in places(stored_message(piece.data, at))[:1]:
                offsets = range(place.offset, place.offset + place.messages)
                found.setdefault(QueueName(place.topic, place.queue_id), set()).update(offsets)
    gaps = {name: sorted(set(range(*part.spans[name])) - offsets) for name, offsets in found.items()}
    return {name: offsets for name, offsets in gaps.items() if offsets}


def _found(lookup: QueueLookup, missing: dict[QueueName, list[int]], report: Report) -> Iterator[Piece]:
    """Yield the records of missing offsets that are elsewhere in the log.

    Offsets that were found are removed from `missing`.
    """
    for name in list(missing):
        lost: list[int] = []
        done = -1
        for offset in missing.pop(name):
            message = lookup.message(name, offset) if offset >= done else None
            if message is not None:
                place = next(place for place in places(message) if (place.topic, place.queue_id) == name)
                done = place.offset + place.messages
                at = message.physical_offset
                yield from LogWalk(lookup.snapshot.log, begin=at, end=at + 1, strict=False, report=report)
            elif offset >= done:
                lost.append(offset)
        if lost:
            missing[name] = lost


def _lost(part: StreamTask, missing: dict[QueueName, list[int]], lookup: QueueLookup) -> StoreError:
    named = [
        f"topic {short(topic)}, queue {queue}, offset {offsets[0]}"
        + (f" ({len(offsets)} in all)" if offsets[1:] else "")
        for (topic, queue), offsets in list(missing.items())[:NAMED_MOST]
    ]
    first = next(iter(missing))
    unit = lookup.units(first).unit(missing[first][0])
    file = part.log.find(unit.physical_offset) if unit is not None else None
    where = file.path if file is not None else f"log offsets {part.begin} to {part.end}"
    return StoreError(f"{'; '.join(named)}: not in the log ({where}); {_advice(part)}")


def _with_place(part: StreamTask, error: CorruptStoreError) -> CorruptStoreError:
    """Add to an error the first message of a queue that it makes unreadable."""
    lookup = QueueLookup(Snapshot(part.root, part.options.config, part.log.effects))
    file = next((file for file in part.log.files if file.path == error.file), None)
    hit = []
    for name, (low, high) in part.spans.items():
        units = lookup.units(name)
        for number, unit in units.units(units.number_of(low), units.number_of(high)):
            if file is not None and unit.physical_offset == file.start + error.position:
                hit.append(f"topic {short(name.topic)}, queue {name.queue_id}, offset {units.span(number, unit)[0]}")
    if not hit:
        name, (low, high) = next(iter(part.spans.items()))
        hit = [f"among topic {short(name.topic)}, queue {name.queue_id}, offsets {low} to {high - 1} and others"]
    return CorruptStoreError(error.file, error.position, f"{hit[0]}: {error.reason}", _advice(part))


def _advice(part: StreamTask) -> str:
    return f"`flintmq verify` shows more; {part.options.skip_option} goes on without it"
