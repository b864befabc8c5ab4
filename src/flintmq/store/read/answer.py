"""RocketMQ's rules of one answer: its statuses, its limits, its filter by tags.

They are the same for a running store and for a view; units and records come from other places. Upstream:
DefaultMessageStore.getMessage.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias, TypeVar

from flintmq.config.keys import StoreConfig
from flintmq.config.text import tag_names
from flintmq.format.consume_queue import UNIT_SIZE, Unit
from flintmq.format.consume_queue_ext import is_address
from flintmq.format.text import java_hash
from flintmq.message import GetMessageStatus, GetResult, RawResult, StoredMessage, stored_message
from flintmq.store.consumequeue.reader import ExtQueue

Answer: TypeAlias = tuple[GetMessageStatus, list[StoredMessage], int]  # status, messages, next offset
Read = TypeVar("Read")
Entry: TypeAlias = tuple[Unit, int, int]  # a unit, its first queue offset, and its number of queue offsets
Wanted: TypeAlias = Callable[[Mapping[str, str]], bool]  # of a message's properties
LOOKED_AT: Final = 16 << 20  # bytes of records whose properties one answer looks at, about
LOOKS_S: Final = 0.2  # for which it looks, about
RAM = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")  # bytes


class UnitSource(Protocol):
    """The units of one queue."""

    @property
    def unit_size(self) -> int: ...

    def entries(self, offset: int, count: int, /) -> Iterator[Entry]:
        """Yield units from this offset on, for up to `count` offsets, all of one file."""

    def ext(self) -> ExtQueue: ...

    def next_file(self, offset: int) -> int:
        """Return where to continue if there is no unit at this offset."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one answer after its first message.

    `memory`, `disk`: (messages, bytes) if the last record is young enough to be in memory, and if it is not.
    """

    messages: int
    memory: tuple[int, int]
    disk: tuple[int, int]
    young: int  # number of bytes before the log's end in which a record counts as in memory

    @staticmethod
    def of(config: StoreConfig, messages: int, max_bytes: int | None = None) -> Limits:
        memory, disk = config.max_transfer_bytes_on_message_in_memory, config.max_transfer_bytes_on_message_in_disk
        if max_bytes is not None:
            memory, disk = min(memory, max_bytes), min(disk, max_bytes)
        return Limits(
            max(messages, 1),
            (config.max_transfer_count_on_message_in_memory, memory),
            (config.max_transfer_count_on_message_in_disk, disk),
            RAM * config.access_message_in_memory_max_ratio // 100,
        )

    def reached(self, messages: int, size: int, unit: Unit, more: int, log_end: int) -> bool:
        """Return whether `messages` of `size` bytes are enough, before the `more` ones of this unit."""
        count, bytes_ = self.memory if log_end - unit.physical_offset <= self.young else self.disk
        return messages > 0 and (messages + more > min(self.messages, count) or size + unit.size > bytes_)


@dataclass(frozen=True, slots=True)
class Pull:
    """The request of one get.

    `codes`: hashes of the tags, as `wanted_codes` returns them.
    """

    codes: set[int] | None
    limits: Limits
    units_bytes: int  # of the units that an answer with tags examines at least

    @staticmethod
    def of(config: StoreConfig, messages: int, tags: str | None, max_bytes: int | None = None) -> Pull:
        return Pull(wanted_codes(tags), Limits.of(config, messages, max_bytes), config.max_filter_message_size)

    def taken(
        self, queue: UnitSource, offset: int, log_end: int, record: Callable[[Unit, int], Read | None]
    ) -> tuple[GetMessageStatus, list[Read], int]:
        """Walk the units of one queue file, as upstream does; return an Answer.

        `log_end`: log offset after the last record. `record` reads that of a unit and its queue offset, or None.
        """
        looked_at = self.limits.messages
        if self.codes is not None:
            looked_at = max(self.units_bytes // queue.unit_size, looked_at)
        filter_ = None if self.codes is None else TagFilter(queue, self.codes)
        messages: list[Read] = []
        count, size, following, matched = 0, 0, -1, False
        for unit, at, more in queue.entries(offset, looked_at):
            if self.limits.reached(count, size, unit, more, log_end):
                break
            following = at + more
            if filter_ is not None and not filter_.passes(unit.tags_code):
                continue
            matched = True
            message = record(unit, at)
            if message is not None:
                messages.append(message)
                count, size = count + more, size + unit.size
        if following < 0:
            return GetMessageStatus.OFFSET_FOUND_NULL, [], queue.next_file(offset)
        if messages:
            return GetMessageStatus.FOUND, messages, following
        lost = GetMessageStatus.MESSAGE_WAS_REMOVING if matched else GetMessageStatus.NO_MATCHED_MESSAGE
        return lost, [], following


def beside(bounds: tuple[int, int], offset: int) -> GetResult | None:
    """Answer a get at an offset that a queue with these bounds does not have; None: it has it."""
    low, high = bounds
    if high == 0:
        return GetResult(GetMessageStatus.NO_MESSAGE_IN_QUEUE, [], 0, low, high)
    if offset < low:
        return GetResult(GetMessageStatus.OFFSET_TOO_SMALL, [], low, low, high)
    if offset == high:
        return GetResult(GetMessageStatus.OFFSET_OVERFLOW_ONE, [], offset, low, high)
    if offset > high:
        return GetResult(GetMessageStatus.OFFSET_OVERFLOW_BADLY, [], high, low, high)
    return None


def raw_result(found: GetResult) -> RawResult:
    """Return a result with the records of its messages end to end."""
    data = b"".join([message.raw for message in found.messages])
    return RawResult(
        found.status, data, len(found.messages), found.next_begin_offset, found.min_offset, found.max_offset
    )


def filtered(
    read: Callable[[int, int, int], RawResult],
    config: StoreConfig,
    offset: int,
    max_messages: int,
    max_bytes: int,
    wanted: Wanted,
) -> RawResult:
    """Return records that are wanted by their properties, of those that `read` returns.

    `read` takes an offset, messages and bytes. It is read on until there is enough, or as many units were looked at as
    one answer with tags examines, or LOOKED_AT bytes, or for LOOKS_S, as `wanted` may be slow.
    """
    deadline = time.monotonic() + LOOKS_S
    most, units = max(max_messages, 1), max(config.max_filter_message_size // UNIT_SIZE, max_messages)
    kept, size, at, looked_at = list[bytes](), 0, offset, 0
    while True:
        found = read(at, most - len(kept), max_bytes - size)
        if found.status is not GetMessageStatus.FOUND:
            if at == offset:
                return found
            break
        matched = [message.raw for message in messages_of(found.data) if wanted(message.properties)]
        grown = size + sum(map(len, matched))
        if kept and grown > max_bytes:  # `read` returns one record also where it is too large
            break
        kept, size, at, looked_at = kept + matched, grown, found.next_begin_offset, looked_at + len(found.data)
        if len(kept) >= most or size >= max_bytes or at - offset >= units:
            break
        if looked_at >= LOOKED_AT or time.monotonic() >= deadline:
            break
    status = GetMessageStatus.FOUND if kept else GetMessageStatus.NO_MATCHED_MESSAGE
    return found._replace(status=status, data=b"".join(kept), count=len(kept), next_begin_offset=at)


def messages_of(data: bytes) -> list[StoredMessage]:
    """Return the messages of records that lie end to end."""
    found, at = list[StoredMessage](), 0
    while at < len(data):
        found.append(stored_message(data, at))
        at += found[-1].size
    return found


class TagFilter:
    """Selects units of a queue by tags codes, as unsigned 32 bits."""

    def __init__(self, queue: UnitSource, codes: set[int]) -> None:
        self.queue, self.codes = queue, codes
        self._ext: ExtQueue | None = None

    def passes(self, tags_code: int) -> bool:
        """Return whether a unit passes; as upstream it does if its ext unit is missing."""
        if is_address(tags_code):
            self._ext = self._ext or self.queue.ext()
            there = self._ext.unit(tags_code)
            if there is None:
                return True
            tags_code = there.tags_code
        return tags_code & 0xFFFFFFFF in self.codes


def wanted_codes(tags: str | None) -> set[int] | None:
    """Return the hashes of a tag expression (`a || b`, `*`), unsigned 32 bits; None for all."""
    names = tag_names(tags or "*")
    return None if "*" in names else {java_hash(name) & 0xFFFFFFFF for name in names if name}
