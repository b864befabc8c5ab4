"""Divides a micro-batch into tasks: ranges of the log, each with its wanted queue offsets.

However many queues there are, a task reads one range of the log for all of them: a small batch is one task, a large one
is cut into ranges of similar size. The same offsets always give the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from flintmq.config.text import short
from flintmq.errors import StoreError
from flintmq.lake.read.options import ReadOptions
from flintmq.lake.read.splits import cores, split_count
from flintmq.lake.stream.admission import Span, limited
from flintmq.lake.stream.queues import StreamQueues
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.layout.queue_name import QueueName

SPARSE = 4  # ratio of log to wanted records from which a task reads only the records that units point to


@dataclass(frozen=True)
class StreamTask:
    """The part of a micro-batch that one task reads.

    Attributes:
        light: those of the queues whose names begin with `%LMQ%`, and other LMQs: their units may point to records of
            other topics.
        firsts: log offset of the first wanted record of each queue that has one after the range's begin. Records of the
            queue before it in the range belong to a deleted queue of the same name.
    """

    root: str
    options: ReadOptions
    log: LogFiles
    begin: int  # begin, end: log offsets; begin is the first byte of a record, and a record ends at end
    end: int
    spans: dict[QueueName, Span]  # the wanted offsets of each queue; their records begin in the range
    light: frozenset[QueueName]
    sparse: bool  # the range contains much more than the wanted records
    firsts: Mapping[QueueName, int] = field(default_factory=dict)


def share_out(
    queues: StreamQueues, spans: Mapping[QueueName, Span], walked: int | None = None, to_end: bool = False
) -> list[StreamTask]:
    """Divide a micro-batch into tasks.

    Messages of a queue whose files are lost are found only by a walk. So the first task begins where the last
    micro-batch ended (`walked`, the log offset of a record; None if that is not known), and the last task goes on to
    the end of the log if nothing comes after the batch (`to_end`).
    """
    spans = {name: span for name, span in spans.items() if span[0] < span[1]}
    known: dict[tuple[QueueName, int], int] = {}
    with queues.lookup.snapshot.held():
        begin = _first(queues, spans, known)
        if begin is None:
            return []
        end = _end(queues, spans)
    size = 0
    for name in queues.in_order(spans):
        size += queues.places(name).size(*spans[name])
    count = split_count(size, cores(), queues.options.least_splits)
    lots, rest = [], spans
    for number in range(1, count + 1):
        stops = {name: high for name, (_, high) in rest.items()}
        if number < count:
            cut = begin + (end - begin) * number // count
            stops = {name: queues.places(name).first_at(cut, *span) for name, span in rest.items()}
        lots += _lots(queues, {name: (low, stops[name]) for name, (low, _) in rest.items()}, begin, end)
        rest = {name: (stops[name], high) for name, (_, high) in rest.items() if stops[name] < high}
    assert _messages(lots) == _messages([spans])  # each message is read by one task
    firsts = [_first(queues, lot, known) for lot in lots]
    parts: list[StreamTask] = []
    stop = end
    for number, (lot, first) in reversed(list(enumerate(zip(lots, firsts, strict=True)))):
        if first is not None:
            low = min(first, walked) if number == 0 and walked is not None else first
            high = queues.end if to_end and not parts else stop
            part = _widened(queues, _part(queues, first, stop, lot), low, high)
            firsts_of = {
                name: known[name, low] for name, (low, _) in lot.items() if part.begin < known[name, low] < queues.end
            }
            parts.append(replace(part, firsts=firsts_of))
            stop = min(first, stop)
    return parts[::-1]


def _messages(lots: list[dict[QueueName, Span]]) -> int:
    return sum(high - low for lot in lots for low, high in lot.values())


def _widened(queues: StreamQueues, part: StreamTask, begin: int, end: int) -> StreamTask:
    """Widen the range of a task, unless that makes it sparse: then units are read, not the log."""
    if part.sparse or (begin, end) == (part.begin, part.end):
        return part
    wider = _part(queues, begin, max(end, part.end), part.spans)
    return part if wider.sparse else wider


def _lots(queues: StreamQueues, spans: Mapping[QueueName, Span], begin: int, end: int) -> list[dict[QueueName, Span]]:
    """Divide a share of a micro-batch, in log order, by the most messages that a task may have."""
    rest = {name: span for name, span in spans.items() if span[0] < span[1]}
    most, lots = queues.options.most_records, []
    while most is not None and sum(high - low for low, high in rest.values()) > most:
        places = {name: queues.places(name) for name in rest}
        stops = limited(places, rest, begin, end, lambda name, low, high: high - low, most)
        lots.append({name: (low, stops[name]) for name, (low, _) in rest.items() if low < stops[name]})
        rest = {name: (stops[name], high) for name, (_, high) in rest.items() if stops[name] < high}
    return [*lots, rest] if rest else lots


def _part(queues: StreamQueues, begin: int, end: int, spans: dict[QueueName, Span]) -> StreamTask:
    end = max(begin, end)
    files = tuple(file for file in queues.log.files if file.start < end and file.start + file.size > begin)
    size = sum(queues.places(name).size(*span) for name, span in spans.items())
    light = frozenset(name for name in spans if queues.may_be_lmq(name))
    sparse = end - begin > SPARSE * size
    return StreamTask(queues.root, queues.options, replace(queues.log, files=files), begin, end, spans, light, sparse)


def _first(
    queues: StreamQueues, spans: Mapping[QueueName, Span], known: dict[tuple[QueueName, int], int]
) -> int | None:
    """Return the log offset of the first record of all spans; None if none can be read."""
    found = []
    for name in queues.in_order(spans):
        low, high = spans[name]
        if (name, low) not in known:
            first = queues.first_message(name, low, high)
            if (first is None or first[0] > low) and queues.options.fail_on_data_loss:
                raise lost(queues, name, low, "its record cannot be read: it is damaged, or has just expired")
            known[name, low] = queues.end if first is None else first[1].physical_offset
        found.append(known[name, low])
    return min(found, default=None)


def _end(queues: StreamQueues, spans: Mapping[QueueName, Span]) -> int:
    """Return the log offset after the last record of all spans."""
    ends = []
    for name in queues.in_order(spans):
        last = queues.message(name, spans[name][1] - 1)
        ends.append(queues.end if last is None else last.physical_offset + last.size)
    return max(ends)


def lost(queues: StreamQueues, name: QueueName, offset: int, why: str, goes_on: str = "without it") -> StoreError:
    units = queues.places(name).units
    unit = units.unit(units.number_of(offset))
    file = queues.log.find(unit.physical_offset) if unit is not None and units.points_to_record(unit) else None
    return StoreError(
        f"{queues.root if file is None else file.path}: topic {short(name.topic)}, queue {name.queue_id}, "
        f"offset {offset}: {why}; {queues.options.skip_option} goes on {goes_on}"
    )
