"""Finds one message by its log offset, or by the offset message id that holds it."""

from __future__ import annotations

from collections.abc import Callable

from flintmq.config.text import short
from flintmq.errors import FormatError, MessageNotFoundError, UsageError
from flintmq.format.message_id import parse_offset_msg_id
from flintmq.message import StoredMessage
from flintmq.store import arguments


def not_there(physical_offset: int, low: int, high: int) -> MessageNotFoundError:
    """Make the error for a log offset without a record; the log has [low, high)."""
    return MessageNotFoundError(f"no record begins at log offset {physical_offset}; the log has {low} to {high}")


def by_offset_msg_id(offset_msg_id: str, get_at: Callable[[int], StoredMessage]) -> StoredMessage:
    """Return the message with an offset message id.

    `get_at` finds a record by its log offset, or raises.

    Raises:
        TypeError: no text.
        UsageError: the text is no offset message id.
        MessageNotFoundError: the record is another broker's.
    """
    arguments.texts(offset_msg_id=offset_msg_id)
    try:
        _, _, physical_offset = parse_offset_msg_id(offset_msg_id)
    except FormatError as error:
        raise UsageError(error.reason) from None
    message = get_at(physical_offset)
    if message.offset_msg_id != offset_msg_id.upper():
        raise MessageNotFoundError(
            f"{short(offset_msg_id)}: the record at log offset {physical_offset} has the id {message.offset_msg_id}"
        )
    return message
