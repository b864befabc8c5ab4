"""Turns seeds into inputs: blind changes, numbers at the ends of their range, words of parsers, pieces of others."""

from __future__ import annotations

import random
from collections.abc import Sequence

MOST_BYTES = 20_000
NUMBERS = (0, 1, -1, 0x7F, 0x80, 0xFF, 0x7FFF, -0x8000, 0x7FFFFFFF, -0x80000000, (1 << 63) - 1, -(1 << 63), 1 << 40)
WORDS = (
    b"\x01", b"\x02", b"\x01\x02", b"TAGS\x01", b"KEYS\x01", b"UNIQ_KEY\x01", b"INNER_NUM\x01", b"__CRC32#\x01",
    b"\xda\xa3\x20\xa7", b"\xda\xa3\x20\xab", b"\xcb\xd4\x31\x94", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80",
    b"\xff", b"\xe2\x80\xae", b"\x1b[2J", b"\0", b"{", b"}", b"[", b"]", b":", b",", b'"', b"'", b"\\u", b"\\ud800",
    b"/*", b"*/", b"//", b"null", b"true", b"-1", b"1e999", b"9223372036854775808", b"\xef\xbb\xbf", b"=", b"\\\n",
    b"#", b"!", b"{body:", b"{properties:", b"!r}", b"}}", b"{{", b"-15m", b"now", b"T24:00", b"+23:59", b"0001-01-01",
    b"9999-12-31", b"1s 2m",
)  # fmt: skip


def mutate(seeds: Sequence[bytes], chance: random.Random) -> bytes:
    """One input: a seed after one to six changes, or now and then nothing but chance."""
    data = bytearray(chance.choice(seeds) if chance.random() < 0.97 else chance.randbytes(chance.randrange(300)))
    for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
        _change(data, seeds, chance)
    return bytes(data[:MOST_BYTES])


def _change(data: bytearray, seeds: Sequence[bytes], chance: random.Random) -> None:
    at = chance.randrange(len(data) + 1)
    stop = min(len(data), at + chance.choice((1, 2, 4, 8, 20, 100)))
    match chance.randrange(8):
        case 0:
            if at < len(data):
                data[at] ^= 1 << chance.randrange(8)
        case 1:
            data[at:stop] = chance.randbytes(stop - at)
        case 2:
            width = chance.choice((1, 2, 4, 8))
            value = chance.choice(NUMBERS) & (1 << 8 * width) - 1
            data[at : at + width] = value.to_bytes(width, "big")
        case 3:
            data[at:at] = chance.choice(WORDS) * chance.choice((1, 1, 1, 3, 70))
        case 4:
            del data[at:stop]
        case 5:
            data[at:at] = data[at:stop] * chance.choice((1, 2, 30))
        case 6:
            other = chance.choice(seeds)
            cut = chance.randrange(len(other) + 1)
            data[at:] = other[cut:]
        case 7:
            del data[at:]
