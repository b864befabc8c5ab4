"""Finds the records that a start of RocketMQ cannot bear (format/start_fields.py)."""

from __future__ import annotations

from collections.abc import Iterator

from flintmq.format.start_fields import WrongField, wrong_field
from flintmq.kernels.read import odd_text as kernel
from flintmq.message import stored_message
from flintmq.store.commitlog.walk import Piece


def wrong_at(piece: Piece, row: int) -> WrongField | None:
    message = stored_message(piece.data, piece.positions[row])
    return wrong_field(message.topic, message.properties, message.sys_flag, message.queue_offset)


def wrong_records(piece: Piece) -> Iterator[tuple[int, WrongField]]:
    """Yield (row, what is wrong) of each such record of a piece."""
    row, what = 0, 0
    while row < piece.count:
        row, _, what = kernel.scan(piece.data, piece.positions, row, piece.count, 0)
        if what & kernel.PARSED and (wrong := wrong_at(piece, row)) is not None:
            yield row, wrong
        row += 1
