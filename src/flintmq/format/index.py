"""Index files: header, hash slots, and items chained through their slot.

Bytes and rules: docs/internals/format/index.md.

The numbers of slots and items are not stored; they come from the configuration. Upstream: IndexFile, IndexHeader,
IndexService.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final, NamedTuple

from flintmq.config.text import short
from flintmq.errors import UsageError
from flintmq.format import properties as names
from flintmq.format.layout import TIME, Int, Layout
from flintmq.format.record import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from flintmq.format.text import java_hash

PEER_533: Final = "5.3.3"
PEER_540: Final = "5.4.0"
PEER_550: Final = "5.5.0"
PEERS: Final = (PEER_533, PEER_540, PEER_550)
NAME: Final = re.compile(r"[0-9]{17}", re.ASCII)  # local time of creation, yyyyMMddHHmmssSSS


class Header(NamedTuple):
    """The first 40 bytes of an index file."""

    begin_timestamp: Annotated[int, Int("i64", "ms, store time of the first record with an item", TIME)]
    end_timestamp: Annotated[int, Int("i64", "ms, store time of the last record with an item", TIME)]
    begin_physical_offset: Annotated[int, Int("i64", "log offset of the first record with an item")]
    end_physical_offset: Annotated[int, Int("i64", "log offset of the last record with an item")]
    slots_used: Annotated[int, Int("i32", "slots that hold an item")]
    index_count: Annotated[int, Int("i32", "number of the next free item; 0 or less means 1")]

    @property
    def next_item(self) -> int:
        """Number of the next item; items are numbered from 1."""
        return max(self.index_count, 1)


class Slot(NamedTuple):
    """A hash slot; slot k holds the items whose hash modulo the number of slots is k."""

    item: Annotated[int, Int("i32", "number of its newest item; 0 or less, or more than the count: none")]


class Item(NamedTuple):
    key_hash: Annotated[int, Int("i32", "hash of `TOPIC#KEY`, not negative")]
    physical_offset: Annotated[int, Int("i64", "where the record begins in the log")]
    seconds: Annotated[int, Int("i32", "store time, in seconds since the begin timestamp")]
    previous: Annotated[int, Int("i32", "number of the item before in the same slot, 0 if none")]


HEADER: Final = Layout("Index header", Header)
SLOT: Final = Layout("Index slot", Slot)
ITEM: Final = Layout("Index item", Item)
assert (HEADER.size, SLOT.size, ITEM.size) == (40, 4, 20)


def checked_peer(peer: str, what: str = "peer") -> str:
    """Check that `peer` is a version of RocketMQ whose behaviour FlintMQ can follow."""
    if peer not in PEERS:
        raise UsageError(f"{what}: {short(str(peer))} is not one of {', '.join(PEERS)}")
    return peer


def file_size(slots: int, items: int) -> int:
    return HEADER.size + SLOT.size * slots + ITEM.size * items


def slot_position(slot: int) -> int:
    """Return the position of a slot in the file; slots are numbered from 0."""
    return HEADER.size + SLOT.size * slot


def item_position(item: int, slots: int) -> int:
    """Return the position of an item in a file of `slots` slots. Item 0 is never used."""
    return HEADER.size + SLOT.size * slots + ITEM.size * item


def key_hash(topic: str, key: str) -> int:
    """Compute the hash of a key: the absolute value of Java's hash of `TOPIC#KEY`.

    The least integer, which has no absolute value, becomes 0.
    """
    value = abs(java_hash(f"{topic}#{key}"))
    return 0 if value == 1 << 31 else value


def seconds(store_timestamp: int, begin_timestamp: int) -> int:
    """Compute the third field of an item: whole seconds since the file's begin timestamp.

    The result is kept between 0 and 2^31 - 1.
    """
    if begin_timestamp <= 0:
        return 0
    return min(max((store_timestamp - begin_timestamp) // 1000, 0), 0x7FFFFFFF)


def keys_of(properties: Mapping[str, str], sys_flag: int, peer: str = PEER_533) -> list[str]:
    """Return the keys under which a record is indexed, in the order of its items, without topic.

    A key named twice is entered twice; rolled-back records have none. All versions but 5.3.3 also enter the tags, as
    the key `T#TAGS`.
    """
    if sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK:
        return []
    keys = [properties[names.UNIQ_KEY]] if names.UNIQ_KEY in properties else []
    keys += [key for key in properties.get(names.KEYS, "").split(" ") if key]
    if peer != PEER_533 and properties.get(names.TAGS):
        keys.append("T#" + properties[names.TAGS])
    return keys
