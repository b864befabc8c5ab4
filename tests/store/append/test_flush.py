"""One flush of the Python thread: when a page count says so, and what it covers. The rest: test_both_flushers.py."""

from pathlib import Path

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.message import Message
from flintmq.storage.memory.mapped_file_queue import MappedFileQueue
from flintmq.store.append.commit_log import CommitLog, LogState
from flintmq.store.append.disk_failure import DiskFailure
from flintmq.store.append.flush import PythonFlush
from tests.support.faults import Faulty

FILE_SIZE = 1 << 20
NOW = 1_700_000_000_000


class Setup:
    """A log with a flush service whose steps a test calls."""

    def __init__(self, root: Path) -> None:
        self.effects = Faulty()
        self.effects.clock = NOW
        config = StoreConfig.from_keys({"mappedFileSizeCommitLog": FILE_SIZE, "flushDiskType": "ASYNC_FLUSH"})
        self.files = MappedFileQueue([str(root / "commitlog")], FILE_SIZE, self.effects)
        self.log = CommitLog(self.files, config, LogState(0, 0, {}))
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


@pytest.fixture
def s(tmp_path: Path):
    made = Setup(tmp_path)
    yield made
    made.flush.stop()
    made.files.close()


def test_four_pages_wait_before_a_flush_is_worth_it(s: Setup):
    while s.put(1000) < 3 * 4096 + 3000:
        assert not s.flush.flush_once(4)
    while s.put(1000) < 4 * 4096:
        pass
    assert s.flush.flush_once(4)
    assert s.files.flushed_where == s.log.end


def test_the_time_told_is_of_a_record_that_was_flushed(s: Setup):
    """A put during the sync is not covered by it: neither its place nor its time may be told (line 1)."""
    end = s.put()

    def put_meanwhile(name: str, path: str) -> None:
        if name == "sync" and path.endswith("0" * 20):
            s.effects.before = None
            s.effects.clock = NOW + 500
            s.put()

    s.effects.before = put_meanwhile
    assert s.flush.flush_once()
    assert (s.files.flushed_where, s.told) == (end, [NOW])


def test_a_time_is_never_ahead_of_the_place_read_with_it(s: Setup):
    """A put between the two reads of a flush may make the time older than the place, never younger."""
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
