"""The native flusher beside the interpreter: its start, its end, forks, and errors of what it asks."""

import asyncio
import mmap
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flintmq.kernels.threads.flusher import native
from flintmq.message import Message, PutMessageStatus
from flintmq.store.append import flush as flush_module
from flintmq.store.append import native_flush
from flintmq.store.append.native_flush import NativeFlush
from tests.store.append.test_both_flushers import Flushing
from tests.support.engine import message, open_small
from tests.support.threads import alarms

pytestmark = pytest.mark.skipif(not native(), reason="kernels run uncompiled, or this system has no futex")
OK = PutMessageStatus.PUT_OK


@pytest.fixture
def flushing(tmp_path: Path) -> Iterator[Flushing]:
    made = Flushing(tmp_path, "native")
    yield made
    made.close()


def threads() -> int:
    """Native flushers of this process. From 3.14 on the system knows Python's threads by the same name."""
    named = sum(path.read_text() == "flintmq-flush\n" for path in Path("/proc/self/task").glob("*/comm"))
    return named - sum(t.name == "flintmq-flush" for t in threading.enumerate() if sys.version_info >= (3, 14))


def interrupted_at(line: int, call: Any) -> bool:
    """Whether a call was interrupted before this line of the flusher's Python code."""
    left, before = line, sys.gettrace()
    ours = {flush_module.__file__, native_flush.__file__}

    def trace(frame: Any, event: str, arg: object) -> Any:
        nonlocal left
        if frame.f_code.co_filename not in ours:
            return None
        left -= event == "line"
        if left < 0:
            raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def test_an_interrupt_during_the_start_leaves_no_thread(tmp_path: Path):
    line, before = 0, threads()
    while True:
        s = Flushing(tmp_path / str(line), "native")
        more = interrupted_at(line, s.flush.start)
        end = s.put()
        s.flush.stop()
        assert s.files.flushed_where == end and threads() == before, line
        assert s.flush not in native_flush._running
        s.close()
        if not more:
            break
        line += 1
    assert line > 3, "before each line of the start"


def test_what_the_thread_asks_fails_before_anybody_is_told(flushing: Flushing, monkeypatch: pytest.MonkeyPatch):
    """Whoever is answered finds the store refusing puts: else a flush would seem to have succeeded."""
    flushing.start()
    native_one, seen = flushing.flush, []
    failed = NativeFlush.failed

    def first_look(self: NativeFlush, error: BaseException) -> None:
        seen.append((type(error), self.flusher.is_failed))
        failed(self, error)

    def broken(self: NativeFlush) -> None:
        raise ValueError("no files today")

    monkeypatch.setattr(NativeFlush, "failed", first_look)
    monkeypatch.setattr(NativeFlush, "log_files", broken)
    assert not flushing.flush.wait_flushed(flushing.put())
    assert seen == [(ValueError, False)] and native_one.flusher.is_failed
    assert flushing.failure.reason == "the flush service failed (ValueError: no files today)"


def test_a_child_forked_by_a_signal_handler_amid_a_wait_does_not_hang(flushing: Flushing):
    flushing.start()
    flushing.hold()
    flushing.put()
    children: list[int] = []

    def fork(*_: object) -> None:
        if pid := os.fork():
            children.append(pid)
            flushing.let(50)

    with alarms(fork, 0.2):
        flushed = flushing.flush.flush_once()
        if not children:  # the child
            os._exit(0 if flushed else 1)
    assert flushed
    limit, ended = time.monotonic() + 20, 0
    while not ended and time.monotonic() < limit:
        ended, status = os.waitpid(children[0], os.WNOHANG)
        time.sleep(0.01)
    if not ended:
        os.kill(children[0], signal.SIGKILL)
        os.waitpid(children[0], 0)
    assert ended and status == 0, "it flushes itself"


def test_puts_flush_themselves_once_the_threads_are_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The interpreter ends, and a handler of atexit still puts."""
    monkeypatch.setattr(native_flush, "_is_exiting", False)  # to be as it was afterwards
    native_flush.end_all()  # threads of stores that other tests left
    native_flush._is_exiting = False
    before = threads()
    store = open_small(tmp_path / "one", flushDiskType="SYNC_FLUSH")

    async def main() -> None:
        assert (await store.put_async(message(0))).status is OK
        native_flush.end_all()
        assert threads() == before
        for number in range(1, 4):
            found = await asyncio.wait_for(asyncio.gather(store.put_async(message(number))), 20)
            assert found[0].status is OK
            await asyncio.sleep(0.05)

    asyncio.run(main())
    began = time.monotonic()
    assert store.put(message(4)).status is OK and time.monotonic() - began < 3
    assert store._parts.files.flushed_where == store._parts.log.end
    store.close()
    assert not (tmp_path / "one" / "abort").exists()
    with open_small(tmp_path / "two", flushDiskType="SYNC_FLUSH") as other:
        assert other.flusher is None and threads() == before, "no thread is started any more"
        assert other.put(message(0)).status is OK


def test_an_interpreter_that_ends_slowly_beside_an_open_store(tmp_path: Path):
    """A thread that asks for the GIL after the interpreter is gone crashes the process."""
    lines = (
        "import ctypes, sys",
        "from flintmq import Message, MessageStore",
        "libc = ctypes.CDLL(None)",  # what a library does when the process ends takes a second
        "assert libc.__cxa_atexit(libc.usleep, ctypes.c_void_p(999_999), None) == 0",
        "store = MessageStore(sys.argv[1], dev=True, flush_disk_type='SYNC_FLUSH')",
        "assert store.flusher is not None",
        "store.put(Message('T', b'x'))",
    )
    done = subprocess.run([sys.executable, "-c", "\n".join(lines), str(tmp_path)], capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr


def writable_pages(file: Path) -> int:
    """Count the pages of a file that this process may store into without a page fault: those that are dirty."""
    kib, ours, inode = 0, False, str(file.stat().st_ino)
    for line in Path("/proc/self/smaps").read_text().splitlines():
        words = line.split()
        if not words[0].endswith(":"):  # the first line of a map; its path is that of a file without a name yet
            ours = words[4] == inode
        elif ours and words[0] in ("Shared_Dirty:", "Private_Dirty:"):
            kib += int(words[1])
    return (kib << 10) // mmap.PAGESIZE


def test_pages_for_the_next_group_are_writable_before_it_comes():
    """On a disk: in memory a page that a sync has cleaned stays writable."""
    with (
        tempfile.TemporaryDirectory() as folder,
        open_small(Path(folder), flushDiskType="SYNC_FLUSH", mappedFileSizeCommitLog=1 << 20) as store,
    ):
        assert store.flusher is not None
        for number, size in enumerate((0, 20_000, 300_000)):
            result = store.put(Message("T", bytes(size)))
            assert result.status is OK
            log = Path(folder) / "commitlog" / f"{0:020}"
            end = result.physical_offset + result.size
            more = min(result.size, 64 << 10)  # as many bytes again, 64 KiB at most
            expected, found = -(-(end + more) // mmap.PAGESIZE) - end // mmap.PAGESIZE, 0
            for _ in range(500):
                if (found := writable_pages(log)) == expected:
                    break
                time.sleep(0.01)
            assert found == expected, size
            assert store.put(Message("T", b"next")).queue_offset == 2 * number + 1
        assert store.wait_dispatched(20)
        assert {store.get("T", 0, offset, 1).messages[0].body for offset in (1, 3, 5)} == {b"next"}


def test_the_time_is_of_a_record_that_the_sync_covered(flushing: Flushing):
    """A put during the sync is not covered, so its time must not come into the checkpoint."""
    flushing.start()
    flushing.hold()
    flusher = flushing.flush.flusher
    assert flusher is not None
    first = flushing.put()
    flusher.publish(first, 1000)
    flushing.held()
    flusher.publish(flushing.put(), 2000)
    flushing.let()
    flushing.held()  # the next group, which waits in its turn
    assert (flusher.time, flushing.files.flushed_where) == (1000, first)
    flushing.let()


def test_a_flush_that_failed_says_so(flushing: Flushing):
    flushing.start()
    flushing.put()
    mend = flushing.break_file()
    assert not flushing.flush.flush_once() and flushing.failure
    mend()
