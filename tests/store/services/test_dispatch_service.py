"""Dispatch follows the log to the confirmed position, and stops loudly where it cannot go on."""

import errno
import logging
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.message import Message
from flintmq.storage.memory.mapped_file_queue import MappedFileQueue
from flintmq.store.append.commit_log import CommitLog, LogState
from flintmq.store.commitlog.own_log import LogTail
from flintmq.store.commitlog.report import Report
from flintmq.store.consumequeue.live_queues import ConsumeQueues
from flintmq.store.consumequeue.reader import ExtQueue
from flintmq.store.dispatch.dispatcher import Dispatcher, DispatchRules
from flintmq.store.index.index_service import KeyIndex
from flintmq.store.layout.queue_name import QueueName
from flintmq.store.services import dispatch_service
from flintmq.store.services.dispatch_service import DispatchService
from tests.support.engine import (
    FILE_SIZE,
    KEYS,
    check_derived,
    message,
    open_small,
    put_all,
    put_dispatched,
    tree,
    units,
)
from tests.support.faults import Faulty
from tests.support.own_time import own_time
from tests.support.threads import beside, within


class Setup:
    """A log that a test writes and a dispatcher whose steps it calls."""

    def __init__(self, root: Path, **keys: Any) -> None:
        self.root, self.effects = root, Faulty()
        config = StoreConfig.from_keys(KEYS | keys)
        self.files = MappedFileQueue([str(root / "commitlog")], FILE_SIZE, self.effects)
        self.log = CommitLog(self.files, config, LogState(0, 0, {}))
        self.queues = ConsumeQueues(str(root), config, self.effects, Report())
        self.index = KeyIndex(str(root), config, self.effects)
        self.index.make_folder()
        self.confirmed: int | None = None
        self.dispatch = DispatchService(
            LogTail(self.files), lambda: self.log.end if self.confirmed is None else self.confirmed,
            self.queues, self.index, Dispatcher(DispatchRules.of(config)), 0,
        )  # fmt: skip

    def put(self, *numbers: int, **rest: Any) -> list[int]:
        """The ends of new records."""
        results = [self.log.append(message(n, **rest)) for n in numbers]
        return [r.physical_offset + r.size for r in results]

    def close(self) -> None:
        self.queues.close()
        self.index.close()
        self.files.close()


@pytest.fixture
def s(tmp_path: Path):
    made = Setup(tmp_path)
    yield made
    made.close()


def test_one_step_dispatches_everything_over_several_files(s: Setup):
    s.put(*range(60))
    assert len(s.files.files) > 1
    assert s.dispatch.behind == s.log.end
    assert s.dispatch.dispatch_once()
    assert not s.dispatch.dispatch_once() and s.dispatch.behind == 0
    assert s.dispatch.position == s.log.end and s.dispatch.last_time == s.log.last_time
    s.index.flush()
    check_derived(s.root)


def test_nothing_behind_the_confirmed_position_is_dispatched(s: Setup):
    ends = s.put(0, 1, 2, 3)
    for confirmed, count in [(0, 0), (ends[0], 1), (ends[0], 1), (ends[2], 3), (ends[3], 4)]:
        s.confirmed = confirmed
        s.dispatch.dispatch_once()
        queue = s.queues.find(b"T", 0)
        assert (queue.max_offset if queue is not None else 0) == count
    assert s.dispatch.position == ends[3]


def test_queues_of_all_kinds_of_transactions(s: Setup):
    for bits in (0, 4, 8, 12):
        s.log.append_many([Message("T", b"x", sys_flag=bits, keys="k")], delivered=True)
    s.dispatch.dispatch_once()
    assert [u.physical_offset for u in units(s.root)] == [0, 200], "neither prepared nor rolled back ones"


def test_d7_damage_on_the_way_stops_dispatch_and_is_told(s: Setup, caplog: pytest.LogCaptureFixture):
    """D7: nothing is skipped in silence."""
    ends = s.put(*range(10))
    s.files.files[0].view[ends[4] + 4] ^= 0xFF  # the magic of record 5
    assert not s.dispatch.dispatch_once() or s.dispatch.stopped_at is not None
    assert s.dispatch.stopped_at is not None and str(ends[4]) in str(s.dispatch.stopped_at)
    assert [r.levelno for r in caplog.records] == [logging.ERROR]
    assert s.dispatch.position == ends[4]
    assert s.queues.find(b"T", 0).max_offset == 5, "what stands before the damage is served"
    before = s.dispatch.position
    s.put(10)
    assert not s.dispatch.dispatch_once() and s.dispatch.position == before
    assert not s.dispatch.wait(s.log.end, 5), "who waits is told at once"


def test_a_disk_that_refuses_stops_dispatch_and_is_told(s: Setup, caplog: pytest.LogCaptureFixture):
    s.put(0)
    s.effects.refuse("create", "consumequeue")
    assert not s.dispatch.dispatch_once()
    assert isinstance(s.dispatch.stopped_at, OSError)
    assert [r.levelno for r in caplog.records] == [logging.ERROR]


@pytest.mark.parametrize("error", [RuntimeError("nobody thought of this"), RecursionError()])
def test_d29_an_error_of_any_kind_stops_dispatch_in_words(tmp_path: Path, error: Exception, caplog: Any):
    """Upstream's thread is gone, and nobody is told; here whoever waits is, and the next start does it again."""
    store = open_small(tmp_path)
    put_dispatched(store, 3)

    def fail(*words: Any) -> Any:
        raise error

    blocks, store._parts.dispatch.dispatcher.blocks = store._parts.dispatch.dispatcher.blocks, fail
    put_all(store, 3, first=3)
    assert not store.wait_dispatched(60), "told at once"
    assert store._parts.dispatch.stopped_at is error and store._parts.dispatch._service.is_alive
    assert any(r.levelno == logging.ERROR and "dispatch has stopped" in r.getMessage() for r in caplog.records)
    assert [m.queue_offset for m in store.get("T", 0, 0).messages] == [0, 1, 2], "what was dispatched is served"
    store._parts.dispatch.dispatcher.blocks = blocks
    store.close()
    assert (tmp_path / "abort").exists(), "not stopped cleanly"
    with open_small(tmp_path) as store:
        assert len(store.get("T", 0, 0).messages) == 6
    check_derived(tmp_path)


def test_dispatch_waits_for_memory_and_writes_again_what_was_cut_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The units that the interrupted block left behind are gone over: these here are zeros on disk."""
    store = open_small(tmp_path)
    put_dispatched(store, 2)
    take, cut = ConsumeQueues.take, list[str]()

    def cut_short(self: ConsumeQueues, block: Any, dispatcher: Any) -> None:
        take(self, block, dispatcher)
        if not cut:
            cut.append("once")
            path = tmp_path / "consumequeue" / "T" / "0" / ("0" * 20)
            path.write_bytes(path.read_bytes()[:40].ljust(path.stat().st_size, b"\0"))
            raise MemoryError

    monkeypatch.setattr(ConsumeQueues, "take", cut_short)
    put_all(store, 3, first=2)
    assert store.wait_dispatched(30) and cut
    assert store._parts.dispatch.stopped_at is None and store._parts.dispatch.waits_for is None
    assert [m.queue_offset for m in store.get("T", 0, 0).messages] == [0, 1, 2, 3, 4]
    store.close()
    check_derived(tmp_path)


def many_keys(number: int) -> Message:
    return Message("T", b"x", tags=f"t{number}", keys=f"a{number} b{number} c{number}", queue_id=number % 3)


def ext_units(root: Path, queue_id: int) -> list[tuple[int, int]]:
    """(log offset, tags code) of each unit of a queue with an extension."""
    ext = ExtQueue.of(str(root), QueueName("T", queue_id))
    found = [(unit.physical_offset, ext.unit(unit.tags_code)) for unit in units(root, "T", queue_id)]
    return [(offset, unit.tags_code) for offset, unit in found if unit is not None]


@pytest.mark.parametrize(
    ("call", "part"),
    [("create", "consumequeue"), ("mkdirs", "consumequeue"), ("pwrite", "consumequeue"), ("create", "index/"),
     ("allocate", "index/"), ("map_write", "index/"), ("create", "consumequeue_ext"), ("pwrite", "consumequeue_ext")],
)  # fmt: skip
@pytest.mark.parametrize("after", [0, 3])
def test_a_full_disk_stops_dispatch_until_there_is_space(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, call: str, part: str, after: int
):
    """Then queues and index are what they are without it: no unit beside its place, no key twice and none missing."""
    monkeypatch.setattr(dispatch_service, "RETRY_S", 0.0)
    caplog.set_level(logging.INFO, "flintmq.dispatch")
    found = []
    for full in (False, True):
        s = Setup(tmp_path / str(full), **({"enableConsumeQueueExt": "true"} if part.endswith("ext") else {}))
        s.effects.clock = 1_700_000_000_000
        for n in range(10):
            s.log.append(many_keys(n))
        s.dispatch.dispatch_once()
        if full:
            s.effects.refuse(call, part, error=errno.ENOSPC, after=after)
        for n in range(10, 60):
            s.effects.clock += 10
            s.log.append(many_keys(n))
            s.dispatch.dispatch_once()
            if n % 7 == 0:
                s.dispatch.dispatch_once()
        waited = s.dispatch.waits_for is not None
        s.effects.rules.clear()
        while s.dispatch.dispatch_once():
            pass
        assert s.dispatch.position == s.log.end and s.dispatch.waits_for is None and s.dispatch.stopped_at is None
        s.close()
        found.append(tree(s.root, "consumequeue", "index", "consumequeue_ext"))
    levels = [r.levelno for r in caplog.records if r.name == "flintmq.dispatch"]
    assert levels == [logging.WARNING, logging.INFO] * (len(levels) // 2), "said once each time it changes"
    assert waited == (len(levels) > 0)
    if part.endswith("ext"):  # where a unit that was broken off may leave a gap
        for n in range(3):
            assert ext_units(tmp_path / "True", n) == ext_units(tmp_path / "False", n)
        return
    assert found[0] == found[1]
    check_derived(tmp_path / "True")


def test_a_store_that_is_closed_meanwhile_catches_up_when_it_is_opened(tmp_path: Path):
    effects = Faulty()
    store = open_small(tmp_path, effects)
    effects.refuse("create", "consumequeue", error=errno.ENOSPC)
    store.put(message(0))
    assert not store.wait_dispatched(0.2)
    store.close()
    assert (tmp_path / "abort").exists(), "RocketMQ is not to take this for a clean stop"
    with open_small(tmp_path) as again:
        assert [m.body[:6] for m in again.get("T", 0, 0).messages] == [b"000000"]


@pytest.mark.parametrize("error", ["ENOSPC", "EDQUOT", "EFBIG", "EMFILE", "ENFILE", "ENOMEM"])
def test_it_tries_again_once_a_second(s: Setup, error: str):
    s.put(0)
    s.effects.refuse("create", "consumequeue", error=getattr(errno, error))
    for _ in range(100):
        assert not s.dispatch.dispatch_once()
    assert s.effects.count("create", "consumequeue") <= 1
    s.effects.rules.clear()
    assert not s.dispatch.dispatch_once()
    s.dispatch._retry_at -= dispatch_service.RETRY_S
    assert s.dispatch.dispatch_once() and s.queues.find(b"T", 0).max_offset == 1


def test_the_thread_dispatches_what_comes_and_wakes_who_waits(s: Setup):
    s.dispatch.start()
    for n in range(20):
        [end] = s.put(n)
        s.dispatch.wake()
        assert s.dispatch.wait(end, 5)
        assert s.queues.find(b"T", 0).max_offset == n + 1
    s.dispatch.stop()


def test_puts_need_no_wake_while_it_looks_by_itself_and_one_when_it_sleeps(s: Setup):
    s.dispatch.start()
    assert within(lambda: s.dispatch.needs_wake)
    [end] = s.put(0)
    s.dispatch.wake()
    assert within(lambda: s.dispatch.position == end)
    for n in range(1, 50):  # nobody wakes it from here on
        [end] = s.put(n)
        assert within(lambda end=end: s.dispatch.position == end)
    assert within(lambda: s.dispatch.needs_wake)
    s.dispatch.stop()


def test_who_puts_waits_while_dispatch_is_far_behind(s: Setup, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dispatch_service, "FAR", 2 * FILE_SIZE)
    seen, slept = [], []
    take = s.queues.take
    monkeypatch.setattr(
        s.queues, "take", lambda *a: (seen.append((s.dispatch.behind, s.dispatch.needs_wake)), take(*a))
    )
    own_time(monkeypatch, dispatch_service, sleep=slept.append)
    s.put(*range(200))
    assert s.dispatch.dispatch_once()
    # What was told to those who put before each block is what the block before left behind.
    assert [told for _, told in seen[1:]] == [behind > 2 * FILE_SIZE for behind, _ in seen[1:]]
    assert {told for _, told in seen[1:]} == {True, False} and not s.dispatch.needs_wake
    s.dispatch.wake()
    assert slept == []
    s.dispatch._far = True
    s.dispatch.wake()
    assert slept == [dispatch_service.YIELD_S]


def test_wait_gives_up(s: Setup):
    [end] = s.put(0)
    s.confirmed = 0
    began = time.monotonic()
    assert not s.dispatch.wait(end, 0.05)
    assert 0.04 < time.monotonic() - began < 3


def test_stop_dispatches_what_is_confirmed(s: Setup):
    s.dispatch.start()
    s.put(*range(30))
    s.dispatch.stop()
    assert s.dispatch.position == s.log.end
    check_derived(s.root)


def test_steps_from_many_threads_write_each_unit_once(s: Setup):
    done = threading.Event()

    def work() -> None:
        while not done.is_set():
            s.dispatch.dispatch_once()

    with beside(*[work] * 3):
        s.put(*range(200))
        assert within(lambda: s.dispatch.position >= s.log.end)
        done.set()
    check_derived(s.root)


def test_a_put_amid_the_last_look_is_seen(s: Setup, monkeypatch: pytest.MonkeyPatch):
    """Before it sleeps dispatch asks to be woken, and only then looks for the last time: else this put waits IDLE_S."""
    monkeypatch.setattr(dispatch_service, "IDLE_S", 60.0)
    asked: list[bool] = []
    confirmed = s.dispatch.confirmed

    def look() -> int:
        asked.append(s.dispatch.needs_wake)
        return confirmed()

    s.dispatch.confirmed = look  # type: ignore[method-assign]
    s.dispatch.start()
    assert within(lambda: s.dispatch.needs_wake)
    time.sleep(0.05)
    assert asked[-1], "the last look came after the word"
    s.dispatch.stop()
