"""The vocabulary: a message as it lies in a store.

`StoredMessage` keeps the record's bytes and decodes what is asked, when it is asked. Its attributes are the columns of
the one schema (the same in scan, Arrow, Spark and JSON), in the same meaning.
"""

from __future__ import annotations

from typing import Any

from flintmq.format import message_id, properties, record
from flintmq.format.text import java_decode

# The one schema, in its order. Types and nullability are declared once for Arrow in flintmq.arrow.schema.
COLUMNS = (
    "topic",
    "queue_id",
    "queue_offset",
    "body",
    "tags",
    "keys",
    "properties",
    "msg_id",
    "offset_msg_id",
    "born_timestamp",
    "born_host",
    "store_timestamp",
    "store_host",
    "physical_offset",
    "size",
    "magic",
    "flag",
    "sys_flag",
    "reconsume_times",
    "prepared_transaction_offset",
    "body_crc",
)


class StoredMessage:
    """One record of a commit log, read-only.

    Attributes, decoded on first use:
        topic (str), queue_id (int), queue_offset (int: index in the queue), body (bytes as stored), tags, keys,
        msg_id (str or None: the properties TAGS, KEYS, UNIQ_KEY), properties (dict of str), offset_msg_id (str),
        born_timestamp, store_timestamp (int, ms), born_host, store_host (str, `ip:port`), physical_offset (int: byte
        offset in the log), size (int, bytes of the record), magic ("V1" or "V2"), flag, sys_flag, reconsume_times,
        prepared_transaction_offset, body_crc (int).

    Text that is not UTF-8 reads as Java reads it (U+FFFD); `raw` keeps the bytes.

    Thread: may be shared; decoding twice at worst gives equal values.
    """

    __slots__ = ("_fields", "_properties", "raw")

    def __init__(self, raw: bytes) -> None:
        """Wrap the bytes of one validated record (structure and checksum checked by the caller)."""
        self.raw = raw
        self._fields: record.Record | None = None
        self._properties: dict[str, str] | None = None

    @property
    def fields(self) -> record.Record:
        """The record's raw fields.

        Raises:
            FormatError: the bytes are no record.
        """
        if self._fields is None:
            self._fields = record.decode(self.raw)
        return self._fields

    @property
    def topic(self) -> str:
        return java_decode(self.fields.topic)

    @property
    def queue_id(self) -> int:
        return self.fields.queue_id

    @property
    def queue_offset(self) -> int:
        return self.fields.queue_offset

    @property
    def body(self) -> bytes:
        return self.fields.body

    @property
    def properties(self) -> dict[str, str]:
        if self._properties is None:
            self._properties = properties.parse_bytes(self.fields.properties)
        return self._properties

    @property
    def tags(self) -> str | None:
        return self.properties.get(properties.TAGS)

    @property
    def keys(self) -> str | None:
        return self.properties.get(properties.KEYS)

    @property
    def msg_id(self) -> str | None:
        return self.properties.get(properties.UNIQ_KEY)

    @property
    def offset_msg_id(self) -> str:
        return message_id.offset_msg_id(self.fields.store_host, self.fields.physical_offset)

    @property
    def born_timestamp(self) -> int:
        return self.fields.born_timestamp

    @property
    def born_host(self) -> str:
        return message_id.host_text(self.fields.born_host)

    @property
    def store_timestamp(self) -> int:
        return self.fields.store_timestamp

    @property
    def store_host(self) -> str:
        return message_id.host_text(self.fields.store_host)

    @property
    def physical_offset(self) -> int:
        return self.fields.physical_offset

    @property
    def size(self) -> int:
        return len(self.raw)

    @property
    def magic(self) -> str:
        return "V1" if self.fields.magic == record.MAGIC_V1 else "V2"

    @property
    def flag(self) -> int:
        return self.fields.flag

    @property
    def sys_flag(self) -> int:
        return self.fields.sys_flag

    @property
    def reconsume_times(self) -> int:
        return self.fields.reconsume_times

    @property
    def prepared_transaction_offset(self) -> int:
        return self.fields.prepared_transaction_offset

    @property
    def body_crc(self) -> int:
        return self.fields.body_crc & 0xFFFFFFFF

    def as_row(self) -> dict[str, Any]:
        """All columns of the schema, in its order."""
        return {name: getattr(self, name) for name in COLUMNS}

    def __eq__(self, other: object) -> bool:
        """Equal when the records are the same bytes."""
        return self.raw == other.raw if isinstance(other, StoredMessage) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.raw)

    def __repr__(self) -> str:
        return (
            f"StoredMessage(topic={self.topic!r}, queue_id={self.queue_id}, queue_offset={self.queue_offset}, "
            f"physical_offset={self.physical_offset}, size={self.size})"
        )


def stored_message(data: bytes | bytearray | memoryview, at: int) -> StoredMessage:
    """The validated record that begins at data[at], copied out."""
    size = int.from_bytes(data[at : at + 4], "big")
    return StoredMessage(bytes(data[at : at + size]))
