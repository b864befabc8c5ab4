"""What a store lets its users put besides single messages."""

import errno
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from flintmq.errors import UsageError
from flintmq.message import Message, Outcome, PutMessageStatus, PutResult
from flintmq.store.message_store import MessageStore
from tests.support.engine import FIRST_LOG, open_small
from tests.support.faults import Faulty, close_unclean

OK, LATE = PutMessageStatus.PUT_OK, PutMessageStatus.FLUSH_DISK_TIMEOUT


@pytest.mark.parametrize("door", [MessageStore.put_many, MessageStore.put_batch])
def test_many_and_a_batch_wait_for_one_sync(tmp_path: Path, door: Callable[..., list[PutResult]]):
    effects = Faulty()
    with open_small(tmp_path, effects, flushDiskType="SYNC_FLUSH") as store:
        store.put(Message("T"))
        before = effects.count("sync", FIRST_LOG)
        results = door(store, [Message("T", b"%d" % n) for n in range(9)])
        assert {r.status for r in results} == {OK} and [r.queue_offset for r in results] == list(range(1, 10))
        assert effects.count("sync", FIRST_LOG) == before + 1
        assert store._parts.files.flushed_where == results[-1].physical_offset + results[-1].size


@pytest.mark.parametrize("door", [MessageStore.put_many, MessageStore.put_batch])
def test_all_that_wait_for_a_failed_sync_are_unknown(tmp_path: Path, door: Callable[..., list[PutResult]]):
    effects = Faulty()
    store = open_small(tmp_path, effects, flushDiskType="SYNC_FLUSH")
    store.put(Message("T"))
    effects.refuse("sync", FIRST_LOG, error=errno.EIO)
    assert {(r.status, r.outcome) for r in door(store, [Message("T")] * 3)} == {(LATE, Outcome.UNKNOWN)}
    assert store.stats().puts_refused == {LATE.name: 3}
    assert {r.status for r in door(store, [Message("T")] * 3)} == {PutMessageStatus.SERVICE_NOT_AVAILABLE}
    assert store.put(Message("T")).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    close_unclean(store)


def test_one_that_is_refused_among_many_fails_whatever_becomes_of_the_others(tmp_path: Path):
    effects = Faulty()
    store = open_small(tmp_path, effects, flushDiskType="SYNC_FLUSH")
    store.put(Message("T"))
    effects.refuse("sync", FIRST_LOG, times=1)
    results = store.put_many([Message("T"), Message("a/b", b"x"), Message("T")])
    assert [r.outcome for r in results] == [Outcome.UNKNOWN, Outcome.FAILED, Outcome.UNKNOWN]
    close_unclean(store)


def test_a_full_disk_stores_nothing_of_a_batch(tmp_path: Path):
    effects = Faulty()
    with open_small(tmp_path, effects) as store:
        effects.refuse("create", "commitlog/")
        effects.refuse("allocate", "commitlog/")
        results = store.put_batch([Message("T", b"x")] * 3)
        assert {r.status for r in results} == {PutMessageStatus.CREATE_MAPPED_FILE_FAILED}
        assert store._parts.log.end == 0


@pytest.mark.parametrize("wrong", ["a message", None, 5, b"body", ("T", b"x")])
def test_nothing_is_stored_where_one_of_many_is_no_message(tmp_path: Path, wrong: object):
    """A caller who mends the list and puts it again must not double the first ones."""
    with open_small(tmp_path) as store:
        for put in (store.put_many, store.put_batch):
            with pytest.raises(TypeError, match=f"number 1 of the messages is of type {type(wrong).__name__}"):
                put([Message("T", b"x"), wrong, Message("T", b"y")])  # type: ignore[list-item]
        assert list(store) == []


def test_columns_that_are_no_record_batch(tmp_path: Path):
    table = pa.table({"body": [b"x", b"y"]})
    with open_small(tmp_path) as store:
        with pytest.raises(UsageError, match=r"RecordBatch, not of type Table; put each of its to_batches\(\)"):
            store.put_columns("T", table)
        with pytest.raises(UsageError, match="RecordBatch, not of type dict; .*from_pydict"):
            store.put_columns("T", {"body": [b"x"]})
        assert store.put_columns("T", table.to_batches()[0]).count == 2


# -- One message into an empty directory, with RocketMQ's files of a gigabyte: what it costs in a process of its own

ONE_PUT = r"""
import json, os, resource, sys, time
from flintmq import Message, MessageStore
began = time.monotonic()
config = json.loads(sys.argv[2])
with MessageStore(sys.argv[1], config=config) as store:
    assert store.put(Message("hello", b"hello")).status.name == "PUT_OK"
seconds = time.monotonic() - began
used = resource.getrusage(resource.RUSAGE_SELF)
# VmHWM and not ru_maxrss: the latter also counts the process that made this one.
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
paths = [os.path.join(folder, name) for folder, _, names in os.walk(sys.argv[1]) for name in names]
disk = sum(os.lstat(path).st_blocks * 512 for path in paths)
memory = int(status["VmHWM"].split()[0]) * 1024
print(json.dumps({"seconds": seconds, "processor": used.ru_utime + used.ru_stime, "memory": memory, "disk": disk}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the engine's platform, and /proc")
@pytest.mark.parametrize("disk", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_hello_takes_less_than_a_second_and_100_mb_of_memory_and_of_disk(tmp_path: Path, disk: str):
    words = [sys.executable, "-c", ONE_PUT, str(tmp_path / "store"), json.dumps({"flushDiskType": disk})]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["seconds"] < 1 and told["processor"] < 1, told
    assert told["memory"] < 100_000_000 and told["disk"] < 100_000_000, told
    assert sum(p.stat().st_size for p in (tmp_path / "store").rglob("*") if p.is_file()) > 1 << 30, "files of full size"
