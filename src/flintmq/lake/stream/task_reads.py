"""Chooses which parts of its range a task reads: all, or only records that units point to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy

from flintmq.arrow.vanished import accounted
from flintmq.lake.stream.offset_index import unit_columns
from flintmq.lake.stream.plan import StreamTask
from flintmq.store.commitlog.report import Report
from flintmq.store.commitlog.walk import PIECE_BYTES, LogWalk, Piece
from flintmq.store.consumequeue.reader import plain_queue
from flintmq.store.layout import directories
from flintmq.store.layout.queue_name import QueueName

GAP_BYTES = 64 * 1024  # unwanted bytes between records up to which the log is read on instead of skipped
LEAST_PIECE = 4096


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
