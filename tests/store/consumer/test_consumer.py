"""A consumer of the running store: what it hands out, what it commits, where it goes on."""

import os
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flintmq.errors import StoreError, UsageError
from flintmq.format import config_json
from flintmq.message import Message
from flintmq.store.message_store import MessageStore
from tests.support.engine import FIRST_LOG, open_small, put_all, put_dispatched
from tests.support.faults import Faulty, close_unclean, unclean
from tests.support.interrupts import interrupted_at
from tests.support.threads import at_once, within


@pytest.fixture
def store(tmp_path):
    with open_small(tmp_path / "s") as store:
        yield store


def fill(store, counts, topic="T", first=0):
    """Put so many messages into each queue, in turn; each body is `queue/offset`."""
    for offset in range(first, max(counts)):
        for queue, count in enumerate(counts):
            if offset < count:
                store.put(Message(topic, b"%d/%d" % (queue, offset), tags=f"t{offset % 2}", queue_id=queue))
    assert store.wait_dispatched(60)


def places(messages):
    return [(m.queue_id, m.queue_offset) for m in messages]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_inside_a_poll_loses_none_of_its_messages(store):
    """SIGINT may fall anywhere in it; a commit after it covers what the caller has, and nothing else."""
    fill(store, [5, 3])
    step, files = 0, ("store/consumer/consumer.py", "store/consumer/group.py")
    while True:
        with store.consumer(f"G{step}", "T") as consumer:
            first = places(consumer.poll(2))
            more: list = []
            through = not interrupted_at(step, lambda c=consumer, m=more: m.extend(c.poll(4)), files)
            consumer.commit()
            after = places(consumer.poll(100))  # nothing that was noted of its queues is lost either
        with store.consumer(f"G{step}", "T") as consumer:
            rest = places(consumer.poll(100))
        assert sorted(after) == sorted(rest), step
        assert sorted(first + places(more) + rest) == [(0, n) for n in range(5)] + [(1, n) for n in range(3)], step
        if through:
            break
        step += 1
    assert step > 20


def test_iteration_in_a_forks_child_says_why_it_ends(store):
    fill(store, [3])
    consumer = store.consumer("G", "T", idle_ms=50)
    child = os.fork()
    if child == 0:
        code = 9
        try:
            code = len(list(consumer))
        except UsageError as error:
            code = 42 if "forked" in str(error) else 8
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
    assert len(list(consumer)) == 3


def on_disk(store, table="T@G"):
    raw = Path(store.root, "config", "consumerOffset.json").read_bytes()
    return config_json.parse(raw)["offsetTable"].get(table)


def test_every_message_once_and_in_order_within_its_queue(store):
    fill(store, [50, 13, 20])
    with store.consumer("G", "T") as consumer:
        got = []
        while batch := consumer.poll(7):
            got.append(batch)
        assert sorted(m for batch in got for m in places(batch)) == [
            (q, n) for q, count in enumerate((50, 13, 20)) for n in range(count)
        ]
        for queue in range(3):
            own = [offset for batch in got for q, offset in places(batch) if q == queue]
            assert own == sorted(own)
        assert {q for batch in got[:2] for q, _ in places(batch)} == {0, 1, 2}, "no queue waits for a longer one"
        assert {q for batch in got[:5] for q, _ in places(batch[:1])} == {0, 1, 2}, "and each is the first in turn"


def test_what_is_committed_is_not_given_again_and_the_rest_is(store):
    fill(store, [10])
    with store.consumer("G", "T") as consumer:
        assert consumer.committed(0) is None and consumer.lag() == {0: 10} and consumer.in_flight() == {0: 0}
        consumer.poll(4)
        assert consumer.position(0) == 4 and consumer.in_flight() == {0: 4} and consumer.lag() == {0: 10}
        assert consumer.commit() == {0: 4}
        assert on_disk(store) == {0: 4}, "on disk when commit returns"
        assert consumer.lag() == {0: 6} and consumer.in_flight() == {0: 0}
        consumer.poll(3)
    with store.consumer("G", "T") as consumer:
        assert places(consumer.poll()) == [(0, n) for n in range(4, 10)]
    assert store.consumer_offset("G", "T", 0) == 4, "closing commits nothing"


def test_committed_offsets_go_on_in_the_next_life_and_groups_are_apart(tmp_path):
    with open_small(tmp_path) as store:
        fill(store, [6])
        with store.consumer("G", "T") as one, store.consumer("H", "T") as other:
            one.poll(5), other.poll(2)
            one.commit(), other.commit(wait=False)
    with open_small(tmp_path) as store:
        assert places(store.consumer("G", "T").poll()) == [(0, 5)]
        assert len(store.consumer("H", "T").poll()) == 4 and len(store.consumer("I", "T").poll()) == 6


def test_commit_without_waiting_is_written_by_the_next_that_waits(store):
    fill(store, [3])
    with store.consumer("G", "T") as consumer:
        consumer.poll(1)
        consumer.commit()
        consumer.poll(1)
        consumer.commit(wait=False)
        assert on_disk(store) == {0: 1} and consumer.committed(0) == 2
        consumer.commit()
        assert on_disk(store) == {0: 2}


def test_commit_of_chosen_offsets(store):
    fill(store, [5, 5])
    with store.consumer("G", "T") as consumer:
        consumer.poll()
        assert consumer.commit({1: 3}) == {1: 3} and on_disk(store) == {1: 3}
        for wrong in ({1: 6}, {1: -1}, {2: 0}):
            with pytest.raises(UsageError, match="T'/[12]"):
                consumer.commit(wrong)


def test_commit_tells_when_it_is_not_durable(tmp_path):
    disk = Faulty()
    with unclean(), open_small(tmp_path, disk) as store:
        fill(store, [3])
        consumer = store.consumer("G", "T")
        consumer.poll(1)
        disk.refuse("rename", "consumerOffset", times=1)
        with pytest.raises(OSError):
            consumer.commit()
        consumer.commit()
        assert on_disk(store) == {0: 1}
        consumer.poll(1)
        put_all(store, 1)
        disk.refuse("sync", "commitlog")
        with pytest.raises(StoreError, match="offsets are not written"):
            consumer.commit()
        assert on_disk(store) == {0: 1}, "an offset never names what a power cut may take"


def test_the_log_is_synced_before_offsets_are_written(tmp_path):
    disk = Faulty()
    with open_small(tmp_path, disk) as store:
        fill(store, [3])
        consumer = store.consumer("G", "T")
        consumer.poll()
        disk.calls.clear()
        consumer.commit()
        names = [(name, path) for name, path in disk.calls if "commitlog" in path or "consumerOffset" in path]
        log = max(n for n, (name, path) in enumerate(names) if name == "sync" and FIRST_LOG in path)
        assert log < min(n for n, (name, path) in enumerate(names) if "consumerOffset" in path)
        replaced = [name for name, path in names if "consumerOffset.json.flintmq-new" in path]
        assert replaced[-2:] == ["sync", "rename"]


def test_waiting_for_a_message_and_for_a_queue_that_is_new(store):
    with store.consumer("G", "T") as consumer:
        assert consumer.poll() == [] and consumer.queues == []
        began = time.monotonic()
        assert consumer.poll(wait_ms=60) == [] and 0.05 < time.monotonic() - began < 5
        timer = threading.Timer(0.1, lambda: store.put(Message("T", b"x", queue_id=3)))
        timer.start()
        assert [m.body for m in consumer.poll(wait_ms=10_000)] == [b"x"]
        timer.join()
        assert time.monotonic() - began < 5 and consumer.queues == [3]


def test_seek(store):
    fill(store, [10, 4])
    with store.consumer("G", "T") as consumer:
        consumer.poll()
        consumer.seek(0, 8)
        consumer.seek(1, "latest")
        assert places(consumer.poll()) == [(0, 8), (0, 9)]
        consumer.seek(1, "earliest")
        assert consumer.position(1) == 0 and len(consumer.poll()) == 4
        consumer.seek_to_earliest()
        assert len(consumer.poll()) == 14
        consumer.seek_to_latest()
        assert consumer.poll() == [] and consumer.committed(0) is None
        for queue, where, words in (
            (0, 11, "has 0 to 10"),
            (0, -1, "has 0 to"),
            (5, 0, r"are \[0, 1\]"),
            (0, "x", "x"),
        ):
            with pytest.raises(UsageError, match=words):
                consumer.seek(queue, where)


def test_seek_to_a_time(tmp_path):
    disk = Faulty()
    with open_small(tmp_path, disk) as store:
        for n in range(6):
            disk.clock = 1_700_000_000_000 + n * 1000
            store.put(Message("T", b"%d" % n, queue_id=n % 2))
        assert store.wait_dispatched(60)
        with store.consumer("G", "T") as consumer:
            consumer.seek_to_time(1_700_000_003_000)
            assert sorted(m.body for m in consumer.poll()) == [b"3", b"4", b"5"]
            consumer.seek_to_time(datetime.fromtimestamp(1_700_000_004, UTC))
            assert sorted(m.body for m in consumer.poll()) == [b"4", b"5"]
            consumer.seek(0, datetime(2023, 11, 14, 22, 13, 22))
            assert [m.body for m in consumer.poll()] == [b"2", b"4"], "UTC where no zone is told"
            consumer.seek_to_time(1_800_000_000_000)
            assert consumer.poll() == []


def test_tags_are_compared_and_not_only_their_hashes(store):
    for n in range(60):
        store.put(Message("T", b"%d" % n, tags=("AaAa", "BBBB", "c")[n % 3]))  # Java hashes the first two alike
    assert store.wait_dispatched(60)
    with store.consumer("G", "T", tags=" AaAa || d") as consumer:
        assert [int(m.body) for m in consumer.poll(100)] == list(range(0, 60, 3))
        assert consumer.position(0) == 60, "behind what nobody wants"
        assert consumer.commit() == {0: 60}


def test_a_tag_that_is_rare_is_found_in_one_poll(store):
    put_all(store, 3000)
    store.put(Message("T", b"here", tags="rare"))
    assert store.wait_dispatched(60)
    with store.consumer("G", "T", tags="rare") as consumer:
        assert [m.body for m in consumer.poll()] == [b"here"]
        assert consumer.poll() == []


def test_iterating_commits_up_to_the_message_that_the_loop_is_at(store):
    fill(store, [5, 5])
    with store.consumer("G", "T", idle_ms=0) as consumer:
        seen = []
        for message in consumer:
            seen.append((message.queue_id, message.queue_offset))
            if len(seen) == 3:
                assert sum(consumer.commit().values()) == 3
                break
        rest = places(consumer)
        assert len(rest) == 7 and sorted(seen + rest) == [(q, n) for q in (0, 1) for n in range(5)]


def test_a_seek_within_the_loop_counts_at_once(store):
    fill(store, [5])
    with store.consumer("G", "T", idle_ms=0) as consumer:
        got = []
        for message in consumer:
            got.append(message.queue_offset)
            if got == [0, 1]:
                consumer.seek(0, 4)
        assert got == [0, 1, 4]


def test_iterating_waits_and_ends_with_the_store(tmp_path):
    store = open_small(tmp_path)
    got = []
    consumer = store.consumer("G", "T")
    thread = threading.Thread(target=lambda: got.extend(m.body for m in consumer))
    thread.start()
    store.put(Message("T", b"x"))
    assert within(lambda: got)
    store.close()
    thread.join(10)
    assert not thread.is_alive() and got == [b"x"]
    with pytest.raises(UsageError, match="closed"):
        consumer.poll()


def test_latest_begins_behind_what_is_there_and_only_for_a_new_group(store):
    fill(store, [3])
    with store.consumer("G", "T", start="latest") as consumer:
        assert consumer.poll() == [] and consumer.lag() == {0: 0}
        fill(store, [4, 1], first=0)
        got = places(consumer.poll())
        assert (1, 0) in got and (0, 0) not in got and len(got) == 5, "a queue that comes later is read as a whole"
        consumer.commit()
    store.put(Message("T", b"new", queue_id=5))
    assert store.wait_dispatched(60)
    with store.consumer("G", "T", start="latest") as consumer:
        assert [m.body for m in consumer.poll()] == [b"new"], "it came while the group was away"


def test_what_left_the_store_is_told_and_passed(store, caplog):
    put_dispatched(store, 40, size=700)
    with store.consumer("G", "T") as consumer:
        consumer.poll(1)
        queue = store._parts.queues.find(b"T", 0)
        queue.raise_minimum(10)  # as retention does
        assert consumer.poll(1)[0].queue_offset == 10
        assert consumer.expired == 9 and "offsets 1 to 9 expired before" in caplog.text
        assert consumer.lag() == {0: 30}, "what is gone is not waited for"


def test_what_left_the_log_is_told_before_the_queue_follows_it(store, caplog):
    """Retention deletes files of the log first. Found by the explorer, seed 1073742223."""
    put_dispatched(store, 40, size=700)
    with store.consumer("G", "T", tags="t1") as some, store.consumer("H", "T") as consumer:
        consumer.poll(1), some.poll(1)
        store._parts.files.drop_first()
        kept = next(m.queue_offset for m in store if m.physical_offset >= store._parts.files.min_offset)
        assert 2 < kept < 10 and store._parts.queues.find(b"T", 0).min_offset == 0
        assert consumer.poll(9)[0].queue_offset == kept and consumer.expired == kept - 1
        assert f"T/0: offsets 1 to {kept - 1} expired before" in caplog.text
        assert some.poll(1)[0].queue_offset == 7 and some.expired == kept - 2
        consumer.poll(3), some.poll(3)
        assert (consumer.expired, some.expired) == (kept - 1, kept - 2), "tags that nobody wants are no loss"


def test_a_store_whose_sync_failed_gives_nothing_behind_a_unit_that_is_gone(store):
    """Some file systems then show what is on disk: a unit that had not arrived is zeros. Found by the explorer, seed
    1073742623."""
    put_dispatched(store, 8, size=50)
    with store.consumer("G", "T") as consumer:
        consumer.poll(1)
        store._parts.queues.files.write(str(Path(store.root, "consumequeue/T/0", "0" * 20)), 200, bytes(20), 3 * 20)
        store._parts.queues.find(b"T", 0).forget()
        store._parts.failure.set("a test says so")
        assert [m.queue_offset for m in consumer.poll(32)] == [1, 2]
        assert consumer.poll(32) == [] and consumer.position(0) == 3
    with store.consumer("H", "T") as consumer:
        assert [m.queue_offset for m in consumer.poll(32)] == [0, 1, 2]
    close_unclean(store)


def test_an_offset_behind_the_end_goes_back_to_it(store, caplog):
    fill(store, [3])
    store.commit_offset("G", "T", 0, 100)
    with store.consumer("G", "T") as consumer:
        assert consumer.poll() == [] and "offset 100 is after the end" in caplog.text
        store.put(Message("T", b"next"))
        assert [m.body for m in consumer.poll(wait_ms=10_000)] == [b"next"]


def test_light_queues_and_inner_batches(tmp_path):
    with open_small(tmp_path, enableLmq=True, enableMultiDispatch=True) as store:
        store.put(Message("T", b"before"))
        for n in range(3):
            store.put(Message("T", b"%d" % n, properties={"INNER_MULTI_DISPATCH": "%LMQ%a"}))
        store.create_topic("B", queues=1, queue_type="BatchCQ")
        store.put_batch([Message("B", b"x"), Message("B", b"y")])
        store.put_batch([Message("B", b"z")])
        assert store.wait_dispatched(60)
        with store.consumer("G", "%LMQ%a") as light, store.consumer("G", "B") as batch:
            assert [m.body for m in light.poll(2)] == [b"0", b"1"]
            assert light.commit() == {0: 2} and [m.body for m in light.poll()] == [b"2"]
            assert [m.queue_offset for m in batch.poll(1)] == [0] and batch.commit() == {0: 2}, "a batch is one record"
            assert len(batch.poll()) == 1 and batch.position(0) == 3
        assert store.consumer_offset("G", "%LMQ%a", 0) == 2


def test_what_cannot_be(store):
    for wrong in (
        {"group": ""},
        {"topic": "a@b"},
        {"queues": []},
        {"queues": [-1]},
        {"start": "middle"},
        {"idle_ms": -1},
    ):
        with pytest.raises(UsageError):
            store.consumer(**({"group": "G", "topic": "T"} | wrong))
    consumer = store.consumer("G", "T")
    for words in ({"max_messages": 0}, {"wait_ms": -1}):
        with pytest.raises(UsageError):
            consumer.poll(**words)
    consumer.close()
    consumer.close()
    for call in (consumer.poll, consumer.commit, consumer.lag, consumer.in_flight, lambda: consumer.queues):
        with pytest.raises(UsageError, match="closed"):
            call()
    assert list(consumer) == []


def test_no_consumer_without_queues(tmp_path):
    with MessageStore(tmp_path, dev=True, dispatch="external") as store, pytest.raises(UsageError, match="consumer"):
        store.consumer("G", "T")


def test_many_threads_share_one_consumer(store):
    fill(store, [100, 100, 100])
    consumer, got, lock = store.consumer("G", "T"), [], threading.Lock()

    def work():
        while batch := consumer.poll(5):
            with lock:
                got.extend(places(batch))

    at_once(*[work] * 4)
    assert sorted(got) == [(q, n) for q in range(3) for n in range(100)], "each message once"
