"""Reading by queue and offset: every status of the reference's table, limits, tags, waiting."""

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from flintmq.format.consume_queue import UNIT, Unit
from flintmq.message import GetMessageStatus, Message
from flintmq.store.message_store import MessageStore
from flintmq.store.read.answer import wanted_codes
from flintmq.testing.damage import flip
from tests.support.engine import FILE_SIZE, message, open_small, put_dispatched, stored
from tests.support.threads import beside

S = GetMessageStatus


@pytest.fixture
def store(tmp_path: Path):
    with open_small(tmp_path / "store") as opened:
        yield opened


def filled(store: MessageStore, count: int) -> MessageStore:
    put_dispatched(store, count)
    return store


def test_found(store: MessageStore):
    filled(store, 5)
    got = store.get("T", 0, 1, 3)
    assert (got.status, got.next_begin_offset, got.min_offset, got.max_offset) == (S.FOUND, 4, 0, 5)
    assert [m.body[:6] for m in got.messages] == [b"000001", b"000002", b"000003"]
    assert [(m.topic, m.queue_id, m.queue_offset) for m in got.messages] == [("T", 0, 1), ("T", 0, 2), ("T", 0, 3)]


@pytest.mark.parametrize(
    ("offset", "status", "next_offset"),
    [
        (-1, S.OFFSET_TOO_SMALL, 0),
        (5, S.OFFSET_OVERFLOW_ONE, 5),
        (6, S.OFFSET_OVERFLOW_BADLY, 5),
        (1 << 60, S.OFFSET_OVERFLOW_BADLY, 5),
    ],
)
def test_offsets_beside_the_queue(store: MessageStore, offset: int, status: S, next_offset: int):
    got = filled(store, 5).get("T", 0, offset)
    assert (got.status, got.messages, got.next_begin_offset, got.min_offset, got.max_offset) == (
        status, [], next_offset, 0, 5,
    )  # fmt: skip


@pytest.mark.parametrize("offset", [0, 7])
def test_a_queue_without_messages(store: MessageStore, offset: int):
    got = filled(store, 1).get("T", 3, offset)
    assert (got.status, got.next_begin_offset, got.min_offset, got.max_offset) == (S.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
    assert store.get("Unknown", 0, offset).status is S.NO_MESSAGE_IN_QUEUE


def test_one_call_reads_one_queue_file(store: MessageStore):
    filled(store, 25)  # ten units a file
    got = store.get("T", 0, 9)
    assert (got.status, len(got.messages), got.next_begin_offset) == (S.FOUND, 1, 10)
    assert len(store.get("T", 0, 10).messages) == 10


@pytest.mark.parametrize("most", [0, 1])
def test_the_first_message_is_always_given(store: MessageStore, most: int):
    assert len(filled(store, 3).get("T", 0, 0, most).messages) == 1


@pytest.mark.parametrize("given", [{}, {"maxTransferCountOnMessageInMemory": 7}])
def test_by_default_at_most_32_messages(tmp_path: Path, given: dict[str, int]):
    with open_small(tmp_path, mappedFileSizeConsumeQueue=20 * 100, **given) as store:
        filled(store, 80)
        assert len(store.get("T", 0, 0, 1000).messages) == given.get("maxTransferCountOnMessageInMemory", 32)


@pytest.mark.parametrize(("given", "count"), [({}, 2), ({"maxTransferBytesOnMessageInMemory": 400_000}, 3)])
def test_at_most_256_kib_in_one_answer(tmp_path: Path, given: dict[str, int], count: int):
    """By default."""
    with open_small(tmp_path, mappedFileSizeCommitLog=1 << 20, mappedFileSizeConsumeQueue=2000, **given) as store:
        put_dispatched(store, 5, size=100_000)
        got = store.get("T", 0, 0)
        assert [m.queue_offset for m in got.messages] == list(range(count))
        assert got.next_begin_offset == count


def test_tags_choose(store: MessageStore):
    filled(store, 10)
    assert [m.queue_offset for m in store.get("T", 0, 0, tags="t1").messages] == [1, 4, 7]
    assert [m.queue_offset for m in store.get("T", 0, 0, tags="t0 || t2").messages] == [0, 2, 3, 5, 6, 8, 9]
    assert len(store.get("T", 0, 0, tags="*").messages) == 10
    got = store.get("T", 0, 2, tags="nobody")
    assert (got.status, got.messages, got.next_begin_offset) == (S.NO_MATCHED_MESSAGE, [], 10)
    got = store.get("T", 0, 0, 2, tags="t1")
    assert [m.queue_offset for m in got.messages] == [1, 4]
    assert store.get("T", 0, got.next_begin_offset, tags="t1").messages[0].queue_offset == 7


def test_tags_of_equal_hash_are_left_to_the_client(store: MessageStore):
    store.put(Message("T", b"1", tags="Aa"))
    store.put(Message("T", b"2", tags="BB"))  # the same hash in Java
    store.wait_dispatched(60)
    assert [m.tags for m in store.get("T", 0, 0, tags="Aa").messages] == ["Aa", "BB"]


def test_wanted_codes():
    assert wanted_codes(None) is None and wanted_codes("*") is None and wanted_codes("a || *") is None
    assert wanted_codes("a||b") == wanted_codes(" a || b ") == {97, 98}
    assert wanted_codes("zzzzzz") == {0xD2D6B640 & 0xFFFFFFFF} or wanted_codes("zzzzzz") == {
        sum(122 * 31**n for n in range(6)) & 0xFFFFFFFF
    }


def test_a_get_waits_for_the_first_message(store: MessageStore):
    filled(store, 1)
    began = time.monotonic()
    assert store.get("T", 0, 1, wait_ms=50).status is S.OFFSET_OVERFLOW_ONE
    assert 0.04 < time.monotonic() - began < 3
    timer = threading.Timer(0.1, lambda: store.put(message(1)))
    timer.start()
    began = time.monotonic()
    got = store.get("T", 0, 1, wait_ms=20_000)
    assert got.status is S.FOUND and time.monotonic() - began < 5
    timer.join()


def test_a_get_waits_for_the_first_message_of_a_new_queue(store: MessageStore):
    timer = threading.Timer(0.1, lambda: store.put(message(0, topic="New")))
    timer.start()
    assert store.get("New", 0, 0, wait_ms=20_000).status is S.FOUND
    timer.join()


def test_a_get_that_waits_is_not_woken_by_other_queues_for_good(store: MessageStore):
    filled(store, 1)
    stop = threading.Event()

    def noise() -> None:
        while not stop.is_set():
            store.put(message(0, topic="Other"))
            time.sleep(0.001)

    thread = threading.Thread(target=noise)
    thread.start()
    began = time.monotonic()
    assert store.get("T", 0, 1, wait_ms=200).status is S.OFFSET_OVERFLOW_ONE
    assert 0.19 < time.monotonic() - began < 3
    stop.set()
    thread.join()


def test_an_offset_far_beyond_is_answered_at_once(store: MessageStore):
    filled(store, 1)
    began = time.monotonic()
    assert store.get("T", 0, 9, wait_ms=20_000).status is S.OFFSET_OVERFLOW_BADLY
    assert time.monotonic() - began < 3


def test_a_queue_file_that_is_missing(tmp_path: Path):
    with open_small(tmp_path) as store:
        filled(store, 35)
        os.unlink(tmp_path / "consumequeue" / "T" / "0" / f"{200:020d}")
        got = store.get("T", 0, 12)
        assert (got.status, got.messages, got.next_begin_offset) == (S.OFFSET_FOUND_NULL, [], 20)
        assert store.get("T", 0, 20).status is S.FOUND


def expire(root: Path, files: int) -> None:
    """What retention does: the oldest log files go."""
    for path in sorted((root / "commitlog").iterdir())[:files]:
        path.unlink()


def test_d13_a_record_of_a_file_that_is_gone_is_no_other_record(tmp_path: Path):
    """Upstream answers a unit of log offset 0 with the first record that is left."""
    with open_small(tmp_path) as store:
        filled(store, 120)
        first = next(m.queue_offset for m in store if m.physical_offset >= FILE_SIZE)
        second = next(m.queue_offset for m in store if m.physical_offset >= 2 * FILE_SIZE)
    expire(tmp_path, 1)
    with open_small(tmp_path) as store:
        got = store.get("T", 0, 0)
        assert (got.status, got.messages, got.next_begin_offset) == (S.OFFSET_TOO_SMALL, [], first)
        assert (got.min_offset, got.max_offset) == (first, 120)
        assert store.get("T", 0, first).messages[0].queue_offset == first
        # A file that goes while its units are within the bounds:
        gone, store._parts.files.files = store._parts.files.files[0], store._parts.files.files[1:]
        got = store.get("T", 0, first, 1)
        assert got.status is S.MESSAGE_WAS_REMOVING or got.messages[0].queue_offset == second
        assert got.next_begin_offset > first
        store._parts.files.files = (gone, *store._parts.files.files)


def test_a_unit_that_leads_to_another_record_is_not_served(tmp_path: Path):
    """Line 5: nothing is served that the log does not hold at that place."""
    with open_small(tmp_path) as store:
        filled(store, 5)
        path = tmp_path / "consumequeue" / "T" / "0" / ("0" * 20)
        data = bytearray(path.read_bytes())
        data[20:40], data[40:60] = data[40:60], data[20:40]
        path.write_bytes(data)
        got = store.get("T", 0, 0)
        assert [m.queue_offset for m in got.messages] == [0, 3, 4] and got.next_begin_offset == 5


@pytest.mark.parametrize("byte", [5, 39, 87, 94])
def test_a_damaged_record_costs_the_others_of_its_answer_nothing(tmp_path: Path, byte: int):
    """Magic, system flag (the host's width), the lengths of body and properties: that one is left out."""
    with open_small(tmp_path) as store:
        put_dispatched(store, 5)
        whole = store.get("T", 0, 0).messages
        flip(tmp_path / "commitlog" / ("0" * 20), whole[2].physical_offset + byte, 0x10)
        got = store.get("T", 0, 0)
        assert got.status is S.FOUND and got.next_begin_offset == 5
        assert [m.raw for m in got.messages if m.queue_offset != 2] == [whole[n].raw for n in (0, 1, 3, 4)]
        assert store.get("T", 0, 2, 1).status in (S.MESSAGE_WAS_REMOVING, S.FOUND)


@pytest.mark.parametrize("light", [False, True])
def test_a_record_whose_checksum_fails_is_not_handed_out(tmp_path: Path, light: bool, caplog: pytest.LogCaptureFixture):
    """A bit of the body, through its own queue and through a light one: left out, and told."""
    keys = {"enableLmq": True, "enableMultiDispatch": True} if light else {}
    with open_small(tmp_path, **keys) as store:
        for n in range(3):
            properties = {"INNER_MULTI_DISPATCH": "%LMQ%a"} if light else {}
            assert store.put(Message("T", b"%03d" % n + bytes(40), properties=properties)).queue_offset == n
        assert store.wait_dispatched(60)
        topic = "%LMQ%a" if light else "T"
        bodies = [m.body[:3] for m in store.get(topic, 0, 0).messages]
        assert bodies == [b"000", b"001", b"002"]
        raw = store.get(topic, 0, 1, 1).messages[0]
        flip(tmp_path / "commitlog" / ("0" * 20), raw.physical_offset + raw.raw.index(b"001"), 4)
        got = store.get(topic, 0, 0)
        assert [m.body[:3] for m in got.messages] == [b"000", b"002"] and got.next_begin_offset == 3
        assert store.get(topic, 0, 1, 1).status is S.MESSAGE_WAS_REMOVING
        assert f"is damaged, at log offset {raw.physical_offset}, and is left out" in caplog.text


HIT = 2  # the offset whose unit is written over


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        (bytes(20), "has no unit in its queue file"),
        (UNIT.pack(Unit(1 << 40, 100, 0)), f"has a unit that points to no record of its size, at log offset {1 << 40}"),
        (UNIT.pack(Unit(0, 1 << 30, 0)), "has a unit that points to no record of its size, at log offset 0"),
        (None, "has a unit that points to the record of another queue offset, at log offset 0"),
        (UNIT.pack(Unit(0, 0x7FFFFFFF, 0)), ""),
    ],
    ids=["zeros", "behind the log", "no such size", "another record", "pre-blank"],
)
@pytest.mark.parametrize("columns", [False, True])
def test_an_offset_that_is_left_out_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, unit: bytes | None, words: str, columns: bool
):
    """An offset within the bounds without its message: the others are given, and the log says which and why.

    A pre-blank unit is news to nobody: RocketMQ, `rebuild` and the engine write it where nothing stands.
    """
    path = tmp_path / "consumequeue" / "T" / "0" / ("0" * 20)
    stored(tmp_path, 5)
    with open_small(tmp_path) as store:  # a clean start writes no units again: the hole stays
        data = bytearray(path.read_bytes())
        data[HIT * 20 : HIT * 20 + 20] = data[:20] if unit is None else unit
        path.write_bytes(data)
        store._parts.queues.find(b"T", 0).forget()  # the units that it read at its start
        offsets, at = [], 0
        while at < 5:  # a unit of a huge size ends an answer before it
            if columns:
                got = store.get_batch("T", 0, at)
                offsets += got.batch.column("queue_offset").to_pylist()
            else:
                got = store.get("T", 0, at)
                offsets += [m.queue_offset for m in got.messages]
            assert got.next_begin_offset > at
            at = got.next_begin_offset
        assert offsets == [0, 1, 3, 4]
    told = [line.getMessage() for line in caplog.records if line.levelname == "WARNING"]
    expected = f"{tmp_path}: b'T', queue 0: offset {HIT} {words}, and is left out (see `flintmq verify`)"
    assert told == ([expected] if words else [])


def test_an_offset_whose_record_expired_is_not_told(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """Retention took it: that is no damage."""
    with open_small(tmp_path) as store:
        filled(store, 120)
        second = next(m.queue_offset for m in store if m.physical_offset >= FILE_SIZE)
        store._parts.files.files = store._parts.files.files[1:]
        assert store.get("T", 0, second - 1, 1).status is S.MESSAGE_WAS_REMOVING
    assert [line.getMessage() for line in caplog.records if "left out" in line.getMessage()] == []


def test_a_unit_of_another_queue_is_no_light_queues(tmp_path: Path):
    """A record that stands in light queues stands at these places and no others."""
    with open_small(tmp_path, enableLmq=True, enableMultiDispatch=True) as store:
        store.put(Message("T", b"x", properties={"INNER_MULTI_DISPATCH": "%LMQ%a"}))
        assert store.wait_dispatched(60)
        unit = store._parts.queues.find(b"T", 0).units(0, 1)[0]  # type: ignore[union-attr]
        reader = store._parts.reader
        assert reader.record(unit, b"T", 0, 0) and reader.record(unit, b"%LMQ%a", 0, 0)
        assert not reader.record(unit, b"U", 0, 0) and not reader.record(unit, b"%LMQ%a", 0, 7)
        assert not reader.record(unit, b"%LMQ%b", 0, 0) and not reader.record(unit, b"T", 1, 0)


def test_by_key_and_by_iteration(store: MessageStore):
    filled(store, 70)
    assert [m.queue_offset for m in store.query("T", "k7")] == [7]
    assert store.query("T", "k70") == [] and store.query("U", "k7") == []
    assert [m.queue_offset for m in store] == list(range(70))
    times = [m.store_timestamp for m in store]
    assert store.query("T", "k7", begin=times[-1] + 5000) == []


def test_readers_run_while_others_put(store: MessageStore):
    """T13: what a reader gets is always the whole and right record."""
    stop = threading.Event()
    wrong: list[object] = []

    def read() -> None:
        at = 0
        while not stop.is_set():
            got = store.get("T", 0, at)
            for m in got.messages:
                if m.queue_offset != at or not m.body.startswith(b"%06d" % at):
                    wrong.append((at, m))
                at += 1

    with beside(*[read] * 3):
        put_dispatched(store, 600)
        stop.set()
    assert wrong == []


def test_what_arrives_amid_the_look_is_no_reason_to_wait(store: MessageStore):
    """The message comes after the reader has looked and before it waits: a get would wait 30 s beside it."""
    reader, end = store._parts.reader, store.get("T", 0, 0).max_offset
    within = reader._within

    def late(*words: Any) -> Any:
        reader._within = within  # type: ignore[method-assign]
        found = within(*words)
        other = threading.Thread(target=lambda: (store.put(message(end)), store.wait_dispatched(60)))
        other.start()
        other.join()
        return found

    reader._within = late  # type: ignore[method-assign]
    began = time.monotonic()
    assert store.get("T", 0, end, wait_ms=20_000).messages and time.monotonic() - began < 10
