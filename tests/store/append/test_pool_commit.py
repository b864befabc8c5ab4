"""The transient pool's committer: what is put, what is in the file, what is on disk are three things."""

import errno
import os
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flintmq.message import GetMessageStatus, PutMessageStatus
from flintmq.storage.memory import transient_pool
from flintmq.store.message_store import MessageStore
from flintmq.store.view import open_store
from tests.support.engine import KEYS, check_derived, message, put_all, put_dispatched, records
from tests.support.faults import Faulty, unclean
from tests.support.threads import within

OK = PutMessageStatus.PUT_OK
NEVER = {"commitIntervalCommitLog": "100000", "commitCommitLogThoroughInterval": "100000"}


def open_pool(root: Path, effects: Faulty | None = None, **keys: Any) -> MessageStore:
    """A small store with the pool."""
    config = KEYS | {"transientStorePoolEnable": "true"} | keys
    return MessageStore(root, config=config, **({} if effects is None else {"effects": effects}))


def state(store: MessageStore) -> tuple[int, int, int]:
    """Log offsets behind what is put, committed, flushed."""
    assert store._parts.commits is not None
    return store._parts.log.end, store._parts.commits.done[1], store._parts.files.flushed_where


def test_put_committed_and_flushed_are_three_positions(tmp_path: Path):
    with open_pool(tmp_path, **NEVER) as store:
        end = put_all(store, 1)[0].size
        assert state(store) == (end, 0, 0)
        assert store._parts.commits.commit_once()  # type: ignore[union-attr]
        assert state(store) == (end, end, 0)
        assert not store._parts.commits.commit_once()  # type: ignore[union-attr]
        store.flush()
        assert state(store) == (end, end, end)


def test_what_is_not_committed_can_not_be_seen(tmp_path: Path):
    with open_pool(tmp_path, **NEVER) as store:
        put_all(store, 3)
        time.sleep(0.15)
        assert store.get("T", 0, 0).status is GetMessageStatus.NO_MESSAGE_IN_QUEUE
        assert list(store) == [] and store._parts.files.read(0, 4) is None
        with open_store(str(tmp_path)) as view:
            assert list(view.messages()) == []
        assert store.wait_dispatched(60), "which commits first"
        assert [m.body[:6] for m in store.get("T", 0, 0).messages] == [b"000000", b"000001", b"000002"]
        assert len(list(store)) == 3


def test_it_is_committed_soon_by_itself(tmp_path: Path):
    with open_pool(tmp_path) as store:
        put_all(store, 1)
        assert len(store.get("T", 0, 0, wait_ms=5000).messages) == 1


def test_four_pages_wake_the_committer(tmp_path: Path):
    with open_pool(tmp_path, mappedFileSizeCommitLog="65536", **NEVER) as store:
        put_all(store, 10, size=1000)
        time.sleep(0.05)
        assert state(store)[1] == 0
        put_all(store, 10, first=10, size=1000)
        assert within(lambda: state(store)[1] != 0)
        assert state(store)[1] >= 4 * 4096


@pytest.mark.parametrize("disk", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_the_files_are_those_of_a_store_without_the_pool(tmp_path: Path, disk: str):
    """Also behind a blank record: a buffer's old bytes do not come into the file."""
    effects = Faulty()
    effects.clock = 1_700_000_000_000
    for name, keys in (("pool", {"transientStorePoolEnable": "true", "transientStorePoolSize": "2"}), ("map", {})):
        given = KEYS | keys | {"flushDiskType": disk}
        with MessageStore(tmp_path / name, config=given, effects=effects, unique_keys=False) as store:
            for number in range(300):
                assert store.put(message(number, size=20 + number % 50)).status is OK
    logs = [
        b"".join(path.read_bytes() for path in sorted((tmp_path / name / "commitlog").iterdir()))
        for name in ("pool", "map")
    ]
    assert logs[0] == logs[1] and len(records(tmp_path / "pool")) == 300
    check_derived(tmp_path / "pool")


def test_d3_more_puts_than_buffers_are_all_readable(tmp_path: Path):
    """D3: upstream acknowledges messages in a file without a buffer and never shows them."""
    with open_pool(tmp_path, transientStorePoolSize="1", **NEVER) as store:
        put_dispatched(store, 200)
        for offset in range(200):
            assert store.get("T", 0, offset, max_messages=1).messages[0].body[:6] == b"%06d" % offset
    with open_pool(tmp_path) as store:
        assert len(list(store)) == 200
        put_all(store, 10, first=200)
    assert len(records(tmp_path)) == 210
    check_derived(tmp_path)


def test_d31_sync_flush_commits_first(tmp_path: Path):
    with open_pool(tmp_path, flushDiskType="SYNC_FLUSH", **NEVER) as store:
        began = time.monotonic()
        results = put_all(store, 20)
        assert time.monotonic() - began < 3, "upstream's puts wait for the committer's next round, 200 ms each"
        assert state(store) == (results[-1].physical_offset + results[-1].size,) * 3


def test_a_commit_that_fails_poisons(tmp_path: Path):
    effects = Faulty()
    with unclean(), open_pool(tmp_path, effects, **NEVER) as store:
        put_all(store, 3)
        effects.refuse("pwrite", "commitlog", error=errno.EIO, times=1)
        assert not store._parts.commits.commit_once()  # type: ignore[union-attr]
        assert store.put(message(4)).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
        assert state(store)[1:] == (0, 0) and not store._parts.commits.commit_once()  # type: ignore[union-attr]
    assert (tmp_path / "abort").exists()


def test_a_put_during_the_commit_is_not_covered_by_it(tmp_path: Path):
    effects = Faulty()
    with open_pool(tmp_path, effects, **NEVER) as store:
        end = put_all(store, 1)[0].size
        late: list[threading.Thread] = []

        def put_meanwhile(name: str, path: str) -> None:
            if name == "pwrite" and "commitlog" in path:
                effects.before = None
                late.append(threading.Thread(target=put_all, args=(store, 1, 1)))
                late[0].start()
                late[0].join()

        effects.before = put_meanwhile
        store._parts.commits.commit_once()  # type: ignore[union-attr]
        assert state(store)[1] == end < state(store)[0]


def test_a_flush_goes_as_far_as_what_is_committed(tmp_path: Path):
    """What is put meanwhile is in a buffer of this process: no sync brings it to the disk, and no mark may cover it."""
    with open_pool(tmp_path, **NEVER) as store:
        put_all(store, 1)
        assert store._parts.commits is not None and store._parts.commits.commit_once()
        put_all(store, 1, 1)
        end, committed, _ = state(store)
        store._parts.commits.commit_once = lambda least_pages=0: False  # type: ignore[method-assign]
        assert store._parts.flush.flush_once()
        assert store._parts.files.flushed_where == committed < end
        del store._parts.commits.commit_once


def test_a_commits_time_is_never_ahead_of_its_place(tmp_path: Path):
    """A put between the two reads of a commit may make the time older than the place, never younger."""
    effects = Faulty()
    effects.clock = 1_700_000_000_000
    with open_pool(tmp_path, effects, **NEVER) as store:
        put_all(store, 1)
        commits, log = store._parts.commits, store._parts.log
        assert commits is not None

        class Between:
            """The log, into which somebody puts between any two reads of it."""

            last_time = property(lambda self: self.read("last_time"))
            end = property(lambda self: self.read("end"))

            def read(self, name: str) -> int:
                value = getattr(log, name)
                effects.clock += 1000
                other = threading.Thread(target=put_all, args=(store, 1, 1))
                other.start()
                other.join()
                return int(value)

        commits.commit_log = Between()  # type: ignore[assignment]
        assert commits.commit_once()
        commits.commit_log = log
        assert commits.done[0] == 1_700_000_000_000, "what was put at the later time may not be committed"


@pytest.mark.parametrize("disk", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_files_that_are_warmed_up_lose_nothing_to_a_small_ring(
    tmp_path: Path, disk: str, monkeypatch: pytest.MonkeyPatch
):
    """A warmed-up file is allocated to its end; the ring has an eighth of that."""
    monkeypatch.setattr(transient_pool, "LARGEST", 32 << 10)
    keys = {"mappedFileSizeCommitLog": str(256 << 10), "warmMapedFileEnable": "true", "transientStorePoolSize": "1"}
    with open_pool(tmp_path, flushDiskType=disk, **keys, **NEVER) as store:
        assert store._parts.files.pool.ring.size == 32 << 10  # type: ignore[union-attr]
        put_dispatched(store, 600, size=1000)
    assert [record.body[:6] for record in records(tmp_path, 256 << 10)] == [b"%06d" % n for n in range(600)]


def test_columns_stay_in_the_ring_where_messages_may_be_large(tmp_path: Path):
    """They ask for the room of a large message only where one comes."""
    keys = {"mappedFileSizeCommitLog": str(128 << 20), "maxMessageSize": str(64 << 20), "transientStorePoolSize": "1"}
    with open_pool(tmp_path, **keys) as store:
        for body in (b"small", b"x" * (20 << 20), b"small again"):
            assert store.put_columns("T", pa.record_batch({"body": pa.array([body] * 3, pa.binary())})).status is OK
            last = store._parts.files.last
            assert last is not None and last.in_ring == (body == b"small")
        assert store.wait_dispatched(60)
        assert [len(m.body) for m in store] == [5] * 3 + [20 << 20] * 3 + [11] * 3


def test_a_reopened_store_has_all_buffers_free(tmp_path: Path):
    with open_pool(tmp_path) as store:
        put_all(store, 3)
    with open_pool(tmp_path, transientStorePoolSize="4") as store:
        assert store.stats().pool_buffers_free == 4


def test_a_forked_child_writes_none_of_its_parent_s_ring(tmp_path: Path):
    """Not even where a put that was under way in the parent asks for room."""
    with open_pool(tmp_path, **NEVER) as store:
        put_all(store, 3)
        child = os.fork()
        if not child:
            code = 1
            try:
                store._parts.commits.make_room()  # type: ignore[union-attr]
            except OSError as error:
                code = 0 if error.errno == errno.EPERM else 2
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0 and state(store)[1] == 0
    assert len(records(tmp_path)) == 3
