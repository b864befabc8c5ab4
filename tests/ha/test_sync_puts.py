"""Puts of a SYNC_MASTER: what they answer with replicas that acknowledge, are silent, lie, or are not there."""

import asyncio
import errno
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from flintmq.errors import ConfigError, UsageError
from flintmq.ha import Follower, master_line
from flintmq.kernels import compiled
from flintmq.message import Message, Outcome, PutMessageStatus, PutResult, PutRule
from flintmq.store.message_store import MessageStore
from tests.ha.lines import LIMIT_S, Line
from tests.support.engine import FIRST_LOG, message
from tests.support.faults import Faulty, close_unclean
from tests.support.threads import alarms, at_once, beside, within

OK, LATE, UNFLUSHED = (
    PutMessageStatus.PUT_OK,
    PutMessageStatus.FLUSH_SLAVE_TIMEOUT,
    PutMessageStatus.FLUSH_DISK_TIMEOUT,
)
FAST_MS = 150
SYNC: dict[str, Any] = {"mappedFileSizeCommitLog": 1 << 16, "brokerRole": "SYNC_MASTER", "inSyncReplicas": 2}
IMPATIENT = SYNC | {"slaveTimeout": FAST_MS}
PATIENT = SYNC | {"slaveTimeout": 30_000}


def open_sync(root: Path, keys: dict[str, Any], **options: Any) -> MessageStore:
    return MessageStore(root, config=keys, ha_listen=("127.0.0.1", 0), **options)


@contextmanager
def replicas(store: MessageStore, count: int = 1, *, late_s: float = 0.0) -> Iterator[list[Line]]:
    """Followers that acknowledge whatever comes."""
    assert store.ha is not None
    over = threading.Event()
    with ExitStack() as stack:
        lines, threads = [], []
        for _ in range(count):
            line = stack.enter_context(Line(store.ha.address, store._parts.log.end))
            threads.append(threading.Thread(target=line.acknowledge, args=(over.is_set,), kwargs={"late_s": late_s}))
            lines.append(line)
        assert within(lambda: store.ha and [one.state for one in store.ha.followers()].count("transfer") >= count)
        for thread in threads:
            thread.start()
        try:
            yield lines
        finally:
            over.set()
            for thread in threads:
                thread.join(LIMIT_S)
                assert not thread.is_alive()


def status(store: MessageStore, number: int = 0, **fields: Any) -> PutMessageStatus:
    return PutMessageStatus(store.put(Message("T", b"%d" % number, **fields)).status)


def test_without_a_replica_the_time_is_up(tmp_path: Path):
    with open_sync(tmp_path, IMPATIENT) as store:
        before = time.monotonic()
        result = store.put(Message("T", b"x"))
        assert (result.status, result.outcome, result.reason) == (LATE, Outcome.UNKNOWN, PutRule.REPLICAS_LATE)
        assert FAST_MS / 1000 <= time.monotonic() - before < 5
        assert result.physical_offset == 0 and result.size > 0, "it is stored, and replicated later"
        assert store.wait_dispatched(LIMIT_S) and len(store.get("T", 0, 0).messages) == 1
        assert store.stats().puts_refused == {"FLUSH_SLAVE_TIMEOUT": 1}
        with replicas(store):
            assert status(store) is OK


def test_a_silent_one_is_no_replica(tmp_path: Path):
    with open_sync(tmp_path, IMPATIENT) as store:
        assert status(store) is LATE
        assert store.ha is not None
        with Line(store.ha.address, store._parts.log.end) as line:
            assert within(lambda: store.ha and [one.state for one in store.ha.followers()] == ["transfer"])
            assert status(store) is LATE
            assert line.frame() is not None, "it got the record, and said nothing"


def test_with_one_that_acknowledges(tmp_path: Path):
    with open_sync(tmp_path, PATIENT) as store, replicas(store):
        before = time.monotonic()
        assert Counter(status(store, n) for n in range(50)) == {OK: 50}
        assert time.monotonic() - before < 5


@pytest.mark.parametrize("count", [1, 2, 3])
def test_three_that_must_have_it(tmp_path: Path, count: int):
    """inSyncReplicas=3: this store and two more, each line one of them."""
    with open_sync(tmp_path, IMPATIENT | {"inSyncReplicas": 3}, ha_count="connection") as store, replicas(store, count):
        assert status(store) is (OK if count > 1 else LATE)


def test_one_left_of_two(tmp_path: Path):
    with open_sync(tmp_path, IMPATIENT | {"inSyncReplicas": 3}, ha_count="connection") as store:
        with replicas(store, 2):
            assert status(store) is OK
        assert within(lambda: store.ha and not store.ha.followers())
        with replicas(store, 1):
            assert status(store) is LATE


def test_several_lines_of_one_host_are_one_replica(tmp_path: Path):
    with open_sync(tmp_path, IMPATIENT | {"inSyncReplicas": 3}) as store, replicas(store, 2):
        assert status(store) is LATE


@pytest.mark.parametrize(
    ("keys", "fields"),
    [
        (IMPATIENT | {"slaveTimeout": 30_000}, {"wait": False}),
        (PATIENT | {"brokerRole": "ASYNC_MASTER"}, {}),
        (PATIENT | {"inSyncReplicas": 1}, {}),
        (PATIENT | {"inSyncReplicas": 1, "minInSyncReplicas": 2, "allAckInSyncStateSet": "true"}, {}),
    ],
)
def test_who_does_not_wait(tmp_path: Path, keys: dict[str, Any], fields: dict[str, Any]):
    with open_sync(tmp_path, keys) as store:
        before = time.monotonic()
        assert status(store, **fields) is OK
        assert asyncio.run(_put_async(store, [Message("T", b"x", **fields)]))[0].status is OK
        assert time.monotonic() - before < 5


def test_a_store_that_waits_for_nobody_keeps_its_fast_way(tmp_path: Path):
    for keys, fast in ((PATIENT, False), (SYNC | {"inSyncReplicas": 1}, True), ({"brokerRole": "ASYNC_MASTER"}, True)):
        with open_sync(tmp_path / str(keys), keys) as store:
            assert (store.quick is not None) is fast


def slow_puts(monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    """The messages that `put_async` leaves to its slow way, as they come."""
    taken, slowly = list[Message](), MessageStore._put_async_slowly

    def put(store: MessageStore, message: Message, tried: bool) -> Any:
        taken.append(message)
        return slowly(store, message, tried)

    monkeypatch.setattr(MessageStore, "_put_async_slowly", put)
    return taken


@pytest.mark.skipif(not compiled(), reason="kernels run uncompiled")
def test_puts_of_a_loop_take_the_fast_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    slow = slow_puts(monkeypatch)

    async def puts(store: MessageStore, count: int) -> list[PutResult]:
        return await asyncio.gather(*(store.put_async(message(n)) for n in range(count)))

    with open_sync(tmp_path, PATIENT | {"mappedFileSizeCommitLog": 1 << 20}) as store:
        with replicas(store):
            results = asyncio.run(puts(store, 200))
            assert len(slow) == 1, "the first of a loop finds out"
            results += asyncio.run(puts(store, 200))
            assert len(slow) == 2, "another loop has puts of its own"
            assert {one.status for one in results} == {OK}
            assert [one.queue_offset for one in results] == list(range(400))
            ends = [one.physical_offset + one.size for one in results]
            assert [one.physical_offset for one in results[1:]] == ends[:-1]
    with open_sync(tmp_path, IMPATIENT | {"mappedFileSizeCommitLog": 1 << 20}) as store:
        assert {one.status for one in asyncio.run(puts(store, 50))} == {LATE}


@pytest.mark.skipif(not compiled(), reason="kernels run uncompiled")
def test_a_loop_in_a_forked_child_and_after_close(tmp_path: Path):
    async def again(store: MessageStore) -> None:
        with pytest.raises(UsageError):
            await store.put_async(message(9))

    async def main(store: MessageStore) -> None:
        assert (await store.put_async(message(1))).status is OK
        assert (await store.put_async(message(2))).status is OK
        store.close()
        await again(store)

    store = open_sync(tmp_path, PATIENT)
    with replicas(store):

        async def fork() -> None:
            for number in (1, 2):
                assert (await store.put_async(message(number))).status is OK
            if (child := os.fork()) == 0:
                try:
                    with pytest.raises(UsageError, match="the process that forked this one"):
                        store.put_async(message(9))
                    asyncio.run(again(store))
                    os._exit(0)
                finally:
                    os._exit(1)
            assert os.waitpid(child, 0)[1] == 0
            assert (await store.put_async(message(3))).status is OK

        asyncio.run(fork())
        asyncio.run(main(store))


def test_a_liar_releases_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(master_line, "REFUSED_S", 0.1)
    with open_sync(tmp_path, IMPATIENT) as store:
        assert store.ha is not None
        assert status(store) is LATE
        with Line(store.ha.address, store._parts.log.end) as line:
            line.report(10**12)
            line.hung_up()
            assert status(store) is LATE
        with Line(store.ha.address, store._parts.log.end) as line:  # it says at once that it has what comes next
            answers: list[PutMessageStatus] = []
            thread = threading.Thread(target=lambda: answers.append(status(store)))
            thread.start()
            while not answers and not line.closed:
                line.report(store._parts.log.end + 1)
                line.more(0.01)
            thread.join(LIMIT_S)
            assert answers == [LATE]


def test_what_a_follower_had_is_forgotten_when_it_leaves(tmp_path: Path):
    with open_sync(tmp_path, IMPATIENT) as store:
        with replicas(store):
            assert status(store) is OK
        assert within(lambda: store.ha and not store.ha.followers())
        assert status(store) is LATE


def test_refused_without_a_listener(tmp_path: Path):
    with pytest.raises(ConfigError, match="or give ha_listen"):
        MessageStore(tmp_path, config=PATIENT)


def test_puts_under_way_time_out_together(tmp_path: Path):
    with open_sync(tmp_path, IMPATIENT) as store:
        answers: list[PutMessageStatus] = []
        before = time.monotonic()
        at_once(*[lambda: answers.append(status(store))] * 20)
        assert answers == [LATE] * 20 and time.monotonic() - before < 3


def test_waiting_puts_do_not_wait_for_each_other(tmp_path: Path):
    """The first record is acknowledged, the second is not: the first put returns."""
    with open_sync(tmp_path, PATIENT) as store:
        assert store.ha is not None
        waiting: Any = store._parts.puts.replicas
        with Line(store.ha.address, 0) as line:
            assert within(lambda: store.ha and [one.state for one in store.ha.followers()] == ["transfer"])
            answers: dict[int, PutResult] = {}

            def put(number: int) -> None:
                answers[number] = store.put(message(number))

            threads = [threading.Thread(target=put, args=(number,)) for number in range(2)]
            for count, thread in enumerate(threads, 1):
                thread.start()
                assert within(lambda count=count: len(waiting) == count)  # type: ignore[misc]
            ends: list[int] = []
            while len(ends) < 2:
                frame = line.frame()
                assert frame is not None
                ends += _record_ends(frame[0], frame[2])
            line.report(ends[0])
            assert within(lambda: len(answers) == 1)
            time.sleep(0.05)
            assert list(answers) == [0]
            line.report(ends[1])
            for thread in threads:
                thread.join(LIMIT_S)
            assert [answers[number].status for number in range(2)] == [OK, OK]


def _record_ends(offset: int, body: bytes) -> list[int]:
    ends, at = [], 0
    while at < len(body):
        at += int.from_bytes(body[at : at + 4])
        ends.append(offset + at)
    return ends


KINDS: dict[str, Callable[[MessageStore], list[PutMessageStatus]]] = {
    "put": lambda store: [store.put(message(0)).status],
    "put_many": lambda store: [one.status for one in store.put_many([message(n) for n in range(30)])],
    "put_many, one waits": lambda store: [
        one.status for one in store.put_many([Message("T", b"x", wait=n == 3) for n in range(5)])
    ],
    "put_batch": lambda store: [one.status for one in store.put_batch([message(n) for n in range(30)])],
    "put_async": lambda store: [
        one.status for one in asyncio.run(_put_async(store, [message(n) for n in range(30)]))
    ],
    "not plain": lambda store: [store.put(Message("T", b"x", delay_level=1)).status],
}  # fmt: skip


async def _put_async(store: MessageStore, messages: list[Message]) -> list[PutResult]:
    return list(await asyncio.gather(*(store.put_async(one) for one in messages)))


@pytest.mark.parametrize("keys", [{}, {"flushDiskType": "SYNC_FLUSH"}, {"transientStorePoolEnable": "true"}])
@pytest.mark.parametrize("kind", list(KINDS))
def test_every_kind_of_put(tmp_path: Path, kind: str, keys: dict[str, Any]):
    with open_sync(tmp_path, IMPATIENT | keys) as store:
        assert set(KINDS[kind](store)) == {LATE}
    with open_sync(tmp_path, PATIENT | keys) as store, replicas(store):
        before = time.monotonic()
        assert set(KINDS[kind](store)) == {OK}
        assert time.monotonic() - before < 5


def test_columns(tmp_path: Path):
    arrow = pytest.importorskip("pyarrow")
    rows = arrow.record_batch({"body": [b"a", b"b", b"c"]})
    with open_sync(tmp_path, IMPATIENT) as store:
        late = store.put_columns("T", rows)
        assert (late.status, late.count, late.outcome) == (LATE, 3, Outcome.UNKNOWN)
        with replicas(store):
            assert store.put_columns("T", rows).status is OK


def test_nobody_waits_if_no_message_does(tmp_path: Path):
    with open_sync(tmp_path, PATIENT) as store:
        results = store.put_many([Message("T", b"x", wait=False) for _ in range(3)])
        assert [one.status for one in results] == [OK] * 3


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_put_async_under_load_with_late_acknowledgements(tmp_path: Path, flush: str):
    """Three followers of which two are needed, each late by a time of its own; a loop with 2,000 puts, and threads."""
    keys = PATIENT | {"inSyncReplicas": 3, "flushDiskType": flush}
    with open_sync(tmp_path, keys, ha_count="connection") as store, ExitStack() as stack:
        for delay in (0.0, 0.002, 0.004):
            stack.enter_context(replicas(store, late_s=delay))
        answers: list[PutMessageStatus] = []  # no Counter: threads that count at once lose some

        def put() -> None:
            for number in range(20):
                answers.append(status(store, number))

        with beside(*[put] * 4):
            results = asyncio.run(_put_async(store, [message(n) for n in range(2000)]))
        assert Counter(one.status for one in results) == {OK: 2000} and Counter(answers) == {OK: 80}
        assert [one.queue_offset for one in results] == sorted(one.queue_offset for one in results)


def test_acknowledgements_out_of_order_under_load(tmp_path: Path):
    """Two followers acknowledge in steps of any size; no put is answered before the slower one has its record."""
    keys = PATIENT | {"inSyncReplicas": 3}
    with open_sync(tmp_path, keys, ha_count="connection") as store, ExitStack() as stack:
        assert store.ha is not None
        chance, over = random.Random(11), threading.Event()
        known = {0: 0, 1: 0}

        def follow(number: int, line: Line) -> None:
            have, sent = 0, 0
            while not over.is_set():
                frame = line.frame(0.002)
                have = frame[0] + frame[1] if frame is not None and frame[1] else have
                if have > sent and chance.random() < 0.5:
                    sent = chance.randrange(sent + 1, have + 1)
                    known[number] = sent
                    line.report(sent)

        lines = [stack.enter_context(Line(store.ha.address, 0)) for _ in range(2)]
        assert within(lambda: store.ha and [one.state for one in store.ha.followers()] == ["transfer"] * 2)
        threads = [threading.Thread(target=follow, args=pair) for pair in enumerate(lines)]
        for thread in threads:
            thread.start()
        early: list[PutResult] = []

        async def one(number: int) -> None:
            result = await store.put_async(message(number))
            if result.status is not OK or result.physical_offset + result.size > min(known.values()):
                early.append(result)

        async def main() -> None:
            for start in range(0, 600, 60):
                await asyncio.gather(*(one(number) for number in range(start, start + 60)))

        try:
            asyncio.run(asyncio.wait_for(main(), 60))
        finally:
            over.set()
            for thread in threads:
                thread.join(LIMIT_S)
        assert early == []


def test_the_status_of_replicas_hides_that_of_the_disk(tmp_path: Path):
    for acknowledged, expected in ((False, LATE), (True, UNFLUSHED)):
        for kind in ("put", "put_many", "put_async"):
            effects = Faulty()
            store = open_sync(
                tmp_path / kind / str(acknowledged), IMPATIENT | {"flushDiskType": "SYNC_FLUSH"}, effects=effects
            )
            with ExitStack() as stack:
                stack.callback(close_unclean, store)
                assert status(store, wait=False) is OK
                store.flush()  # the file is there, and no sync under way
                if acknowledged:
                    stack.enter_context(replicas(store))
                effects.refuse("sync", FIRST_LOG, error=errno.EIO)
                assert KINDS[kind](store)[0] is expected, kind  # later ones may find the store closed


def test_both_waits_run_at_once(tmp_path: Path):
    """A slow disk and a slow replica: the put takes as long as the slower one, and records are sent before the sync."""

    class Slow(Faulty):
        def sync(self, fd: int) -> None:
            if self.is_slow:
                time.sleep(0.8)

        is_slow = False

    effects = Slow()
    with open_sync(tmp_path, PATIENT | {"flushDiskType": "SYNC_FLUSH"}, effects=effects) as store:
        assert status(store, wait=False) is OK  # the file is there
        with replicas(store, late_s=0.8):
            effects.is_slow, before = True, time.monotonic()
            assert status(store) is OK
            assert 0.8 <= time.monotonic() - before < 1.5
            effects.is_slow = False


def test_durable_only_sends_after_the_sync(tmp_path: Path):
    keys = PATIENT | {"flushDiskType": "SYNC_FLUSH"}
    with open_sync(tmp_path, keys, ha_durable_only=True) as store, replicas(store):
        before = time.monotonic()
        assert Counter(status(store, n) for n in range(20)) == {OK: 20}
        results = asyncio.run(_put_async(store, [message(n) for n in range(50)]))
        assert {one.status for one in results} == {OK}
        assert time.monotonic() - before < 5


@pytest.mark.parametrize("what", ["store", "listener"])
def test_close_answers_those_who_wait(tmp_path: Path, what: str):
    store = open_sync(tmp_path, PATIENT)
    answers: list[PutMessageStatus] = []
    thread = threading.Thread(target=lambda: answers.append(status(store)))
    thread.start()
    replicas_of: Any = store._parts.puts.replicas
    assert within(lambda: len(replicas_of) == 1)
    before = time.monotonic()
    if what == "store":
        store.close()
    else:
        assert store.ha is not None
        store.ha.close()
        assert status(store) is LATE, "nobody can have it any more"
    thread.join(LIMIT_S)
    assert answers == [LATE] and time.monotonic() - before < 5
    store.close()


class Alarm(Exception):
    """Raised by the handler of a signal."""


def raise_alarm(*_: object) -> None:
    raise Alarm


def test_a_signal_handler_that_raises_ends_the_wait(tmp_path: Path):
    with open_sync(tmp_path, PATIENT) as store:
        with pytest.raises(Alarm), alarms(raise_alarm, 0.1):
            store.put(Message("T", b"x"))
        waiting: Any = store._parts.puts.replicas
        assert len(waiting) == 0
        with replicas(store):
            assert status(store) is OK


def test_a_signal_handler_that_returns_changes_nothing(tmp_path: Path):
    with open_sync(tmp_path, IMPATIENT) as store:
        seen: list[int] = []
        with alarms(lambda *_: seen.append(1), 0.02, 0.02):
            begun = time.monotonic()
            assert status(store) is LATE
            assert FAST_MS / 1000 <= time.monotonic() - begun < 5 and len(seen) > 2


def test_handlers_that_raise_amid_puts(tmp_path: Path):
    """At any point: later puts are answered soon, and the copy is the same."""
    chance, raised = random.Random(5), 0
    with open_sync(tmp_path / "master", PATIENT) as store:
        assert store.ha is not None
        address = "{}:{}".format(*store.ha.address)
        copy = Follower(tmp_path / "copy", address, config={"mappedFileSizeCommitLog": 1 << 16}, ack=True)
        with alarms(raise_alarm), copy as follower:
            assert status(store) is OK
            for _ in range(150):
                try:
                    signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.0001, 0.003))
                    limit = time.monotonic() + LIMIT_S
                    while time.monotonic() < limit:
                        store.put(Message("T", b"x" * chance.randrange(300)))
                except Alarm:
                    raised += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert within(lambda: status(store) is OK)
            began = time.monotonic()
            assert [status(store) for _ in range(50)] == [OK] * 50 and time.monotonic() - began < 5
            assert within(lambda: follower.whole == store._parts.log.end)
            assert follower.error is None
        ours, theirs = (sorted((tmp_path / side / "commitlog").iterdir()) for side in ("copy", "master"))
        end = store._parts.log.end
        assert b"".join(map(Path.read_bytes, ours))[:end] == b"".join(map(Path.read_bytes, theirs))[:end]
    assert raised == 150
