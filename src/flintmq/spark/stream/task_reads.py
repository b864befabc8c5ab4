"""Which bytes of its range a task reads: all of them, or where little is wanted only what the units lead to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy

from flintmq.spark.stream.offset_index import unit_columns
from flintmq.spark.stream.plan import StreamTask
from flintmq.store.commitlog.report import Report
from flintmq.store.commitlog.walk import PIECE_BYTES, LogWalk, Piece
from flintmq.store.consumequeue.reader import plain_queue
from flintmq.store.layout import directories
from flintmq.store.layout.queue_name import QueueName

GAP_BYTES = 64 * 1024  # of unwanted log that is read through rather than stepped over
LEAST_PIECE = 4096


def pieces_of(part: StreamTask, report: Report, strict: bool) -> Iterator[Piece]:
    """The records of a part's range, or most of those that are wanted if they are few.

    Raises:
        CorruptStoreError: (strict) damage.
        StoreAccessError: a file may not be read.
    """
    for begin, end in _runs(part) if part.sparse else [(part.begin, part.end)]:
        yield from LogWalk(
            part.log,
            begin=begin,
            end=end,
            access=part.options.access,
            strict=strict,
            report=report,
            piece_bytes=min(PIECE_BYTES, max(LEAST_PIECE, end - begin)),
        )


def lmq_pieces(part: StreamTask, name: QueueName, report: Report) -> Iterator[tuple[int, Piece]]:
    """Queue offset and record of each unit of a light queue's span that leads to a record."""
    low, high = part.spans[name]
    for offset, at in enumerate(
        unit_columns(plain_queue(part.root, name, part.log.effects), low, high)[0].tolist(), low
    ):
        for piece in LogWalk(part.log, begin=at, end=at + 1, strict=False, report=report, piece_bytes=LEAST_PIECE):
            yield offset, piece


def _runs(part: StreamTask) -> list[tuple[int, int]]:
    """Log offsets [begin, end) that hold what is wanted; the whole range if the units do not tell."""
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
    apart = numpy.flatnonzero(begins[1:] - ends[:-1] > GAP_BYTES)
    firsts, lasts = numpy.concatenate(([0], apart + 1)), numpy.concatenate((apart, [len(begins) - 1]))
    return list(zip(begins[firsts].tolist(), ends[lasts].tolist(), strict=True))
