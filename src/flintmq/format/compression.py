"""Decompresses bodies as the producers sent them (docs/internals/format/commit-log.md).

The store never touches a body: producers compress, consumers decompress. Bit 0 of the system flag says that a body is
compressed, bits 8 to 10 name the method. A few bytes can claim to be gigabytes, so output is made piece by piece and
capped. LZ4 and ZSTD need the extra `compress`; ZLIB is always available. Upstream: CompressorFactory,
MessageDecoder.decode.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, Final

from flintmq.errors import FormatError, MissingExtraError
from flintmq.format.record import COMPRESSED, COMPRESSION_LZ4, COMPRESSION_MASK, COMPRESSION_ZLIB, COMPRESSION_ZSTD

LIMIT: Final = 64 << 20
"""Bytes that a body may have after decompression, unless the caller says otherwise."""
MOST_FRAMES: Final = 100
"""Frames that a body may have. Clients write one; an empty one takes 8 bytes, and costs a copy of all that follows."""
NAMES: Final = {0: "ZLIB", COMPRESSION_ZLIB: "ZLIB", COMPRESSION_LZ4: "LZ4", COMPRESSION_ZSTD: "ZSTD"}
"""Compression type bits of a system flag -> name. Old clients set bit 0 alone and mean ZLIB."""


def original_body(body: bytes, sys_flag: int, limit: int = LIMIT) -> bytes:
    """Return the body as the producer gave it; `body` itself if it is not compressed.

    `limit`: maximum size of the result in bytes.
    """
    if not sys_flag & COMPRESSED:
        return body
    name = NAMES.get(sys_flag & COMPRESSION_MASK)
    if name is None:
        raise FormatError(f"compression type {(sys_flag & COMPRESSION_MASK) >> 8} is not known")
    return _DECODERS[name](body, limit)


def _zlib(body: bytes, limit: int) -> bytes:
    decoder = zlib.decompressobj()
    try:
        data = decoder.decompress(body, limit + 1)
    except zlib.error as error:
        raise FormatError(f"the body is no ZLIB stream ({error})") from None
    _within(len(data), limit)
    if not decoder.eof:
        raise FormatError("the body is a ZLIB stream that was cut short")
    return data


def _lz4(body: bytes, limit: int) -> bytes:
    try:
        from lz4.frame import LZ4FrameDecompressor
    except ImportError as error:
        raise _missing("LZ4") from error
    return _frames("LZ4", LZ4FrameDecompressor, RuntimeError, body, limit)


def _zstd(body: bytes, limit: int) -> bytes:
    try:
        from compression import zstd
    except ImportError:
        try:
            from backports import zstd
        except ImportError as error:
            raise _missing("ZSTD") from error
    return _frames("ZSTD", zstd.ZstdDecompressor, zstd.ZstdError, body, limit)


def _frames(name: str, decoder_of: Callable[[], Any], failure: type[Exception], body: bytes, limit: int) -> bytes:
    """Decompress the frames of a body one after another, as Java's streams do."""
    parts: list[bytes] = []
    left, length = body, 0
    while left or not parts:
        decoder = decoder_of()
        try:
            part = decoder.decompress(left, max_length=limit + 1 - length)
        except (failure, EOFError) as error:
            raise FormatError(f"the body is no {name} stream ({str(error)[:80]})") from None
        length += len(part)
        _within(length, limit)
        if not decoder.eof:
            raise FormatError(f"the body is a {name} stream that was cut short")
        parts.append(part)
        left = decoder.unused_data or b""
        if left and len(parts) == MOST_FRAMES:
            raise FormatError(f"the body has more than {MOST_FRAMES} {name} frames")
    return b"".join(parts)


def _within(length: int, limit: int) -> None:
    if length > limit:
        raise FormatError(f"the body has more than {limit} bytes when decompressed")


def _missing(name: str) -> MissingExtraError:
    return MissingExtraError(f"bodies compressed with {name} need a package: pip install 'flintmq[compress]'")


_DECODERS: Final[dict[str, Callable[[bytes, int], bytes]]] = {"ZLIB": _zlib, "LZ4": _lz4, "ZSTD": _zstd}
