"""Queues and index follow the log's beginning."""

import logging
import os
from pathlib import Path

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.forensics.verify.run import verify
from flintmq.message import GetMessageStatus, Message
from flintmq.store.consumequeue.reader import plain_queue
from flintmq.store.index.reader import discover
from flintmq.store.layout.queue_name import QueueName
from flintmq.store.services.expire_derived import expired_index, expired_units
from tests.support.engine import FILE_SIZE, KEYS, open_small, put_all
from tests.support.faults import Faulty


def queue_files(root, topic, queue_id=0, kind="consumequeue"):
    return [int(name) // 200 for name in sorted(os.listdir(Path(root, kind, topic, str(queue_id))))]


def filled(root, **keys):
    """Topic Old in the first log files only, T in all of them."""
    store = open_small(root, Faulty(), **keys)
    put_all(store, 35, topic="Old", size=60)
    put_all(store, 130, size=60)
    store.flush()
    assert store.wait_dispatched(60)
    return store


def drop(store, keep):
    """Delete log files as retention does, without its rules."""
    while len(store._parts.files.files) > keep:
        with store._parts.log.lock:
            file = store._parts.files.drop_first()
        os.unlink(file.path)
    store._parts.retention.follow(store._parts.files.min_offset)
    return store._parts.files.min_offset


def test_d33_queues_follow_those_without_a_message_left_too(tmp_path, caplog):
    caplog.set_level(logging.INFO, "flintmq.retention")
    with filled(tmp_path) as store:
        assert queue_files(tmp_path, "T") == list(range(13))
        begin = drop(store, keep=3)
        got = store.get("T", 0, 0)
        assert got.status is GetMessageStatus.OFFSET_TOO_SMALL and got.next_begin_offset == got.min_offset > 10
        first = store.get("T", 0, got.min_offset, 1).messages[0]
        assert first.physical_offset == begin, "the first message of the log"
        assert queue_files(tmp_path, "T") == list(range(got.min_offset // 10, 13))
        old = store.get("Old", 0, 0)
        assert (old.min_offset, old.max_offset) == (35, 35) and queue_files(tmp_path, "Old") == [3], (
            "its last one stays"
        )
        assert store.put(Message("Old", b"new")).queue_offset == 35
        assert store.wait_dispatched(60) and store.get("Old", 0, 35).messages[0].body == b"new"
    told = [r.getMessage() for r in caplog.records if "consumequeue/Old/0/" in r.getMessage()]
    assert len(told) == 3 and all(f"before log offset {begin}" in line and "last written 20" in line for line in told)


def test_d13_offset_0_of_a_log_that_begins_later(tmp_path):
    """Upstream answers a unit that points at log offset 0 with the first record there is."""
    with filled(tmp_path) as store:
        first = store._parts.queues.find(b"Old", 0).units(0, 1)[0]
        assert first.physical_offset == 0 and store._parts.reader.record(first, b"Old", 0, 0) is not None
        drop(store, keep=3)
        assert store._parts.reader.record(first, b"Old", 0, 0) is None


def test_the_index_follows(tmp_path):
    with filled(tmp_path) as store:
        before = sorted(os.listdir(tmp_path / "index"))
        drop(store, keep=3)
        after = sorted(os.listdir(tmp_path / "index"))
        assert 0 < len(after) < len(before) and after == before[-len(after) :]
        assert store.query("T", "k0") == [] and len(store.query("T", "k129")) == 1


def test_what_is_left_is_a_sound_store(tmp_path):
    with filled(tmp_path) as store:
        drop(store, keep=2)
        bounds = [(got.min_offset, got.max_offset) for got in (store.get(t, 0, 0) for t in ("T", "Old"))]
    found = verify(tmp_path, StoreConfig.from_keys(KEYS))
    assert list(found.defects) == []
    with open_small(tmp_path) as store:
        assert bounds == [(got.min_offset, got.max_offset) for got in (store.get(t, 0, 0) for t in ("T", "Old"))]
        low, high = bounds[0]
        assert len(list(store)) == high - low


def test_nothing_moves_when_nothing_went(tmp_path):
    with filled(tmp_path) as store:
        files = sorted(os.listdir(tmp_path / "index")), queue_files(tmp_path, "T")
        store._parts.retention.follow(0)
        assert files == (sorted(os.listdir(tmp_path / "index")), queue_files(tmp_path, "T"))
        assert store.get("T", 0, 0).min_offset == 0


@pytest.mark.parametrize("keep", [1, 4])
def test_ext_files_follow(tmp_path, keep):
    keys = {"enableConsumeQueueExt": True, "mappedFileSizeConsumeQueueExt": 200}
    with filled(tmp_path, **keys) as store:
        before = os.listdir(tmp_path / "consumequeue_ext/T/0")
        drop(store, keep)
        after = sorted(os.listdir(tmp_path / "consumequeue_ext/T/0"))
        assert 0 < len(after) < len(before) and after == sorted(before)[-len(after) :]
        low = store.get("T", 0, 0).min_offset
        unit = store._parts.queues.find(b"T", 0).units(low, 1)[0]
        assert int(after[0]) <= unit.tags_code + (1 << 63) < int(after[0]) + 200, "what the first unit points at stays"
        assert store._parts.files.min_offset % FILE_SIZE == 0


def test_the_index_file_that_is_written_stays_when_its_keys_are_old(tmp_path):
    store = open_small(tmp_path, Faulty())
    put_all(store, 2, size=60)
    while len(store._parts.files.files) < 4:
        store.put(Message("T", bytes(700)))
    store.flush()
    assert store.wait_dispatched(60)
    with store:
        last = sorted(os.listdir(tmp_path / "index"))[-1]
        drop(store, keep=2)
        assert sorted(os.listdir(tmp_path / "index")) == [last]
        store.put(Message("T", b"new", keys="new"))
        assert store.wait_dispatched(60)
    with open_small(tmp_path) as store:
        assert [m.body for m in store.query("T", "new")] == [b"new"]


def test_a_file_whose_last_one_is_the_logs_first_record_stays(tmp_path):
    """To the byte: one more, and it goes. Of queue files and of index files."""
    with filled(tmp_path) as store:
        store.wait_dispatched(60)
        queue = plain_queue(str(tmp_path), QueueName("T", 0), store.effects)
        last = queue.unit(9).physical_offset
        assert [file.start // 200 for file in expired_units(queue, last)] == []
        assert [file.start // 200 for file in expired_units(queue, last + 1)] == [0]
        files = discover(str(tmp_path), store.config, store.effects)
        ends = [file.header().end_physical_offset for file in files]
        assert len(files) > 2 and ends[0] < ends[1]
        assert list(expired_index(files, ends[0])) == []
        assert list(expired_index(files, ends[0] + 1)) == files[:1]
