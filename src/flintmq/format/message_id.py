"""Message ids and hosts as text (docs/internals/format/message-id.md).

Two kinds of id look alike, 32 or 56 hexadecimal digits: the offset id, which a store derives from its own host and the
record's position, and the client's own id in the property UNIQ_KEY. Upstream: MessageDecoder.createMessageId,
MessageClientIDSetter.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Final, NamedTuple, TypeVar

from flintmq.errors import FormatError
from flintmq.format.layout import Buffer, Int, Layout, Sized, Values

T = TypeVar("T", "OffsetId", "ClientId")

_HOST: Final = re.compile(r"(?:\[([0-9a-fA-F:.]{2,45})\]|([0-9.]{7,15})):(-?[0-9]{1,10})", re.ASCII)
_HEX: Final = re.compile(r"(?:[0-9A-Fa-f]{32}|[0-9A-Fa-f]{56})", re.ASCII)
_WIDTHS: Final = {32: 4, 56: 16}  # digits of an id -> bytes of its address


def _address_width(values: Values) -> int:
    return int(values["address_width"])


class Host(NamedTuple):
    """A born or store host as a record holds it."""

    address: Annotated[bytes, Sized("A", (4, 16), _address_width, "IPv4 or IPv6 address")]
    port: Annotated[int, Int("i32", "port")]


class OffsetId(NamedTuple):
    address: Annotated[bytes, Sized("A", (4, 16), _address_width, "address of the store host")]
    port: Annotated[int, Int("i32", "port of the store host")]
    physical_offset: Annotated[int, Int("i64", "where the record begins in the log")]


class ClientId(NamedTuple):
    address: Annotated[bytes, Sized("A", (4, 16), _address_width, "address of the client, or 4 bytes of its clock")]
    pid: Annotated[int, Int("u16", "low bits of the process id")]
    loader_hash: Annotated[int, Int("i32", "hash of the client's class loader")]
    month_ms: Annotated[
        int, Int("u32", "ms since the month began in the client's time zone; the month itself is not in it")
    ]
    counter: Annotated[int, Int("u16", "counts the ids of the process")]


HOST: Final = Layout("Host", Host)
OFFSET_ID: Final = Layout("Offset message id", OffsetId)
CLIENT_ID: Final = Layout("Client message id", ClientId)


def offset_msg_id(host: bytes, physical_offset: int) -> str:
    """Format the offset message id of a record.

    It is the raw store host (8 or 20 bytes) and the record's log offset in upper-case hexadecimal digits.
    """
    _check_width(host)
    try:
        return (bytes(host) + physical_offset.to_bytes(8, "big", signed=True)).hex().upper()
    except OverflowError:
        raise FormatError(f"physical_offset {str(physical_offset)[:40]} does not fit i64") from None


def unique_key(prefix: bytes, number: int) -> str:
    """Format a client message id from its constant part and its number.

    Args:
        prefix: the upper-case digits of address, pid and loader_hash.
        number: month_ms << 16 | counter.
    """
    return f"{prefix.decode('ascii')}{number:012X}"


def parse_offset_msg_id(text: str) -> tuple[str, int, int]:
    """Parse an offset message id into (address, port, log offset).

    Upper or lower case; the address is returned in its short form.
    """
    value = _from_hex(OFFSET_ID, text)
    return address_text(value.address), value.port, value.physical_offset


def client_id(value: ClientId) -> str:
    """Format a client id as MessageClientIDSetter writes it."""
    if len(value.address) not in (4, 16):
        raise FormatError(f"an address has 4 or 16 bytes, not {len(value.address)}")
    return CLIENT_ID.pack(value, {"address_width": len(value.address)}).hex().upper()


def parse_client_id(text: str) -> ClientId:
    """Parse a UNIQ_KEY that a client made.

    Any other 32 or 56 digits are parsed too: nothing distinguishes them.
    """
    return _from_hex(CLIENT_ID, text)


def _from_hex(layout: Layout[T], text: str) -> T:
    if not _HEX.fullmatch(text):
        raise FormatError(f"a message id is 32 or 56 hexadecimal digits, not {text[:60]!r}")
    return layout.unpack(bytes.fromhex(text), given={"address_width": _WIDTHS[len(text)]})


def host_text(host: Buffer) -> str:
    """Format a raw host as `ip:port`, an IPv6 one as `[ip]:port` with its address in short form."""
    address, port = _host(host)
    text = address_text(address)
    return f"{text}:{port}" if len(address) == 4 else f"[{text}]:{port}"


def parse_host(text: str) -> bytes:
    """Parse `ip:port` or `[ipv6]:port` into a raw host; names are not looked up."""
    match = _HOST.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        six, four, port = match.groups()
        address = ipaddress.IPv6Address(six).packed if six else ipaddress.IPv4Address(four).packed
    except ValueError:
        raise FormatError(f"a host is ip:port or [ipv6]:port, not {text[:60]!r}") from None
    return HOST.pack(Host(address, int(port)), {"address_width": len(address)})


def address_text(address: bytes) -> str:
    """Format a 4- or 16-byte address in its short form.

    Lower-case groups; the first longest run of zero groups becomes `::`.

    Written out because Python 3.13 began to write mapped addresses (::ffff:a.b.c.d) in another way.
    """
    if len(address) == 4:
        return ".".join(map(str, address))
    groups = [address[at : at + 2].hex().lstrip("0") or "0" for at in range(0, 16, 2)]
    best, length = 0, 1
    for start in range(8):
        stop = start
        while stop < 8 and groups[stop] == "0":
            stop += 1
        if stop - start > length:
            best, length = start, stop - start
    if length == 1:
        return ":".join(groups)
    return ":".join(groups[:best]) + "::" + ":".join(groups[best + length :])


def _check_width(host: Buffer) -> None:
    if len(host) not in (8, 20):
        raise FormatError(f"a host has 8 or 20 bytes, not {len(host)}")


def _host(host: Buffer) -> Host:
    _check_width(host)
    return HOST.unpack(host, given={"address_width": len(host) - 4})
