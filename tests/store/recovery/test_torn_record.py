"""Records above the durable mark: torn ones at every byte, those out of their queue's order, and the exceptions."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.format import record
from flintmq.store.commitlog.end_of_log import StopFacts
from flintmq.store.commitlog.walk import LogWalk
from flintmq.store.recovery.torn_record import ODD, TORN, TornRecordSearch, _is_hole
from tests.support.small_logs import log_of

PROPERTIES = b"KEYS\x01k\x02TAGS\x01a\x02"


def log_with(root: Path, *changes: dict[str, object], start: int = 0) -> bytes:
    """The records that differ so from a plain one, as a log file; the first one's log offset is `start`."""
    data = b""
    for number, change in enumerate(changes):
        fields = {"topic": b"T", "body": b"body", "properties": PROPERTIES, "queue_offset": number} | change
        fields |= {"physical_offset": start + len(data), "body_crc": record.crc(fields["body"])}
        fields |= {"store_timestamp": 1000}
        data += record.encode(record.Record(**fields))
    log_of(root, data)
    return data


def first_bad(
    root: Path,
    data: bytes,
    mark: int = 0,
    *,
    alone: bool = True,
    power_cut: bool = False,
    comes_again: bool = False,
) -> tuple[int, str] | None:
    """What a tail says about these bytes."""
    tail = TornRecordSearch(mark, alone=alone, power_cut=power_cut, comes_again=comes_again)
    for piece in LogWalk(log_of(root, data), StopFacts(clean=False)):
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
        quick, slow = TornRecordSearch(mark, alone=True), TornRecordSearch(mark, alone=True)
        slow._follows_on = lambda piece: False  # type: ignore[method-assign]
        for piece in LogWalk(log_of(root, data), StopFacts(clean=False), piece_bytes=piece_bytes):
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
        walk = LogWalk(log_of(tmp_path, torn), StopFacts(clean=False), cut_unordered=True)
        tail, count = TornRecordSearch(0, alone=True), 0
        for piece in walk:
            count += piece.count
            bad = tail.first_bad(piece)
            if bad is not None:
                assert bad[0] == PLAIN
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


def test_only_others_begin_a_queue_again_at_0(tmp_path: Path):
    """RocketMQ does, with a topic that was deleted; of a store of ours a power cut left a head without its offset."""
    data = log_with(tmp_path, {"queue_offset": 5}, {"queue_offset": 0}, {"queue_offset": 1})
    assert first_bad(tmp_path, data) == (PLAIN, "queue offset 0 where 6 is the next")
    assert first_bad(tmp_path, data, alone=False) is None
    data = log_with(tmp_path, {"queue_offset": 5}, {"queue_offset": 0}, {"queue_offset": 6})
    assert first_bad(tmp_path, data, alone=False) == (2 * PLAIN, "queue offset 6 where 1 is the next")


def test_a_power_cut_takes_any_queue_offset_of_a_copy(tmp_path: Path):
    """It came in pieces that ended anywhere (found by the explorer of pairs, seed 1180); the master sends it again."""
    data = log_with(tmp_path, {"queue_offset": 5}, {"queue_offset": 0}, {"queue_offset": 7})
    torn = (PLAIN, "queue offset 0 where 6 is the next")
    assert first_bad(tmp_path, data, alone=False, power_cut=True, comes_again=True) == torn
    assert first_bad(tmp_path, data[: 2 * PLAIN], alone=False, comes_again=True) is None, "after a kill all is there"


@pytest.mark.parametrize("begin", range(470, 514))
def test_a_power_cut_takes_a_queue_offset_up_to_the_end_of_a_sector(tmp_path: Path, begin: int):
    """Of a log that others wrote, too: a 0 there is a head that lost a sector, anywhere else a queue that restarts."""
    first = record.Record(topic=b"T", properties=b"", body=b"x")
    filler = b"x" * (begin - len(record.encode(first)) + 1)
    data = log_with(tmp_path, {"body": filler, "properties": b"", "queue_offset": 5}, {"queue_offset": 0})
    assert data[begin:].startswith((PLAIN).to_bytes(4, "big"))
    lost = begin + 20 < 512 < begin + 36 and not any(data[begin + 20 : 512])  # else its own log offset were lost, too
    torn = (begin, "queue offset 0 where 6 is the next")
    assert first_bad(tmp_path, data, alone=False, power_cut=True) == (torn if lost else None)
    assert first_bad(tmp_path, data, alone=False) is None and first_bad(tmp_path, data) == torn


def test_a_prepared_message_that_lost_its_system_flag_takes_no_place(tmp_path: Path):
    data = bytearray(log_with(tmp_path, {"queue_offset": 5}, {"queue_offset": 0, "sys_flag": 4}, {"queue_offset": 6}))
    assert first_bad(tmp_path, bytes(data)) is None
    data[PLAIN + 36 : PLAIN + 52] = bytes(16)  # up to amid its born host
    assert first_bad(tmp_path, bytes(data)) == (PLAIN, "queue offset 0 where 6 is the next")


@pytest.mark.parametrize(
    "changes",
    [
        [{"queue_offset": 5}, {"queue_offset": 0, "sys_flag": 4}, {"queue_offset": 6}],  # prepared
        [{"queue_offset": 5}, {"queue_offset": 0, "sys_flag": 12}, {"queue_offset": 6, "sys_flag": 8}],
        [{"queue_offset": 5}, {"queue_offset": 6, "sys_flag": 0x80}, {"queue_offset": 16}, {"queue_offset": 17}],
        [{"queue_offset": 5}, {"queue_offset": 9, "queue_id": 1}, {"queue_offset": 3, "topic": b"U"}],
    ],
)
def test_exceptions_from_the_order(tmp_path: Path, changes: list[dict[str, object]]):
    assert first_bad(tmp_path, log_with(tmp_path, *changes)) is None


def test_a_piece_without_anything_odd_is_not_looked_at_record_by_record(tmp_path: Path, monkeypatch):
    """That would take many times as long as all the rest of a recovery."""
    monkeypatch.setattr(TornRecordSearch, "_count", lambda *_: pytest.fail("record by record"))
    order = [("T", 0, 7), ("U", 0, 3), ("T", 1, 5), ("T", 0, 8), ("U", 0, 4), ("T", 0, 9), ("T", 1, 6)]
    changes = [{"topic": topic.encode(), "queue_id": q, "queue_offset": n} for topic, q, n in order]
    data, tail, pieces = log_with(tmp_path, *changes), TornRecordSearch(0, alone=True), 0
    for piece in LogWalk(log_of(tmp_path, data), StopFacts(clean=False), piece_bytes=350):
        assert tail.first_bad(piece) is None
        pieces += 1
    assert pieces > 1 and tail.next == {(b"T", 0): 10, (b"T", 1): 7, (b"U", 0): 5}


@pytest.mark.parametrize("magic", [record.MAGIC_V1, record.MAGIC_V2])
@pytest.mark.parametrize(("flags", "born", "store"), [(0, 8, 8), (0x10, 20, 8), (0x20, 8, 20), (0x30, 20, 20)])
def test_the_slow_look_finds_the_topic_of_every_kind_of_record(
    tmp_path: Path, magic: int, flags: int, born: int, store: int
):
    kind = {"magic": magic, "sys_flag": flags, "born_host": b"\x01" * born, "store_host": b"\x02" * store}
    topics = [b"t" * 100, b"u" * 127, *([b"w" * 258] if magic == record.MAGIC_V2 else [])]
    data = log_with(tmp_path, *[kind | {"topic": topic, "body": b"b" * 300, "queue_offset": 4} for topic in topics])
    tail = TornRecordSearch(0, alone=True)
    tail._follows_on = lambda piece: False  # type: ignore[method-assign]
    for piece in LogWalk(log_of(tmp_path, data), StopFacts(clean=False)):
        assert tail.first_bad(piece) is None
    assert tail.next == {(topic, 0): 5 for topic in topics}


TOPIC, END = 100, 1400  # of a record's text in the tables below


def is_hole(zeros: range, position: int) -> bool:
    """What the tail says of a text with these zeros, behind which other records stand."""
    data = bytearray(b"x" * 2048)
    data[zeros.start : zeros.stop] = bytes(len(zeros))
    return _is_hole(memoryview(data), TOPIC, END, position)


@pytest.mark.parametrize("position", [0, 7, 300, 511 - TOPIC, 512 - TOPIC, 1535 - END, 1536 - END])
def test_no_single_zero_is_a_hole_wherever_it_stands(position: int):
    for at in range(TOPIC, END):
        assert not is_hole(range(at, at + 1), position), at


@pytest.mark.parametrize(
    ("zeros", "position", "expected"),
    [
        (range(512, 1024), 0, True),
        (range(512, 1023), 0, False),
        (range(513, 1024), 0, False),
        (range(513, 1536), 0, True),  # the next one
        (range(700, 1250), 0, False),  # longer than a sector, and none whole
        (range(1024, 1536), 0, True),  # with the record's end and what stands behind it
        (range(1024, 1535), 0, False),
        (range(1024, 1400), 0, False),
        (range(512), 0, False),  # it began before the text, with bytes that were compared
        (range(100, 611), 412, False),
        (range(100, 612), 412, True),  # the text begins with the sector
        (range(101, 613), 411, True),
        (range(99, 611), 413, False),
        (range(1399, 1911), 137, True),  # only the last byte stands in it
        (range(1399, 1910), 137, False),
        (range(1400, 1912), 136, False),  # nothing of this record is missing
    ],
)
def test_a_sector_that_begins_in_a_text_and_is_zeros_never_arrived(zeros: range, position: int, expected: bool):
    assert is_hole(zeros, position) is expected


@pytest.mark.parametrize(
    ("zeros", "reason"),
    [(range(512, 1024), TORN), (range(480, 992), ODD), (range(511, 512), ODD), (range(1024, 1536), TORN)],
)
def test_sectors_are_those_of_the_file(tmp_path: Path, zeros: range, reason: str):
    """Whose begin in the log need not be a multiple of 512: RocketMQ takes any size."""
    size = 4000
    data = bytearray(log_with(tmp_path, {"properties": b"p" * 1200}, {"queue_offset": 1}, start=size))
    data[zeros.start : zeros.stop] = bytes(len(data[zeros.start : zeros.stop]))
    for piece in LogWalk(log_of(tmp_path / "log", bytes(data), file_size=size, first=size), StopFacts(clean=False)):
        assert TornRecordSearch(0, alone=True).first_bad(piece) == (size, reason)
