"""Delay levels: delivery neither early nor twice, at least once after a kill."""

import contextlib
import os
import shutil
import time

import pytest

from flintmq.format import record as record_format
from flintmq.message import GetMessageStatus, Message, PutMessageStatus, PutResult
from flintmq.store.append.commit_log import CLOCK_SET_BACK_MS
from flintmq.store.layout.config_reader import read_config
from flintmq.store.message_store import MessageStore
from flintmq.store.view import open_store
from tests.support.engine import open_small, records, units
from tests.support.faults import Faulty
from tests.support.threads import within

SCHEDULE = "SCHEDULE_TOPIC_XXXX"
NOW = 1_700_000_000_000


def frozen():
    disk = Faulty()
    disk.clock = NOW
    return disk


@pytest.fixture
def delayed(tmp_path):
    """delayed(body, ..., **keys) -> a store with these messages of level 1, its clock, its deliveries by hand."""
    with contextlib.ExitStack() as stack:

        def make(*messages, **keys):
            disk = frozen()
            store = stack.enter_context(open_small(tmp_path / "s", disk, **keys))
            store._parts.housekeeping.stop()
            store.put_many([Message("T", body, tags="a", delay_level=1) for body in messages])
            assert store.wait_dispatched(60)
            return store, disk, store._parts.housekeeping.delay

        make.close = stack.close
        yield make


def bodies(store, topic="T", queue_id=0):
    found = store.get(topic, queue_id, 0)
    return [m.body for m in found.messages]


def test_never_early_and_once(tmp_path):
    disk = frozen()
    with open_small(tmp_path / "s", disk) as store:
        for n, level in enumerate((2, 1, 1, 3)):
            result = store.put(Message("T", b"%d" % n, tags="a", keys=f"k{n}", queue_id=1, delay_level=level))
            assert result.status is PutMessageStatus.PUT_OK
        store.put_many([Message("T", b"4", queue_id=1, delay_level=1)])
        assert store.wait_dispatched(60)
        assert [u.tags_code for u in units(tmp_path / "s", SCHEDULE, 0)] == [NOW + 1000] * 3, "the unit tells the time"
        assert store.get("T", 1, 0).status is GetMessageStatus.NO_MESSAGE_IN_QUEUE
        first = [b"1", b"2", b"4"]
        steps = {999: [], 1000: first, 4999: first, 5000: [*first, b"0"], 10_000: [*first, b"0", b"3"]}
        for elapsed, wanted in steps.items():
            disk.clock = NOW + elapsed
            store._parts.housekeeping.delay.deliver_once()
            assert store.wait_dispatched(60) and bodies(store, "T", 1) == wanted, elapsed
        m = store.get("T", 1, 0).messages[0]
        assert (m.tags, m.keys, m.born_timestamp, m.store_timestamp) == ("a", "k1", NOW, NOW + 1000)
        disk.clock = NOW + 3_600_000
        assert not store._parts.housekeeping.delay.deliver_once()
    assert len(records(tmp_path / "s")) == 10
    assert read_config(str(tmp_path / "s")).delay_offsets == {1: 3, 2: 1, 3: 1}
    with open_small(tmp_path / "s", disk) as store:
        store._parts.housekeeping.delay.deliver_once()
        assert len(bodies(store, "T", 1)) == 5, "nothing comes again"


def test_an_idle_store_delivers_within_a_second(tmp_path):
    with open_small(tmp_path / "s", messageDelayLevel="1s 2s") as store:
        put = [store.put(Message("T", b"a", delay_level=n)).store_timestamp for n in (1, 2)]
        assert within(lambda: len(bodies(store)) == 2)
        times = [m.store_timestamp for m in store.get("T", 0, 0).messages]
    late = [at - due - delay for at, due, delay in zip(times, put, (1000, 2000), strict=True)]
    assert all(0 <= ms < 1000 for ms in late), late


def test_many_due_messages_come_in_steps(tmp_path):
    disk = frozen()
    with MessageStore(tmp_path / "s", dev=True, effects=disk) as store:
        store._parts.housekeeping.stop()
        store.put_many([Message("T", b"%d" % n, delay_level=1) for n in range(2500)])
        assert store.wait_dispatched(60)
        disk.clock = NOW + 1000
        service = store._parts.housekeeping.delay
        assert [service.deliver_once() for _ in range(3)] == [True, True, False] and service.offset(1) == 2500


@pytest.mark.parametrize("refused", ["create", "allocate"])
def test_a_full_disk_only_delays(delayed, tmp_path, refused):
    store, disk, delay = delayed(*[bytes(800)] * 8)
    disk.clock = NOW + 1000
    disk.refuse(refused, "commitlog", times=2)
    delay.deliver_once()
    assert delay.offset(1) < 8
    while delay.deliver_once() or delay.offset(1) < 8:
        pass
    assert store.wait_dispatched(60)
    delayed.close()
    delivered_records = [r for r in records(tmp_path / "s") if r.topic == b"T"]
    assert [r.queue_offset for r in delivered_records] == list(range(8))


def test_a_clock_that_was_set_back(delayed):
    """Up to an hour the units are waited for; what is further ahead would wait for ever, and comes at once."""
    _, disk, delay = delayed(b"x")
    for disk.clock, offset in ((NOW - CLOCK_SET_BACK_MS + 1, 0), (NOW - CLOCK_SET_BACK_MS - 1, 1)):
        delay.deliver_once()
        assert delay.offset(1) == offset


def test_d27_an_offset_outside_of_its_queue(delayed, tmp_path):
    """D27 and what a cut log leaves: delivery goes on at the nearest message there is."""
    (tmp_path / "s/config").mkdir(parents=True)
    (tmp_path / "s/config/delayOffset.json").write_text('{"offsetTable":{"1":77,2:0}}')
    store, disk, delay = delayed(b"x")
    delay.deliver_once()
    assert delay.offset(1) == 1
    store.put(Message("T", b"y", delay_level=1))
    disk.clock = NOW + 2000
    assert store.wait_dispatched(60)
    delay.deliver_once()
    assert store.wait_dispatched(60) and bodies(store) == [b"y"]


def test_a_record_that_is_gone_does_not_stop_its_level(delayed):
    store, disk, delay = delayed(b"gone", b"there")
    lookup = delay.lookup
    delay.lookup = lambda unit, topic, queue, offset: None if offset == 0 else lookup(unit, topic, queue, offset)
    disk.clock = NOW + 1000
    while delay.deliver_once():
        pass
    assert delay.offset(1) == 2 and store.wait_dispatched(60) and bodies(store) == [b"there"]


def test_what_is_delivered_has_a_checksum_of_its_own(delayed, tmp_path):
    """With enabledAppendPropCRC the waiting record ends with a checksum, which would be wrong for another record."""
    store, disk, delay = delayed(b"x", enabledAppendPropCRC=True)
    disk.clock = NOW + 1000
    delay.deliver_once()
    assert store.wait_dispatched(60)
    delayed.close()
    waiting, arrived = (record_format.decode(record_format.encode(r)) for r in records(tmp_path / "s"))
    assert waiting.properties.count(b"__CRC32#") == arrived.properties.count(b"__CRC32#") == 1
    assert waiting.properties[-9:] != arrived.properties[-9:]


def test_at_least_once_after_kills(tmp_path):
    """Killed before, amid and after delivery: every acknowledged message comes, and no more often than there were
    lives."""
    lives = 4
    for life in range(lives):
        child = os.fork()
        if child == 0:
            store = open_small(tmp_path / "s", messageDelayLevel="1s", flushDelayOffsetInterval=100)
            if life == 0:
                store.put_many([Message("T", b"%d" % n, delay_level=1) for n in range(60)])
            time.sleep((0.2, 1.1, 1.3, 1.0)[life])
            os.kill(os.getpid(), 9)
        os.waitpid(child, 0)
    with open_small(tmp_path / "s", messageDelayLevel="1s") as store:
        assert within(lambda: store._parts.housekeeping.delay.offset(1) >= 60)
    found = [r.body for r in records(tmp_path / "s") if r.topic == b"T"]
    assert set(found) == {b"%d" % n for n in range(60)} and len(found) <= 60 * lives


def test_what_java_left_pending(tmp_path, golden):
    """A broker's store with levels 14, 17 and 18 still waiting: FlintMQ delivers exactly these."""
    store_of_java = golden("delay")
    shutil.copytree(store_of_java.path, tmp_path / "s")
    with open_store(tmp_path / "s") as view:
        everything = list(view.messages())
    waiting = [m for m in everything if m.topic == SCHEDULE]
    arrived = {m.msg_id for m in everything if m.topic != SCHEDULE}
    pending = [m for m in waiting if m.msg_id not in arrived]
    assert pending
    disk = Faulty()
    disk.clock = max(m.store_timestamp for m in everything) + 7_200_001
    with MessageStore(tmp_path / "s", config=store_of_java.config, effects=disk) as store:
        store._parts.housekeeping.delay.deliver_once()
        assert store.wait_dispatched(60)
        found = [m for m in store if m.physical_offset > everything[-1].physical_offset]
    assert sorted((m.topic, m.msg_id, m.body) for m in found) == sorted(
        (m.properties["REAL_TOPIC"], m.msg_id, m.body) for m in pending
    )


@pytest.mark.parametrize("status", ["CREATE_MAPPED_FILE_FAILED", "SERVICE_NOT_AVAILABLE"])
def test_an_offset_is_noted_once_its_message_is_put(delayed, status):
    """A kill, or a full disk, between the two must not cost the message."""
    store, disk, delay = delayed(b"x")
    disk.clock = NOW + 1000
    put, seen = delay.put, []

    def refused(message):
        seen.append(delay.offset(1))
        return PutResult(PutMessageStatus[status])

    delay.put = refused
    delay.deliver_once()
    assert seen == [0] and delay.offset(1) == 0, "neither before nor, refused, after"
    delay.put = put
    delay.deliver_once()
    assert delay.offset(1) == 1 and store.wait_dispatched(60) and len(bodies(store)) == 1
