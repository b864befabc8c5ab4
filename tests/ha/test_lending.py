"""Puts that use the line of the one replica themselves: what they answer, and what the line is afterwards."""

import asyncio
import os
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from flintmq.config.keys import StoreConfig
from flintmq.ha import Follower
from flintmq.ha.lending import may_lend
from flintmq.ha.listener import HaListener
from flintmq.kernels.threads.replica_lane import native
from flintmq.message import Message, PutMessageStatus
from flintmq.storage.files.filesystem import REAL, Effects
from flintmq.store.listening import ListenOptions
from flintmq.store.message_store import MessageStore
from flintmq.testing import slow_read
from tests.ha.lines import LIMIT_S, Line
from tests.support.threads import alarms, at_once, beside, within

pytestmark = pytest.mark.skipif(not native(), reason="kernels run uncompiled, or this system has no futex")

OK, LATE = PutMessageStatus.PUT_OK, PutMessageStatus.FLUSH_SLAVE_TIMEOUT
SYNC: dict[str, Any] = {"mappedFileSizeCommitLog": 1 << 16, "brokerRole": "SYNC_MASTER", "inSyncReplicas": 2}
IMPATIENT = SYNC | {"slaveTimeout": 150}
PATIENT = SYNC | {"slaveTimeout": 30_000}


def open_sync(root: Path, keys: dict[str, Any], **options: Any) -> MessageStore:
    return MessageStore(root, config=keys, ha_listen=("127.0.0.1", 0), **options)


def listener_of(store: MessageStore) -> HaListener:
    assert isinstance(store.ha, HaListener)
    return store.ha


def exchanges(store: MessageStore) -> int:
    lending = listener_of(store)._lending
    assert lending is not None
    return int(lending.lane.exchanges)


def is_lent(store: MessageStore) -> bool:
    lending = listener_of(store)._lending
    return lending is not None and lending.lane.acknowledged >= 0


def status(store: MessageStore, size: int = 100, **fields: Any) -> PutMessageStatus:
    return PutMessageStatus(store.put(Message("T", bytes(size), **fields)).status)


def end_of(store: MessageStore) -> int:
    return int(store._parts.log.end)


def acknowledged(store: MessageStore) -> list[int]:
    return [one.acknowledged for one in listener_of(store).followers()]


class Replica:
    """A follower in a thread that acknowledges what comes, and keeps it; `reported` is set before it is sent."""

    def __init__(self, store: MessageStore, *, reports: str = "whole", seed: int = 1) -> None:
        self.begin, self.log = end_of(store), bytearray()
        self.line = Line(listener_of(store).address, self.begin)
        self.line.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reported, self.beats, self.reports = self.begin, 0, reports
        self._chance, self._over = random.Random(seed), threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    def end(self) -> int:
        return self.begin + len(self.log)

    def _run(self) -> None:
        while not self._over.is_set() and not self.line.closed:
            frame = self.line.frame(0.02)
            if frame is None:
                continue
            offset, size, body = frame
            assert offset == self.end
            self.log += body
            self.beats += not size
            with suppress(OSError):  # it hung up
                if size:
                    self._report()

    def _report(self) -> None:
        """Report all of it, in parts of it and in pieces of bytes if that is asked for."""
        steps = [self.end]
        if self.reports == "odd":
            steps = sorted(self._chance.randrange(self.reported, self.end + 1) for _ in range(2)) + steps
            if self._chance.random() < 0.05:
                time.sleep(self._chance.random() / 100)
        data = struct.pack(f">{len(steps)}q", *steps)
        self.reported = self.end
        at = self._chance.randrange(len(data)) if self.reports == "odd" else 0
        self.line.send(data[:at])
        if at and self._chance.random() < 0.3:
            time.sleep(0.001)
        self.line.send(data[at:])

    def leave(self, *, reset: bool = False) -> None:
        """End the line; with `reset` as a process that is killed does."""
        self._over.set()
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive()
        if reset:
            self.line.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.line.close()

    def has_all_of(self, store: MessageStore, root: Path) -> bool:
        """Whether it got the log's bytes, and nothing else."""
        assert within(lambda: self.end >= end_of(store)), f"{self.end} of {end_of(store)}"
        assert not self.line.closed
        return bytes(self.log) == slow_read.log_bytes(root)[0][self.begin : self.end]


@contextmanager
def replica(store: MessageStore, **more: Any) -> Iterator[Replica]:
    one = Replica(store, **more)
    try:
        yield one
    finally:
        one.leave()


def lent(store: MessageStore) -> None:
    """Put until the line is lent."""
    assert within(lambda: [one.state for one in listener_of(store).followers()].count("transfer") == 1)
    assert within(lambda: status(store) is OK)
    assert within(lambda: is_lent(store))


@pytest.mark.parametrize(
    ("keys", "options", "may"),
    [
        ({}, {}, True),
        ({}, {"replica": "connection"}, True),
        ({}, {"durable_only": True}, False),
        ({"inSyncReplicas": 1}, {}, False),
        ({"inSyncReplicas": 3}, {}, False),
        ({"brokerRole": "ASYNC_MASTER"}, {}, False),
        ({"flushDiskType": "SYNC_FLUSH"}, {}, False),
        ({"transientStorePoolEnable": "true"}, {}, False),
        ({"haFlowControlEnable": "true"}, {}, False),
    ],
)
def test_which_stores_lend(keys: dict[str, Any], options: dict[str, Any], may: bool):
    config = StoreConfig.from_keys(PATIENT | keys)
    assert may_lend(ListenOptions(("127.0.0.1", 0), **options), config, REAL) is may
    assert not may_lend(ListenOptions(("127.0.0.1", 0), **options), config, type("Other", (Effects,), {})())


def test_a_put_uses_the_line_itself(tmp_path: Path):
    with open_sync(tmp_path, PATIENT) as store, replica(store) as one:
        assert not is_lent(store)
        lent(store)
        before = exchanges(store)
        assert Counter(status(store) for _ in range(200)) == {OK: 200}
        assert exchanges(store) - before > 100
        assert one.has_all_of(store, tmp_path)


def test_what_followers_shows_is_never_late(tmp_path: Path):
    with open_sync(tmp_path, PATIENT) as store, replica(store):
        lent(store)
        for _ in range(100):
            result = store.put(Message("T", b"x"))
            end = result.physical_offset + result.size
            info = listener_of(store).followers()[0]
            assert info.acknowledged == info.sent == end and info.in_sync


def test_records_of_every_size_and_at_the_ends_of_files(tmp_path: Path):
    """Larger than a frame, larger than the lane takes, and past the end of a file: the listener sends them."""
    chance = random.Random(5)
    with open_sync(tmp_path, PATIENT | {"mappedFileSizeCommitLog": 200_000}) as store, replica(store) as one:
        lent(store)
        before = exchanges(store)
        for _ in range(150):
            size = chance.choice([1, 100, 1000, 30_000, 33_000, 90_000])
            assert status(store, size, wait=chance.random() < 0.8) is OK
        assert len(store._parts.files.files) > 5 and exchanges(store) > before
        assert one.has_all_of(store, tmp_path)


def test_records_of_puts_that_do_not_wait_are_sent_soon(tmp_path: Path):
    with open_sync(tmp_path, PATIENT) as store, replica(store) as one:
        lent(store)
        for _ in range(20):
            assert status(store) is OK and status(store, wait=False) is OK
            assert within(lambda: one.end == end_of(store), 2)
            assert within(lambda: acknowledged(store) == [end_of(store)], 2)


def test_dispatch_goes_on(tmp_path: Path):
    with open_sync(tmp_path, PATIENT) as store, replica(store):
        lent(store)
        assert store.wait_dispatched(LIMIT_S)
        for _ in range(20):
            result = store.put(Message("T", b"x"))
            found = store.get("T", 0, result.queue_offset, wait_ms=5000)
            assert len(found.messages) == 1


def test_a_follower_of_ours(tmp_path: Path):
    with open_sync(tmp_path / "master", PATIENT) as store:
        host, port = listener_of(store).address
        with Follower(
            tmp_path / "slave", f"{host}:{port}", config={"mappedFileSizeCommitLog": 1 << 16}, ack=True
        ) as to:
            lent(store)
            assert Counter(status(store) for _ in range(300)) == {OK: 300}
            assert exchanges(store) > 100
            end = end_of(store)
            assert to.whole == end
        assert within(lambda: not listener_of(store).followers())
    theirs, ours = (slow_read.log_bytes(tmp_path / name)[0][:end] for name in ("master", "slave"))
    assert ours == theirs


def test_heartbeats_of_a_line_that_is_lent(tmp_path: Path):
    keys = PATIENT | {"haSendHeartbeatInterval": 60}
    with open_sync(tmp_path, keys) as store, replica(store) as one:
        lent(store)
        before, began = one.beats, time.monotonic()
        assert within(lambda: one.beats >= before + 5)
        assert time.monotonic() - began > 0.2, "a line that is lent has its own beats"
        assert status(store) is OK and one.has_all_of(store, tmp_path)


def test_a_silent_follower_of_a_line_that_is_lent(tmp_path: Path):
    """It is hung up on after its time; reports to puts count as its voice."""
    with open_sync(tmp_path, PATIENT | {"haHousekeepingInterval": 400}) as store, replica(store) as one:
        lent(store)
        began = time.monotonic()
        while time.monotonic() - began < 0.8:
            assert status(store) is OK
            time.sleep(0.01)
        assert not one.line.closed
        assert within(lambda: one.line.closed, 5) and time.monotonic() - began > 1.1
        assert listener_of(store).followers() == [] and not is_lent(store)


def test_a_second_follower_comes_and_goes_amid_puts(tmp_path: Path):
    with open_sync(tmp_path, PATIENT, ha_count="connection") as store, replica(store) as one:
        lent(store)
        over, answers = threading.Event(), Counter[PutMessageStatus]()

        def put() -> None:
            while not over.is_set():
                answers[status(store)] += 1

        with beside(put):
            for _ in range(5):
                time.sleep(0.02)
                with replica(store) as other:
                    assert within(lambda: len(acknowledged(store)) == 2 and min(acknowledged(store)) >= 0)
                    assert within(lambda: other.end > other.begin and not is_lent(store))
                    before = exchanges(store)
                    time.sleep(0.05)
                    assert exchanges(store) == before and not is_lent(store)
                assert within(lambda: is_lent(store))
            over.set()
        assert set(answers) == {OK}
        assert one.has_all_of(store, tmp_path)


@pytest.mark.parametrize("reset", [False, True])
def test_a_follower_leaves_amid_puts(tmp_path: Path, reset: bool):
    """No put is answered with PUT_OK that no follower had; the next follower gets everything."""
    with open_sync(tmp_path, IMPATIENT) as store:
        for _ in range(3):
            one = Replica(store)
            lent(store)
            over, wrong, late = threading.Event(), [], []

            def put(one: Replica = one, wrong: list[int] = wrong, late: list[int] = late) -> None:
                while not late:
                    result = store.put(Message("T", b"x"))
                    end = result.physical_offset + result.size
                    if result.status is OK and one.reported < end:
                        wrong.append(end)
                    if result.status is LATE:
                        late.append(end)

            with beside(*[put] * 2):
                time.sleep(0.05)
                one.leave(reset=reset)
            assert wrong == [] and late
            assert within(lambda: not listener_of(store).followers()) and not is_lent(store)
            assert status(store) is LATE
            over.set()
        with replica(store) as last:
            lent(store)
            assert last.has_all_of(store, tmp_path)


def test_a_liar_gets_no_put_answered(tmp_path: Path):
    with open_sync(tmp_path, IMPATIENT) as store:
        with Line(listener_of(store).address, end_of(store)) as line:
            thread = threading.Thread(target=line.acknowledge, args=(lambda: is_lent(store),))
            thread.start()
            lent(store)
            thread.join(LIMIT_S)
            answers: list[PutMessageStatus] = []
            thread = threading.Thread(target=lambda: answers.append(status(store)))
            thread.start()
            assert line.frame() is not None
            line.report(1 << 40)
            line.hung_up()
            thread.join(LIMIT_S)
            assert answers == [LATE]


def test_a_follower_that_reports_oddly(tmp_path: Path):
    """Reports in pieces, of parts of a record, late: threads and a loop put, and no answer is early."""
    with open_sync(tmp_path, PATIENT) as store, replica(store, reports="odd") as one:
        lent(store)
        early: list[int] = []

        def put(count: int) -> None:
            for _ in range(count):
                result = store.put(Message("T", bytes(200)))
                if result.status is not OK or one.reported < result.physical_offset + result.size:
                    early.append(result.physical_offset)

        async def many() -> None:
            for _ in range(20):
                results = await asyncio.gather(*(store.put_async(Message("L", b"x")) for _ in range(5)))
                early.extend(r.physical_offset for r in results if one.reported < r.physical_offset + r.size)
                await asyncio.sleep(0.005)

        at_once(*[lambda: put(100)] * 4, lambda: asyncio.run(many()))
        put(100)
        assert early == [] and one.has_all_of(store, tmp_path)


def test_a_follower_that_does_not_read_for_a_while(tmp_path: Path):
    """Its socket is full amid a frame; the rest of that frame comes later, and nothing twice."""
    with open_sync(tmp_path, IMPATIENT | {"mappedFileSizeCommitLog": 1 << 20}) as store:
        with Line(listener_of(store).address, end_of(store), receive_buffer=4096) as line:
            thread = threading.Thread(target=line.acknowledge, args=(lambda: is_lent(store),))
            thread.start()
            lent(store)
            thread.join(LIMIT_S)
            begin = end_of(store)
            (one,) = listener_of(store)._lines.values()
            one.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            assert status(store, 32_000) is LATE
            assert begin < listener_of(store).followers()[0].sent < end_of(store) and one.left > 0
            assert status(store, 100) is LATE
            end = end_of(store)
            assert line.up_to(end) == slow_read.log_bytes(tmp_path)[0][begin:end]
            line.report(end)
            assert within(lambda: acknowledged(store) == [end])


class OfAUser(Exception):
    """No OSError: one that comes amid the making of a file is taken for the disk's, and the put's status says so."""


def test_a_handler_that_raises_amid_puts_loses_nothing(tmp_path: Path):
    with open_sync(tmp_path, PATIENT | {"mappedFileSizeCommitLog": 1 << 22}) as store, replica(store) as one:
        lent(store)
        before, raised, is_on = exchanges(store), 0, False

        def handle(*_: object) -> None:
            nonlocal is_on
            if is_on:
                is_on = False
                raise OfAUser

        with alarms(handle, 0.0013, 0.0013):
            limit = time.monotonic() + 20
            while raised < 300 and time.monotonic() < limit:
                try:
                    is_on = True
                    assert status(store) is OK
                    is_on = False
                except OfAUser:
                    raised += 1
        assert raised >= 50 and exchanges(store) > before
        assert Counter(status(store) for _ in range(50)) == {OK: 50}
        assert one.has_all_of(store, tmp_path)
        assert within(lambda: acknowledged(store) == [end_of(store)])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_does_not_touch_the_line(tmp_path: Path):
    with open_sync(tmp_path, PATIENT) as store, replica(store) as one:
        lent(store)
        lane = listener_of(store)._lending.lane  # type: ignore[union-attr]
        over = threading.Event()

        def put() -> None:
            while not over.is_set():
                assert status(store) is OK

        with beside(put):
            for _ in range(5):
                child = os.fork()
                if not child:
                    os._exit(0 if not lane.exchange(end_of(store) + 1, 1.0) and lane.acknowledged == -1 else 1)
                assert os.waitpid(child, 0)[1] == 0
            over.set()
        assert status(store) is OK and one.has_all_of(store, tmp_path)


@pytest.mark.parametrize("what", ["store", "listener"])
def test_close_amid_puts(tmp_path: Path, what: str):
    with ExitStack() as stack:
        store = open_sync(tmp_path, IMPATIENT)
        stack.callback(store.close)
        one = stack.enter_context(replica(store))
        lent(store)
        over, wrong = threading.Event(), []

        def put() -> None:
            while not over.is_set():
                try:
                    result = store.put(Message("T", b"x"))
                except Exception:  # it is closed
                    return
                if result.status is OK and one.reported < result.physical_offset + result.size:
                    wrong.append(result)

        with beside(*[put] * 4):
            time.sleep(0.1)
            began = time.monotonic()
            if what == "store":
                store.close()
            else:
                listener_of(store).close()
                assert status(store) is LATE
            assert time.monotonic() - began < 5
            over.set()
        assert wrong == []
