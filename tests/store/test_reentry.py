"""Signal handlers amid a call, and fork's children of a thread amid one: every public method works or raises, none
waits for ever. Each case is a process of its own, which an alarm ends if it hangs."""

import asyncio
import faulthandler
import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from flintmq.errors import UsageError
from flintmq.kernels.threads.flusher import native
from flintmq.message import Message
from flintmq.storage.memory.allocation import AllocationService
from flintmq.storage.memory.mapped_file_queue import MappedFileQueue
from flintmq.storage.threads.stop_event import StopEvent
from flintmq.store import reentry
from flintmq.store.append.commit_log import CommitLog
from flintmq.store.append.flush import PythonFlush
from flintmq.store.append.group_commit import Waiters
from flintmq.store.append.native_flush import NativeFlush
from flintmq.store.append.pool_commit import CommitService
from flintmq.store.append.stats import Counters
from flintmq.store.consumer.consumer import Consumer
from flintmq.store.consumer.group import ConsumerGroup
from flintmq.store.message_store import MessageStore
from flintmq.store.reentry import lockless, reentered
from flintmq.store.services.dispatch_service import DispatchService
from flintmq.store.services.housekeeping import Housekeeping
from flintmq.store.view import open_store
from tests.support.engine import FILE_SIZE, open_small

SECONDS = 60  # from here on it hangs; the machine may be slow
BIG = b"x" * 70_000  # more than the fast way takes
SIZES = {"mappedFileSizeCommitLog": 40 * FILE_SIZE, "mappedFileSizeConsumeQueue": 2000}


def columns(rows: int = 3) -> pa.RecordBatch:
    return pa.record_batch({"body": pa.array([b"c"] * rows, pa.binary())})


Call = Callable[[MessageStore, Consumer], Any]

METHODS: dict[str, Call] = {  # every public method that does something
    "put": lambda s, c: s.put(Message("A", b"x")),
    "put, large": lambda s, c: s.put(Message("A", BIG)),
    "put_many": lambda s, c: s.put_many([Message("A", b"x"), Message("B", b"x")]),
    "put_batch": lambda s, c: s.put_batch([Message("A", b"x"), Message("A", b"y")]),
    "put_columns": lambda s, c: s.put_columns("A", columns()),
    "put_async": lambda s, c: asyncio.run(_async(s)),
    "flush": lambda s, c: s.flush(),
    "get": lambda s, c: s.get("A", 0, 0),
    "get, waiting": lambda s, c: s.get("none", 0, 0, wait_ms=1),
    "get_batch": lambda s, c: s.get_batch("A", 0, 0),
    "get_raw": lambda s, c: s.get_raw("A", 0, 0),
    "bounds": lambda s, c: s.bounds("A", 0),
    "get_at": lambda s, c: s.get_at(0),
    "get_by_offset_msg_id": lambda s, c: s.get_by_offset_msg_id("7F00000100002A9F0000000000000000"),
    "on_arrival": lambda s, c: s.on_arrival(print)(),
    "query": lambda s, c: s.query("A", "k"),
    "offset_at_time": lambda s, c: s.offset_at_time("A", 0, 0),
    "stats": lambda s, c: s.stats(),
    "wait_dispatched": lambda s, c: s.wait_dispatched(0.01),
    "create_topic": lambda s, c: s.create_topic("new"),
    "commit_offset": lambda s, c: s.commit_offset("g", "A", 0, 1),
    "consumer_offset": lambda s, c: s.consumer_offset("g", "A", 0),
    "consumer": lambda s, c: s.consumer("other", "A").close(),
    "view": lambda s, c: s.view().close(),
    "messages": lambda s, c: next(iter(s)),
    "poll": lambda s, c: c.poll(),
    "poll, waiting": lambda s, c: c.poll(1, 1),
    "iterate": lambda s, c: next(iter(c), None),
    "commit": lambda s, c: c.commit(),
    "seek": lambda s, c: c.seek(0, "earliest"),
    "seek_to_time": lambda s, c: c.seek_to_time(0),
    "queues": lambda s, c: c.queues,
    "position": lambda s, c: c.position(0),
    "committed": lambda s, c: c.committed(0),
    "lag": lambda s, c: c.lag(),
    "in_flight": lambda s, c: c.in_flight(),
    "leave the consumer": lambda s, c: c.__exit__(None, None, None),
    "close the consumer": lambda s, c: c.close(),
    "leave the store": lambda s, c: s.__exit__(None, None, None),
    "close the store": lambda s, c: s.close(),
}
CLOSING = [name for name in METHODS if "leave" in name or "close" in name]


async def _async(store: MessageStore) -> Any:
    return await store.put_async(Message("A", b"x"))


def _poll(_: object, consumer: Consumer) -> object:
    return consumer.poll()


Place = tuple[type, str]
FLUSH: type = NativeFlush if native() else PythonFlush
# What is under way, and the function, called by it in its thread, in which the signal or the fork comes.
AMID: dict[str, tuple[Call, Place]] = {
    "a large put": (METHODS["put, large"], (CommitLog, "encode")),
    "a delayed put": (lambda s, c: s.put(Message("A", b"x", delay_level=1)), (CommitLog, "encode")),
    "the first put of a queue": (lambda s, c: s.put(Message("first", b"x")), (CommitLog, "count_record")),
    "a batch": (METHODS["put_batch"], (CommitLog, "count_record")),
    "columns": (METHODS["put_columns"], (CommitLog, "settle_and_next_time")),
    "a put that begins a file": (lambda s, c: _roll(s), (MappedFileQueue, "append_file")),
    "a put that waits for a file": (lambda s, c: _roll(s), (AllocationService, "file_at")),
    "a wake-up": (METHODS["wait_dispatched"], (DispatchService, "wake")),
    "a flush": (METHODS["flush"], (MappedFileQueue, "flush")),
    "a commit of the pool": (METHODS["flush"], (CommitService, "commit_once")),
    "a sync put": (METHODS["put, large"], (FLUSH, "wait_flushed")),
    "a sync put into the pool": (METHODS["put"], (Waiters, "add")),
    "a sync put of columns": (METHODS["put_columns"], (FLUSH, "wait_flushed")),
    "a sync flush": (METHODS["flush"], (FLUSH, "flush_once")),
    "stats": (METHODS["stats"], (Counters, "read")),
    "a long poll": (lambda s, c: s.get("none", 0, 0, wait_ms=500), (threading.Condition, "wait")),
    "a wait for dispatch": (METHODS["wait_dispatched"], (DispatchService, "wait")),
    "a poll": (METHODS["poll"], (ConsumerGroup, "queues_of")),
    "an iteration": (METHODS["iterate"], (Consumer, "_hand_out")),
    "a commit": (METHODS["commit"], (Housekeeping, "_save")),
    "a close": (METHODS["close the store"], (StopEvent, "wait")),
    "a consumer's close": (METHODS["close the consumer"], (ConsumerGroup, "leave")),
}

FORKS = [  # one for each lock
    "a large put", "a put that waits for a file", "a flush", "a commit of the pool", "stats", "a poll", "a commit",
    "a close", "a sync put", "a sync flush",
]  # fmt: skip


def _roll(store: MessageStore) -> None:
    for _ in range(3):
        store.put(Message("A", bytes(70_000)))


def outcome(call: Callable[[Any, Consumer], Any], store: Any, consumer: Consumer) -> str:
    """What a call did: "works", or the type of what it raised."""
    try:
        call(store, consumer)
        return "works"
    except Exception as error:
        return type(error).__name__


def opened(root: Path, **keys: Any) -> tuple[MessageStore, Consumer]:
    store = open_small(root, **SIZES, **keys)
    store.put_many([Message("A", b"%d" % n, keys="k") for n in range(5)])
    assert store.wait_dispatched(30)
    consumer = store.consumer("g", "A", idle_ms=0)
    consumer.poll(2)
    store.get("A", 0, 0)  # from now on the fast way knows the queue
    return store, consumer


def keys_of(what: str) -> dict[str, Any]:
    pool = {"transientStorePoolEnable": "true", "transientStorePoolSize": "4"} if "pool" in what else {}
    return pool | ({"flushDiskType": "SYNC_FLUSH"} if "sync" in what else {})


def hook(place: Place, act: Callable[[], None]) -> None:
    """Do something, once, in the middle of a function, when this thread calls it."""
    owner, name = place
    real, left, thread = getattr(owner, name), [1], threading.get_ident()

    def hooked(*args: Any, **rest: Any) -> Any:
        if threading.get_ident() == thread and left:
            left.clear()
            act()
        return real(*args, **rest)

    setattr(owner, name, hooked)


def told(case: str, what: str, root: Path) -> dict[str, Any]:
    """What the process of one case tells."""
    words = [sys.executable, "-m", "tests.store.test_reentry", case, what, str(root)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=4 * SECONDS)
    assert done.returncode == 0, f"{done.returncode} (-14: it hangs)\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def amid_a_signal(what: str, root: Path) -> dict[str, Any]:
    """The process: a signal comes amid `what`; its handler calls each method of another store, then of the same one,
    closing ones last. The one is SYNC_FLUSH where the other is."""
    store, consumer = opened(root / "same", **keys_of(what))
    another = opened(root / "other", **keys_of(what))
    call, place = AMID[what]
    found: dict[str, Any] = {}
    other: dict[str, Any] = {}

    def handler(*_: object) -> None:
        other.update({name: outcome(method, *another) for name, method in METHODS.items()})
        other["closed"] = "works" if not (root / "other" / "abort").exists() else "left open"
        for name, method in METHODS.items():
            if name not in CLOSING:
                found[name] = outcome(method, store, consumer)
        for name in CLOSING:
            found[name] = outcome(METHODS[name], store, consumer)

    signal.signal(signal.SIGUSR1, handler)
    hook(place, lambda: signal.raise_signal(signal.SIGUSR1))
    interrupted = outcome(call, store, consumer)
    store.close()
    with open_small(root / "same", **SIZES) as again:
        end = again.get("A", 0, 0).max_offset
    clean = not (root / "same" / "abort").exists()
    return {"found": found, "other": other, "interrupted": interrupted, "clean": clean, "end": end}


def amid_a_fork(what: str, root: Path) -> dict[str, Any]:
    """The process: it forks while another thread is amid `what`; the child calls each method."""
    store, consumer = opened(root, **keys_of(what))
    call, place = AMID[what]
    there, on = threading.Event(), threading.Event()

    def wait() -> None:
        there.set()
        on.wait(SECONDS)

    def other() -> None:
        hook(place, wait)
        outcome(call, store, consumer)

    thread = threading.Thread(target=other)
    thread.start()
    assert there.wait(SECONDS), "the call never came to the place"
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS // 2)
        try:
            os.write(write, json.dumps({n: outcome(m, store, consumer) for n, m in METHODS.items()}).encode())
        finally:
            os._exit(0)
    os.close(write)
    status = os.waitpid(child, 0)[1]
    on.set()
    thread.join(SECONDS)
    store.close()
    return {"found": json.loads(os.read(read, 1 << 16) or b"{}"), "status": status}


def every_one() -> dict[str, Any]:
    """The case `what` is a comma-separated list of is run in forks of one process: importing costs most."""
    case, listed, root = sys.argv[1:4]
    answers: dict[str, Any] = {}
    for number, what in enumerate(listed.split(",")):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            faulthandler.dump_traceback_later(SECONDS - 2)
            signal.alarm(SECONDS)
            try:
                answer = (amid_a_signal if case == "signal" else amid_a_fork)(what, Path(root) / str(number))
                os.write(write, json.dumps(answer).encode())
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        os.close(write)
        status = os.waitpid(child, 0)[1]
        answers[what] = json.loads(os.read(read, 1 << 16) or b"null") if status == 0 else f"status {status}"
        os.close(read)
    return answers


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the cases are forked processes")
def test_a_signal_handler_amid_a_call_never_waits_for_ever(tmp_path: Path) -> None:
    answers = told("signal", ",".join(AMID), tmp_path)
    for what, answer in answers.items():
        assert isinstance(answer, dict), f"{what}: {answer} (14: it hangs)"
        found = answer["found"]
        assert list(found) == [n for n in METHODS if n not in CLOSING] + CLOSING, f"{what}: the handler did not run"
        assert set(found.values()) <= {"works", "UsageError"}, f"{what}: {found}"
        assert all(found[name] == "works" for name in CLOSING), f"{what}: {found}"
        assert set(answer["other"].values()) == {"works"}, f"{what}: another store refused: {answer['other']}"
        assert answer["interrupted"] in ("works", "UsageError"), f"{what}: {answer['interrupted']}"
        assert answer["clean"], f"{what}: close in the handler, or the one that follows, has to stop the store cleanly"
        assert answer["end"] >= 5, what


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_fork_s_child_never_waits_for_a_lock_that_its_parent_had(tmp_path: Path) -> None:
    answers = told("fork", ",".join(FORKS), tmp_path)
    assert list(answers) == FORKS
    for what, answer in answers.items():
        assert isinstance(answer, dict) and answer["status"] == 0, f"{what}: {answer} (14: it hangs)"
        for name, done in answer["found"].items():
            assert done == ("works" if name in CLOSING else "UsageError"), f"{what}: {name} {done}"


class Owner(NamedTuple):
    """What the frames of a store have as `self`."""

    root: str


def test_only_who_comes_back_through_others_code_is_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked() -> list[bool]:
        return [reentered("a"), reentered("b")]

    assert asked() == [False, False]
    scope: dict[str, Any] = {"__name__": "flintmq.store.made_up"}
    exec("def method(self, call):\n    return call()\ndef engine(call):\n    return call()", scope)
    method, engine, a, b = scope["method"], scope["engine"], Owner("a"), Owner("b")
    assert method(a, asked) == [True, False], "the engine called others' code, which asks"
    assert method(a, lambda: engine(asked)) == [True, False], "a frame belongs to the store around it"
    assert method(a, lambda: method(b, asked)) == [True, True], "a handler amid a handler"
    assert method(a, lambda: method(b, lambda: engine(asked))) == [True, True]
    assert engine(asked) == [True, True], "nobody knows whose it is"
    assert engine(lambda: method(a, asked)) == [True, True], "nor this"
    assert asked() == [False, False]
    simulated: dict[str, Any] = {"__name__": "laboratory.disk"}
    exec("def look(call):\n    return call()", simulated)
    assert method(a, lambda: simulated["look"](asked)) == [True, False], "nobody said yet that it simulates"
    monkeypatch.setattr(reentry, "_simulating", ())  # taken back at the end
    reentry.simulates("laboratory")
    assert method(a, lambda: simulated["look"](asked)) == [False, False], "a simulation opens stores amid calls"
    lockless(method.__code__)
    assert method(a, asked) == [False, False]
    assert method(a, lambda: engine(asked)) == [True, False], "what a lockless call calls is its store's"


def test_a_handler_amid_a_consumer_of_a_view_never_waits_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Consumers of a view have a lock, too; a view of another store goes on."""
    found: dict[str, str] = {}
    for name in ("same", "other"):
        opened(tmp_path / name)[0].close()
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it hangs"))
    with open_store(tmp_path / "same") as view, open_store(tmp_path / "other") as another:
        consumers = {"same": view.consumer("g", "A", idle_ms=0), "other": another.consumer("g", "A", idle_ms=0)}
        monkeypatch.setattr(ConsumerGroup, "queues_of", ConsumerGroup.queues_of)  # taken back at the end
        hook(
            (ConsumerGroup, "queues_of"),
            lambda: found.update({n: outcome(_poll, view, c) for n, c in consumers.items()}),
        )
        signal.alarm(SECONDS)
        try:
            assert len(consumers["same"].poll()) == 5
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)
    assert found == {"same": "UsageError", "other": "works"}


def test_messages_may_come_from_the_store_itself(tmp_path: Path) -> None:
    """A generator that puts and reads while put_many takes from it is no signal handler."""
    store, consumer = opened(tmp_path)

    def moved() -> Any:
        for message in consumer:
            store.put(Message("log", message.body))
            yield Message("B", message.body)

    with store:
        assert len(store.put_many(moved())) == 3
        assert len(store.put_batch(Message("B", m.body) for m in store.get("A", 0, 0).messages)) == 5
        assert store.wait_dispatched(30)
        assert [store.get(t, 0, 0).max_offset for t in ("B", "log")] == [8, 3]


def test_a_handler_amid_no_call_may_do_everything(tmp_path: Path) -> None:
    """It closes before it returns."""
    store, consumer = opened(tmp_path)
    found: dict[str, str] = {}

    def handler(*_: object) -> None:
        found.update({name: outcome(method, store, consumer) for name, method in METHODS.items()})
        assert not (tmp_path / "abort").exists()

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert set(found.values()) == {"works"} and list(found) == list(METHODS)
    with pytest.raises(UsageError, match="is closed"):
        store.put(Message("A", b"x"))


if __name__ == "__main__":
    print(json.dumps(every_one()))
