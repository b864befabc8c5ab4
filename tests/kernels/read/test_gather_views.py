"""Views and codes: each kind of column by hand, dictionaries that fill up, plans and buffers that lie."""

from __future__ import annotations

import itertools
import struct
from array import array
from typing import Any

import pytest

from flintmq.kernels.read import gather as kernel
from flintmq.kernels.read.gather_views import MOST_BITS, copy_records, goes_beyond
from tests.support.guarded_memory import guarded
from tests.support.kernel_records import HOST4, HOST6, ODD, PAIRS, READ, records

FILL = 0x5A5A5A5A
NOTES = array("q", bytes(8 * kernel.NOTES))


def gather(plan: list[tuple[int, ...]], data: Any, positions: array[int], arrays: Any, rows: int = 64) -> Any:
    longs, ints, out = arrays
    numbers = array("q", [number for row in plan for number in row])
    return kernel.gather(data, positions, 0, len(positions), numbers, 0, rows, longs, ints, out, NOTES)


def arrays() -> tuple[array[int], array[int], bytearray]:
    return array("q", [0]) * 200, array("i", [FILL]) * 4000, bytearray(4000)


def noted() -> list[tuple[int, int]]:
    numbers = list(NOTES[1 : 1 + NOTES[0]])
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def values(ints: array[int], at: int, count: int, buffers: dict[int, bytes]) -> list[bytes]:
    """The values that views say, by Arrow's columnar format: length, then 12 bytes, or prefix, buffer and offset."""
    found = []
    for i in range(count):
        view = ints[at + 4 * i : at + 4 * i + 4].tobytes()
        (size,) = struct.unpack_from("<i", view)
        if size <= 12:
            assert view[4 + size :] == bytes(12 - size), "what is left of 12 bytes is zero"
            found.append(view[4 : 4 + size])
        else:
            number, start = struct.unpack_from("<ii", view, 8)
            value = buffers[number][start : start + size]
            assert value[:4] == view[4:8] and len(value) == size
            found.append(value)
    return found


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 8, 11, 12, 13, 16, 40, 1000])
def test_bodies_of_each_size_up_to_the_end_of_the_buffer(size: int) -> None:
    body = bytes(range(1, 256)) * 4
    data, positions = records({"properties": b"", "topic": b"", "body": body[:size]}, {"body": body[:size]})
    for order in (data, data[positions[1] :] + data[: positions[1]]):  # the last one ends with its properties' length
        places = positions if order is data else array("q", [0])
        given = arrays()
        plan = [(kernel.BODY_VIEW, 0, 0, 8, 7, 0, 0)]
        assert gather(plan, guarded(order), places, given) == (len(places), kernel.DONE)
        assert values(given[1], 8, len(places), {7: order}) == [body[:size]] * len(places)


def test_positions_are_counted_from_the_buffers_begin() -> None:
    data, positions = records(*[{"body": b"%020d" % n} for n in range(5)])
    given = arrays()
    plan = [(kernel.BODY_VIEW, 0, positions[2], 0, 3, 0, 0)]
    assert gather(plan, data, positions[2:], given) == (3, kernel.DONE)
    assert values(given[1], 0, 3, {3: data[positions[2] :]}) == [b"%020d" % n for n in (2, 3, 4)]
    with pytest.raises(ValueError, match=f"no whole record at position {positions[0]}"):
        gather(plan, data, positions, arrays())


def test_compressed_bodies_are_noted() -> None:
    data, positions = records({"sys_flag": 1}, {}, {"sys_flag": 0x301, "body": b"x" * 99})
    given = arrays()
    assert gather([(kernel.BODY_VIEW, 1, 0, 0, 0, 0, 0)], data, positions, given) == (3, kernel.DONE)
    assert noted() == [(0, 0), (2, 0)] and values(given[1], 0, 3, {0: data}) == [b"", b"hello", b""]


GROUP = [
    (kernel.PROPERTY_VIEWS, 400, 0, 0, 0, 0, 0),
    (kernel.NAME_VIEWS, 1, 0, 100, 0, 0, 0),
    (kernel.VALUE_VIEWS, 1, 0, 1700, 0, 0, 0),
    (kernel.TAGS_VIEW, 1, 0, 3300, 0, 0, 0),
    (kernel.KEYS_VIEW, 1, 0, 3500, 0, 0, 8),
    (kernel.UNIQ_KEY_VIEW, 1, 0, 3700, 0, 0, 16),
]


def test_properties() -> None:
    texts = [*READ.values(), PAIRS, PAIRS, b"TAGS\x01\xff\x02", b"A\x011\x02A\x012\x02"]
    data, positions = records(*[{"properties": text} for text in texts])
    given = arrays()
    given[1][0] = 0
    assert gather(GROUP, guarded(data), positions, given) == (len(texts), kernel.DONE)
    assert noted() == [(len(texts) - 2, 0), (len(texts) - 1, 0)]
    ends = given[1][: len(texts) + 1]
    names = values(given[1], 100, ends[-1], {0: data})
    found = values(given[1], 1700, ends[-1], {0: data})
    for row, text in enumerate(texts[:-2]):
        parts = [part.partition(b"\x01") for part in text.split(b"\x02")]
        pairs = [(name, value) for name, _, value in parts if name and value]
        assert list(zip(names, found, strict=True))[ends[row] : ends[row + 1]] == pairs, text
        for number, (at, name) in enumerate(((3300, b"TAGS"), (3500, b"KEYS"), (3700, b"UNIQ_KEY"))):
            (value,) = values(given[1], at + 4 * row, 1, {0: data})
            assert value == dict(pairs).get(name, b"")
            assert bool(given[2][8 * number + row // 8] >> row % 8 & 1) == (name in dict(pairs))


def test_pairs_that_do_not_fit_end_the_call() -> None:
    data, positions = records(*[{"properties": PAIRS}] * 4)
    given = arrays()
    given[1][0] = 0
    plan = [(kernel.PROPERTY_VIEWS, 7, 0, 0, 0, 0, 0), *GROUP[1:]]
    assert gather(plan, data, positions, given) == (2, 0)
    assert set(given[1][100 + 4 * 6 : 1700]) == {FILL}, "nothing is written after the last pair"


def codes(kind: int, bits: int, *changes: dict[str, Any], room: int = 600) -> tuple[Any, list[bytes], list[int]]:
    """(result, texts of the dictionary, codes)."""
    data, positions = records(*changes)
    longs, ints, out = arrays()
    most = 1 << bits - 1
    ints[100 : 100 + 3 * most + 1] = array("i", bytes(4 * (3 * most + 1)))
    longs[most] = 0
    result = gather([(kind, bits, 0, 0, 8, 8 + room + 64, 100)], guarded(data), positions, (longs, ints, out))
    ends = ints[100 + 2 * most : 100 + 3 * most + 1][: longs[most] + 1]
    texts = [bytes(out[8 + a : 8 + b]) for a, b in itertools.pairwise(ends)]
    return result, texts, list(ints[: result[0]])


def test_topics_enter_a_dictionary_once() -> None:
    topics = [
        b"a",
        b"Payments",
        b"",
        b"a",
        b"exactly12byt",
        b"a topic of more bytes",
        b"Payments",
        b"exactly12byT",
        b"a\0",
    ]
    result, texts, found = codes(kernel.TOPIC_CODE, 5, *[{"topic": topic} for topic in topics])
    assert result == (len(topics), kernel.DONE)
    assert [texts[code] for code in found] == topics
    assert len(texts) == len(set(topics)) and noted() == []


def test_topics_that_are_no_text_are_noted_and_stay_out() -> None:
    result, texts, found = codes(
        kernel.TOPIC_CODE, 5, *[{"topic": topic} for topic in (b"\xff", b"t", b"\xff", "é".encode())]
    )
    assert result == (4, kernel.DONE) and noted() == [(0, 0), (2, 0)]
    assert texts == [b"t", "é".encode()] and [found[1], found[3]] == [0, 1]


@pytest.mark.parametrize("bits", [1, 2, 3, 5])
def test_a_full_dictionary_ends_the_call(bits: int) -> None:
    most = 1 << bits - 1
    changes = [{"topic": b"topic %d" % n} for n in range(most) for _ in range(2)]
    result, texts, found = codes(kernel.TOPIC_CODE, bits, *changes, {"topic": b"one more"})
    assert result == (2 * most, 0)
    assert [texts[code] for code in found] == [change["topic"] for change in changes]


def test_texts_that_do_not_fit_end_the_call() -> None:
    changes = [{"topic": b"x" * 50 + b"%d" % n} for n in range(3)]
    result, texts, _ = codes(kernel.TOPIC_CODE, 5, *changes, room=110)
    assert result == (2, 0) and texts == [b"x" * 50 + b"0", b"x" * 50 + b"1"]
    hosts = [{"store_host": bytes([10, 0, 0, n]) + HOST4[4:]} for n in range(5)]
    result, texts, _ = codes(kernel.STORE_HOST_CODE, 5, *hosts, room=40)
    assert result == (2, 0) and texts == [b"10.0.0.0:8080", b"10.0.0.1:8080"]


def test_hosts() -> None:
    changes: list[dict[str, Any]] = [{}, {"born_host": bytes(4) + b"\0\0\xff\xff"}, {"born_host": HOST6}, {}]
    changes.append({"born_host": bytes(4) + b"\0\1\0\0"})  # a port of 17 bits
    result, texts, found = codes(kernel.BORN_HOST_CODE, 4, *changes)
    assert result == (5, kernel.DONE) and noted() == [(2, 0), (4, 0)]
    assert texts == [b"10.0.0.255:8080", b"0.0.0.0:65535"] and [found[at] for at in (0, 1, 3)] == [0, 1, 0]


def test_magic_and_odd_records_together() -> None:
    data, positions = records(*ODD)
    given = arrays()
    assert gather([(kernel.MAGIC_CODE, 0, 0, 0, 0, 0, 0)], data, positions, given)[0] == len(ODD)
    assert list(given[1][: len(ODD)]) == [0 if data[at + 7] == 0xA7 else 1 for at in positions]


WRONG = [
    (kernel.BODY_VIEW, 0, -1, 0, 0, 0, 0),
    (kernel.BODY_VIEW, 0, 0, -1, 0, 0, 0),
    (kernel.BODY_VIEW, 0, 0, 4000 - 4 * 64 + 1, 0, 0, 0),
    (kernel.BODY_VIEW, 0, 0, 0, -1, 0, 0),
    (kernel.BODY_VIEW, 0, 0, 0, 1 << 31, 0, 0),
    (kernel.TAGS_VIEW, 1, 0, 0, 0, 0, 0),  # not in its group
    (27, 0, 0, 0, 0, 0, 0),
    (kernel.MAGIC_CODE, 0, 0, 4000 - 63, 0, 0, 0),
    (kernel.TOPIC_CODE, 0, 0, 0, 0, 100, 200),
    (kernel.TOPIC_CODE, MOST_BITS + 1, 0, 0, 0, 100, 200),
    (kernel.TOPIC_CODE, 5, 200 - 16, 0, 0, 100, 200),
    (kernel.TOPIC_CODE, 5, -1, 0, 0, 100, 200),
    (kernel.TOPIC_CODE, 5, 0, 0, 0, 100, 4000 - 48),
    (kernel.TOPIC_CODE, 5, 0, 0, 0, 63, 200),
    (kernel.BORN_HOST_CODE, 5, 0, 0, -1, 100, 200),
    (kernel.BORN_HOST_CODE, 5, 0, 0, 0, 4001, 200),
    (kernel.STORE_HOST_CODE, 5, 0, 4000, 0, 100, 200),
]


@pytest.mark.parametrize("row", WRONG, ids=str)
def test_plans_that_do_not_fit(row: tuple[int, ...]) -> None:
    data, positions = records({})
    with pytest.raises(ValueError, match="plan|column"):
        gather([row], data, positions, arrays())


@pytest.mark.parametrize(
    ("number", "at", "wrong"),
    [
        (0, 1, -1),
        (1, 1, 0),
        (2, 3, 4000),
        (3, 6, 4000),
        (4, 3, 3745),
        (5, 0, 12),
        (0, 3, 4000),
        (1, 2, -1),
        (0, 1, 1 << 40),
    ],
)
def test_groups_that_do_not_fit(number: int, at: int, wrong: int) -> None:
    data, positions = records({})
    given = arrays()
    given[1][0] = 0
    plan = [list(row) for row in GROUP]
    plan[number][at] = wrong
    with pytest.raises(ValueError, match="plan|column"):
        gather([tuple(row) for row in plan], data, positions, given)


def test_records_are_copied_whole() -> None:
    data, positions = records(*ODD)
    wanted = positions[1::3]
    out, moved = bytearray(len(data)), array("q", bytes(8 * len(wanted)))
    used = copy_records(guarded(data), wanted, len(wanted), out, moved)
    sizes = [int.from_bytes(data[at : at + 4], "big") for at in wanted]
    assert used == sum(sizes)
    for at, to, size in zip(wanted, moved, sizes, strict=True):
        assert out[to : to + size] == data[at : at + size]
    assert copy_records(data, wanted, 0, out, moved) == 0


def test_records_that_are_not_there_are_not_copied() -> None:
    data, positions = records({}, {})
    moved = array("q", [0, 0])
    for lie in (-1, -(2**63), len(data), 2**62, len(data) - 3):
        with pytest.raises(ValueError, match="no whole record"):
            copy_records(data, array("q", [positions[0], lie]), 2, bytearray(1000), moved)
    with pytest.raises(ValueError, match="no whole record"):
        copy_records(data[:-1], positions, 2, bytearray(1000), moved)
    with pytest.raises(ValueError, match="no room"):
        copy_records(data, positions, 2, bytearray(len(data) - 1), moved)
    for wrong in ((data, positions, 3, bytearray(9), moved), (data, positions, 2, bytearray(9), moved[:1])):
        with pytest.raises(ValueError, match="a number for each"):
            copy_records(*wrong)
    for empty in ((b"", bytearray(9)), (data, bytearray())):
        with pytest.raises(ValueError, match="empty"):
            copy_records(empty[0], positions, 1, empty[1], moved)


@pytest.mark.parametrize("count", [1, 2, 255, 256, 257, 600])
def test_views_that_go_beyond_themselves_are_found_wherever_they_are(count: int) -> None:
    short = array("i", [12, 99, 99, 99] * count)  # what follows a length may be any text
    assert not goes_beyond(short, count)
    for at in {0, 1, 254, 255, 256, count // 2, count - 2, count - 1}:
        if 0 <= at < count:
            views = array("i", short)
            views[4 * at] = 13
            assert goes_beyond(views, count) and goes_beyond(views, at + 1) and not goes_beyond(views, at)


def test_views_that_are_not_there_are_refused() -> None:
    assert not goes_beyond(array("i"), 0)
    for numbers, count in (
        (array("i"), 1),
        (array("i", [0] * 7), 2),
        (array("i", [0] * 8), -1),
        (array("i", [0] * 8), 1 << 62),
    ):
        with pytest.raises(ValueError, match="four numbers for each view"):
            goes_beyond(numbers, count)


@pytest.mark.parametrize("kind", [kernel.TOPIC_CODE, kernel.BORN_HOST_CODE])
@pytest.mark.parametrize("filled", [1, 9, 0x7FFFFFFF], ids=["a code", "a code too large", "the largest"])
def test_a_dictionary_without_a_free_slot_ends_the_call(kind: int, filled: int) -> None:
    """Such memory is none of ours; it must neither be followed nor searched for ever."""
    bits, most = 4, 8
    data, positions = records({}, {"topic": b"other"})
    longs, ints, out = arrays()
    for slot in range(2 * most):
        ints[100 + slot] = filled
    plan = [(kind, bits, 0, 0, 0, 200, 100)]
    assert gather(plan, guarded(data), positions, (longs, ints, out)) == (0, 0)
