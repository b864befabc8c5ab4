"""Bodies of inner batches: messages back to back, each with flag, body and properties.

A record holds an inner batch if its system flag has the bit INNER_BATCH (docs/internals/format/inner-batch.md). A
compressed body is decompressed first. Upstream: MessageDecoder.encodeMessage, decodeMessage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Final, NamedTuple

from flintmq.format.layout import Buffer, CountedBytes, Int, Layout, Total


class Entry(NamedTuple):
    """One message of an inner batch. Everything else it shares with the record."""

    magic: Annotated[
        int,
        Total("size", "i32", "bytes of the entry, this field included"),
        Int("i32", "written 0, not looked at"),
    ] = 0
    body_crc: Annotated[int, Int("i32", "written 0, not looked at")] = 0
    flag: Annotated[int, Int("i32", "the sender's own value")] = 0
    body: Annotated[bytes, CountedBytes("body_length", "n", ("i32",), "as the sender gave it")] = b""
    properties: Annotated[bytes, CountedBytes("properties_length", "p", ("i16",), "property string, UTF-8")] = b""


ENTRY: Final = Layout("Inner batch entry", Entry)
assert ENTRY.min_size == 22


def iterate(body: Buffer) -> Iterator[Entry]:
    """Iterate over the entries of an inner batch.

    The first is at the record's queue offset, each further one at the next queue offset.

    Raises FormatError: an entry's lengths contradict each other or exceed the body; the entries before it were yielded.
    """
    at = 0
    while at < len(body):
        entry = ENTRY.unpack(body, at)
        at += ENTRY.size_of(entry)
        yield entry


def encode(entries: Iterable[Entry]) -> bytes:
    return b"".join(map(ENTRY.pack, entries))
