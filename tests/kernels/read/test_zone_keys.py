"""Hashes of a zone's topics and keys, blocks of bits, and records by key."""

from __future__ import annotations

import zlib
from array import array

import pytest

from flintmq.kernels.read import zone_keys as kernel
from flintmq.message import stored_message
from tests.support.guarded_memory import guarded
from tests.support.kernel_records import COUNTING, LONG_WINDED, records


def zone_of(data: bytes, positions: array[int], room: int = 10_000) -> tuple[array[int], array[int]]:
    """(state, hashes) of a zone of all records."""
    state, hashes = array("q", bytes(8 * kernel.STATE)), array("q", bytes(8 * room))
    assert kernel.take(guarded(data), positions, 0, len(positions), state, hashes) == len(positions)
    return state, hashes[: state[kernel.USED]]


def test_a_zone_has_topics_keys_and_unique_keys() -> None:
    pairs = [b"KEYS\x01a b\x02UNIQ_KEY\x01u\x02", b"KEYS\x01 c  a \x02", b"TAGS\x01t\x02", "KEYS\x01报警\x02".encode()]
    data, positions = records(*({"properties": text, "store_timestamp": n} for n, text in enumerate(pairs, 5)))
    state, hashes = zone_of(data, positions)
    words = [b"u", b"a", b"b", b"c", b"a", "报警".encode()]
    assert list(hashes) == [kernel.key_hash(b"Topic", True), *map(kernel.key_hash, words)]
    assert kernel.key_hash(b"u") != kernel.key_hash(b"u", True)
    names = kernel.FIRST_TIME, kernel.LAST_TIME, kernel.ODD, kernel.RECORDS
    assert [state[name] for name in names] == [5, 8, 0, 4]


@pytest.mark.parametrize("text", LONG_WINDED.values(), ids=LONG_WINDED)
def test_what_only_python_reads_makes_a_zone_odd(text: bytes) -> None:
    """Or it is read by the kernel as Python reads it."""
    data, positions = records({}, {"properties": text}, {})
    state, hashes = zone_of(data, positions)
    message = stored_message(data, positions[1])
    keys = {word.encode() for word in [*(message.keys or "").split(" "), message.msg_id or ""] if word}
    assert state[kernel.ODD] or {kernel.key_hash(key) for key in keys} <= set(hashes)


def test_times_that_step_back_make_a_zone_odd() -> None:
    data, positions = records(*({"store_timestamp": time} for time in (5, 5, 4)))
    assert zone_of(data, positions)[0][kernel.ODD] == 1
    assert zone_of(data, positions[:2])[0][kernel.ODD] == 0


def test_many_topics_in_turn_are_all_there() -> None:
    topics = [b"topic-%d" % (n % 700) for n in range(2000)]
    data, positions = records(*({"topic": topic} for topic in topics))
    hashes = set(zone_of(data, positions)[1])
    assert {kernel.key_hash(topic, True) for topic in topics} <= hashes


def test_it_stops_where_room_ends_and_goes_on() -> None:
    data, positions = records(*({} for _ in range(9)))
    state, hashes = array("q", bytes(8 * kernel.STATE)), array("q", bytes(8 * 50))
    done = kernel.take(data, positions, 0, 9, state, hashes)
    assert 0 < done < 9
    whole = zone_of(data, positions)[1]
    assert hashes[: state[kernel.USED]] == whole[: state[kernel.USED]]
    hashes.extend(array("q", bytes(8 * 1000)))
    assert kernel.take(data, positions, done, 9, state, hashes) == 9
    assert hashes[: state[kernel.USED]] == whole and state[kernel.RECORDS] == 9


def test_blocks_have_what_was_set_and_little_else() -> None:
    hashes = array("q", [kernel.key_hash(b"k%d" % n) for n in range(2000)])
    blocks = bytearray(64 * 50)  # 12 bits for each
    kernel.fill(hashes, 2000, blocks)
    for at in range(0, len(blocks), 64):
        assert zlib.crc32(blocks[at : at + 60]) == int.from_bytes(blocks[at + 60 : at + 64], "big")

    def may_have(text: bytes) -> bool:
        h = kernel.key_hash(text)
        at = 64 * kernel.block_number(h, 50)
        return kernel.may_have(guarded(bytes(blocks[at : at + 64])), h)

    assert all(may_have(b"k%d" % n) for n in range(2000))
    assert sum(may_have(b"other%d" % n) for n in range(2000)) < 40


def test_a_block_that_is_damaged_proves_nothing() -> None:
    h = kernel.key_hash(b"k")
    blocks = bytearray(64)
    kernel.fill(array("q"), 0, blocks)
    assert not kernel.may_have(blocks, h)
    for position in range(64):
        damaged = bytearray(blocks)
        damaged[position] ^= 4
        assert kernel.may_have(damaged, h)
    assert kernel.may_have(bytes(64), h)  # zeros, as after a power cut


def test_records_by_key() -> None:
    texts = [
        "KEYS\x01ab\x02",
        "KEYS\x01a ab\x02",
        "KEYS\x01ab c\x02",
        "KEYS\x01abc\x02",
        "UNIQ_KEY\x01ab\x02",
        "",
        "B\x01ab\x02",
    ]
    data, positions = records(*({"properties": text.encode()} for text in texts))
    left = array("q", positions)
    assert kernel.keyed(guarded(data), left, 7, b"ab") == 4
    assert [positions.index(at) for at in left[:4]] == [0, 1, 2, 4]


@pytest.mark.parametrize("key", ["k1", "k2", "7F00000100001FBB0000000000000001", "t", "v", "k"])
def test_every_record_of_a_key_is_kept(key: str) -> None:
    data, positions = records(*COUNTING)
    left = array("q", positions)
    kept = set(left[: kernel.keyed(guarded(data), left, len(left), key.encode())])
    for at in positions:
        message = stored_message(data, at)
        if key == message.msg_id or key in (message.keys or "").split(" "):
            assert at in kept


def test_a_text_is_found_where_it_lies_whole() -> None:
    data = guarded(b"aabab\x00ab" + bytes(300) + b"needle")
    assert [kernel.find(data, at, 8, b"ab") for at in (0, 1, 2, 4, 6, 7, 8)] == [1, 1, 3, 6, 6, -1, -1]
    assert kernel.find(data, 0, 7, b"ab") == 1 and kernel.find(data, 4, 7, b"ab") == -1
    assert kernel.find(data, 0, len(data), b"needle") == 308 and kernel.find(data, 0, len(data) - 1, b"needle") == -1
    assert kernel.find(b"", 0, 0, b"a") == -1
    for begin, end, text in ((-1, 5, b"a"), (5, 4, b"a"), (0, 315, b"a"), (0, 5, b"")):
        with pytest.raises(ValueError, match="must lie within"):
            kernel.find(data, begin, end, text)


def test_wrong_calls_are_refused() -> None:
    data, positions = records({}, {})
    state, hashes = array("q", bytes(8 * kernel.STATE)), array("q", bytes(8 * 99))
    with pytest.raises(ValueError, match="in this order"):
        kernel.take(data, positions, 1, 3, state, hashes)
    with pytest.raises(ValueError, match="in this order"):
        kernel.take(data, positions, 0, 1, array("q", bytes(80)), hashes)
    with pytest.raises(ValueError, match="no whole record"):
        kernel.take(data, array("q", [1]), 0, 1, state, hashes)
    state[kernel.USED] = 100
    with pytest.raises(ValueError, match="does not fit"):
        kernel.take(data, positions, 0, 1, state, hashes)
    with pytest.raises(ValueError, match="whole"):
        kernel.fill(hashes, 1, bytearray(65))
    with pytest.raises(ValueError, match="64 bytes"):
        kernel.may_have(bytes(63), 1)
    with pytest.raises(ValueError, match="not negative"):
        kernel.block_number(-1, 3)
    with pytest.raises(ValueError, match="not be empty"):
        kernel.keyed(data, positions, 2, b"")
    with pytest.raises(ValueError, match="no whole record"):
        kernel.keyed(data, array("q", [1]), 1, b"k")


def test_texts_have_the_hashes_of_keys() -> None:
    """Of the eight bytes at a time and of what is left, also of a text that is empty, and at the end of memory."""
    texts = [b"", b"a", b"12345678", b"123456789", "\u5e93".encode() * 20, b"", b"x" * 5000]
    ends = array("i", [0])
    for text in texts:
        ends.append(ends[-1] + len(text))
    hashes = array("q", bytes(8 * len(texts)))
    kernel.hash_texts(guarded(b"".join(texts)), ends, hashes)
    assert list(hashes) == [kernel.key_hash(text) for text in texts]


@pytest.mark.parametrize("ends", [[0, 2], [0, 2, 4, 4], [0, 2, 5], [0, 3, 2], [-1, 2, 3], [2, 1, 3], [0, -1, 2]])
def test_texts_must_be_within_the_data(ends: list[int]) -> None:
    with pytest.raises(ValueError):
        kernel.hash_texts(b"abcd", array("i", ends), array("q", bytes(16)))


def test_texts_need_a_byte() -> None:
    with pytest.raises(ValueError):
        kernel.hash_texts(b"", array("i", [0]), array("q"))
