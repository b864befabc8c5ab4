"""The log of a store that is only read: served as it is, and as another process makes it grow."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.errors import CorruptStoreError, NotAStoreError, StoreError, UsageError
from flintmq.ha import stored_log
from flintmq.ha.listener import HaListener
from flintmq.ha.stored_log import StoredLog
from flintmq.store.listening import ListenOptions
from tests.compat.replication import GoldenMaster
from tests.ha.lines import Line
from tests.support.engine import FILE_SIZE, log_bytes, message, open_small, put_all, stored
from tests.support.makers import patch
from tests.support.threads import within

PLAIN = StoreConfig()


@contextmanager
def served(path: Path, **options: str) -> Iterator[HaListener]:
    listener = HaListener(ListenOptions(("127.0.0.1", 0), **options), StoredLog(path, PLAIN), PLAIN)  # type: ignore[arg-type]
    listener.start()
    try:
        yield listener
    finally:
        listener.close()


def test_a_recorded_store(master: GoldenMaster):
    """Its whole log, and not one byte of the zeros behind."""
    stamps = {file: file.stat().st_mtime_ns for file in master.path.rglob("*")}
    log = StoredLog(master.path, PLAIN)
    assert (log.begin(), log.end(), log.file_size) == (0, len(master.log), master.file_size)
    with served(master.path, new_slave="first") as listener, Line(listener.address, 0) as line:
        assert line.up_to(len(master.log)) == master.log
    assert {file: file.stat().st_mtime_ns for file in master.path.rglob("*")} == stamps


WRITER = """
import sys
from flintmq import Message, MessageStore
from tests.support.engine import message, open_small
from tests.support.threads import within
with open_small(sys.argv[1]) as store:
    for line in sys.stdin:
        for number in range(int(line)):
            result = store.put(message(number))
        print(result.physical_offset + result.size, flush=True)
"""


def test_a_store_that_another_process_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stored_log, "LOOK_S", 0.01)
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert writer.stdin is not None and writer.stdout is not None

    def put(count: int) -> int:
        assert writer.stdin is not None and writer.stdout is not None
        writer.stdin.write(f"{count}\n")
        writer.stdin.flush()
        return int(writer.stdout.readline())

    try:
        end = put(5)
        with served(tmp_path) as listener, Line(listener.address, 1) as line:
            data = b"\0" + line.up_to(end)
            for count in (1, 60, 3):
                end = put(count)
                data += line.up_to(end)
            line.report(end)
            assert within(lambda: listener.followers()[0].acknowledged == end)
        assert data == log_bytes(tmp_path)[0][:end] and end > FILE_SIZE
    finally:
        writer.communicate(timeout=20)


def test_a_torn_tail_is_not_sent(tmp_path: Path):
    with open_small(tmp_path) as store:
        results = put_all(store, 5)
    whole, last = results[-1].physical_offset, tmp_path / "commitlog" / "0".zfill(20)
    patch(last, whole + 40, bytes(results[-1].size - 40))
    (tmp_path / "abort").touch()
    (tmp_path / "flintmq.mark").unlink()
    (tmp_path / "checkpoint").unlink()
    assert StoredLog(tmp_path, PLAIN).end() == whole


def test_a_file_that_has_gone(tmp_path: Path):
    stored(tmp_path, 60)
    log = StoredLog(tmp_path, PLAIN)
    first = next(file for file in sorted((tmp_path / "commitlog").iterdir()))
    part = log.open(10)
    assert part is not None and (part.start, part.size) == (0, FILE_SIZE)
    part.release()
    with pytest.raises(OSError):
        os.fstat(part.fd)
    first.unlink()
    assert log.open(10) is None and log.open(10**12) is None
    assert within(lambda: log.begin() == FILE_SIZE)


def test_files_of_another_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The store was made anew with other files: its followers' offsets mean nothing there."""
    monkeypatch.setattr(stored_log, "LOOK_S", 0)
    with open_small(tmp_path) as store:
        store.put(message(0))
    log = StoredLog(tmp_path, PLAIN)
    for file in (tmp_path / "commitlog").iterdir():
        os.truncate(file, 2 * FILE_SIZE)
    with pytest.raises(StoreError, match="8192 bytes by now"):
        log.end()


def test_what_cannot_be_served(tmp_path: Path):
    with pytest.raises(NotAStoreError):
        StoredLog(tmp_path / "absent", PLAIN)
    with pytest.raises(UsageError):
        StoredLog("s3://bucket/store", PLAIN)
    (tmp_path / "empty" / "commitlog").mkdir(parents=True)
    with pytest.raises(UsageError, match="give mappedFileSizeCommitLog"):
        StoredLog(tmp_path / "empty", PLAIN)
    sized = StoredLog(tmp_path / "empty", StoreConfig.from_keys({"mappedFileSizeCommitLog": 4096}))
    assert (sized.file_size, sized.begin(), sized.end()) == (4096, 0, 0)
    stored(tmp_path / "short", 60)
    sorted((tmp_path / "short" / "commitlog").iterdir())[-1].unlink()
    with pytest.raises(CorruptStoreError):
        StoredLog(tmp_path / "short", PLAIN)
