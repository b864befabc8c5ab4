"""Narrows a scan of single queues to a part of the log, using units of their consume queues.

This is only an optimization. It applies where the option `assign` names the queues and each of them has an offset whose
unit points to the right record of the log. Otherwise the whole log is scanned, and the rows are the same.
"""

from __future__ import annotations

import os

from flintmq.message import StoredMessage
from flintmq.store.commitlog.files import LogFiles
from flintmq.store.commitlog.predicate import LEAST, MOST, Predicate
from flintmq.store.commitlog.records import record_at
from flintmq.store.consumequeue.reader import batch_queue, plain_queue
from flintmq.store.layout import directories
from flintmq.store.layout.queue_name import QueueName
from flintmq.store.read.log_map import is_at_queue_offset


def scan_bounds(root: str, log: LogFiles, predicate: Predicate, end: int) -> tuple[int, int]:
    """Find the log offsets between which all records of the wanted queue offsets are.

    Args:
        root: directory of the store.
        log: files of its log.
        predicate: selects queues and queue offsets.
        end: log offset where the log ends.

    Returns:
        (begin, end): begin is the first byte of a record or the log's minimum.

    Raises:
        StoreAccessError: a file may not be read.
    """
    begin = min(log.min_offset, end)
    if not predicate.queues:
        return begin, end
    ranges = {(topic, queue): (least, stop) for topic, queue, least, stop in predicate.offsets}
    firsts, stops = [], []
    for topic, queue in predicate.queues:
        least, stop = ranges.get((topic, queue), (LEAST, MOST))
        first = _record(root, log, QueueName(topic, queue), least) if least > LEAST else None
        last = _record(root, log, QueueName(topic, queue), stop) if stop < MOST else None
        firsts += [first.physical_offset] if first is not None else []
        # An inner batch that contains the bound has wanted messages too: it is read, and the scan selects among them.
        stops += [last.physical_offset + last.size] if last is not None else []
    if len(firsts) == len(predicate.queues):
        begin = max(begin, min(firsts))
    if len(stops) == len(predicate.queues):
        end = max(begin, min(end, max(stops)))
    return begin, end


def _record(root: str, log: LogFiles, name: QueueName, offset: int) -> StoredMessage | None:
    """Return the record at an offset of a queue, if the queue's unit points to it."""
    batch = log.effects.is_dir(os.path.join(root, directories.BATCH_QUEUES, name.topic))
    units = (batch_queue if batch else plain_queue)(root, name, log.effects)
    unit = units.unit(units.number_of(offset))
    if unit is None or not units.points_to_record(unit):
        return None
    message = record_at(log, unit.physical_offset)
    return message if message is not None and is_at_queue_offset(message, name, offset) else None
