"""A consumer over a read-only view: it follows what another process writes, and cannot commit."""

import threading
from pathlib import Path

import pytest

from flintmq.errors import UsageError
from flintmq.message import Message
from flintmq.store.consumer import source as consumer_source
from flintmq.store.message_store import MessageStore
from flintmq.store.view import open_store
from flintmq.store.view_source import ViewSource
from tests.support.engine import KEYS, open_small


def fill(store, count, first=0):
    for n in range(first, first + count):
        store.put(Message("T", b"%d" % n, queue_id=n % 2, tags="ab"[n % 2]))
    assert store.wait_dispatched(60)


def test_it_goes_on_at_the_groups_offsets_and_commits_nothing(tmp_path):
    with open_small(tmp_path) as store:
        fill(store, 10)
        store.commit_offset("G", "T", 0, 3)
    before = (tmp_path / "config/consumerOffset.json").read_bytes()
    with open_store(tmp_path, set=KEYS) as view, view.consumer("G", "T") as consumer:
        assert consumer.committed(0) == 3 and consumer.lag() == {0: 2, 1: 5}
        assert sorted(int(m.body) for m in consumer.poll()) == [1, 3, 5, 6, 7, 8, 9]
        with pytest.raises(UsageError, match="'G' cannot commit, the store is open for reading only; open it with"):
            consumer.commit()
        consumer.seek(1, 4)
        assert [m.body for m in consumer.poll()] == [b"9"]
        with view.consumer("G", "T", tags="b", idle_ms=0) as second:
            assert [m.body for m in second] == [b"1", b"3", b"5", b"7", b"9"]
    assert (tmp_path / "config/consumerOffset.json").read_bytes() == before
    with pytest.raises(UsageError, match="closed"):
        consumer.poll()


def test_it_follows_a_store_that_is_written(tmp_path):
    with open_small(tmp_path) as store:
        fill(store, 2)
        with open_store(tmp_path, set=KEYS) as view, view.consumer("G", "T") as consumer:
            assert len(consumer.poll()) == 2
            timer = threading.Timer(0.1, fill, (store, 3, 2))
            timer.start()
            got = consumer.poll(wait_ms=10_000)
            timer.join()
            while len(got) < 3:
                got += consumer.poll(wait_ms=10_000)
            assert sorted(int(m.body) for m in got) == [2, 3, 4]


def test_offsets_outside_of_the_queue(tmp_path, caplog):
    with open_small(tmp_path) as store:
        fill(store, 4)
        store.commit_offset("G", "T", 0, 50)
    with open_store(tmp_path, set=KEYS) as view:
        source = ViewSource("T", view)
        assert source.read(0, 50, 1, None) == consumer_source.QueueRead([], 2, 0)
        source._seen = source._now()._replace(bounds={0: (1, 2)})
        assert source.read(0, 0, 1, None) == consumer_source.QueueRead([], 1, 1)
        assert "offset 50 is after the end" in caplog.text and "offsets 0 to 0 expired before" in caplog.text
        assert source.read(7, 0, 1, None) == consumer_source.QueueRead([], 0)
        assert source.at_time(0, 0) == 0
        with view.consumer("G", "T", queues=[0]) as consumer:
            assert consumer.poll() == [] and consumer.lag() == {0: 0}


def test_a_light_queue_in_a_view(tmp_path):
    with open_small(tmp_path, enableLmq=True, enableMultiDispatch=True) as store:
        store.put(Message("T", b"before"))
        for n in range(3):
            store.put(Message("T", b"%d" % n, properties={"INNER_MULTI_DISPATCH": "%LMQ%a"}))
        store.commit_offset("%LMQ%a", "%LMQ%a", 0, 1)
    keys = KEYS | {"enableLmq": True, "enableMultiDispatch": True}
    with open_store(tmp_path, set=keys) as view, view.consumer("%LMQ%a", "%LMQ%a") as consumer:
        assert [m.body for m in consumer.poll()] == [b"1", b"2"]


@pytest.mark.parametrize("door", ["engine", "view"])
def test_a_topic_that_is_not_there_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture, door: str):
    """A misspelt one would look like one without messages, for ever."""
    with MessageStore(tmp_path, dev=True) as store:
        store.put(Message("Orders", b"1"))
        store.create_topic("Later")
        store.wait_dispatched(60)
        with store if door == "engine" else store.view() as source:
            wrong, right, later = (source.consumer("g", topic) for topic in ("Order", "Orders", "%RETRY%g"))
            assert wrong.poll() == wrong.poll() == later.poll() == [] and len(right.poll()) == 1
            assert right.poll() == [] and (door == "view" or source.consumer("g", "Later").poll() == [])
            (told,) = (record for record in caplog.records if record.name == "flintmq.consumer")
            assert told.getMessage() == (
                f"{tmp_path}: the store has no topic 'Order'; did you mean 'Orders'? (it is consumed once it is there)"
            )
            if door == "engine":
                source.put(Message("Order", b"2"))
                source.wait_dispatched(60)
                assert [one.body for one in wrong.poll()] == [b"2"], "it came later"
