"""Records above the durable mark: torn ones at every byte, those out of their queue's order, and the exceptions."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.format import record
from flintmq.store.log import LogWalk
from flintmq.store.recovery import Facts
from flintmq.store.tail import ODD, TORN, Tail
from tests.store.logs import log_of

PROPERTIES = b"KEYS\x01k\x02TAGS\x01a\x02"


def log_with(root: Path, *changes: dict[str, object]) -> bytes:
    """The records that differ so from a plain one, as a log file."""
    data = b""
    for number, change in enumerate(changes):
        fields = {"topic": b"T", "body": b"body", "properties": PROPERTIES, "queue_offset": number} | change
        fields |= {"physical_offset": len(data), "body_crc": record.crc(fields["body"]), "store_timestamp": 1000}
        data += record.encode(record.Record(**fields))
    log_of(root, data)
    return data


def first_bad(root: Path, data: bytes, mark: int = 0) -> tuple[int, str] | None:
    """What a tail says about these bytes."""
    tail = Tail(mark)
    for piece in LogWalk(log_of(root, data), Facts(clean=False)):
        bad = tail.first_bad(piece)
        if bad is not None:
            return bad
    return None


PLAIN = len(record.encode(record.Record(topic=b"T", body=b"body", properties=PROPERTIES)))


CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "topic": st.sampled_from([b"T", b"U", b"T\0"]),
        "queue_id": st.integers(0, 1),
        "queue_offset": st.integers(0, 9),
        "properties": st.sampled_from([b"", b"x", b"a\x01\0\x02", PROPERTIES]),
        "sys_flag": st.sampled_from([0, record.INNER_BATCH, 4, 8, 12]),
    },
)


@settings(max_examples=200, deadline=None)
@given(changes=st.lists(CHANGES, min_size=1, max_size=12), piece_bytes=st.sampled_from([1, 200, 1 << 20]))
def test_the_quick_look_at_a_piece_finds_what_the_slow_one_finds(tmp_path_factory, changes, piece_bytes):
    root = tmp_path_factory.mktemp("log")
    data = log_with(root, *changes)
    for mark in (0, len(data) // 2):
        quick, slow = Tail(mark), Tail(mark)
        slow._follows_on = lambda piece: False  # type: ignore[method-assign]
        for piece in LogWalk(log_of(root, data), Facts(clean=False), piece_bytes=piece_bytes):
            found = slow.first_bad(piece)
            assert quick.first_bad(piece) == found
            if found is not None:
                break
            assert {place: n for place, n in quick.next.items() if n} == {p: n for p, n in slow.next.items() if n}


def test_whole_records_count(tmp_path: Path):
    assert first_bad(tmp_path, log_with(tmp_path, {}, {}, {})) is None


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"topic": b"t" * 200, "magic": record.MAGIC_V2},
        {"sys_flag": 0x30, "born_host": bytes(20), "store_host": bytes(20)},
        {"body": b""},
        {"properties": b""},
        {"properties": b"x"},
    ],
)
def test_a_record_whose_end_is_missing_at_any_byte_does_not_count(tmp_path: Path, changes: dict[str, object]):
    """Cut between any two bytes, the rest zeros: either the walk stops there, or the tail says so."""
    data = log_with(tmp_path, {}, changes)
    for cut in (*range(PLAIN + 1, len(data) - 25, 9), *range(len(data) - 25, len(data))):
        torn = data[:cut] + bytes(len(data) - cut)
        walk = LogWalk(log_of(tmp_path, torn), Facts(clean=False), cut_unordered=True)
        tail, count = Tail(0), 0
        for piece in walk:
            count += piece.count
            bad = tail.first_bad(piece)
            if bad is not None:
                assert bad == (PLAIN, TORN)
                count -= 1
        same = torn == data  # zeros that were zeros
        assert count == (2 if same else 1), cut


@pytest.mark.parametrize("part", ["topic", "properties"])
def test_a_hole_in_the_text_does_not_count(tmp_path: Path, part: str):
    data = bytearray(log_with(tmp_path, {}, {}, {"queue_id": 1}))
    at = PLAIN + (93 if part == "topic" else PLAIN - 3)
    assert data[at : at + 1] == (b"T" if part == "topic" else b"\x01")
    data[at] = 0
    assert first_bad(tmp_path, bytes(data)) == (PLAIN, ODD)
    assert first_bad(tmp_path, bytes(data), mark=PLAIN) == (PLAIN, ODD)
    assert first_bad(tmp_path, bytes(data), mark=PLAIN + 1) is None, "below the mark it is as it was put"


def test_a_queue_offset_must_be_the_next_one(tmp_path: Path):
    data = log_with(tmp_path, {"queue_offset": 7}, {"queue_offset": 8}, {"queue_offset": 10})
    assert first_bad(tmp_path, data) == (2 * PLAIN, "queue offset 10 where 9 is the next")
    assert first_bad(tmp_path, data, mark=3 * PLAIN) is None
    data = log_with(tmp_path, {"queue_offset": 7}, {"queue_offset": 7})
    assert first_bad(tmp_path, data) == (PLAIN, "queue offset 7 where 8 is the next")


@pytest.mark.parametrize(
    "changes",
    [
        [{"queue_offset": 5}, {"queue_offset": 0}, {"queue_offset": 1}],  # deleted and begun again
        [{"queue_offset": 5}, {"queue_offset": 0, "sys_flag": 4}, {"queue_offset": 6}],  # prepared
        [{"queue_offset": 5}, {"queue_offset": 0, "sys_flag": 12}, {"queue_offset": 6, "sys_flag": 8}],
        [{"queue_offset": 5}, {"queue_offset": 6, "sys_flag": 0x80}, {"queue_offset": 16}, {"queue_offset": 17}],
        [{"queue_offset": 5}, {"queue_offset": 9, "queue_id": 1}, {"queue_offset": 3, "topic": b"U"}],
    ],
)
def test_exceptions_from_the_order(tmp_path: Path, changes: list[dict[str, object]]):
    assert first_bad(tmp_path, log_with(tmp_path, *changes)) is None
