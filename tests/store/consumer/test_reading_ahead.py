"""Reads ahead: what was read and is not handed out yet must not be committed, and must still stand when it is."""

import itertools
import random
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flintmq.message import Message, StoredMessage
from flintmq.store import view_source
from flintmq.store.consumer import consumer as module
from flintmq.store.consumer.source import QueueRead, StoreSource
from flintmq.store.message_store import MessageStore
from flintmq.store.view import StoreView, open_store
from flintmq.store.view_source import ViewSource
from tests.support.engine import KEYS, open_small
from tests.support.faults import close_unclean
from tests.support.own_time import own_time
from tests.support.threads import at_once


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    with open_small(tmp_path / "s") as store:
        yield store


def fill(store: MessageStore, counts: list[int], size: int = 1) -> None:
    for queue, count in enumerate(counts):
        for _ in range(count):
            store.put(Message("T", b"x" * size, queue_id=queue))
    assert store.wait_dispatched(60)


def places(messages: list[StoredMessage]) -> list[tuple[int, int]]:
    return [(m.queue_id, m.queue_offset) for m in messages]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, int]]:
    """Queue, offset and number of messages of each read of a queue, of either source."""
    seen: list[tuple[int, int, int]] = []

    def watched(kind: Any) -> None:
        read = kind.read

        def noted(self: Any, queue_id: int, offset: int, most: int, tags: str | None) -> QueueRead:
            seen.append((queue_id, offset, most))
            return read(self, queue_id, offset, most, tags)

        monkeypatch.setattr(kind, "read", noted)

    watched(StoreSource), watched(ViewSource)
    return seen


@pytest.fixture(params=["store", "view"])
def door(request: pytest.FixtureRequest, store: MessageStore) -> Iterator[Any]:
    """The running store, or a view of it."""
    if request.param == "store":
        yield store
    else:
        with open_store(store.root, set=KEYS) as view:
            yield view


def test_nothing_is_committed_that_was_not_handed_out(store: MessageStore, reads: list[tuple[int, int, int]]):
    fill(store, [30])
    with store.consumer("G", "T") as consumer:
        assert [len(consumer.poll(2)) for _ in range(4)] == [2] * 4
        assert reads == [(0, 0, 2), (0, 2, 256)], "the third and fourth poll read nothing"
        assert consumer.commit() == {0: 8} and consumer.position(0) == 8 and consumer.in_flight() == {0: 0}
    with store.consumer("G", "T") as consumer:
        assert places(consumer.poll(1)) == [(0, 8)]


def test_a_poll_gives_as_many_as_asked_for(store: MessageStore, door: Any):
    fill(store, [20, 3, 50])
    if door is not store:
        door.refresh()
    chance = random.Random(1)
    with door.consumer("G", "T") as consumer:
        got: list[tuple[int, int]] = []
        while len(got) < 73:
            most = chance.randrange(1, 9)
            some = places(consumer.poll(most))
            assert 0 < len(some) <= most and (len(some) == most or len(got) + len(some) == 73)
            got += some
        assert consumer.poll() == []
    for queue, count in enumerate((20, 3, 50)):
        assert [n for q, n in got if q == queue] == list(range(count))


def test_a_seek_drops_what_was_read_ahead(door: Any, store: MessageStore):
    fill(store, [30])
    if door is not store:
        door.refresh()
    with door.consumer("G", "T") as consumer:
        consumer.poll(2), consumer.poll(2)
        consumer.seek(0, 20)
        assert places(consumer.poll(2)) == [(0, 20), (0, 21)]
        consumer.seek(0, 4)
        assert places(consumer.poll(1)) == [(0, 4)]
        consumer.seek(0, "latest")
        assert consumer.poll() == []
        consumer.seek_to_earliest()
        assert len(consumer.poll(100)) == 30


def test_an_iteration_that_ends_takes_nothing_with_it(door: Any, store: MessageStore):
    fill(store, [9, 9])
    if door is not store:
        door.refresh()
    with door.consumer("G", "T", idle_ms=0) as consumer:
        first = places(list(itertools.islice(consumer, 17)))
        assert sorted(first + places(consumer.poll(100))) == [(q, n) for q in (0, 1) for n in range(9)]


def test_what_retention_deletes_meanwhile_is_not_handed_out(store: MessageStore, caplog: pytest.LogCaptureFixture):
    fill(store, [40], size=700)
    with store.consumer("G", "T") as consumer:
        consumer.poll(1), consumer.poll(1)
        store._parts.files.drop_first()
        kept = next(m.queue_offset for m in store if m.physical_offset >= store._parts.files.min_offset)
        assert kept > 2 and places(consumer.poll(1)) == [(0, kept)] and consumer.expired == kept - 2
        queue = store._parts.queues.find(b"T", 0)
        assert queue is not None
        consumer.poll(2)
        queue.raise_minimum(kept + 9)  # type: ignore[union-attr]
        assert places(consumer.poll(1)) == [(0, kept + 9)]
    assert "expired before they were consumed" in caplog.text


def test_what_a_failed_disk_lost_is_not_handed_out(store: MessageStore):
    fill(store, [8], size=50)
    with store.consumer("G", "T") as consumer:
        assert places(consumer.poll(1) + consumer.poll(1)) == [(0, 0), (0, 1)]
        store._parts.queues.files.write(str(Path(store.root, "consumequeue/T/0", "0" * 20)), 200, bytes(20), 3 * 20)
        store._parts.queues.find(b"T", 0).forget()  # type: ignore[union-attr]
        store._parts.failure.set("a test says so")
        assert places(consumer.poll(32)) == [(0, 2)] and consumer.poll(32) == []
    close_unclean(store)


def test_of_a_topic_that_was_made_again_the_new_messages_come(store: MessageStore):
    fill(store, [6])
    with store.consumer("G", "T") as consumer:
        consumer.poll(1), consumer.poll(1)
        store._parts.queues.remove(b"T", 0)  # as where a followed broker deleted it
        assert consumer.poll() == [] and consumer.position(0) in (0, 2)


def test_a_queue_that_moves_away_and_back_is_read_again(store: MessageStore):
    fill(store, [10, 10])
    one = store.consumer("G", "T")
    assert len(one.poll(4) + one.poll(4)) == 8
    with store.consumer("G", "T") as two:
        assert places(two.poll(3)) == [(1, 0), (1, 1), (1, 2)]
    assert [n for q, n in places(one.poll(100)) if q == 1] == list(range(10)), "nobody committed them"


def test_an_empty_poll_and_one_of_many_queues_read_what_is_new_only(
    store: MessageStore, reads: list[tuple[int, int, int]]
):
    fill(store, [1] * 50)
    with store.consumer("G", "T") as consumer:
        assert len(consumer.poll(100)) == 50
        assert consumer.poll() == []
        reads.clear()
        assert consumer.poll() == [] and reads == []
        store.put(Message("T", b"x", queue_id=7)), store.put(Message("T", b"x", queue_id=60))
        assert store.wait_dispatched(60)
        assert sorted(places(consumer.poll())) == [(7, 1), (60, 0)]
        assert {queue for queue, _, _ in reads} == {7, 60, *range(50)}, "a new queue divides all of them again"
        consumer.poll()
        reads.clear()
        store.put(Message("T", b"x", queue_id=7))
        assert store.wait_dispatched(60)
        assert places(consumer.poll()) == [(7, 2)] and {queue for queue, _, _ in reads} == {7}


def test_what_comes_is_never_missed(store: MessageStore):
    """Three threads put, into queues that are made meanwhile; two consumers poll, and one goes and comes."""
    done = threading.Event()
    got: set[tuple[int, int]] = set()
    counts = [0] * 3

    def puts(number: int) -> None:
        chance = random.Random(number)
        for n in range(300):
            store.put(Message("T", b"x", queue_id=number + 3 * chance.randrange(1 + n // 20)))
            counts[number] += 1

    def polls(number: int) -> None:
        consumer, rounds = store.consumer("G", "T"), 0
        while not done.is_set() or len(got) < sum(counts):
            got.update(places(consumer.poll(7, wait_ms=20)))
            consumer.commit(wait=False)
            rounds += 1
            if number and rounds % 10 == 0:
                consumer.close()
                consumer = store.consumer("G", "T")

    readers = [threading.Thread(target=polls, args=(number,), daemon=True) for number in range(2)]
    for reader in readers:
        reader.start()
    at_once(*[lambda n=n: puts(n) for n in range(3)])
    assert store.wait_dispatched(60)
    done.set()
    for reader in readers:
        reader.join(30)
    assert not any(reader.is_alive() for reader in readers), (len(got), sum(counts))
    assert len(got) == sum(counts) == 900


def test_a_view_finds_queues_that_are_made_while_it_runs(store: MessageStore):
    fill(store, [2])
    with open_store(store.root, set=KEYS) as view, view.consumer("G", "T") as consumer:
        assert len(consumer.poll()) == 2
        for queue in (5, 0, 9):
            store.put(Message("T", b"x", queue_id=queue))
            assert store.wait_dispatched(60)
            assert [m.queue_id for m in consumer.poll(wait_ms=10_000)] == [queue]


def test_one_slow_refresh_of_a_view_delays_no_later_one(store: MessageStore, monkeypatch: pytest.MonkeyPatch):
    """The process was stopped amid it, or the disk hung: that is no reason to look less often."""
    now = [0.0]
    own_time(monkeypatch, view_source, monotonic=lambda: now[0])
    fill(store, [1])
    with open_store(store.root, set=KEYS) as view:
        source, refresh = ViewSource("T", view), StoreView.refresh

        def refresh_in_an_hour(self: StoreView) -> None:
            refresh(self)
            now[0] += 3600

        monkeypatch.setattr(StoreView, "refresh", refresh_in_an_hour)
        now[0] += 1
        source.arrivals()
        monkeypatch.undo()
        own_time(monkeypatch, view_source, monotonic=lambda: now[0])
        store.put(Message("T", b"x", queue_id=5))
        assert store.wait_dispatched(60)
        source.arrivals()
        assert source.queues() == {0}, "not at once"
        now[0] += 2
        source.arrivals()
        assert source.queues() == {0, 5}


def test_a_view_that_the_user_refreshes_shows_what_is_new(store: MessageStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(view_source, "VIEW_POLL_S", 3600)
    fill(store, [8])
    with open_store(store.root, set=KEYS) as view, view.consumer("G", "T") as consumer:
        assert places(consumer.poll(2) + consumer.poll(2)) == [(0, n) for n in range(4)]
        store.put(Message("T", b"x", queue_id=3))
        assert store.wait_dispatched(60)
        assert places(consumer.poll()) == [(0, n) for n in range(4, 8)] and consumer.poll() == []
        view.refresh()
        assert places(consumer.poll()) == [(3, 0)]


def test_what_is_read_ahead_is_bounded_by_bytes(
    door: Any, store: MessageStore, monkeypatch: pytest.MonkeyPatch, reads: list[tuple[int, int, int]]
):
    monkeypatch.setattr(module, "BYTES_AHEAD", 5000)
    monkeypatch.setattr(view_source, "MOST_BYTES", 2000)
    fill(store, [20, 20], size=400)
    if door is not store:
        door.refresh()
    with door.consumer("G", "T") as consumer:
        assert [len(consumer.poll(2)) for _ in range(20)] == [2] * 20 and consumer.poll(2) == []
    assert 2 < max(most for _, _, most in reads[:10]) <= 5, "about 500 bytes each, and two queues"
    assert max(most for _, _, most in reads) <= 10, "the last ones are of one queue"


def test_a_view_reads_no_more_bytes_than_it_may(store: MessageStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(view_source, "MOST_BYTES", 1500)
    fill(store, [20], size=400)
    with open_store(store.root, set=KEYS) as view:
        assert [len(ViewSource("T", view).read(0, 0, most, None).messages) for most in (1, 4, 20)] == [1, 2, 2]
    shutil.rmtree(Path(store.root, "consumequeue"))
    with open_store(store.root, set=KEYS) as view, view.consumer("G", "T") as consumer:
        assert len(ViewSource("T", view).read(0, 0, 20, None).messages) == 2
        assert places(consumer.poll(2) + consumer.poll(2) + consumer.poll(100)) == [(0, n) for n in range(20)]
    close_unclean(store)
