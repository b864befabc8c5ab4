"""The promises of a flush, kept by the Python thread and by the native one (kernels/threads/flusher.py) alike."""

import contextlib
import errno
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.kernels.threads.flusher import native
from flintmq.message import Message
from flintmq.storage.files.filesystem import Effects
from flintmq.storage.memory.mapped_file_queue import MappedFileQueue
from flintmq.store.append.after_put import AfterPut
from flintmq.store.append.commit_log import CommitLog, LogState
from flintmq.store.append.disk_failure import DiskFailure
from flintmq.store.append.flush import PythonFlush
from flintmq.store.append.native_flush import native_if_possible
from tests.support.faults import Faulty
from tests.support.threads import alarms, at_once, within

FILE_SIZE = 1 << 16
SOON_S = 20.0  # from here on it hangs; the machine may be slow
by_the_thread = pytest.mark.parametrize("flushing", ["python", "native"], indirect=True)
by_the_caller = pytest.mark.parametrize("flushing", ["python-caller", "native-caller"], indirect=True)


class Woken(AfterPut):
    """Counts how often it is woken."""

    def __init__(self) -> None:
        self.needs_wake, self.count = True, 0

    def wake(self, size: int = 0) -> None:
        self.count += 1


class Flushing:
    """A log whose flusher ("python" or "native") runs, on a disk that a test holds back or breaks."""

    def __init__(
        self,
        root: Path,
        kind: str,
        caller: bool = False,
        ours: Callable[[], bool] = lambda: True,
        lock: Any = None,
        **keys: Any,
    ) -> None:
        self.kind, self.caller, self.effects = kind, caller, Faulty() if kind == "python" else Effects()
        config = StoreConfig.from_keys(
            {"mappedFileSizeCommitLog": FILE_SIZE, "flushDiskType": "SYNC_FLUSH", "flushIntervalCommitLog": 20} | keys
        )
        self.files = MappedFileQueue([str(root / "commitlog")], FILE_SIZE, self.effects)
        self.log = CommitLog(self.files, config, LogState(0, 0, {}))
        self.failure = DiskFailure()
        self.after_flush = Woken()
        python = PythonFlush(
            self.files, self.log, config, self.failure, self.effects, ours=ours, after_flush=self.after_flush,
            in_caller=caller,
        )  # fmt: skip
        self.flush = native_if_possible(python, lock)
        self._requests: list[Any] = []
        add = python.waiters.add
        python.waiters.add = lambda end: self._requests.append(add(end)) or self._requests[-1]  # type: ignore[method-assign, func-returns-value]
        self._inner, self._outer = socket.socketpair()
        self._outer.settimeout(SOON_S)
        self._gate = threading.Semaphore(0)
        self._began = self._seen = 0

    def start(self) -> None:
        self.flush.start()
        assert (self.flush.flusher is not None) == (self.kind == "native")

    def put(self, size: int = 5) -> int:
        """The end of a new record."""
        result = self.log.append(Message("T", bytes(size)))
        return result.physical_offset + result.size

    @property
    def syncs(self) -> int:
        """Syncs of the log's files that ended, but for those at their creation."""
        if self.flush.flusher is not None:
            return self.flush.flusher.syncs
        return self.effects.count("sync", "commitlog/0") - len(self.files.files)

    @property
    def waiting(self) -> int:
        if self.flush.flusher is not None:
            return self.flush.flusher.waiting
        return sum(not request.latch.is_open for request in self._requests)  # also those that waited too long

    def hold(self) -> None:
        """From now on each sync waits for `let`."""
        if self.flush.flusher is not None:
            self.flush.flusher.gate = self._inner.fileno()
        else:
            self.effects.before = lambda name, path: self._hold() if name == "sync" else None

    def _hold(self) -> None:
        if self.flush._step._is_owned():  # not that of a new file
            self._began += 1
            assert self._gate.acquire(timeout=30)

    def let(self, count: int = 1) -> None:
        self._outer.send(b"x" * count)
        self._gate.release(count)

    def held(self) -> None:
        """Wait until a sync waits for `let`: it covers what was put until then, and nothing later."""
        if self.kind == "native":
            assert self._outer.recv(1) == b"?"
        else:
            assert within(lambda: self._began > self._seen)
            self._seen += 1

    def break_file(self) -> Callable[[], None]:
        """Make the next sync of the last file fail; returns what mends it."""
        if self.kind == "python":
            self.effects.refuse("sync", "commitlog", error=errno.EIO, times=1)
            return lambda: None
        fd = self.files.last.fd
        real = os.dup(fd)
        os.dup2(self._inner.fileno(), fd)  # a socket cannot be synced

        def mend() -> None:
            os.dup2(real, fd)
            os.close(real)

        return mend

    def ask(self, end: int) -> tuple[threading.Thread, list[bool]]:
        """Wait for this end in a thread of its own."""
        told: list[bool] = []
        thread = threading.Thread(target=lambda: told.append(self.flush.wait_flushed(end)), daemon=True)
        thread.start()
        return thread, told

    def close(self) -> None:
        self.let(100)
        self.flush.stop()
        self.files.close()
        self._inner.close()
        self._outer.close()


@pytest.fixture(params=["python", "native", "python-caller", "native-caller"])
def flushing(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Flushing]]:
    kind, _, caller = request.param.partition("-")
    if kind == "native" and not native():
        pytest.skip("kernels run uncompiled, or this system has no futex")
    made: list[Flushing] = []

    def make(**words: Any) -> Flushing:
        made.append(Flushing(tmp_path / str(len(made)), kind, bool(caller), **words))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_a_wait_ends_when_its_record_is_on_disk(flushing: Callable[..., Flushing]):
    s = flushing()
    s.start()
    end = s.put()
    assert s.flush.wait_flushed(end)
    assert (s.files.flushed_where, s.syncs, s.flush.flushed_time) == (end, 1, s.log.last_time)
    assert s.flush.wait_flushed(end) and not s.flush.flush_once() and s.syncs == 1, "nothing new"
    end = s.put()
    assert s.flush.flush_once() and s.files.flushed_where == end
    s.files.check_invariants()


def test_one_sync_answers_everybody_who_appended_before_it_and_nobody_later(flushing: Callable[..., Flushing]):
    """Line 1: what is appended while a sync runs is not answered by it."""
    s = flushing(flushIntervalCommitLog=100_000)  # no sync but for those who wait
    s.start()
    s.hold()
    first, early = s.ask(s.put())
    s.held()
    before = s.log.end
    rest = [s.ask(s.put()) for _ in range(20)]
    assert within(lambda: s.waiting >= 20)
    s.let()
    first.join(SOON_S)
    assert early == [True] and s.files.flushed_where == before
    s.held()
    assert not any(told for _, told in rest), "they wait for a sync that has not ended"
    s.let()
    for thread, _ in rest:
        thread.join(SOON_S)
    assert [told for _, told in rest] == [[True]] * 20 and s.syncs == 2 and s.files.flushed_where == s.log.end


def test_the_first_failed_sync_ends_it_for_all(flushing: Callable[..., Flushing], caplog: pytest.LogCaptureFixture):
    s = flushing()
    s.start()
    assert s.flush.wait_flushed(s.put())
    durable = s.files.flushed_where
    mend = s.break_file()
    s.hold()
    before = s.syncs
    waits = [s.ask(s.put())]
    s.held()
    waits += [s.ask(s.put()) for _ in range(4)]
    assert within(lambda: s.waiting >= 4)
    s.let(2)
    for thread, _ in waits:
        thread.join(SOON_S)
    assert [told for _, told in waits] == [[False]] * 5
    assert s.failure.reason.startswith("the commit log could not be flushed (")
    mend()
    syncs = s.syncs
    assert syncs == before + 1, "not even once more"
    began = time.monotonic()
    for _ in range(3):
        assert not s.flush.wait_flushed(s.put()) and not s.flush.flush_once()
    assert time.monotonic() - began < 3, "at once"
    s.flush.stop()
    assert (s.syncs, s.files.flushed_where) == (syncs, durable), "none is tried again (B1, B3)"
    assert [record.levelname for record in caplog.records] == ["ERROR"]


@by_the_thread
def test_a_disk_that_hangs_makes_a_wait_late_and_breaks_nothing(flushing: Callable[..., Flushing]):
    s = flushing(syncFlushTimeout=100)
    s.start()
    s.hold()
    began = time.monotonic()
    assert not s.flush.wait_flushed(s.put())
    assert 0.09 < time.monotonic() - began < 5 and not s.failure
    assert s.waiting == 0 or s.kind == "python"
    s.let(50)
    assert within(lambda: s.flush.wait_flushed(s.put()))
    assert not s.failure
    assert sum(s.flush.all_times().counts[2:]) >= 1, "it counts as a long wait"


def test_a_wait_is_not_late_whose_record_an_earlier_sync_made_durable(flushing: Callable[..., Flushing]):
    """It waits with the next group, which hangs; its record was put before the sync that did not."""
    s = flushing(syncFlushTimeout=2_000, flushIntervalCommitLog=100_000)
    s.start()
    s.hold()
    first, covered = s.put(), s.put()
    s.ask(first)
    s.held()
    thread, told = s.ask(covered)
    assert within(lambda: s.waiting >= 1)
    s.ask(s.put())
    assert within(lambda: s.waiting >= 2)
    s.let()
    s.held()
    thread.join(SOON_S)
    assert told == [True] and s.files.flushed_where == covered
    s.let(10)


def test_a_store_that_failed_before_its_start_syncs_nothing(flushing: Callable[..., Flushing]):
    s = flushing()
    s.failure.set("the queues could not be flushed")
    s.start()
    assert not s.flush.wait_flushed(s.put()) and s.syncs == 0


def test_files_that_a_group_spans_are_all_synced(flushing: Callable[..., Flushing]):
    s = flushing(flushIntervalCommitLog=100_000)
    s.start()
    while len(s.files.files) < 3:
        end = s.put(5000)
    assert s.flush.wait_flushed(end)
    assert s.files.flushed_where == end and s.syncs == 3
    assert [file.flushed for file in s.files.files] == [FILE_SIZE, FILE_SIZE, s.files.last.wrote]
    s.files.check_invariants()
    assert s.flush.wait_flushed(s.put()) and s.syncs == 4, "only the last one again"


def test_a_file_that_fails_among_several_keeps_the_end_where_it_was(flushing: Callable[..., Flushing]):
    s = flushing()
    while len(s.files.files) < 3:
        end = s.put(5000)
    mend = s.break_file()  # the last one
    s.start()
    assert not s.flush.wait_flushed(end) and s.failure
    mend()
    assert s.files.flushed_where <= 2 * FILE_SIZE


def test_stop_flushes_everything_and_answers_everybody(flushing: Callable[..., Flushing]):
    s = flushing(flushIntervalCommitLog=100_000)
    s.start()
    s.hold()
    waits = [s.ask(s.put())]
    s.held()
    waits += [s.ask(s.put()) for _ in range(4)]
    assert within(lambda: s.waiting >= 4)
    end = s.put()
    stopping = threading.Thread(target=s.flush.stop)
    stopping.start()
    s.let(10)
    stopping.join(SOON_S)
    for thread, _ in waits:
        thread.join(SOON_S)
    assert [told for _, told in waits] == [[True]] * 5
    assert s.files.flushed_where == end
    assert s.flush.wait_flushed(s.put()), "whoever comes later flushes itself"
    s.flush.stop()


def test_a_record_that_nobody_waits_for_is_flushed_soon(flushing: Callable[..., Flushing]):
    """A put that a signal broke off after it stored its record."""
    s = flushing()
    s.start()
    end = s.put()
    assert within(lambda: s.files.flushed_where == end)
    s.flush.wake()  # put with wait=False
    end = s.put()
    s.flush.wake()
    assert within(lambda: s.files.flushed_where == end)


def test_another_failure_of_the_store_ends_the_waits(flushing: Callable[..., Flushing]):
    s = flushing()
    s.start()
    assert s.flush.wait_flushed(s.put())
    s.failure.set("the queues could not be flushed")
    syncs = s.syncs
    assert not s.flush.wait_flushed(s.put()) and not s.flush.flush_once() and s.syncs == syncs


def test_a_lost_store_answers_nothing_as_durable(flushing: Callable[..., Flushing], tmp_path: Path):
    """The lock's file is replaced; the owner judges."""
    mine = [True]

    def ours() -> bool:
        if not mine[0]:
            s.failure.set("somebody else's")
        return mine[0]

    class Lock:
        path = str(tmp_path / "lock")
        identity = (0, 0)  # never the file's

    s = flushing(ours=ours, lock=Lock)
    s.start()
    assert s.flush.wait_flushed(s.put()), "the owner said that it is ours"
    mine[0] = False
    assert not s.flush.wait_flushed(s.put()) and s.failure.reason == "somebody else's"


def test_the_follower_is_woken_while_it_sleeps(flushing: Callable[..., Flushing]):
    s = flushing(flushIntervalCommitLog=100_000)
    s.start()
    assert s.flush.wait_flushed(s.put())
    assert within(lambda: s.after_flush.count >= 1)
    s.after_flush.needs_wake = False
    time.sleep(0.05)
    before = s.after_flush.count
    assert s.flush.wait_flushed(s.put())
    time.sleep(0.05)
    assert s.after_flush.count == before


@by_the_thread
def test_a_signal_is_handled_while_a_put_waits(flushing: Callable[..., Flushing]):
    s = flushing(syncFlushTimeout=60_000)
    s.start()
    s.hold()
    seen: list[float] = []
    with alarms(lambda *_: seen.append(time.monotonic()) or s.let(50), 0.1):
        assert s.flush.wait_flushed(s.put()) and seen

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    s.hold()
    s._inner.setblocking(False)  # what was let through too many goes
    with contextlib.suppress(BlockingIOError):
        s._inner.recv(100)
    s._inner.setblocking(True)
    while s._gate.acquire(blocking=False):
        pass
    with pytest.raises(KeyboardInterrupt), alarms(interrupt, 0.1):
        s.flush.wait_flushed(s.put())
    s.let(50)
    assert s.flush.wait_flushed(s.put()), "nobody else is harmed"


def test_no_wait_is_lost_or_answered_too_early(flushing: Callable[..., Flushing]):
    s = flushing()
    s.start()
    wrong: list[str] = []

    def work() -> None:
        for number in range(150):
            end = s.put(number)
            if not s.flush.wait_flushed(end):
                wrong.append("late")
            if s.files.flushed_where < end:
                wrong.append("early")

    at_once(*[work] * 8)
    assert wrong == [] and s.files.flushed_where == s.log.end and s.waiting == 0


# -- whoever waits syncs itself ----------------------------------------------------------------------------------------


def sleeps(name: str) -> int:
    """How often threads of this process with this name went to sleep."""
    tasks = [path.parent for path in Path("/proc/self/task").glob("*/comm") if path.read_text() == f"{name}\n"]
    lines = [line for task in tasks for line in (task / "status").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))


@by_the_caller
def test_a_put_alone_wakes_nobody(flushing: Callable[..., Flushing]):
    s = flushing(flushIntervalCommitLog=100_000)
    s.start()
    s.after_flush.needs_wake = False
    assert s.flush.wait_flushed(s.put())
    time.sleep(0.1)
    before, slept = s.syncs, sleeps("flintmq-flush")
    for n in range(20):
        end = s.put()
        assert s.flush.wait_flushed(end) and s.files.flushed_where == end and s.syncs == before + n + 1
        assert s.flush.flushed_time == s.log.last_time
    assert sleeps("flintmq-flush") == slept and s.waiting == 0


@by_the_caller
def test_a_sync_that_hangs_holds_one_put_and_the_others_end_by_the_timeout(flushing: Callable[..., Flushing]):
    s = flushing(syncFlushTimeout=200, flushIntervalCommitLog=100_000)
    s.start()
    assert s.flush.wait_flushed(s.put())  # the thread has named the files
    s.hold()
    leader, led = s.ask(s.put())
    s.held()
    durable = s.files.flushed_where
    began = time.monotonic()
    others = [s.ask(s.put()) for _ in range(5)]
    for thread, _ in others:
        thread.join(SOON_S)
    assert [told for _, told in others] == [[False]] * 5 and 0.15 < time.monotonic() - began < 10
    assert led == [] and s.files.flushed_where == durable and not s.failure
    s.let(50)
    leader.join(SOON_S)
    assert led == [True], "it took long, and is on disk"
    assert within(lambda: s.flush.wait_flushed(s.put())) and not s.failure


@by_the_caller
def test_a_put_does_not_wait_for_a_step_of_the_thread(flushing: Callable[..., Flushing]):
    """The thread hangs in its sync; whoever comes then ends by the timeout."""
    s = flushing(syncFlushTimeout=200, flushIntervalCommitLog=100_000)
    s.start()
    s.hold()
    s.put()
    s.flush.wake()  # put with wait=False
    s.held()
    began = time.monotonic()
    assert not s.flush.wait_flushed(s.put()) and 0.15 < time.monotonic() - began < 10
    s.let(50)
    assert within(lambda: s.flush.wait_flushed(s.put()))


@by_the_caller
def test_those_who_wait_hear_of_a_failure_before_the_put_that_met_it(flushing: Callable[..., Flushing]):
    """Nobody is answered before the store refuses puts, and `abort` says why."""
    s = flushing(flushIntervalCommitLog=100_000)
    knew: list[bool] = []
    s.failure.on_set(lambda: time.sleep(0.2) or knew.append(bool(ended)))  # type: ignore[func-returns-value]
    s.start()
    assert s.flush.wait_flushed(s.put())
    mend = s.break_file()
    s.hold()
    ended: list[bool] = []
    leader = threading.Thread(target=lambda: ended.append(s.flush.wait_flushed(s.put())), daemon=True)
    leader.start()
    s.held()
    others = [s.ask(s.put()) for _ in range(4)]
    assert within(lambda: s.waiting >= 4)
    syncs = s.syncs
    s.let(20)
    leader.join(SOON_S)
    for thread, told in others:
        thread.join(SOON_S)
        assert told == [False]
    assert ended == [False] and knew == [False]
    mend()
    assert not s.flush.wait_flushed(s.put()) and s.syncs == syncs + 1, "not even once more"


@by_the_caller
def test_another_failure_amid_the_sync_of_a_caller(flushing: Callable[..., Flushing]):
    s = flushing(flushIntervalCommitLog=100_000)
    s.start()
    assert s.flush.wait_flushed(s.put())
    durable = s.files.flushed_where
    s.hold()
    leader, led = s.ask(s.put())
    s.held()
    s.failure.set("the queues could not be flushed")
    s.let(20)
    leader.join(SOON_S)
    assert led == [False] and (s.files.flushed_where == durable or s.kind == "python")


@by_the_caller
def test_who_waits_is_woken_by_the_caller_that_syncs(flushing: Callable[..., Flushing]):
    """Two callers sync in turn, mostly before the thread wakes up: each group has the other one's put."""
    s = flushing(syncFlushTimeout=300_000, flushIntervalCommitLog=100_000)
    s.start()
    s.after_flush.needs_wake = False
    longest = [0.0]

    def work() -> None:
        for _ in range(2000):
            began = time.monotonic()
            assert s.flush.wait_flushed(s.put())
            longest[0] = max(longest[0], time.monotonic() - began)

    at_once(work, work)
    assert longest[0] < SOON_S


@by_the_caller
def test_a_store_lost_amid_the_sync_of_a_caller(flushing: Callable[..., Flushing], tmp_path: Path):
    """Its name is gone: the record is in no store, and nobody says that it is."""
    path = tmp_path / "lock"
    path.touch()
    there = path.stat()

    class Lock:
        identity = (there.st_dev, there.st_ino)

    Lock.path = str(path)  # type: ignore[attr-defined]

    def ours() -> bool:
        if not path.exists():
            s.failure.set("somebody else's")
        return path.exists()

    s = flushing(ours=ours, lock=Lock, flushIntervalCommitLog=100_000)
    s.start()
    assert s.flush.wait_flushed(s.put())
    durable = s.files.flushed_where
    s.hold()
    leader, led = s.ask(s.put())
    s.held()
    other, told = s.ask(s.put())
    assert within(lambda: s.waiting >= 1)
    path.unlink()
    s.let(20)
    leader.join(SOON_S)
    other.join(SOON_S)
    assert led == told == [False] and s.failure.reason == "somebody else's"
    assert s.files.flushed_where == durable or s.kind == "python"


@by_the_caller
def test_stop_waits_for_the_sync_of_a_caller(flushing: Callable[..., Flushing]):
    """Files are closed after it."""
    s = flushing(flushIntervalCommitLog=100_000)
    s.start()
    assert s.flush.wait_flushed(s.put())
    s.hold()
    leader, led = s.ask(s.put())
    s.held()
    stopping = threading.Thread(target=s.flush.stop, daemon=True)
    stopping.start()
    stopping.join(0.3)
    assert stopping.is_alive() and led == []
    s.let(20)
    stopping.join(SOON_S)
    leader.join(SOON_S)
    assert not stopping.is_alive() and led == [True]
    assert s.flush.wait_flushed(s.put()), "whoever comes later flushes itself"


@by_the_caller
def test_a_roll_over_and_the_thread_beside_callers(flushing: Callable[..., Flushing]):
    """Some wait, some do not, and files fill: a position never goes back, and nobody is forgotten."""
    s = flushing(flushIntervalCommitLog=1)
    s.start()
    wrong: list[str] = []

    def work() -> None:
        for number in range(120):
            end = s.put(900)
            if number % 5 == 4:
                s.flush.wake()
            elif not s.flush.wait_flushed(end) or s.files.flushed_where < end:
                wrong.append("late or early")

    def look() -> None:
        seen = 0
        for _ in range(2000):
            now = s.files.flushed_where
            if now < seen:
                wrong.append("back")
            seen = now

    at_once(*[work] * 6, look)
    assert wrong == [] and len(s.files.files) > 5 and s.flush.flush_once() in (True, False)
    assert s.files.flushed_where == s.log.end and s.flush.flushed_time == s.log.last_time
    s.files.check_invariants()


@by_the_caller
def test_the_dispatcher_that_sleeps_is_woken_after_the_sync_of_a_caller(flushing: Callable[..., Flushing]):
    s = flushing(flushIntervalCommitLog=100_000)
    s.start()
    s.after_flush.needs_wake = False
    assert s.flush.wait_flushed(s.put())
    time.sleep(0.05)
    before = s.after_flush.count
    s.after_flush.needs_wake = True
    assert s.flush.wait_flushed(s.put())
    assert within(lambda: s.after_flush.count > before)


@by_the_caller
def test_a_signal_amid_the_sync_of_a_caller_harms_nobody(flushing: Callable[..., Flushing]):
    """Python's flusher breaks off; the native one handles it after the sync. Those who wait are answered."""
    s = flushing(flushIntervalCommitLog=100_000)
    s.start()
    assert s.flush.wait_flushed(s.put())
    s.hold()
    other: list[tuple[threading.Thread, list[bool]]] = []

    def beside() -> None:
        s.held()
        other.append(s.ask(s.put()))
        within(lambda: s.waiting >= 1)
        os.kill(os.getpid(), signal.SIGALRM)
        time.sleep(0.2)
        s.let(50)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    helper = threading.Thread(target=beside, daemon=True)
    with pytest.raises(KeyboardInterrupt), alarms(interrupt, 3600):
        helper.start()
        s.flush.wait_flushed(s.put())
        time.sleep(10)
    helper.join(SOON_S)
    thread, told = other[0]
    thread.join(SOON_S)
    assert told == [True] and not s.failure
    assert s.flush.wait_flushed(s.put()), "the turn is free"
