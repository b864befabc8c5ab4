"""Makes batches of one topic each for frequent topics, so that no export has to split them.

Extracting the rows of a topic from a batch copies every column once more, a fifth of the cost of an export. Here the
records are separated before anything is copied. A topic that makes up a good part of a piece gets its own gatherer
from then on; all other topics share one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy
import pyarrow as pa

from flintmq.arrow.batches import Gatherer, Oddities
from flintmq.arrow.column_layout import Rates
from flintmq.arrow.options import DEFAULT, BatchOptions
from flintmq.arrow.schema import narrow
from flintmq.store.commitlog.predicate import Predicate, Selector
from flintmq.store.commitlog.report import Report
from flintmq.store.commitlog.walk import Piece

MOST_OWN = 16  # topics with a gatherer of their own
SHARE = 16  # a topic gets one if it has this part of a piece's records
LEAST_RECORDS = 256  # in a piece; in smaller pieces the parts mean nothing
TOPIC_ROWS, TOPIC_BYTES = 4096, 1 << 20  # of a batch of topics alone

_TOPIC = narrow(["topic"])


def topics_apart(
    pieces: Iterable[Piece],
    schema: pa.Schema,
    predicate: Predicate | None = None,
    options: BatchOptions = DEFAULT,
    report: Report | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `record_batches`, with frequent topics in batches of their own.

    The rows of each topic are in log order. Batches of one topic have a quarter of `batch_bytes`. Memory: up to 1 +
    MOST_OWN / 4 times that of record_batches.
    """
    selector = Selector(predicate) if predicate is not None and not predicate.everything else None
    oddities = Oddities(options.decompress, options.strict, report if report is not None else Report())
    batch_bytes, max_rows = options.batch_bytes, options.max_rows
    shared = Gatherer(schema, oddities, batch_bytes, max_rows, Rates())
    own: dict[str, Gatherer] = {}
    topics_of = _Topics(oddities)
    for piece in pieces:
        count = piece.count if selector is None else selector.select(piece)
        if not count:
            continue
        codes, topics = topics_of.piece(piece, count)
        assert len(codes) == count  # a code for each record, in order
        for topic, records in zip(topics, numpy.bincount(codes, minlength=len(topics)), strict=True):
            frequent = records * SHARE >= count >= LEAST_RECORDS
            if frequent and topic not in own and len(own) < MOST_OWN:
                yield from shared.finish()  # its rows of this topic are older
                own[topic] = Gatherer(schema, oddities, max(1, batch_bytes // 4), max_rows, Rates())
        positions = numpy.frombuffer(piece.positions, numpy.int64, count)
        rest = numpy.ones(count, bool)
        for code, topic in enumerate(topics):
            if topic in own:
                mine = codes == code
                rest &= ~mine
                yield from _take(own[topic], piece, positions[mine])
        yield from _take(shared, piece, positions[rest])
    for gatherer in (shared, *own.values()):
        yield from gatherer.finish()


class _Topics:
    """Reads the topics of piece after piece; one layout serves for all of them."""

    def __init__(self, oddities: Oddities) -> None:
        self._gatherer = Gatherer(_TOPIC, oddities, TOPIC_BYTES, TOPIC_ROWS, Rates())

    def piece(self, piece: Piece, count: int) -> tuple[Any, list[str]]:
        """Return for each record the index of its topic, and the topics."""
        parts = [batch.column(0) for batch in self._gatherer.take(piece, count)]
        parts += [batch.column(0) for batch in self._gatherer.finish()]
        coded: Any = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
        coded = coded.dictionary_encode()
        return numpy.asarray(coded.indices), coded.dictionary.to_pylist()


def _take(gatherer: Gatherer, piece: Piece, positions: Any) -> Iterator[pa.RecordBatch]:
    if len(positions):
        yield from gatherer.take(replace(piece, positions=memoryview(positions)), len(positions))
