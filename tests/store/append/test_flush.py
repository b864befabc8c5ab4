"""Flushing: when a page count or an interval says so, for those who wait, and never again after it failed once."""

import errno
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.message import Message
from flintmq.storage.memory.mapped_file_queue import MappedFileQueue
from flintmq.store.append.commit_log import CommitLog, LogState
from flintmq.store.append.disk_failure import DiskFailure
from flintmq.store.append.flush import PythonFlush
from tests.support.faults import Faulty
from tests.support.threads import beside

FILE_SIZE = 1 << 20
NOW = 1_700_000_000_000


class Setup:
    """A log with a flush service whose steps a test calls, or whose thread it starts."""

    def __init__(self, root: Path, disk: str = "ASYNC_FLUSH", **keys: Any) -> None:
        self.effects = Faulty()
        self.effects.clock = NOW
        config = StoreConfig.from_keys({"mappedFileSizeCommitLog": FILE_SIZE, "flushDiskType": disk} | keys)
        self.files = MappedFileQueue([str(root / "commitlog")], FILE_SIZE, self.effects)
        self.log = CommitLog(self.files, config, LogState(0, 0, {}), self.effects)
        self.failure = DiskFailure()
        self.flush = PythonFlush(self.files, self.log, config, self.failure, self.effects)

    def put(self, size: int = 5) -> int:
        """The end of a new record."""
        result = self.log.append(Message("T", bytes(size)))
        return result.physical_offset + result.size

    @property
    def told(self) -> list[int]:
        """The store time that a flush covers, if there was one."""
        return [self.flush.flushed_time] if self.flush.flushed_time else []

    @property
    def syncs(self) -> int:
        """Syncs of the log's file, but for the one at its creation."""
        return self.effects.count("sync", "commitlog/0") - 1


@pytest.fixture
def setup(tmp_path: Path):
    made: list[Setup] = []

    def make(*words: Any, **keys: Any) -> Setup:
        made.append(Setup(tmp_path, *words, **keys))
        return made[-1]

    yield make
    for one in made:
        one.flush.stop()
        one.files.close()


def test_a_flush_covers_what_was_put_before_it(setup: Any):
    s = setup()
    end = s.put()
    assert s.flush.flush_once()
    assert (s.files.flushed_where, s.syncs, s.told) == (end, 1, [NOW])
    assert not s.flush.flush_once(), "nothing new"
    assert s.syncs == 1


def test_four_pages_wait_before_a_flush_is_worth_it(setup: Any):
    s = setup()
    while s.put(1000) < 3 * 4096 + 3000:
        assert not s.flush.flush_once(4)
    while s.put(1000) < 4 * 4096:
        pass
    assert s.flush.flush_once(4)
    assert s.files.flushed_where == s.log.end


def test_the_time_told_is_of_a_record_that_was_flushed(setup: Any):
    """A put during the sync is not covered by it: neither its place nor its time may be told (line 1)."""
    s = setup()
    end = s.put()

    def put_meanwhile(name: str, path: str) -> None:
        if name == "sync" and path.endswith("0" * 20):
            s.effects.before = None
            s.effects.clock = NOW + 500
            s.put()

    s.effects.before = put_meanwhile
    assert s.flush.flush_once()
    assert (s.files.flushed_where, s.told) == (end, [NOW])


def test_a_time_is_never_ahead_of_the_place_read_with_it(setup: Any):
    """A put between the two reads of a flush may make the time older than the place, never younger."""
    s = setup()
    end = s.put()

    class Between:
        """The log, into which somebody puts between any two reads of it."""

        last_time = property(lambda self: self.read("last_time"))
        end = property(lambda self: self.read("end"))

        def read(self, name: str) -> int:
            value = getattr(s.log, name)
            s.effects.clock += 1000
            s.put()
            return value

    s.flush.commit_log = Between()
    s.flush.flush_once()
    s.flush.commit_log = s.log
    assert s.files.flushed_where >= end
    assert s.told == [NOW], "what was put at the later time may not be flushed"


def test_the_first_failed_sync_poisons_and_none_is_tried_again(setup: Any, caplog: pytest.LogCaptureFixture):
    s = setup()
    s.put()
    s.effects.refuse("sync", "commitlog", error=errno.EIO, times=1)
    assert not s.flush.flush_once()
    assert s.failure and "Input/output error" in s.failure.reason
    assert s.files.flushed_where == 0 and s.told == []
    before = s.syncs
    for _ in range(3):
        s.put()
        assert not s.flush.flush_once()
    assert s.syncs == before, "no retry, though the disk would say yes now (B1, B3)"
    assert [r.levelname for r in caplog.records] == ["ERROR"]


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_waiters_are_told_of_a_failed_sync(setup: Any, error: int):
    s = setup("SYNC_FLUSH")
    ends = [s.put() for _ in range(3)]
    s.effects.refuse("sync", "commitlog", error=error, times=1)
    answers: list[bool] = []
    with beside(*(lambda e=end: answers.append(s.flush.wait_flushed(e)) for end in ends)):
        s.flush.start()
    assert answers == [False] * 3
    began = time.monotonic()
    assert not s.flush.wait_flushed(s.put()), "later ones too, and at once"
    assert time.monotonic() - began < 3


def test_one_flush_answers_everybody_who_appended_before_it(setup: Any):
    s = setup("SYNC_FLUSH")
    ends = [s.put() for _ in range(20)]
    answers: list[bool] = []
    with beside(*(lambda e=end: answers.append(s.flush.wait_flushed(e)) for end in ends)):
        while len(s.flush.waiters) < 20:
            time.sleep(0.001)
        s.flush.commit_group()
    assert answers == [True] * 20 and s.syncs == 1


def test_who_comes_while_a_flush_runs_waits_for_the_next_one(setup: Any):
    """Line 1: a request that came during the sync is not answered by it."""
    s = setup("SYNC_FLUSH")
    first = s.put()
    answers: dict[str, bool] = {}
    late: list[threading.Thread] = []

    def come_late(name: str, path: str) -> None:
        if name == "sync":
            s.effects.before = None
            end = s.put()
            late.append(threading.Thread(target=lambda: answers.__setitem__("late", s.flush.wait_flushed(end))))
            late[0].start()
            while not len(s.flush.waiters):
                time.sleep(0.001)

    s.effects.before = come_late
    early = threading.Thread(target=lambda: answers.__setitem__("early", s.flush.wait_flushed(first)))
    early.start()
    while not len(s.flush.waiters):
        time.sleep(0.001)
    s.flush.commit_group()
    early.join(5)
    assert answers == {"early": True} and s.files.flushed_where == first
    s.flush.commit_group()
    late[0].join(5)
    assert answers == {"early": True, "late": True} and s.syncs == 2


def test_a_slow_sync_is_a_time_out_and_no_poison(setup: Any):
    """T15: the waiting put is told that it is unknown; the store goes on."""
    s = setup("SYNC_FLUSH", syncFlushTimeout="100")
    let_go = threading.Event()
    s.effects.before = lambda name, path: let_go.wait(5) if name == "sync" and path.endswith("0" * 20) else None
    s.effects.before, hold = None, s.effects.before
    end = s.put()
    s.effects.before = hold
    s.flush.start()
    began = time.monotonic()
    assert not s.flush.wait_flushed(end)
    assert 0.09 < time.monotonic() - began < 3
    later = s.put()  # appenders keep running
    assert not s.failure
    let_go.set()
    assert s.flush.wait_flushed(later) and s.files.flushed_where >= later


def test_the_thread_flushes_every_interval(setup: Any):
    s = setup(flushIntervalCommitLog="10", flushCommitLogThoroughInterval="20")
    s.flush.start()
    end = s.put()
    limit = time.monotonic() + 5
    while s.files.flushed_where < end and time.monotonic() < limit:
        time.sleep(0.005)
    assert s.files.flushed_where == end, "less than four pages, by the thorough interval"


def test_stop_flushes_everything(setup: Any):
    s = setup()
    s.flush.start()
    end = s.put()
    s.flush.stop()
    assert s.files.flushed_where == end
    s.flush.stop()
