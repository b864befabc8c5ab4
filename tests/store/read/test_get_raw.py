"""Raw gets: what `get` answers, with the records end to end; of a view the same as of the running store."""

import os
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from flintmq import open_store
from flintmq.format.record_view import size_at
from flintmq.message import GetMessageStatus, GetResult, Message, RawResult, StoredMessage
from flintmq.store.message_store import MessageStore
from flintmq.store.view import StoreView
from flintmq.testing.damage import flip
from tests.compat.stores import Golden
from tests.support.engine import log_files, open_small, put_dispatched, stored

S = GetMessageStatus
TAGS = (None, "*", "", "t1", "t0 || t2", "TagA", "nobody", "TagA || TagB || *")


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No look ends early because the machine is slow."""
    monkeypatch.setattr("flintmq.store.read.answer.LOOKS_S", 60)


def as_raw(found: GetResult) -> RawResult:
    """What `get_raw` must answer where `get` answers this."""
    raws = [one.raw for one in found.messages]
    return RawResult(
        found.status, b"".join(raws), len(raws), found.next_begin_offset, found.min_offset, found.max_offset
    )


def is_tagged(properties: Mapping[str, str]) -> bool:
    return properties.get("TAGS") in ("t1", "TagA")


def records(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        yield data[at : at + size_at(data, at)]
        at += size_at(data, at)


def compare(store: MessageStore, view: StoreView, topic: str, queue_id: int, chance: random.Random) -> set[S]:
    """Compare get, get_raw of the store and of the view around and in one queue; return the statuses met."""
    low, high = store.bounds(topic, queue_id)
    assert view.bounds(topic, queue_id) == (low, high), (topic, queue_id)
    within = chance.sample(range(low, high), min(high - low, 12))
    met = set()
    for offset in {-1, 0, low - 1, low, *within, high - 1, high, high + 1, high + 1000}:
        for most, tags in ((32, None), (chance.choice((0, 1, 3, 1000)), chance.choice(TAGS))):
            wanted = as_raw(store.get(topic, queue_id, offset, most, tags=tags))
            assert store.get_raw(topic, queue_id, offset, most, tags=tags) == wanted, (topic, queue_id, offset, tags)
            assert view.get_raw(topic, queue_id, offset, most, tags=tags) == wanted, (topic, queue_id, offset, tags)
            met.add(wanted.status)
        limit = chance.choice((0, 1, 300, 1000))
        by_store = store.get_raw(topic, queue_id, offset, max_bytes=limit)
        assert view.get_raw(topic, queue_id, offset, max_bytes=limit) == by_store
        some = store.get_raw(topic, queue_id, offset, max_bytes=1000, wanted=is_tagged)
        assert view.get_raw(topic, queue_id, offset, max_bytes=1000, wanted=is_tagged) == some
        assert len(by_store.data) <= limit or by_store.count == 1
    return met


def compare_all(store: MessageStore, seed: int = 7) -> set[S]:
    chance, met = random.Random(seed), set()
    with store.view() as view:
        for topic, queue_id in store._parts.queues.places():
            met |= compare(store, view, os.fsdecode(topic), queue_id, chance)
        for topic, queue_id in (("no such topic", 0), ("T", 99), ("T", -1), ("../T", 0)):
            met |= compare(store, view, topic, queue_id, chance)
    return met


def test_every_store_of_java(golden_store: Golden, tmp_path: Path):
    config = golden_store.config if isinstance(golden_store.config, dict) else {}
    with MessageStore(golden_store.copy(tmp_path), config, peer=golden_store.peer, unique_keys=False) as store:
        assert store.wait_dispatched(60)
        assert {S.NO_MESSAGE_IN_QUEUE, S.OFFSET_OVERFLOW_ONE, S.FOUND} <= compare_all(store)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    with open_small(tmp_path / "store") as opened:
        yield opened


def test_records_end_to_end(store: MessageStore):
    put_dispatched(store, 25)  # ten units a file
    for reader in (store, store.view()):
        found = reader.get_raw("T", 0, 7)
        assert (found.status, found.count, found.next_begin_offset) == (S.FOUND, 3, 10)
        assert (found.min_offset, found.max_offset) == (0, 25)
        assert list(records(found.data)) == [store.get("T", 0, at, 1).messages[0].raw for at in (7, 8, 9)]


def test_at_most_so_many_bytes_of_whole_records(store: MessageStore):
    put_dispatched(store, 10)
    size = store.get("T", 0, 0, 1).messages[0].size
    for reader in (store, store.view()):
        for most, count in ((0, 1), (1, 1), (size, 1), (2 * size - 1, 1), (2 * size, 2), (3 * size + 1, 3)):
            found = reader.get_raw("T", 0, 1, max_bytes=most)
            assert (found.count, len(found.data), found.next_begin_offset) == (count, count * size, 1 + count)


# -- by properties -----------------------------------------------------------------------------------------------------


def numbered(store: MessageStore, count: int) -> None:
    for number in range(count):
        store.put(Message("T", b"%d" % number, f"t{number % 3}", properties={"n": str(number)}, queue_id=0))
    assert store.wait_dispatched(60)


def walked(reader: MessageStore | StoreView, end: int, **more: Any) -> tuple[list[int], list[RawResult]]:
    """All answers from the begin of the queue on, and the numbers in them."""
    at, numbers, answers = 0, list[int](), list[RawResult]()
    while at < end:
        found = reader.get_raw("T", 0, at, **more)
        assert found.next_begin_offset > at and (found.min_offset, found.max_offset) == (0, end)
        assert found.status is (S.FOUND if found.count else S.NO_MATCHED_MESSAGE)
        there = [StoredMessage(raw) for raw in records(found.data)]
        assert len(there) == found.count and all(at <= one.queue_offset < found.next_begin_offset for one in there)
        numbers += [int(one.properties["n"]) for one in there]
        answers.append(found)
        at = found.next_begin_offset
    return numbers, answers


@pytest.mark.parametrize("most", [-1, 0, 1, 3, 32, 1000])
@pytest.mark.parametrize("limit", [0, 250, 1000, 256 << 10])
def test_what_is_wanted_by_its_properties(store: MessageStore, most: int, limit: int):
    numbered(store, 95)  # ten units a file
    size, wanted = store.get("T", 0, 94).messages[0].size, [n for n in range(95) if n % 7 in (1, 2)]
    before = store.stats().messages_got
    for reader in (store, store.view()):
        found, answers = walked(
            reader, 95, max_messages=most, max_bytes=limit, wanted=lambda properties: int(properties["n"]) % 7 in (1, 2)
        )
        assert found == wanted
        assert max(answer.count for answer in answers) == max(1, min(most, limit // size, len(wanted)))
    assert store.stats().messages_got - before == len(wanted), "what was only looked at does not count"


def test_tags_and_properties(store: MessageStore):
    numbered(store, 60)
    for reader in (store, store.view()):
        found, _ = walked(reader, 60, tags="t1", wanted=lambda properties: int(properties["n"]) % 2 == 0)
        assert found == [n for n in range(60) if n % 3 == 1 and n % 2 == 0]


def test_a_look_by_properties_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def steps(**more: Any) -> set[int]:
        seen.clear()
        with open_small(tmp_path / "store", mappedFileSizeConsumeQueue=20_000, maxFilterMessageSize=20 * 100) as store:
            if not store.bounds("T", 0)[1]:
                numbered(store, 300)
            for reader in (store, store.view()):
                found, answers = walked(reader, 300, wanted=lambda properties: bool(seen.append(properties)), **more)
                assert found == [] and len(seen) == 300
                seen.clear()
        ends = [answer.next_begin_offset for answer in answers]
        return {end - begin for begin, end in zip([0, *ends], ends, strict=False)}

    seen = list[Mapping[str, str]]()
    assert steps(max_messages=25) == {100}, "as many units as with tags"
    assert steps(max_messages=150) == {160, 140}, "no fewer than one wants; 32 are read at a time"
    monkeypatch.setattr("flintmq.store.read.answer.LOOKED_AT", 1000)
    assert steps() == {32, 12}
    monkeypatch.setattr("flintmq.store.read.answer.LOOKED_AT", 1 << 30)
    monkeypatch.setattr("flintmq.store.read.answer.LOOKS_S", 0)
    assert steps() == {32, 12}, "a slow function ends it, too"


def test_an_error_of_the_function_is_the_callers(store: MessageStore):
    def wrong(properties: Mapping[str, str]) -> bool:
        return bool(properties["x"])

    numbered(store, 3)
    for reader in (store, store.view()):
        with pytest.raises(KeyError):
            reader.get_raw("T", 0, 0, wanted=wrong)
        assert reader.get_raw("T", 0, 3, wanted=wrong).status is S.OFFSET_OVERFLOW_ONE
        with pytest.raises(TypeError, match="wanted is of type str; give a function"):
            reader.get_raw("T", 0, 0, wanted="n = 1")  # type: ignore[arg-type]


def test_bounds(store: MessageStore):
    assert store.bounds("T", 0) == (0, 0)
    put_dispatched(store, 3)
    with store.view() as view:
        assert store.bounds("T", 0) == view.bounds("T", 0) == (0, 3)
        assert store.bounds("T", 1) == view.bounds("T", 1) == (0, 0)
        assert store.bounds("U", 0) == view.bounds("U", 0) == (0, 0)


def test_plain_light_and_batch_queues(tmp_path: Path):
    with open_small(tmp_path, enableLmq=True, enableMultiDispatch=True) as store:
        store.create_topic("B", 1, "BatchCQ")
        for number in range(60):
            light = {"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b"} if number % 3 else None
            store.put(Message("T", b"%d" % number, f"t{number % 3}", properties=light))
            store.put_batch([Message("B", b"%d" % n, "t1", keys="k") for n in range(1 + number % 4)])
        assert store.wait_dispatched(60)
        assert {S.FOUND, S.NO_MATCHED_MESSAGE, S.OFFSET_TOO_SMALL, S.OFFSET_OVERFLOW_BADLY} <= compare_all(store)
        light_ones = store.get_raw("%LMQ%a", 0, 0)
        assert light_ones.count == 32 - 22 and store.bounds("%LMQ%a", 0) == (0, 40)  # one file of queue
        assert store.bounds("B", 0) == (0, 150)


def test_an_expired_beginning(tmp_path: Path):
    stored(tmp_path, 100)
    for file in log_files(tmp_path)[:2]:
        file.unlink()
    with open_small(tmp_path) as store:
        assert store.bounds("T", 0)[0] > 0
        assert S.OFFSET_TOO_SMALL in compare_all(store)


def test_all_expired(tmp_path: Path):
    stored(tmp_path, 30)
    stored(tmp_path, 60, topic="U")
    for file in log_files(tmp_path)[:2]:
        file.unlink()
    with open_small(tmp_path) as store:
        assert store.bounds("T", 0) == (30, 30)
        compare_all(store)
        assert store.get_raw("T", 0, 30).status is S.OFFSET_OVERFLOW_ONE
        assert store.get_raw("T", 0, 0) == RawResult(S.OFFSET_TOO_SMALL, b"", 0, 30, 30, 30)


def test_damaged_records_are_left_out(tmp_path: Path):
    results = stored(tmp_path, 10)
    with open_small(tmp_path) as store, store.view() as view:
        flip(log_files(tmp_path)[0], results[3].physical_offset + 100)
        for offset, most, status, count, following in (
            (0, 32, S.FOUND, 9, 10),
            (3, 2, S.FOUND, 1, 5),
            (3, 1, S.MESSAGE_WAS_REMOVING, 0, 4),
        ):
            found = store.get_raw("T", 0, offset, most)
            assert found == view.get_raw("T", 0, offset, most) == as_raw(store.get("T", 0, offset, most))
            assert (found.status, found.count, found.next_begin_offset) == (status, count, following)


@pytest.mark.parametrize("gone", ["consumequeue", "one"])
def test_a_view_without_units_reads_the_log(tmp_path: Path, gone: str):
    stored(tmp_path, 25)
    with open_small(tmp_path) as store:
        wanted = [as_raw(store.get("T", 0, at, tags=tags)) for at in (0, 5, 10, 24) for tags in (None, "t1", "none")]
    for file in sorted(tmp_path.glob("consumequeue/T/0/*")):
        if gone == "consumequeue":
            file.unlink()
        else:
            file.write_bytes(bytes(40) + file.read_bytes()[40:])  # two units are lost
    with open_store(tmp_path, set={"mappedFileSizeConsumeQueue": 200}) as view:
        for at in (0, 5, 10, 24):
            for tags in (None, "t1", "none"):
                found, due = view.get_raw("T", 0, at, tags=tags), wanted.pop(0)
                assert found.status is due.status and found.data.startswith(due.data)
                assert found.next_begin_offset >= due.next_begin_offset


@pytest.mark.parametrize("dispatch", ["thread", "external"])
def test_a_view_of_a_live_store_sees_new_messages_after_refresh(tmp_path: Path, dispatch: str):
    """With `external` no message has a unit yet."""
    with open_small(tmp_path, dispatch=dispatch) as store, store.view() as view:
        bodies: list[bytes] = []
        for number in range(25):
            end, before = view.max_physical_offset, view.bounds("T", 0)
            view.refresh()
            assert (view.max_physical_offset, view.bounds("T", 0)) == (end, before) == (end, (0, number))
            assert view.get_raw("T", 0, number).status is (S.OFFSET_OVERFLOW_ONE if number else S.NO_MESSAGE_IN_QUEUE)
            body = b"%d" % number
            bodies.append(body)
            assert store.put(Message("T", body, tags=f"t{number % 2}"))
            assert view.bounds("T", 0) == before, "a view does not change by itself"
            view.refresh()
            assert view.max_physical_offset > end and view.bounds("T", 0) == (0, number + 1)
            found = view.get_raw("T", 0, number)
            assert (found.status, found.count, found.next_begin_offset) == (S.FOUND, 1, number + 1)
            assert StoredMessage(found.data).body == body
        at, got = 0, []
        while at < 25:
            found = view.get_raw("T", 0, at, tags="t1")
            got += [StoredMessage(raw).body for raw in records(found.data)]
            assert found.next_begin_offset > at
            at = found.next_begin_offset
        assert got == bodies[1::2]


def test_records_far_apart_in_the_log(tmp_path: Path):
    """Between those of one queue are more bytes of others than are read at once."""
    with MessageStore(tmp_path, dev=True) as store:
        for number in range(6):
            store.put(Message("A", b"%d" % number))
            store.put(Message("B", bytes(150_000)))
        assert store.wait_dispatched(60)
        with store.view() as view:
            found = view.get_raw("A", 0, 0)
            assert found == store.get_raw("A", 0, 0) == as_raw(store.get("A", 0, 0)) and found.count == 6
            assert view.get_raw("B", 0, 0) == store.get_raw("B", 0, 0) == as_raw(store.get("B", 0, 0))
            assert view.get_raw("B", 0, 2, max_bytes=1).count == 1, "a record larger than the limit"
