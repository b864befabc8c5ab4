"""The fast way of a get beside the slow one: whatever it answers is the same, field by field; else it leaves it to it.

Uncompiled the fast way answers nothing, and the same tests run the slow way twice.
"""

import os
import random
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flintmq.errors import UsageError
from flintmq.format.consume_queue import UNIT, Unit
from flintmq.kernels import _select
from flintmq.kernels.write import fast_get
from flintmq.kernels.write.fast_append import own_lock
from flintmq.message import GetMessageStatus, GetResult, Message
from flintmq.store.message_store import MessageStore
from flintmq.store.read.get import LiveReader
from flintmq.testing.damage import cut, flip, random_damage
from tests.compat.stores import Golden
from tests.support.engine import FILE_SIZE, message, open_small, put_all, put_dispatched, stored
from tests.support.faults import Faulty
from tests.support.makers import patch

S = GetMessageStatus
COMPILED = _select.state()["fast_get"]
pytestmark = pytest.mark.skipif(own_lock(), reason="gets go the slow way where puts take a lock of their own")
compiled_only = pytest.mark.skipif(not COMPILED, reason="the fast way is the compiled one")
TAGS = (None, "*", "t1", "t0 || t2", "TagA", "nobody", " ", "TagA || TagB || *")


def answers(found: GetResult) -> tuple[Any, ...]:
    return (
        found.status, [m.raw for m in found.messages], found.next_begin_offset, found.min_offset, found.max_offset,
    )  # fmt: skip


def both(reader: LiveReader, *asked: Any) -> GetResult | None:
    """The fast answer, or None, after a comparison with the slow one."""
    assert reader.fast is not None
    fast = reader.fast.read(*asked)
    slow = reader.get_slowly(*asked)
    if fast is not None:
        assert answers(fast) == answers(slow), asked
        assert type(fast) is GetResult and fast == slow and repr(fast) == repr(slow)
    for most_bytes in (256 << 10, 600, 0):
        where: tuple[Any, ...] = (*asked[:5], most_bytes)
        raw = reader.fast.read_raw(*where)
        assert (raw is None) <= (fast is None), "whoever reads all of it reads a part of it"
        assert raw in (None, reader.get_raw_slowly(*where)), asked
    return fast


def compare_all(store: MessageStore) -> dict[S, int]:
    """Compare gets in every queue, at up to 30 offsets of each; return how many were fast, by status."""
    reader, fast, chance = store._parts.reader, dict.fromkeys(S, 0), random.Random(7)
    for topic, queue_id in [*store._parts.queues.plain, *store._parts.queues.batch]:
        name = os.fsdecode(topic)
        high = reader.get_slowly(name, queue_id, 0, 1, None, 0).max_offset
        offsets = chance.sample(range(high), min(high, 30))
        for offset in (-1, *offsets, high, high + 1, 1 << 70):
            for most, tags in ((1, None), (32, None), (chance.choice((0, 1, 3, 32, 1000)), chance.choice(TAGS))):
                found = both(reader, name, queue_id, offset, most, tags, 0)
                if found is not None:
                    fast[found.status] += 1
    return fast


def test_every_store_of_java(golden_store: Golden, tmp_path: Path):
    config = golden_store.config if isinstance(golden_store.config, dict) else {}
    with MessageStore(golden_store.copy(tmp_path), config, peer=golden_store.peer, unique_keys=False) as store:
        fast = compare_all(store)
        plain = any(row["body_length"] < 60_000 and not row["sys_flag"] & 0x84 for row in golden_store.live)
        assert not COMPILED or not plain or not store._parts.queues.plain or fast[S.FOUND] > 0


@pytest.mark.parametrize("pool", [False, True])
def test_every_get_of_a_plain_store_is_fast(tmp_path: Path, pool: bool):
    keys = {"transientStorePoolEnable": "true", "transientStorePoolSize": "4"} if pool else {}
    with open_small(tmp_path, mappedFileSizeConsumeQueue=2000, **keys) as store:
        put_dispatched(store, 250)
        reader = store._parts.reader
        reader.get_slowly("T", 0, 0, 1, None, 0)
        for offset in range(0, 251, 5):
            for most, tags in ((1, None), (32, None), (7, "t1"), (32, "nobody")):
                assert (both(reader, "T", 0, offset, most, tags, 0) is not None) == COMPILED


KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "pool": {"transientStorePoolEnable": "true", "transientStorePoolSize": "4"},
    "sync": {"flushDiskType": "SYNC_FLUSH"},
    "ext": {"enableConsumeQueueExt": "true"},
    "light": {"enableLmq": True, "enableMultiDispatch": True},
    "limits": {"maxTransferCountOnMessageInMemory": 5, "maxTransferBytesOnMessageInMemory": 900},
    "on disk": {"accessMessageInMemoryMaxRatio": 0, "maxTransferBytesOnMessageInDisk": 700},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_random_operations(tmp_path: Path, kind: str, seed: int, monkeypatch: pytest.MonkeyPatch):
    """Puts of all kinds, gets in between, units written again, files of the log that go, a new start."""
    monkeypatch.setattr("flintmq.store.consumequeue.live_queue.BLOCK", 4 + seed)
    monkeypatch.setattr("flintmq.store.consumequeue.live_queue.UNITS_KEPT", 16 * (3 + 5 * seed))
    chance, fast, number = random.Random(seed), 0, 0
    for _ in range(3):
        with open_small(tmp_path, mappedFileSizeConsumeQueue=200 * (1 + seed % 2), **KINDS[kind]) as store:
            reader, queues = store._parts.reader, store._parts.queues
            for _ in range(40):
                step = chance.random()
                if step < 0.35:
                    for _ in range(chance.randrange(1, 9)):
                        body = bytes(chance.randrange(0, 300))
                        rest = {"INNER_MULTI_DISPATCH": "%LMQ%a"} if kind == "light" and chance.random() < 0.5 else None
                        topic = chance.choice("AB")
                        store.put(Message(topic, body, f"t{number % 3}", properties=rest, queue_id=chance.randrange(2)))
                        number += 1
                    if chance.random() < 0.7:
                        assert store.wait_dispatched(60)
                elif step < 0.4 and len(store._parts.files.files) > 2:
                    store._parts.log.locked(store._parts.files.drop_first, None)
                elif step < 0.45 and queues.plain:
                    queue = chance.choice([q for q in queues.plain.values() if q is not None])
                    queue.forget()
                else:
                    name, queue_id = chance.choice(["A", "B", "%LMQ%a", "none"]), chance.randrange(2)
                    high = reader.get_slowly(name, queue_id, 0, 1, None, 0).max_offset
                    offset = chance.randrange(-1, high + 2)
                    most, tags = chance.choice((0, 1, 2, 5, 32, 500)), chance.choice(TAGS)
                    if store.wait_dispatched(60):  # else a message may come between the two
                        fast += both(reader, name, queue_id, offset, most, tags, 0) is not None
    assert not COMPILED or fast > 0


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kept", [False, True], ids=["read after the damage", "kept before it"])
def test_damaged_files(tmp_path: Path, seed: int, kept: bool):
    """Bytes of queue files and of the log change under a running store; only maps must not lose their bytes."""
    with open_small(tmp_path) as store:
        put_dispatched(store, 60)
        reader = store._parts.reader
        for offset in range(60) if kept else (0,):
            reader.get_slowly("T", 0, offset, 1, None, 0)
        if not kept:
            store._parts.queues.plain[b"T", 0].forget()  # type: ignore[union-attr]
        for damage in range(3):
            if (seed + damage) % 2:
                random_damage(tmp_path, seed * 10 + damage, folder="consumequeue")
            else:
                random_damage(tmp_path, seed * 10 + damage, ("flip", "zero", "swap", "stale", "rubbish"), "commitlog")
        fast = compare_all(store)
        assert not COMPILED or sum(fast.values()) > 0


UNITS = {
    "zeros": bytes(20),
    "after the log": UNIT.pack(Unit(1 << 40, 100, 0)),
    "largest offset": UNIT.pack(Unit((1 << 63) - 1, 100, 0)),
    "negative offset": UNIT.pack(Unit(-1, 100, 0)),
    "negative size": UNIT.pack(Unit(0, -5, 0)),
    "size of no record": UNIT.pack(Unit(0, 90, 0)),
    "size beyond the file": UNIT.pack(Unit(0, FILE_SIZE + 1, 0)),
    "pre-blank": UNIT.pack(Unit(0, 0x7FFFFFFF, 0)),
    "an address": UNIT.pack(Unit(0, 100, -(1 << 62))),
    "another record": None,
}


@pytest.mark.parametrize("case", UNITS)
def test_units_that_are_wrong_are_left_to_the_slow_way(tmp_path: Path, case: str):
    path = tmp_path / "consumequeue" / "T" / "0" / ("0" * 20)
    stored(tmp_path, 10)
    with open_small(tmp_path) as store:
        patch(path, 60, UNITS[case] or path.read_bytes()[:20])
        store._parts.queues.plain[b"T", 0].forget()  # type: ignore[union-attr]
        reader = store._parts.reader
        reader.get_slowly("T", 0, 0, 1, None, 0)
        for most in (1, 32):
            for tags in (None, "t0"):  # offset 3 has this tag
                for offset in range(11):
                    both(reader, "T", 0, offset, most, tags, 0)
        assert both(reader, "T", 0, 3, 1, None, 0) is None
        assert not COMPILED or both(reader, "T", 0, 2, 1, None, 0) is not None


@compiled_only
def test_a_damaged_record_is_left_to_the_slow_way(tmp_path: Path):
    with open_small(tmp_path) as store:
        put_dispatched(store, 5)
        reader = store._parts.reader
        whole = store.get("T", 0, 2, 1).messages[0]
        assert both(reader, "T", 0, 2, 1, None, 0) is not None
        for at in range(whole.size):
            flip(tmp_path / "commitlog" / ("0" * 20), whole.physical_offset + at, 1)
            found = both(reader, "T", 0, 2, 1, None, 0)
            assert found is None or found.messages[0].raw != whole.raw  # a field that nothing covers
            flip(tmp_path / "commitlog" / ("0" * 20), whole.physical_offset + at, 1)
        assert answers(both(reader, "T", 0, 2, 1, None, 0))[1] == [whole.raw]  # type: ignore[arg-type]


def test_units_that_are_rewritten_are_seen(tmp_path: Path):
    with open_small(tmp_path) as store:
        put_dispatched(store, 9)
        reader, queue = store._parts.reader, store._parts.queues.plain[b"T", 0]
        assert queue is not None
        reader.get_slowly("T", 0, 0, 32, None, 0)
        path = Path(queue.folder) / ("0" * 20)
        data = path.read_bytes()
        path.write_bytes(data[:40] + bytes(20) + data[60:])
        queue.forget()
        assert both(reader, "T", 0, 2, 1, None, 0) is None
        path.write_bytes(data)
        queue.forget()
        assert (both(reader, "T", 0, 2, 1, None, 0) is not None) == COMPILED


def test_new_messages_are_seen(tmp_path: Path):
    """A block that was read when it was short is read again."""
    with open_small(tmp_path) as store:
        reader = store._parts.reader
        for number in range(35):
            put_dispatched(store, 1, number)
            for offset in range(max(number - 12, 0), number + 2):
                found = both(reader, "T", 0, offset, 32, None, 0)
                assert number == 0 or (found is not None) == (COMPILED and offset <= number + 1)


def test_arguments_of_other_types_are_refused_as_before(tmp_path: Path):
    class Text(str):
        pass

    class Number(int):
        pass

    with open_small(tmp_path) as store:
        put_dispatched(store, 5)
        for _ in range(2):  # before and after the queue is known
            assert len(store.get("T", 0, 1).messages) == 4
            wrong: tuple[Any, ...]
            for wrong in ((b"T", 0, 1), ("T", True, 1), ("T", 0, 1.0), ("T", 0, "1"), ("T", 0, 1, None)):
                with pytest.raises(TypeError):
                    store.get(*wrong)
            for offset in (1, 5, 6):  # also at the queue's end and after it
                for tags in (b"t1", 5, ["t1"]):
                    with pytest.raises(TypeError, match="tags is of type"):
                        store.get("T", 0, offset, tags=tags)  # type: ignore[arg-type]
            with pytest.raises(TypeError):
                store.get("T", 0, 1, wait_ms=None)  # type: ignore[arg-type]
            assert store.get(Text("T"), Number(0), Number(1), Number(2), tags=Text("t1")).next_begin_offset == 5
            assert store.get("T", 1 << 70, 0).status is S.NO_MESSAGE_IN_QUEUE
            assert store.get("T", 0, -(1 << 70)).status is S.OFFSET_TOO_SMALL
            assert len(store.get("T", 0, 0, 1 << 70).messages) == 5
            assert len(store.get("T", 0, 0, wait_ms=1 << 40).messages) == 5


def test_texts_and_numbers_of_other_types_name_the_queue_that_they_stand_for(tmp_path: Path):
    """Also in what the fast way knows from then on: the `str` of an enum of texts is its name, not its text."""

    class Topic(str):
        def __str__(self) -> str:
            return "Topic.ORDERS"

    class Three:
        def __index__(self) -> int:
            return 3

    with open_small(tmp_path) as store:
        for number in range(5):
            store.put(message(number, queue_id=3))
        assert store.wait_dispatched(60)
        for _ in range(2):
            assert store.get("Topic.ORDERS", 3, 0).status is S.NO_MESSAGE_IN_QUEUE
            got = store.get(Topic("T"), Three(), Three())  # type: ignore[arg-type]
            assert [m.queue_offset for m in got.messages] == [3, 4]
            at_end = store.get(Topic("T"), Three(), 5)  # type: ignore[arg-type]
            assert at_end.status is S.OFFSET_OVERFLOW_ONE and type(at_end.next_begin_offset) is int


def test_a_get_that_the_fast_way_refused_does_not_ask_it_again(tmp_path: Path):
    """It may have read many records before the one that it does not know."""

    class Asked:
        asked = 0

        def get(self, *_: object) -> None:
            self.asked += 1

        read = know = get

    with open_small(tmp_path) as store:
        put_dispatched(store, 5)
        fast, there = Asked(), store._parts.reader
        store._fast = fast  # type: ignore[assignment]
        there.fast = there.fast and fast  # type: ignore[assignment]
        there.queues.plain[b"%LMQ%T", 0] = there.queues.plain[b"T", 0]  # of no name that is told to the fast way
        store.get("%LMQ%T", 0, 0)
        del there.queues.plain[b"%LMQ%T", 0]
        assert fast.asked == 1


@pytest.mark.parametrize("seed", range(4))
def test_every_status_is_the_same_both_ways(tmp_path: Path, seed: int):
    """What users get, beside the slow way: a store with holes, records that are gone, and files that are."""
    chance, met = random.Random(seed), set()
    with open_small(tmp_path) as store:  # ten units a file
        for number in range(160):
            store.put(message(number, queue_id=chance.choice((0, 0, 0, 2)), size=chance.randrange(6, 200)))
        assert store.wait_dispatched(60)
    parts = sorted((tmp_path / "consumequeue" / "T" / "0").iterdir())
    with open_small(tmp_path) as store:
        for _ in range(2):
            store._parts.log.locked(store._parts.files.drop_first, None)
        low, gone = store._parts.files.min_offset, chance.randrange(5, len(parts) - 2)
        parts[gone].unlink()
        for path in (parts[gone - 1], parts[gone + 1]):
            at = 20 * chance.randrange(10)
            patch(path, at, chance.choice((bytes(20), UNIT.pack(Unit(0, 120, 5)), UNIT.pack(Unit(low + 1, 120, 5)))))
        queue = store._parts.queues.plain[b"T", 0]
        assert queue is not None
        queue.raise_minimum(3)
        reader, high = store._parts.reader, queue.max_offset
        offsets = [*range(-1, high + 3)] * 2
        chance.shuffle(offsets)
        places = [(chance.choice((0, 0, 0, 1, 2)), offset) for offset in offsets]
        for place in [*places, *((0, offset) for offset in (-1, high, high + 1))]:
            asked = *place, chance.choice((1, 4, 32)), chance.choice(TAGS)
            got = store.get("T", *asked[:3], tags=asked[3])
            assert answers(got) == answers(reader.get_slowly("T", *asked, 0)), asked
            met.add(got.status)
    assert met == {
        S.FOUND, S.NO_MATCHED_MESSAGE, S.MESSAGE_WAS_REMOVING, S.OFFSET_FOUND_NULL, S.NO_MESSAGE_IN_QUEUE,
        S.OFFSET_OVERFLOW_ONE, S.OFFSET_OVERFLOW_BADLY, S.OFFSET_TOO_SMALL,
    }  # fmt: skip


def test_a_block_that_was_rewritten_while_it_was_read_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Between the read and the keeping the dispatcher wrote the units again, and dropped what was kept."""
    with open_small(tmp_path) as store:
        put_dispatched(store, 9)
        queue = store._parts.queues.plain[b"T", 0]
        assert queue is not None
        path = Path(queue.folder) / ("0" * 20)
        right, real = path.read_bytes(), queue._read
        path.write_bytes(bytes(40) + right[40:])

        def read(first: int, end: int) -> bytes:
            block = real(first, end)
            path.write_bytes(right)
            queue.forget()
            return block

        monkeypatch.setattr(queue, "_read", read)
        assert store.get("T", 0, 0, 1).status is S.MESSAGE_WAS_REMOVING
        monkeypatch.undo()
        assert store.get("T", 0, 0, 1).messages[0].queue_offset == 0


@pytest.mark.parametrize("count", [1, 4, 5, 9, 50])
def test_a_long_get_keeps_no_more_than_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int):
    monkeypatch.setattr("flintmq.store.consumequeue.live_queue.BLOCK", 4)
    with open_small(tmp_path, mappedFileSizeConsumeQueue=2000) as store:
        put_dispatched(store, 60)
        queue = store._parts.queues.plain[b"T", 0]
        assert queue is not None
        for offset in (0, 2, 7):
            assert [
                m.queue_offset for m in store._parts.reader.get_slowly("T", 0, offset, count, None, 0).messages
            ] == [*range(offset, offset + min(count, 32))]
            assert queue.blocks and all(len(block) <= 4 * 20 for block in queue.blocks.values())
        store._parts.queues.check_invariants()


def test_gets_are_counted(tmp_path: Path):
    with open_small(tmp_path) as store:
        put_dispatched(store, 5)
        for _ in range(3):
            store.get("T", 0, 0, 2)
            store.get("T", 0, 0, tags="nobody")
            store.get("T", 0, 5)
            store.get("T", 0, 6)
            store.get("none", 0, 0)
        stats = store.stats()
        assert (stats.gets_found, stats.gets_missed, stats.messages_got) == (3, 12, 6)
        assert not COMPILED or store._parts.reader.fast.found == 2  # type: ignore[union-attr]


def test_a_closed_store_answers_nothing(tmp_path: Path):
    store = open_small(tmp_path)
    put_all(store, 5)
    assert store.wait_dispatched(60) and store.get("T", 0, 0) and store.get("T", 0, 0)
    store.close()
    with pytest.raises(UsageError, match="is closed"):
        store.get("T", 0, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_answers_nothing(tmp_path: Path):
    with open_small(tmp_path) as store:
        put_all(store, 5)
        assert store.wait_dispatched(60) and store.get("T", 0, 0) and store.get("T", 0, 0)
        child = os.fork()
        if child == 0:
            try:
                store.get("T", 0, 0)
            except UsageError:
                os._exit(7)
            os._exit(8)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert store.get("T", 0, 0).status is S.FOUND


def test_a_signal_handler_amid_a_call_is_refused(tmp_path: Path):
    """Also where the fast way could answer it; and outside of calls it answers."""
    with open_small(tmp_path) as store:
        put_all(store, 5)
        assert store.wait_dispatched(60) and store.get("T", 0, 0) and store.get("T", 0, 0)
        told: list[str] = []

        def handler(*_: object) -> None:
            try:
                told.append(store.get("T", 0, 0).status.name)
            except UsageError:
                told.append("UsageError")

        before = signal.signal(signal.SIGUSR1, handler)
        try:
            signal.raise_signal(signal.SIGUSR1)
            reader = store._parts.reader
            inner = reader._within

            def amid(*rest: Any) -> GetResult:
                signal.raise_signal(signal.SIGUSR1)
                return inner(*rest)

            reader._within = amid  # type: ignore[method-assign]
            assert store.get("T", 0, 9).status is S.OFFSET_OVERFLOW_BADLY
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert told == ["FOUND", "UsageError"]


@compiled_only
def test_records_of_older_files_that_are_not_in_memory(tmp_path: Path):
    """Read from the disk without the GIL; the file is held meanwhile, and released."""
    with open_small(tmp_path, mappedFileSizeConsumeQueue=20_000) as store:
        put_dispatched(store, 200)
        store.flush()
        reader, files = store._parts.reader, store._parts.files
        reader.get_slowly("T", 0, 0, 1, None, 0)
        holds: list[str] = []
        for file in files.files[:-1]:
            os.fdatasync(file.fd)
            os.posix_fadvise(file.fd, 0, 0, os.POSIX_FADV_DONTNEED)
            real = file.hold
            file.hold = lambda real=real: (holds.append("hold"), real())[1]  # type: ignore[method-assign]
        for offset in random.Random(1).sample(range(200), 200):
            found = reader.fast.read("T", 0, offset, 1, None, 0)  # type: ignore[union-attr]
            assert found is not None and found.messages[0].body.startswith(b"%06d" % offset)
        assert all(file._holders == 1 for file in files.files)
        reader.fast.asks_first = False  # type: ignore[union-attr]
        for offset in range(200):
            assert both(reader, "T", 0, offset, 3, None, 0) is not None
        assert len(holds) > 200 and all(file._holders == 1 for file in files.files)


@compiled_only
def test_a_read_that_fails_is_left_to_the_slow_way(tmp_path: Path):
    """Which raises the error of the system."""
    with open_small(tmp_path) as store:
        put_dispatched(store, 100)
        store.get("T", 0, 0, 1)
        file = store._parts.files.files[0]
        fd, (read_end, write_end) = file.fd, os.pipe()
        try:
            file.fd = read_end
            assert store._parts.reader.fast.read("T", 0, 0, 1, None, 0) is None  # type: ignore[union-attr]
            with pytest.raises(OSError):
                store.get("T", 0, 0, 1)
        finally:
            file.fd = fd
            os.close(read_end)
            os.close(write_end)
        assert store.get("T", 0, 0, 1).status is S.FOUND and file._holders == 1


@compiled_only
def test_a_log_file_that_another_process_cut(tmp_path: Path):
    """An older one, which is read by pread: short, and left to the slow way; nobody is killed."""
    with open_small(tmp_path) as store:
        put_dispatched(store, 100)
        store.get("T", 0, 0, 1)
        cut(tmp_path / "commitlog" / ("0" * 20), 300)
        found = [both(store._parts.reader, "T", 0, offset, 1, None, 0) for offset in range(20)]
        assert found[0] is not None and None in found
        os.truncate(tmp_path / "commitlog" / ("0" * 20), FILE_SIZE)


@compiled_only
def test_a_file_that_is_closed_is_not_read(tmp_path: Path):
    """Retention let it go between the list of files and the read."""
    with open_small(tmp_path) as store:
        put_dispatched(store, 100)
        store.get("T", 0, 0, 1)
        files = store._parts.files
        everything = files.files
        gone = store._parts.log.locked(files.drop_first, None)
        kept, files.files = files.files, everything
        assert gone._p_is_null if hasattr(gone, "_p_is_null") else not gone.is_held
        assert store._parts.reader.fast.read("T", 0, 0, 1, None, 0) is None  # type: ignore[union-attr]
        files.files = kept


def test_a_disk_that_must_see_each_read_has_no_fast_way(tmp_path: Path):
    with open_small(tmp_path, effects=Faulty()) as store:
        put_dispatched(store, 5)
        assert store._parts.reader.fast is None and len(store.get("T", 0, 0).messages) == 5


def test_a_store_with_other_dispatch_refuses(tmp_path: Path):
    with open_small(tmp_path, dispatch="external") as store, pytest.raises(UsageError, match="needs queues"):
        store.get("T", 0, 0)


def test_batches_and_light_queues_are_left_to_the_slow_way(tmp_path: Path):
    with open_small(tmp_path, enableLmq=True, enableMultiDispatch=True) as store:
        store.create_topic("B", 1, "BatchCQ")
        store.put_batch([Message("B", b"x"), Message("B", b"y")])
        store.put(Message("T", b"x", properties={"INNER_MULTI_DISPATCH": "%LMQ%a"}))
        assert store.wait_dispatched(60)
        for _ in range(2):
            assert store.get("B", 0, 0).next_begin_offset == 2 and len(store.get("%LMQ%a", 0, 0).messages) == 1
            assert len(store.get("T", 0, 0).messages) == 1
        fast = store._parts.reader.fast
        assert fast is not None and fast.found == (1 if COMPILED else 0)  # type: ignore[union-attr]


def test_large_records_are_left_to_the_slow_way(tmp_path: Path):
    with open_small(tmp_path, mappedFileSizeCommitLog=1 << 20) as store:
        for size in (100, fast_get.MOST_RECORD - 1000, fast_get.MOST_RECORD):
            store.put(Message("T", os.urandom(size)))
        assert store.wait_dispatched(60)
        reader = store._parts.reader
        reader.get_slowly("T", 0, 0, 1, None, 0)
        assert [both(reader, "T", 0, n, 1, None, 0) is not None for n in range(3)] == [COMPILED, COMPILED, False]


def test_threads_get_while_others_put_and_files_go(tmp_path: Path):
    """Each answer is whole and right, or says that it is gone; then the store closes amid the gets."""
    store, wrong, stop = open_small(tmp_path, mappedFileSizeConsumeQueue=2000), [], threading.Event()

    def read(seed: int) -> None:
        chance, high = random.Random(seed), 1
        try:
            while not stop.is_set():
                offset = chance.randrange(high)
                got = store.get("T", 0, offset, chance.choice((1, 5, 32)))
                high = max(got.max_offset, 1)
                numbers = [(m.queue_offset, int(m.body[:6])) for m in got.messages]
                if any(a != b for a, b in numbers) or (got.status is S.FOUND) != bool(numbers):
                    wrong.append((offset, got))
        except UsageError:
            pass
        except BaseException as error:
            wrong.append(error)

    readers = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for reader in readers:
        reader.start()
    for number in range(600):
        store.put(message(number))
        if number % 100 == 99:
            assert store.wait_dispatched(20)
            files = store._parts.files
            if len(files.files) > 6:
                store._parts.log.locked(files.drop_first, None)
    store.close()
    for reader in readers:
        reader.join(30)
    stop.set()
    assert not wrong and not any(reader.is_alive() for reader in readers)


@pytest.mark.parametrize("tags", [None, "t1", "t0 || t2"])
def test_polls_are_the_same_both_ways(tmp_path: Path, tags: str | None):
    with open_small(tmp_path) as store:
        for number in range(300):
            store.put(message(number, queue_id=number % 3))
        assert store.wait_dispatched(60)
        found: list[list[tuple[int, int]]] = []
        reader = store._parts.reader
        for turn in range(3):
            fast = reader.fast
            if turn == 2:
                reader.fast = None
            with store.consumer(f"g{turn}", "T", tags=tags) as consumer:
                taken: list[tuple[int, int]] = []
                while got := consumer.poll(7):
                    taken += [(m.queue_id, m.queue_offset) for m in got]
                found.append(taken)
            reader.fast = fast
        assert found[0] == found[1] == found[2] and len(found[0]) == {None: 300, "t1": 100}.get(tags, 200)


@compiled_only
def test_a_queue_needs_room_for_a_unit():
    wrong: Callable[[int, int], object]
    for wrong in (lambda a, b: fast_get.ReadableQueue(b"T", a, b),):
        for sizes in ((0, 1), (1, 0), (-1, 5)):
            with pytest.raises(ValueError, match="a unit or more"):
                wrong(*sizes)
