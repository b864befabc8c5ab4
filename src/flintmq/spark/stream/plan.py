"""A micro-batch shared out to tasks: ranges of the log, each with the queue offsets that are wanted in it.

However many queues there are, a task reads one range of the log with the parts of all of them: little to do is one
task, and much is cut into ranges of about equal bytes. The same offsets always give the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from flintmq.config_text import short
from flintmq.errors import StoreError
from flintmq.spark.options import ReadOptions
from flintmq.spark.splits import cores, split_count
from flintmq.spark.stream.limits import Span
from flintmq.spark.stream.queues import StreamQueues
from flintmq.store.log_files import LogFiles
from flintmq.store.queues import QueueName


@dataclass(frozen=True)
class Part:
    """What one task reads.

    Attributes:
        root: of the store.
        options: how to read.
        log: the files that the range touches.
        begin, end: log offsets; begin is the first byte of a record, and one ends at end.
        spans: the wanted offsets of each queue; their records begin in the range.
    """

    root: str
    options: ReadOptions
    log: LogFiles
    begin: int
    end: int
    spans: dict[QueueName, Span]


def share_out(queues: StreamQueues, spans: Mapping[QueueName, Span]) -> list[Part]:
    """The parts of a micro-batch.

    Args:
        queues: as the store has them now.
        spans: what is wanted; the queues have all of it, as far as their bounds say.

    Raises:
        StoreError: (failOnDataLoss) a record cannot be read; the text names topic, queue, offset.
        StoreAccessError: a file may not be read.
    """
    spans = {name: span for name, span in spans.items() if span[0] < span[1]}
    firsts = _firsts(queues, spans)
    if not firsts:
        return []
    begin, end = min(firsts.values()), _end(queues, spans)
    size = sum(queues.places(name).size(*span) for name, span in spans.items())
    count = split_count(size, cores(), queues.options.least_splits)
    parts, rest = [], dict(spans)
    for number in range(1, count + 1):
        wanted = begin + (end - begin) * number // count
        cut = end if number == count else wanted
        stops = {
            name: high if number == count else queues.places(name).first_at(cut, low, high)
            for name, (low, high) in rest.items()
        }
        mine = {name: (low, stops[name]) for name, (low, _) in rest.items() if low < stops[name]}
        rest = {name: (stops[name], high) for name, (_, high) in rest.items() if stops[name] < high}
        if mine:
            following = _firsts(queues, rest)
            stop = min(following.values(), default=end)
            parts.append(_part(queues, min(_firsts(queues, mine).values(), default=stop), stop, mine))
    return parts


def _part(queues: StreamQueues, begin: int, end: int, spans: dict[QueueName, Span]) -> Part:
    files = tuple(file for file in queues.log.files if file.start < end and file.start + file.size > begin)
    log = replace(queues.log, files=files)
    return Part(queues.root, queues.options, log, begin, max(begin, end), spans)


def _firsts(queues: StreamQueues, spans: Mapping[QueueName, Span]) -> dict[QueueName, int]:
    """Log offset of the first record of each span."""
    found = {}
    for name, (low, high) in spans.items():
        first = queues.first_message(name, low, high)
        if (first is None or first[0] > low) and queues.options.fail_on_data_loss:
            raise lost(queues, name, low, "its record cannot be read: it is damaged, or has expired meanwhile")
        if first is not None:
            found[name] = first[1].physical_offset
    return found


def _end(queues: StreamQueues, spans: Mapping[QueueName, Span]) -> int:
    """Log offset behind the last record of all spans."""
    ends = []
    for name, (_, high) in spans.items():
        last = queues.message(name, high - 1)
        ends.append(queues.end if last is None else last.physical_offset + last.size)
    return max(ends)


def lost(queues: StreamQueues, name: QueueName, offset: int, why: str) -> StoreError:
    """The error for a message that is not there any more."""
    return StoreError(
        f"{queues.root}: topic {short(name.topic)}, queue {name.queue_id}, offset {offset}: {why}; "
        "failOnDataLoss=false goes on without it"
    )
